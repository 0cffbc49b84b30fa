"""When targets are scraped: each in a task of its own, spread over the interval, a few at once."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from pdscope.collect.pace import COST_SHARE, Pace
from pdscope.model.scrape import FailureReason

MAX_IN_FLIGHT = 16
"""Scrapes at once: more of them make whoever asks the daemon wait, and finish no sooner."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Clock:
    """Time as the daemon sees it.

    Attributes:
        wall: unix seconds, for what people and Prometheus read.
        monotonic: seconds that never go back, for intervals and durations.
        sleep: waits for some seconds of `monotonic`.
        stopwatch: how long a request takes and may take; None: `monotonic`. They part where time is sped up, since the
            targets' answers take no less for it.
    """

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    stopwatch: Callable[[], float] | None = None

    @property
    def timer(self) -> Callable[[], float]:
        """What times requests."""
        return self.stopwatch or self.monotonic


class Failure(NamedTuple):
    """Why a scrape brought nothing, or, where `partial`, why one of its pages did not while another came."""

    reason: FailureReason
    detail: str
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """What is scraped, and how.

    Attributes:
        name: unique among the targets.
        interval_seconds: between the starts of two scrapes.
        scrape: scrapes once, keeps what it brought or why it failed, and returns the latter. It ends by itself within
            the target's own deadline.
        broke: keeps a failure that `scrape` could not keep, because it broke.
        cost_seconds: how long the target worked on the answer to the last scrape; None: not known.
    """

    name: str
    interval_seconds: float
    scrape: Callable[[], Awaitable[Failure | None]]
    broke: Callable[[Failure], None]
    cost_seconds: Callable[[], float | None] = lambda: None


class Poller:
    """Scrapes targets until it is cancelled. One scrape of a target never overlaps another of the same.

    A target that let its last scrape time out waits in a lane of its own, as wide as the other, so that targets that
    hang take no place from those that answer. A target that goes on failing, or whose page is a burden to it, is asked
    less often than configured; no other target is.

    Attributes:
        first_cycle: set once each target was tried.
        paces: how often each target is asked at present, by its name.
    """

    def __init__(
        self, targets: Sequence[Target], *, clock: Clock | None = None, max_in_flight: int = MAX_IN_FLIGHT
    ) -> None:
        self.first_cycle = asyncio.Event()
        self._targets = tuple(targets)
        self._clock = clock or Clock()
        self._lane = asyncio.Semaphore(max_in_flight)
        self._lane_of_the_hanging = asyncio.Semaphore(max_in_flight)
        self._untried = {target.name for target in targets}
        self._paces = {target.name: Pace(target.interval_seconds) for target in targets}
        self._told: set[str] = set()
        self.paces: Mapping[str, Pace] = MappingProxyType(self._paces)

    async def run(self) -> None:
        """Scrape on and on; returns only where there is no target."""
        now = self._clock.monotonic()
        if not self._targets:
            self.first_cycle.set()
        async with asyncio.TaskGroup() as group:
            for target, delay_seconds in zip(self._targets, _phases(self._targets), strict=True):
                group.create_task(self._watch(target, now + delay_seconds), name=f"scrape {target.name}")

    async def _watch(self, target: Target, due: float) -> None:
        """Scrape one target; `due` is monotonic."""
        clock = self._clock
        state: Failure | None = None
        while True:
            await clock.sleep(max(0.0, due - clock.monotonic()))
            hangs = state is not None and state.reason is FailureReason.TIMEOUT
            async with self._lane_of_the_hanging if hangs else self._lane:
                started = clock.monotonic()
                state = await self._scrape(target, state)
            self._tried(target)
            due = next_start(started, self._keep_pace(target, state), clock.monotonic())

    async def _scrape(self, target: Target, before: Failure | None) -> Failure | None:
        """Scrape once and log a change. The one place where a mistake of ours in a scrape ends: others go on."""
        try:
            failure = await target.scrape()
        except Exception as error:  # noqa: BLE001 - expected failures are values; this is what nobody foresaw
            failure = Failure(FailureReason.INTERNAL, f"{type(error).__name__}: a fault of pdscope, see its log")
            if before is None or before.reason is not failure.reason:
                _log.exception("target %s: a fault of pdscope", target.name)
            target.broke(failure)
            return failure
        if failure is None:
            if before is not None:
                _log.info("target %s: answers again", target.name)
            return None
        if before is None or before.reason is not failure.reason:
            _log.warning("target %s: %s: %s", target.name, failure.reason, failure.detail)
        return failure

    def _keep_pace(self, target: Target, state: Failure | None) -> float:
        """Seconds from the last start to the next; the first time that a page proves a burden is logged."""
        pace = self._paces[target.name]
        if state is not None and not state.partial:
            pace.failed()
            return pace.interval_seconds
        pace.succeeded(target.cost_seconds())
        if pace.stretch > 1.0 and target.name not in self._told:
            self._told.add(target.name)
            _log.warning(
                "target %s: its page takes %.3g s, over %.0f %% of the interval of %g s: asked every %.3g s instead",
                target.name,
                pace.cost_seconds,
                COST_SHARE * 100,
                pace.configured_seconds,
                pace.interval_seconds,
            )
        return pace.interval_seconds

    def _tried(self, target: Target) -> None:
        self._untried.discard(target.name)
        if not self._untried:
            self.first_cycle.set()


def _phases(targets: Sequence[Target]) -> Iterator[float]:
    """Seconds to wait before the first scrape of each: those of one interval lie evenly in it."""
    counts = Counter(target.interval_seconds for target in targets)
    seen: Counter[float] = Counter()
    for target in targets:
        interval = target.interval_seconds
        yield interval * seen[interval] / counts[interval]
        seen[interval] += 1


def next_start(started: float, interval_seconds: float, now: float) -> float:
    """An interval after the last start, or as many as it takes to lie ahead: what was missed is not made up."""
    due = started + interval_seconds
    return due if due >= now else due + interval_seconds * math.ceil((now - due) / interval_seconds)
