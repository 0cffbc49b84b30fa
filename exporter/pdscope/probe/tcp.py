"""Blocks over plain TCP connections, one for each request in flight: also what a transfer over TCP would get."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final

from pdscope.probe.memory import Region
from pdscope.probe.plan import Step, scattered
from pdscope.probe.wire import ProbeError, deadline_in, receive_into

_REQUEST: Final = struct.Struct("!QQ")
"""Bytes of a block, blocks."""


class TcpSource:
    """Answers each request on a data connection with its blocks, gathered from all over the region."""

    details: Mapping[str, object] = {}

    def __init__(self, region_bytes: int) -> None:
        self._region = Region(region_bytes, filled=True)

    def serve_stream(self, connection: socket.socket, spend: Callable[[int], None], idle_seconds: float) -> None:
        """See `Source`."""
        header = bytearray(_REQUEST.size)
        while _another(connection, header, idle_seconds):
            block_bytes, blocks = _REQUEST.unpack(header)
            if not 1 <= block_bytes <= self._region.size or blocks < 1:
                raise ProbeError(f"cannot send {blocks} blocks of {block_bytes} B")
            spend(block_bytes * blocks)
            connection.settimeout(idle_seconds)
            step = Step("", block_bytes, blocks, 1, 1, 0.0)
            for offset in scattered(step, self._region.size):
                connection.sendall(self._region.view[offset : offset + block_bytes])

    def close(self) -> None:
        """Give the memory back."""
        self._region.close()


class TcpPuller:
    """Pulls each request of a round on a connection and in a thread of its own."""

    def __init__(self, connect: Callable[[], socket.socket], region_bytes: int) -> None:
        """Nothing is connected yet.

        Args:
            connect: opens one data connection, its handshake done.
            region_bytes: memory to pull into, shared by the requests in flight: nobody reads it.
        """
        self._connect = connect
        self._region = Region(region_bytes, filled=False)
        self._connections: list[socket.socket] = []
        self._threads: ThreadPoolExecutor | None = None

    def prepare(self, step: Step) -> None:
        """Open the connections that are missing."""
        while len(self._connections) < step.in_flight:
            self._connections.append(self._connect())
        if self._threads is not None:
            self._threads.shutdown()
        self._threads = ThreadPoolExecutor(step.in_flight, thread_name_prefix="probe-link")

    def pull(self, step: Step, deadline: float) -> float:
        """See `Puller`."""
        if self._threads is None:
            raise ProbeError("nothing is prepared")
        begin = time.perf_counter()
        pulls = [
            self._threads.submit(self._request, connection, step, deadline)
            for connection in self._connections[: step.in_flight]
        ]
        for done in pulls:
            done.result()
        return time.perf_counter() - begin

    def check(self, step: Step) -> None:
        """See `Puller`."""
        if not all(self._region.arrived(at, step.block_bytes) for at in scattered(step, self._region.size)):
            raise ProbeError("the blocks that came are not those that were sent")

    def close(self) -> None:
        """Close the connections, then give the memory back, whatever happens."""
        with ExitStack() as stack:
            stack.callback(self._region.close)
            if self._threads is not None:
                stack.callback(self._threads.shutdown)
            for connection in self._connections:
                stack.callback(_hang_up, connection)

    def _request(self, connection: socket.socket, step: Step, deadline: float) -> None:
        connection.sendall(_REQUEST.pack(step.block_bytes, step.blocks))
        for offset in scattered(step, self._region.size):
            receive_into(connection, self._region.view[offset : offset + step.block_bytes], deadline)


def _another(connection: socket.socket, header: bytearray, idle_seconds: float) -> bool:
    """Whether another request came, rather than the end of the connection."""
    connection.settimeout(idle_seconds)
    first = connection.recv(1)
    if not first:
        return False
    header[:1] = first
    receive_into(connection, memoryview(header)[1:], deadline_in(idle_seconds))
    return True


def _hang_up(connection: socket.socket) -> None:
    """Close it, and wake the thread that may still wait on it after another one failed."""
    with connection, contextlib.suppress(OSError):  # the other end was faster
        connection.shutdown(socket.SHUT_RDWR)
