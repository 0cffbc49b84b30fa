"""What carries the blocks, seen from both ends."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Protocol

from pdscope.probe.plan import Step


class Source(Protocol):
    """The serving end: memory that can be pulled from."""

    @property
    def details(self) -> Mapping[str, object]:
        """What the pulling end must know, as JSON."""
        ...

    def serve_stream(self, connection: socket.socket, spend: Callable[[int], None], idle_seconds: float) -> None:
        """Serve one data connection until the other end closes it.

        Args:
            connection: after its handshake.
            spend: takes bytes from what the session may still pull.
            idle_seconds: that may pass without progress.

        Raises:
            ProbeError: this transport has no data connections, or the other end asks for what it may not have.
            OSError: the connection is lost, or nothing happens on it.
        """
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


class Puller(Protocol):
    """The pulling end."""

    def prepare(self, step: Step) -> None:
        """Do what an engine does once, not for each request, before the rounds of `step`.

        Raises:
            ProbeError: the transport fails.
            OSError: the connection fails.
        """
        ...

    def pull(self, step: Step, deadline: float) -> float:
        """Pull `step.in_flight` requests at once.

        Returns:
            Seconds from the first byte asked for to the last one in memory.

        Raises:
            ProbeError: the transport fails, or is not done by `deadline`.
            OSError: the connection fails.
        """
        ...

    def check(self, step: Step) -> None:
        """Look whether the data of the last round really is in memory.

        Raises:
            ProbeError: it is not.
        """
        ...

    def close(self) -> None:
        """Give everything back."""
        ...
