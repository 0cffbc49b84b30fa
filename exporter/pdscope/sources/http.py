"""Fetches one page over HTTP: the answer, or the reason why there is none. It never raises for what a target does.

The shape follows what httpx does badly for hundreds of small targets: one pool for all of them costs time that grows
with their number, so each origin has a transport of its own, all on one TLS context; and httpx has no limit for a
request as a whole, so a server that drips a byte a second is stopped from outside.
"""

from __future__ import annotations

import os
import socket
import ssl
import time
from asyncio import timeout
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import httpx

from pdscope import __version__
from pdscope.config import AuthConfig, TlsConfig
from pdscope.errors import ConfigError
from pdscope.model.scrape import FailureReason
from pdscope.sources._access import Secrets, TlsContexts

ACCEPT_TEXT = "text/plain;version=0.0.4"
"""The classic text format by name: asked for OpenMetrics, client_python renames `sglang:` in sample lines."""
ACCEPT_JSON = "application/json"
MAX_BODY_BYTES = 16 * 2**20
MAX_DETAIL = 200

_MAX_REDIRECTS = 3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_EXCERPT_BYTES = 4096
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=1, keepalive_expiry=60.0)
_PORTS = {"http": 80, "https": 443}

Origin = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Fetched:
    """The answer to one request.

    Attributes:
        body: of an answer with status 200; None: `reason` says why.
        detail: for a person, at most 200 characters; never a secret, and of the target's own words only an excerpt.
        status: of the last answer, if there was one.
        duration_seconds: from the start to the last byte or the failure, redirects and the retry included.
    """

    body: bytes | None = field(default=None, repr=False)
    reason: FailureReason | None = None
    detail: str = ""
    status: int | None = None
    duration_seconds: float = 0.0


@dataclass(slots=True)
class _Progress:
    """How far a request has come, as httpcore reports it.

    Attributes:
        lacking: what the target still owes.
        connected: whether the attempt under way made a connection of its own instead of using a kept one.
    """

    lacking: str = "no connection"
    connected: bool = False

    async def trace(self, event: str, _info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.started":
            self.connected, self.lacking = True, "no connection"
        elif event == "http11.send_request_headers.started":
            self.lacking = "no answer"


@dataclass(frozen=True, slots=True)
class _Call:
    """What stays the same over the redirects and the retry of one request. `headers` may hold a secret."""

    headers: Mapping[str, str] = field(repr=False)
    tls: TlsConfig | None
    quotable: bool
    progress: _Progress

    def request(self, url: httpx.URL) -> httpx.Request:
        extensions: dict[str, Any] = {"trace": self.progress.trace}
        if self.tls is not None and self.tls.server_name is not None:
            extensions["sni_hostname"] = self.tls.server_name
        return httpx.Request("GET", url, headers=dict(self.headers), extensions=extensions)


class Fetcher:
    """An async context manager that keeps connections to the targets while it is entered.

    Args:
        monotonic: seconds from any origin, for durations.
        max_body_bytes: a longer body is a failure, found while it arrives.
    """

    def __init__(
        self, *, monotonic: Callable[[], float] = time.monotonic, max_body_bytes: int = MAX_BODY_BYTES
    ) -> None:
        self._monotonic = monotonic
        self._max_body_bytes = max_body_bytes
        self._secrets = Secrets()
        self._contexts = TlsContexts()
        self._transports: dict[tuple[Origin, TlsConfig | None], tuple[object, httpx.AsyncHTTPTransport]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        transports = [transport for _, transport in self._transports.values()]
        self._transports.clear()
        for transport in transports:
            await transport.aclose()

    async def fetch(
        self,
        url: str,
        *,
        timeout_seconds: float,
        accept: str = ACCEPT_TEXT,
        auth: AuthConfig | None = None,
        tls: TlsConfig | None = None,
    ) -> Fetched:
        """GET a page.

        Args:
            url: absolute, http or https.
            timeout_seconds: for everything together: name, connection, redirects, retry, the whole body.
            accept: value of the Accept header.
            auth: whose files are read again when they change.
            tls: the same; for https.
        """
        started = self._monotonic()
        progress, told = _Progress(), quotable(url, auth)
        try:
            call = _Call(self._headers(accept, auth), tls, told, progress)
            async with timeout(timeout_seconds):
                fetched = await self._follow(httpx.URL(url), call)
        except (TimeoutError, httpx.TimeoutException):
            fetched = Fetched(reason=FailureReason.TIMEOUT, detail=f"{progress.lacking} within {timeout_seconds:.3g} s")
        except ConfigError as error:
            fetched = Fetched(reason=FailureReason.CONNECT, detail=str(error))
        except httpx.InvalidURL:
            fetched = Fetched(reason=FailureReason.CONNECT, detail="the url is no address")
        except httpx.TransportError as error:
            # What is wrong with an answer is told by quoting it.
            words = _cause(error) if told or not isinstance(error, httpx.ProtocolError) else "no valid HTTP"
            fetched = Fetched(reason=FailureReason.CONNECT, detail=f"{progress.lacking}: {words}")
        return replace(fetched, detail=_short(fetched.detail), duration_seconds=self._monotonic() - started)

    def _headers(self, accept: str, auth: AuthConfig | None) -> dict[str, str]:
        # identity: compressing costs the engine's event loop more than the network gains
        headers = {"Accept": accept, "Accept-Encoding": "identity", "User-Agent": f"pdscope/{__version__}"}
        if auth is not None:
            headers["Authorization"] = self._secrets.authorization(auth)
        return headers

    async def _follow(self, url: httpx.URL, call: _Call) -> Fetched:
        """The answer, after redirects within the origin: a target must not send us, and our secret, elsewhere."""
        followed = 0
        while True:
            response = await self._send(url, call)
            try:
                if response.status_code not in _REDIRECTS:
                    return await self._answer(response, call)
                await _read_some(response, _EXCERPT_BYTES)  # a body read to its end keeps the connection
            finally:
                await response.aclose()
            if followed == _MAX_REDIRECTS:
                return _redirect(response, f"once more after {followed} times")
            if "Location" not in response.headers:
                return _redirect(response, "to nowhere")
            try:
                following = url.join(response.headers["Location"])
            except httpx.InvalidURL:
                return _redirect(response, "to what is no address")
            if (there := _origin(following)) != _origin(url):
                return _redirect(response, f"to another origin, {there[0]}://{there[1]}:{there[2]}")
            url, followed = following, followed + 1

    async def _send(self, url: httpx.URL, call: _Call) -> httpx.Response:
        """Send once, and once more when the server had closed a kept connection while the request was on its way.

        Engines close idle connections after 5 s, which is also the usual interval.
        """
        call.progress.connected = False
        try:
            return await self._send_once(url, call)
        except (httpx.RemoteProtocolError, httpx.ReadError):
            if call.progress.connected:
                raise
        return await self._send_once(url, call)

    async def _send_once(self, url: httpx.URL, call: _Call) -> httpx.Response:
        transport = await self._transport(url, call.tls)
        response = await transport.handle_async_request(call.request(url))
        call.progress.lacking = "no complete body"
        return response

    async def _transport(self, url: httpx.URL, tls: TlsConfig | None) -> httpx.AsyncHTTPTransport:
        origin = _origin(url)
        context = self._contexts.context(tls) if origin[0] == "https" else None
        kept = self._transports.get((origin, tls))
        if kept is not None and kept[0] is context:
            return kept[1]
        transport = httpx.AsyncHTTPTransport(verify=context or False, trust_env=False, limits=_LIMITS)
        self._transports[origin, tls] = (context, transport)
        if kept is not None:  # its certificates were renewed
            await kept[1].aclose()
        return transport

    async def _answer(self, response: httpx.Response, call: _Call) -> Fetched:
        status = response.status_code
        if status != 200:
            said = await _read_some(response, _EXCERPT_BYTES) if call.quotable else b""
            words = _printable(said.decode("utf-8", errors="replace"))
            detail = f"HTTP {status}: {words}" if words else f"HTTP {status}"
            return Fetched(reason=FailureReason.HTTP_STATUS, detail=detail, status=status)
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":  # a few bytes can unfold to gigabytes
            detail = f"Content-Encoding {_printable(encoding)}, though only identity was accepted"
            return Fetched(reason=FailureReason.NOT_EXPOSITION, detail=detail, status=status)
        limit = self._max_body_bytes
        length = response.headers.get("Content-Length", "")
        announced = int(length) if length.isdecimal() else 0  # h11 has refused what is no number
        body = await _read_some(response, limit + 1) if announced <= limit else None
        if body is None or len(body) > limit:
            detail = f"the body has more than {limit / 2**20:g} MiB"
            return Fetched(reason=FailureReason.TOO_LARGE, detail=detail, status=status)
        return Fetched(body, status=status)


def quotable(url: str, auth: AuthConfig | None) -> bool:
    """Whether an answer may be quoted: it can repeat the request, and with it a secret of the header or the query."""
    return auth is None and "?" not in url


async def _read_some(response: httpx.Response, limit_bytes: int) -> bytes:
    """The body as it came, to its end or a little over the limit."""
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_raw():
        parts.append(part)
        size += len(part)
        if size >= limit_bytes:
            break
    return b"".join(parts)


def _redirect(response: httpx.Response, how: str) -> Fetched:
    status = response.status_code
    return Fetched(reason=FailureReason.REDIRECT, detail=f"HTTP {status} redirects {how}", status=status)


def _origin(url: httpx.URL) -> Origin:
    return (url.scheme, url.host, url.port or _PORTS.get(url.scheme, 0))


def _cause(error: httpx.TransportError) -> str:
    """The operating system's or OpenSSL's words, which httpx hides behind general ones."""
    words = str(error) or type(error).__name__
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, BaseExceptionGroup):  # a name with several addresses
            cause = cause.exceptions[0]
        if isinstance(cause, OSError) and cause.strerror:
            its_own = isinstance(cause, (ssl.SSLError, socket.gaierror)) or cause.errno is None
            words = cause.strerror if its_own else os.strerror(cause.errno or 0)
        cause = cause.__cause__ or cause.__context__
    return words


def _printable(text: str) -> str:
    """One line without control characters: it goes to logs and terminals."""
    return "".join(c if c.isprintable() else " " for c in " ".join(text.split()))


def _short(text: str) -> str:
    text = _printable(text)
    return text if len(text) <= MAX_DETAIL else text[: MAX_DETAIL - 1] + "…"
