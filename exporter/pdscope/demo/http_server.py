"""The smallest HTTP server that a scraper can talk to: GET, one request a connection, loopback only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus

_HOST = "127.0.0.1"
_READ_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Response:
    """An answer to a GET."""

    body: bytes
    content_type: str
    status: HTTPStatus = HTTPStatus.OK


Answer = Callable[[str], Response | None]
"""Gives the answer to a GET of a path, without its query; None is a 404."""


@asynccontextmanager
async def listen(answer: Answer) -> AsyncIterator[str]:
    """Listens while the context is entered, on a port that the system chooses.

    Args:
        answer: what is served.

    Yields:
        The address as a URL without a slash at the end.
    """
    connections: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(_serve(answer, reader, writer))
        connections.add(connection)
        connection.add_done_callback(connections.discard)

    server = await asyncio.start_server(connected, _HOST, 0)
    try:
        yield f"http://{_HOST}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for connection in connections:
            connection.cancel()
        if connections:
            await asyncio.wait(connections)
        await server.wait_closed()


async def _serve(answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        async with asyncio.timeout(_READ_TIMEOUT_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        writer.write(_encode(_respond(answer, head)))
        await writer.drain()
    except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
        # The client went away or never asked: there is nobody to tell.
        return
    finally:
        writer.close()


def _respond(answer: Answer, head: bytes) -> Response:
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    if len(words) != 3:
        return _error(HTTPStatus.BAD_REQUEST)
    method, target, _version = words
    if method != "GET":
        return _error(HTTPStatus.METHOD_NOT_ALLOWED)
    return answer(target.split("?", 1)[0]) or _error(HTTPStatus.NOT_FOUND)


def _error(status: HTTPStatus) -> Response:
    return Response(f"{status.phrase}\n".encode(), "text/plain; charset=utf-8", status)


def _encode(response: Response) -> bytes:
    head = (
        f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + response.body
