"""One client at the serving end: what it may still pull, and the connections that it pulls over."""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
from collections.abc import Iterator

from pdscope.probe.plan import MAX_STREAMS
from pdscope.probe.transport import Source
from pdscope.probe.wire import ProbeError


class Session:
    """Its `id` is a secret that data connections show. Safe to use from several threads."""

    def __init__(self, source: Source, max_bytes: int) -> None:
        """Nothing is granted yet.

        Args:
            source: of the blocks; whoever made it closes it, after `end`.
            max_bytes: that may be granted altogether.
        """
        self.id = secrets.token_hex(16)
        self.source = source
        self._ungranted = max_bytes
        self._granted = 0
        self._streams: set[socket.socket] = set()
        self._ended = False
        self._changed = threading.Condition()

    def grant(self, count: int) -> None:
        """Allow `count` more bytes.

        Raises:
            ProbeError: they are more than the client had announced.
        """
        with self._changed:
            if count > self._ungranted:
                raise ProbeError(f"{count} B are more than the {self._ungranted} B that are left")
            self._ungranted -= count
            self._granted += count

    def spend(self, count: int) -> None:
        """Take `count` bytes of what is allowed.

        Raises:
            ProbeError: so many are not.
        """
        with self._changed:
            if count > self._granted:
                raise ProbeError(f"{count} B are more than the {self._granted} B that were granted")
            self._granted -= count

    @contextlib.contextmanager
    def stream(self, connection: socket.socket) -> Iterator[None]:
        """While `connection` carries blocks; `end` breaks it off.

        Raises:
            ProbeError: the session has ended, or has too many.
        """
        with self._changed:
            if self._ended or len(self._streams) >= MAX_STREAMS:
                raise ProbeError("the session has ended" if self._ended else "too many data connections")
            self._streams.add(connection)
        try:
            yield
        finally:
            with self._changed:
                self._streams.remove(connection)
                self._changed.notify_all()

    def end(self) -> None:
        """Break off what goes on; once this returns, nobody uses the source."""
        with self._changed:
            self._ended = True
            for connection in self._streams:
                with contextlib.suppress(OSError):  # the client was faster
                    connection.shutdown(socket.SHUT_RDWR)
            self._changed.wait_for(lambda: not self._streams)
