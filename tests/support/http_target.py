"""A server on 127.0.0.1 that answers, byte by byte, as a test tells it to."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: when (loop time), on which connection (counted from 0), for what, with which headers."""

    at: float
    connection: int
    path: str
    headers: dict[str, str]


Answer = Callable[[Asked], AsyncIterator[bytes]]
"""Yields what is sent; after the last piece the connection waits for the next request."""


class CloseConnection(Exception):  # noqa: N818 - no error, but an order to the server
    """Raised by an answer: close the connection now."""


@dataclass
class HttpTarget:
    """An async context manager; `url` has no slash at the end."""

    answer: Answer
    tls: ssl.SSLContext | None = None
    asked: list[Asked] = field(default_factory=list)
    url: str = ""

    async def __aenter__(self) -> Self:
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections = 0
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self.tls)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'http' if self.tls is None else 'https'}://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def paths(self) -> list[str]:
        """What was asked for, in order."""
        return [asked.path for asked in self.asked]

    @property
    def starts(self) -> list[float]:
        """When `/metrics` was asked for, in loop time."""
        return [asked.at for asked in self.asked if asked.path == "/metrics"]

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer, self._connections))
        self._connections += 1
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
                asked = Asked(asyncio.get_running_loop().time(), connection, head[0].split(" ")[1], headers)
                self.asked.append(asked)
                async for piece in self.answer(asked):
                    writer.write(piece)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, CloseConnection):
            pass  # the client went away, or the answer wants it so
        finally:
            writer.close()


def page(body: bytes, *, status: str = "200 OK", headers: str = "") -> bytes:
    """A whole answer with its length."""
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode("latin-1") + body


def always(answer: bytes) -> Answer:
    """The same bytes to each request."""

    async def send(_asked: Asked) -> AsyncIterator[bytes]:
        yield answer

    return send


async def hangs(_asked: Asked) -> AsyncIterator[bytes]:
    """Takes the request and never answers."""
    await asyncio.Event().wait()
    yield b""


async def drips(_asked: Asked) -> AsyncIterator[bytes]:
    """Promises a kilobyte and sends one byte of it in 0.7 s."""
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    for _ in range(1000):
        await asyncio.sleep(0.7)
        yield b"#"
