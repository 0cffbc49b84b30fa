"""The serving end: lets one client at a time pull a bounded number of bytes of meaningless memory."""

from __future__ import annotations

import contextlib
import hmac
import logging
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from pdscope.errors import PdscopeError
from pdscope.probe.nixl import NixlSource
from pdscope.probe.plan import DEFAULT_MAX_BYTES, MAX_BLOCK_BYTES, MAX_STREAMS
from pdscope.probe.session import Session
from pdscope.probe.tcp import TcpSource
from pdscope.probe.transport import Source
from pdscope.probe.wire import (
    ProbeError,
    deadline_in,
    expect,
    printable,
    proof,
    receive_message,
    send_message,
    text,
    whole,
)

_log = logging.getLogger(__name__)
_MOST_CONNECTIONS = MAX_STREAMS + 16
_PARTING_SECONDS = 1.0

SOURCES: Mapping[str, Callable[[int], Source]] = {"tcp": TcpSource, "nixl": NixlSource}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may cost.

    Attributes:
        max_bytes: that one client may pull.
        max_region_bytes: memory for one client.
        handshake_seconds: until a connection has said what it wants.
        idle_seconds: without a word from the client, or progress on a data connection.
        session_seconds: of one client altogether.
    """

    max_bytes: int = DEFAULT_MAX_BYTES
    max_region_bytes: int = MAX_BLOCK_BYTES
    handshake_seconds: float = 5.0
    idle_seconds: float = 60.0
    session_seconds: float = 900.0


class ProbeServer:
    """Serves until `stop`. Whatever one connection does, the others are served."""

    def __init__(
        self,
        listener: socket.socket,
        *,
        limits: Limits,
        token: bytes = b"",
        sources: Mapping[str, Callable[[int], Source]] = SOURCES,
    ) -> None:
        """Nothing is served yet.

        Args:
            listener: a listening socket; closed by `serve`.
            limits: on each client.
            token: that a client must hold; empty: none is asked for.
            sources: transport -> what provides memory of so many bytes over it.
        """
        self._listener = listener
        self._limits = limits
        self._token = token
        self._sources = sources
        self._slots = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._busy = threading.Lock()
        self._session: Session | None = None
        self._stopped = False

    def serve(self) -> None:
        """Accept until `stop`.

        Raises:
            OSError: the listening socket fails.
        """
        with self._listener:
            while True:
                try:
                    connection, peer = self._listener.accept()
                except ConnectionError:
                    continue
                except OSError:
                    if self._stopped:
                        return
                    raise
                if not self._slots.acquire(blocking=False):
                    connection.close()
                    continue
                host = str(peer[0])
                threading.Thread(target=self._handle, args=(connection, host), daemon=True).start()

    def stop(self) -> None:
        """End `serve` and the session."""
        self._stopped = True
        with contextlib.suppress(OSError):  # it was never accepting, or has ended already
            self._listener.shutdown(socket.SHUT_RDWR)
        if session := self._session:
            session.end()

    def _handle(self, connection: socket.socket, host: str) -> None:
        try:
            with connection:
                self._converse(connection, host)
        except (PdscopeError, OSError) as error:
            _log.warning("%s: %s", host, error)
        finally:
            self._slots.release()

    def _converse(self, connection: socket.socket, host: str) -> None:
        deadline = deadline_in(self._limits.handshake_seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        nonce = secrets.token_hex(16)
        try:
            send_message(connection, {"kind": "hello", "nonce": nonce}, deadline)
            first = receive_message(connection, deadline)
            if first.get("kind") == "join":
                session = self._joined(first)
            else:
                expect(first, "open")
                self._open(connection, first, nonce, host)
                return
        except PdscopeError as error:
            _part(connection, str(error))
            raise
        # From here on the connection carries blocks, among which an error would be taken for data.
        with session.stream(connection):
            send_message(connection, {"kind": "joined"}, deadline)
            session.source.serve_stream(connection, session.spend, self._limits.idle_seconds)

    def _open(self, connection: socket.socket, first: Mapping[str, Any], nonce: str, host: str) -> None:
        if self._token and not hmac.compare_digest(text(first, "proof"), proof(self._token, nonce)):
            raise ProbeError("the token is not that of this server")
        transport = text(first, "transport")
        if transport not in self._sources:
            raise ProbeError(f"no transport {printable(transport)}; there are {', '.join(self._sources)}")
        region_bytes = whole(first, "region_bytes", 1, self._limits.max_region_bytes)
        most = whole(first, "max_bytes", 1, 2**63)
        if most > self._limits.max_bytes:
            raise ProbeError(f"{most} B are more than the {self._limits.max_bytes} B that this server lets go")
        if not self._busy.acquire(blocking=False):
            raise ProbeError("busy with another client; try again when it is done")
        try:
            with closing(self._source(transport, region_bytes)) as source:
                _log.info("%s: pulls over %s, at most %d bytes", host, transport, most)
                self._follow(connection, Session(source, most))
        finally:
            self._busy.release()

    def _source(self, transport: str, region_bytes: int) -> Source:
        try:
            return self._sources[transport](region_bytes)
        except (OSError, MemoryError):
            raise ProbeError(f"cannot provide {region_bytes} B of memory") from None

    def _follow(self, connection: socket.socket, session: Session) -> None:
        """Grant pull after pull, until the client ends the session, falls silent, or has had enough time."""
        end = deadline_in(self._limits.session_seconds)
        self._session = session
        try:
            opened = {"kind": "opened", "session": session.id, "details": dict(session.source.details)}
            send_message(connection, opened, end)
            while True:
                message = receive_message(connection, min(end, deadline_in(self._limits.idle_seconds)))
                if message.get("kind") == "end":
                    return
                expect(message, "pull")
                session.grant(whole(message, "bytes", 1, 2**63))
                send_message(connection, {"kind": "go"}, end)
        finally:
            self._session = None
            session.end()

    def _joined(self, first: Mapping[str, Any]) -> Session:
        shown, session = text(first, "session"), self._session
        if session is None or not hmac.compare_digest(shown, session.id):
            raise ProbeError("no such session")
        return session


def _part(connection: socket.socket, why: str) -> None:
    """Say why, and let it arrive: closing over unread bytes would reset the connection and lose the words."""
    deadline = deadline_in(_PARTING_SECONDS)
    with contextlib.suppress(OSError):  # the other end need not listen
        send_message(connection, {"kind": "error", "why": why}, deadline)
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(_PARTING_SECONDS)
        for _ in range(16):
            if not connection.recv(65536):
                return
