"""`pdscope agent`: the devices of this host, and who computes on them, as a page for a daemon that runs elsewhere."""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import Callable

from fastapi import FastAPI, Response

from pdscope import __version__
from pdscope.runtime.listening import Server, address_of, open_listener
from pdscope.runtime.local_devices import LocalDevices
from pdscope.runtime.process_signals import handling
from pdscope.sources.nvml.page import render_page

DEFAULT_AGENT_LISTEN = "127.0.0.1:9837"
_TEXT = "text/plain; version=0.0.4; charset=utf-8"

_log = logging.getLogger(__name__)


def create_agent(local: LocalDevices) -> FastAPI:
    """The page and a sign of life. A host without devices answers too: its page says why."""
    app = FastAPI(title="pdscope agent", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """The newest sample of every device."""
        return Response(render_page(local.latest()), headers={"Content-Type": _TEXT})

    @app.get("/-/healthy", response_class=Response)
    async def healthy() -> Response:
        """While the process serves."""
        return Response("ok\n", media_type="text/plain")

    return app


async def serve_agent(
    listen: str = DEFAULT_AGENT_LISTEN,
    *,
    local: LocalDevices | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Sample and serve until SIGTERM or SIGINT.

    Args:
        listen: "host:port"; port 0 is any free one.
        local: the devices; tests bring their own.
        on_ready: called with the real address as soon as it can be connected to.

    Raises:
        UsageError: `listen` is no address, or cannot be had.
    """
    with (local or LocalDevices()).open() as devices, contextlib.closing(open_listener(listen)) as listener:
        devices.latest()  # sampling begins now, so that the first scrape finds rates
        server = Server(create_agent(devices))

        def stop() -> None:
            server.should_exit = True

        address = address_of(listener)
        with handling({signal.SIGTERM: stop, signal.SIGINT: stop}):
            _log.info("listening on %s", address)
            if on_ready is not None:
                on_ready(address)
            await server.serve(sockets=[listener])
