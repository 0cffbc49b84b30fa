"""Whether an engine has anything to do."""

from __future__ import annotations

from pdscope.demo.physics.clock import Clock
from pdscope.demo.physics.request import Request


class Presence:
    """The requests that an engine knows of, and the time without any.

    Args:
        clock: simulated time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._present: set[Request] = set()
        self._absent_seconds = 0.0
        self.absent_since: float | None = clock.now_seconds

    @property
    def absent_seconds(self) -> float:
        """Time without a request up to now."""
        since = self.absent_since
        return self._absent_seconds + (0.0 if since is None else self._clock.now_seconds - since)

    def enter(self, request: Request) -> None:
        """`request` is known to the engine."""
        if self.absent_since is not None:
            self._absent_seconds += self._clock.now_seconds - self.absent_since
            self.absent_since = None
        self._present.add(request)

    def leave(self, request: Request) -> None:
        """The engine has nothing to do with `request` any more; harmless for a stranger."""
        if request in self._present:
            self._present.remove(request)
            if not self._present:
                self.absent_since = self._clock.now_seconds
