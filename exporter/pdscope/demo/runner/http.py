"""The smallest HTTP server that will do: one request a connection, loopback only, small bodies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

HOST = "127.0.0.1"
MAX_BODY_BYTES = 16_384
_READ_TIMEOUT_SECONDS = 5.0
_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked.

    Attributes:
        method: in capitals.
        path: without its query.
        headers: names in small letters; of a name that is there twice the last one.
        body: empty for a GET.
    """

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer."""

    body: bytes
    content_type: str = _TEXT
    status: HTTPStatus = HTTPStatus.OK


Handler = Callable[[Request], Awaitable[Response | None]]
"""Answers a request; None closes the connection without a word, as a process does that has just died."""


class BadRequestError(Exception):
    """A request that no handler gets to see; `status` says what is wrong with it."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


@asynccontextmanager
async def listen(handler: Handler, port: int = 0) -> AsyncIterator[str]:
    """Listens while the context is entered.

    Args:
        handler: what is served.
        port: 0 is one that the system chooses.

    Yields:
        The address as a URL without a slash at the end.

    Raises:
        OSError: the port cannot be had.
    """
    connections: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(_serve(handler, reader, writer))
        connections.add(connection)
        connection.add_done_callback(connections.discard)

    server = await asyncio.start_server(connected, HOST, port)
    try:
        yield f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for connection in connections:
            connection.cancel()
        if connections:
            await asyncio.wait(connections)
        await server.wait_closed()


async def _serve(handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        response = await _answer(handler, reader)
        if response is not None:
            writer.write(_encode(response))
            await writer.drain()
    except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
        # The client went away or never asked: there is nobody to tell.
        return
    finally:
        writer.close()


async def _answer(handler: Handler, reader: asyncio.StreamReader) -> Response | None:
    try:
        async with asyncio.timeout(_READ_TIMEOUT_SECONDS):
            request = await _read(reader)
        return await handler(request)
    except BadRequestError as error:
        return Response(f"{error}\n".encode(), status=error.status)


async def _read(reader: asyncio.StreamReader) -> Request:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise BadRequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too many headers") from None
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        raise BadRequestError(HTTPStatus.BAD_REQUEST, "this is not HTTP")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    body = await reader.readexactly(_length(headers))
    return Request(words[0], words[1].split("?", 1)[0], headers, body)


def _length(headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise BadRequestError(HTTPStatus.LENGTH_REQUIRED, "send a Content-Length")
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadRequestError(HTTPStatus.BAD_REQUEST, "the Content-Length is no number of bytes")
    if int(text) > MAX_BODY_BYTES:
        raise BadRequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MAX_BODY_BYTES} bytes")
    return int(text)


def _encode(response: Response) -> bytes:
    head = (
        f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + response.body
