"""Simulated time: what is to happen, in order."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Agenda:
    """A clock that jumps from appointment to appointment. Those of the same moment keep their order."""

    def __init__(self) -> None:
        self._now_seconds = 0.0
        self._appointments: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    @property
    def now_seconds(self) -> float:
        """Simulated seconds since the start."""
        return self._now_seconds

    def after(self, delay_seconds: float, action: Callable[[], None]) -> None:
        """Calls `action` in `delay_seconds` (not negative) from now."""
        self.at(self._now_seconds + delay_seconds, action)

    def at(self, when_seconds: float, action: Callable[[], None]) -> None:
        """Calls `action` at `when_seconds`.

        Raises:
            ValueError: that moment has passed.
        """
        if when_seconds < self._now_seconds:
            raise ValueError(f"it is {self._now_seconds} s, too late for {when_seconds} s")
        heapq.heappush(self._appointments, (when_seconds, next(self._numbers), action))

    def run(self, to_seconds: float) -> None:
        """Keeps every appointment up to and including `to_seconds`, and makes that the present.

        Raises:
            ValueError: `to_seconds` has passed.
        """
        if to_seconds < self._now_seconds:
            raise ValueError(f"it is {self._now_seconds} s, time does not go back to {to_seconds} s")
        while self._appointments and self._appointments[0][0] <= to_seconds:
            self._now_seconds, _, action = heapq.heappop(self._appointments)
            action()
        self._now_seconds = to_seconds


class IdleClock:
    """Adds up the time in which an instance holds no request at all."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._held = 0
        self._since = agenda.now_seconds
        self._total_seconds = 0.0

    @property
    def held(self) -> int:
        """Requests held now."""
        return self._held

    @property
    def seconds(self) -> float:
        """Idle time up to now."""
        running = 0.0 if self._held else self._agenda.now_seconds - self._since
        return self._total_seconds + running

    def enter(self) -> None:
        """One more request."""
        if not self._held:
            self._total_seconds += self._agenda.now_seconds - self._since
        self._held += 1

    def leave(self) -> None:
        """One request less."""
        self._held -= 1
        if not self._held:
            self._since = self._agenda.now_seconds
