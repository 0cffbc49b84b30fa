"""The wires: transfers share the NICs of both ends, and a fabric, by max-min fairness."""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Callable
from functools import partial

from pdscope.demo.physics.clock import Appointment, Clock

_DONE_BYTES = 1.0
"""A flow with less than that left is through: sums of rates times seconds are not exact to the byte."""

Port = tuple[str, int]
"""Role and number of an instance."""


class _Pair:
    """The flows between two instances: all have the same rate, so one running sum serves them all."""

    __slots__ = ("flows", "rate", "served_bytes")

    def __init__(self) -> None:
        self.flows: list[tuple[float, int, int, Callable[[], None]]] = []
        self.rate = 0.0
        self.served_bytes = 0.0


class Network:
    """Moves bytes between instances.

    Args:
        clock: simulated time.
        capacity_bytes_per_second: of an instance's port, one way.
        shared_bytes_per_second: of a fabric that every flow crosses; None when it is no limit.
    """

    def __init__(
        self,
        clock: Clock,
        capacity_bytes_per_second: Callable[[Port], float],
        shared_bytes_per_second: float | None,
    ) -> None:
        self._clock = clock
        self._capacity = capacity_bytes_per_second
        self._shared = shared_bytes_per_second
        self._pairs: dict[tuple[Port, Port], _Pair] = {}
        self._numbers = itertools.count()
        self._since = clock.now_seconds
        self._wake: Appointment | None = None
        self._moved: defaultdict[tuple[Port, Port], float] = defaultdict(float)
        self.delivered_bytes = 0

    def send(self, source: Port, target: Port, size_bytes: int, done: Callable[[], None]) -> None:
        """Starts a flow; `done` is called when its last byte has arrived."""
        self._advance()
        pair = self._pairs.setdefault((source, target), _Pair())
        if not pair.flows:
            pair.served_bytes = 0.0
        heapq.heappush(pair.flows, (pair.served_bytes + size_bytes, next(self._numbers), size_bytes, done))
        self._share()

    def sent_bytes(self, port: Port) -> float:
        """What left that port up to now."""
        self._advance()
        return sum(moved for (source, _), moved in self._moved.items() if source == port)

    def received_bytes(self, port: Port) -> float:
        """What came in at that port up to now."""
        self._advance()
        return sum(moved for (_, target), moved in self._moved.items() if target == port)

    def moved_bytes(self) -> dict[tuple[Port, Port], float]:
        """What went from port to port up to now."""
        self._advance()
        return dict(self._moved)

    @property
    def flows(self) -> int:
        """Flows under way."""
        return sum(len(pair.flows) for pair in self._pairs.values())

    def _advance(self) -> None:
        seconds = self._clock.now_seconds - self._since
        self._since = self._clock.now_seconds
        if seconds <= 0.0:
            return
        for key, pair in self._pairs.items():
            if pair.flows:
                pair.served_bytes += pair.rate * seconds
                self._moved[key] += pair.rate * seconds * len(pair.flows)

    def _share(self) -> None:
        """Water-filling: the scarcest resource fixes the rate of its flows, and the rest share what is left."""
        open_pairs = {key: pair for key, pair in self._pairs.items() if pair.flows}
        users: defaultdict[object, int] = defaultdict(int)
        left: dict[object, float] = {}
        for (source, target), pair in open_pairs.items():
            for resource in self._resources(source, target):
                users[resource] += len(pair.flows)
                if resource not in left:
                    left[resource] = self._limit(resource)
        while open_pairs:
            scarce = min((resource for resource in left if users[resource]), key=lambda one: left[one] / users[one])
            rate = max(0.0, left[scarce]) / users[scarce]
            for key in [key for key in open_pairs if scarce in self._resources(*key)]:
                pair = open_pairs.pop(key)
                pair.rate = rate
                for resource in self._resources(*key):
                    users[resource] -= len(pair.flows)
                    left[resource] -= rate * len(pair.flows)
        self._schedule()

    def _resources(self, source: Port, target: Port) -> tuple[object, ...]:
        ends: tuple[object, ...] = (("out", source), ("in", target))
        return ends if self._shared is None else (*ends, "fabric")

    def _limit(self, resource: object) -> float:
        if isinstance(resource, tuple):
            return self._capacity(resource[1])
        return self._shared or 0.0

    def _schedule(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        waits = [
            (pair.flows[0][0] - pair.served_bytes) / pair.rate
            for pair in self._pairs.values()
            if pair.flows and pair.rate > 0.0
        ]
        if waits:
            self._wake = self._clock.after(max(0.0, min(waits)), self._finish)

    def _finish(self) -> None:
        self._advance()
        finished: list[tuple[int, Callable[[], None]]] = []
        for pair in self._pairs.values():
            # A flow whose rest would not move the clock is through as well: waiting for it could take for ever.
            slack = max(_DONE_BYTES, pair.rate * 1e-12 * max(1.0, self._clock.now_seconds))
            while pair.flows and pair.flows[0][0] - pair.served_bytes <= slack:
                _, number, size_bytes, done = heapq.heappop(pair.flows)
                self.delivered_bytes += size_bytes
                finished.append((number, done))
        self._share()
        for _, done in sorted(finished, key=lambda entry: entry[0]):
            self._clock.after(0.0, partial(done))
