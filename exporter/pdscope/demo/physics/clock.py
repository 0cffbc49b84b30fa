"""Simulated time: a heap of appointments that can be called off, and levels that are integrated over time."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Appointment:
    """One thing that is to happen; `cancel` calls it off."""

    __slots__ = ("action", "when_seconds")

    def __init__(self, when_seconds: float, action: Callable[[], None]) -> None:
        self.when_seconds = when_seconds
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Nothing will happen; harmless when it has happened already."""
        self.action = None


class Clock:
    """Jumps from appointment to appointment. Those of the same moment keep their order, so a seed fixes a run."""

    def __init__(self) -> None:
        self.now_seconds = 0.0
        self.kept = 0
        self._heap: list[tuple[float, int, Appointment]] = []
        self._numbers = itertools.count()

    def at(self, when_seconds: float, action: Callable[[], None]) -> Appointment:
        """Calls `action` at `when_seconds`.

        Raises:
            ValueError: that moment has passed.
        """
        if when_seconds < self.now_seconds:
            raise ValueError(f"it is {self.now_seconds} s, too late for {when_seconds} s")
        appointment = Appointment(when_seconds, action)
        heapq.heappush(self._heap, (when_seconds, next(self._numbers), appointment))
        return appointment

    def after(self, delay_seconds: float, action: Callable[[], None]) -> Appointment:
        """Calls `action` in `delay_seconds` (not negative) from now."""
        return self.at(self.now_seconds + delay_seconds, action)

    def run(self, to_seconds: float) -> None:
        """Keeps every appointment up to and including `to_seconds`, and makes that the present.

        Raises:
            ValueError: `to_seconds` has passed.
        """
        if to_seconds < self.now_seconds:
            raise ValueError(f"it is {self.now_seconds} s, time does not go back to {to_seconds} s")
        heap = self._heap
        while heap and heap[0][0] <= to_seconds:
            when, _, appointment = heapq.heappop(heap)
            action = appointment.action
            if action is not None:
                self.now_seconds = when
                self.kept += 1
                action()
        self.now_seconds = to_seconds


class Level:
    """A count that changes at moments, and its integral over time: the two sides of Little's law."""

    __slots__ = ("_area", "_clock", "_occupied_seconds", "_since", "entered", "value")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._area = 0.0
        self._occupied_seconds = 0.0
        self._since = clock.now_seconds
        self.value = 0
        self.entered = 0

    def add(self, change: int = 1) -> None:
        """Raises the level now; `entered` counts what came in."""
        now = self._clock.now_seconds
        self._area += self.value * (now - self._since)
        if self.value:
            self._occupied_seconds += now - self._since
        self._since = now
        self.value += change
        if change > 0:
            self.entered += change

    def drop(self, change: int = 1) -> None:
        """Lowers the level now."""
        self.add(-change)

    @property
    def area(self) -> float:
        """Integral up to now, units times seconds."""
        return self._area + self.value * (self._clock.now_seconds - self._since)

    @property
    def occupied_seconds(self) -> float:
        """Time up to now with a level other than zero."""
        return self._occupied_seconds + (self._clock.now_seconds - self._since if self.value else 0.0)
