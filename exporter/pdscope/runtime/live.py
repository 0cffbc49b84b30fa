"""The daemon: targets polled over HTTP, judged once an interval, served from the same event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn

from pdscope import __version__
from pdscope.collect.poller import Clock, Poller, next_start
from pdscope.config import Config
from pdscope.errors import UsageError
from pdscope.model.report import Report
from pdscope.render.metrics import CONTENT_TYPE_OPENMETRICS, CONTENT_TYPE_TEXT, render_metrics
from pdscope.runtime.plugins import Plugins
from pdscope.runtime.targets import PolledTarget, sort_out
from pdscope.runtime.topology import read_shapes
from pdscope.runtime.watch import Watch
from pdscope.sources.http import Fetcher
from pdscope.web.app import create_app

DEFAULT_LISTEN = "127.0.0.1:9836"

_LISTEN = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\[\]:\s]*)):(?P<port>[0-9]{1,5})")
_KEEP_ALIVE_SECONDS = 75
"""Longer than the usual interval of whoever scrapes us, so that we never close a connection under their request."""
_SETTLE_RATIO = 0.1
"""Share of the interval by which judging comes after the cycle, so that the scrapes which end a cycle are in it."""
_STOP_SECONDS = 3
"""What running requests get to end; with the rest of the shutdown it stays under 5 s."""

_log = logging.getLogger(__name__)


class Live:
    """The targets of a configuration, polled and judged; serves as the state of the web application.

    Attributes:
        unreadable: what is configured but not polled.
    """

    def __init__(self, config: Config, plugins: Plugins, *, clock: Clock | None = None) -> None:
        polled, unreadable = sort_out(config, plugins)
        self.unreadable = tuple(unreadable)
        self._clock = clock or Clock()
        self._interval_seconds = config.scrape.interval_seconds
        self._watch = Watch(config, plugins, shapes=read_shapes(config))
        self._fetcher = Fetcher(monotonic=self._clock.monotonic)
        targets = [PolledTarget(asked, self._watch, self._fetcher, self._clock).target() for asked in polled]
        self._poller = Poller(targets, clock=self._clock)
        self._report: Report | None = None
        self._bodies: dict[bool, bytes] = {}

    @property
    def report(self) -> Report | None:
        """The last cycle; None before each target was tried once, and while judging fails."""
        return self._report

    @property
    def ready(self) -> bool:
        """Whether the first cycle is complete and judged."""
        return self._report is not None

    @property
    def version(self) -> str:
        """Of pdscope."""
        return __version__

    def metrics_body(self, *, openmetrics: bool) -> tuple[bytes, str]:
        """`/metrics` of the last cycle, rendered once at the first request for it, and its content type.

        Raises:
            RuntimeError: there is no report.
        """
        if self._report is None:
            raise RuntimeError("no report yet")
        body = self._bodies.get(openmetrics)
        if body is None:
            body = render_metrics(self._report, version=self.version, openmetrics=openmetrics)
            self._bodies[openmetrics] = body
        return body, CONTENT_TYPE_OPENMETRICS if openmetrics else CONTENT_TYPE_TEXT

    async def run(self, stop: asyncio.Event) -> None:
        """Poll and judge until `stop` is set. Scrapes under way are dropped then."""
        for item in self.unreadable:
            _log.warning("%s: not polled: %s", item.name, item.why)
        async with self._fetcher, asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._poller.run()), group.create_task(self._judge_on())]
            await stop.wait()
            for task in tasks:
                task.cancel()

    async def _judge_on(self) -> None:
        await self._poller.first_cycle.wait()
        clock, interval_seconds = self._clock, self._interval_seconds
        broken = self._judge(frozenset())
        started = clock.monotonic() + _SETTLE_RATIO * interval_seconds
        while True:
            started = next_start(started, interval_seconds, clock.monotonic())
            await clock.sleep(max(0.0, started - clock.monotonic()))
            broken = self._judge(broken)

    def _judge(self, before: frozenset[str]) -> frozenset[str]:
        """Make the next report. A fault of ours leaves none, as an old one would pass for the present.

        Args:
            before: what was broken in the last cycle, and was logged then.

        Returns:
            The rules that are broken now; "report" stands for the whole.
        """
        self._bodies.clear()
        try:
            self._report = self._watch.report(self._clock.wall())
        except Exception:  # noqa: BLE001 - a fault of ours must not end the polling; it is logged once below
            self._report = None
            if "report" not in before:
                _log.exception("no diagnosis: a fault of pdscope")
            return frozenset({"report"})
        broken = {failure.rule: failure.error for failure in self._watch.rule_errors}
        for rule, error in broken.items():
            if rule not in before:
                _log.error("rule %s: a fault of pdscope", rule, exc_info=error)
        return frozenset(broken)


class _Server(uvicorn.Server):
    """uvicorn, which would take the signals for itself and raise them again at the end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them to `serve`."""
        yield


async def serve(
    config: Config,
    plugins: Plugins,
    listen: str = DEFAULT_LISTEN,
    *,
    clock: Clock | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Poll, judge and serve until SIGTERM or SIGINT; then end within 5 s.

    Args:
        config: what is watched.
        plugins: adapters and rules.
        listen: "host:port"; port 0 is any free one, an empty host all addresses.
        clock: the time; tests bring their own.
        on_ready: called with the real address (`127.0.0.1:9836`) as soon as it can be connected to.

    Raises:
        UsageError: `listen` is no address, or cannot be had.
    """
    stop = asyncio.Event()
    live = Live(config, plugins, clock=clock)
    loop = asyncio.get_running_loop()
    with contextlib.closing(_listen(listen)) as listener:
        address = _address(listener)
        server = _Server(
            uvicorn.Config(
                create_app(live),
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=_STOP_SECONDS,
            )
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(live.run(stop))
                group.create_task(server.serve(sockets=[listener]))
                _log.info("listening on %s", address)
                if on_ready is not None:
                    on_ready(address)
                await stop.wait()
                server.should_exit = True
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


def _listen(listen: str) -> socket.socket:
    """A listening socket."""
    match = _LISTEN.fullmatch(listen)
    if match is None or int(match["port"]) > 65535:
        raise UsageError(f"{listen!r} is no address to listen on: write host:port, such as {DEFAULT_LISTEN}")
    host, port = match["v6"] or match["host"] or None, int(match["port"])
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        return socket.create_server((str(found[0][4][0]), port), family=found[0][0])
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "the host is no name"
        raise UsageError(f"cannot listen on {listen}: {why}") from None


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
