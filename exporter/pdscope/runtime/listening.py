"""The socket and the server under the daemon's HTTP interface."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI

from pdscope.errors import UsageError

DEFAULT_LISTEN = "127.0.0.1:9836"

_LISTEN = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\[\]:\s]*)):(?P<port>[0-9]{1,5})")
_KEEP_ALIVE_SECONDS = 75
"""Longer than the usual interval of whoever scrapes us, so that we never close a connection under their request."""
_STOP_SECONDS = 3
"""What running requests get to end; with the rest of the shutdown it stays under 5 s."""


class Server(uvicorn.Server):
    """uvicorn, which would take the signals for itself and raise them again at the end."""

    def __init__(self, app: FastAPI) -> None:
        super().__init__(
            uvicorn.Config(
                app,
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

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them to `serve`."""
        yield


def open_listener(listen: str) -> socket.socket:
    """A listening socket.

    Args:
        listen: "host:port"; port 0 is any free one, an empty host all addresses.

    Raises:
        UsageError: it is no address, or cannot be had.
    """
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


def address_of(listener: socket.socket) -> str:
    """The real address, as `host:port`."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
