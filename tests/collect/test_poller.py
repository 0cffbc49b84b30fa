"""When targets are scraped, in simulated time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.collect.poller import Clock, Failure, Poller, Target
from pdscope.model.scrape import FailureReason
from support.simulated_time import SIMULATED, SimulatedLoop, simulated_clock

TIMED_OUT = Failure(FailureReason.TIMEOUT, "no answer within 4 s")


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Intervals pass at once."""
    return SIMULATED


@dataclass
class Scraped:
    """A target that takes a while and then has an outcome; what it saw."""

    name: str
    takes_seconds: float = 0.0
    outcome: Callable[[int], Failure | None] = lambda _count: None
    interval_seconds: float = 5.0
    cost: Callable[[int], float | None] = lambda _count: None
    starts: list[float] = field(default_factory=list)
    broken: list[Failure] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0

    def target(self) -> Target:
        return Target(
            self.name, self.interval_seconds, self._scrape, self.broken.append, lambda: self.cost(len(self.starts))
        )

    async def _scrape(self) -> Failure | None:
        self.starts.append(asyncio.get_running_loop().time())
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(self.takes_seconds)
        self.in_flight -= 1
        return self.outcome(len(self.starts))


def raises(error: Exception) -> Callable[[int], Failure | None]:
    """The outcome of a scrape that breaks."""

    def outcome(_count: int) -> Failure | None:
        raise error

    return outcome


@contextlib.contextmanager
def polling(scraped: list[Scraped], clock: Clock | None = None, **options: Any) -> Iterator[Poller]:
    """A poller that runs meanwhile."""
    poller = Poller([s.target() for s in scraped], clock=clock or simulated_clock(), **options)
    task = asyncio.get_running_loop().create_task(poller.run())
    yield poller
    assert not task.done()
    task.cancel()


async def test_first_scrapes_lie_evenly_in_the_interval() -> None:
    """No burst, neither at the start nor later."""
    scraped = [Scraped(f"t{i}") for i in range(5)]
    with polling(scraped):
        await asyncio.sleep(14.5)
    assert [s.starts for s in scraped] == [pytest.approx([i, i + 5.0, i + 10.0]) for i in range(5)]


async def test_targets_of_different_intervals_are_spread_apart() -> None:
    """Each over its own interval."""
    scraped = [Scraped("a"), Scraped("slow", interval_seconds=30.0), Scraped("b")]
    with polling(scraped):
        await asyncio.sleep(11.0)
    assert [s.starts for s in scraped] == [[0.0, 5.0, 10.0], [0.0], pytest.approx([2.5, 7.5])]


async def test_the_interval_counts_from_start_to_start() -> None:
    """However long a scrape takes."""
    scraped = Scraped("t", takes_seconds=3.9)
    with polling([scraped]):
        await asyncio.sleep(21.0)
    assert scraped.starts == pytest.approx([0.0, 5.0, 10.0, 15.0, 20.0])


async def test_a_missed_start_is_skipped_not_made_up() -> None:
    """A scrape of 12 s misses two starts; scrapes of one target never overlap."""
    scraped = Scraped("t", takes_seconds=12.0)
    with polling([scraped]):
        await asyncio.sleep(31.0)
    assert scraped.starts == pytest.approx([0.0, 15.0, 30.0])
    assert scraped.most_in_flight == 1


@pytest.mark.parametrize("hanging", [1, 16, 40])
async def test_targets_that_hang_delay_no_other(hanging: int) -> None:
    """After their first scrape they have a lane of their own: the others start as if they were alone."""
    dead = [Scraped(f"dead{i}", takes_seconds=4.0, outcome=lambda _count: TIMED_OUT) for i in range(hanging)]
    well = [Scraped(f"well{i}", takes_seconds=0.05) for i in range(20)]
    with polling([*dead, *well]):
        await asyncio.sleep(60.0)
    for target in well:
        settled = [start for start in target.starts if start >= 20.0]
        assert len(settled) == 8
        assert [b - a for a, b in pairwise(settled)] == pytest.approx([5.0] * 7)
    assert all(len(target.starts) >= 2 for target in dead)  # and they are not forgotten


async def test_a_target_that_answers_again_leaves_the_lane_of_the_hanging() -> None:
    """One of 17 in a lane for 16 recovers, and is scraped at its interval from then on."""
    dead = [Scraped(f"dead{i}", takes_seconds=4.9, outcome=lambda _count: TIMED_OUT) for i in range(32)]
    back = Scraped("back", outcome=lambda count: TIMED_OUT if count == 1 else None)
    with polling([*dead, back]):
        await asyncio.sleep(100.0)
    later = [start for start in back.starts if start >= 40.0]
    assert [b - a for a, b in pairwise(later)] == pytest.approx([5.0] * (len(later) - 1))
    assert len(later) == 12


async def test_only_so_many_scrapes_run_at_once() -> None:
    """Also where all are due together."""
    running = most = 0

    async def scrape() -> Failure | None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(2.0)
        running -= 1
        return None

    targets = [Target(f"t{i}", 5.0 + i / 1000, scrape, lambda _failure: None) for i in range(50)]
    poller = Poller(targets, clock=simulated_clock())
    task = asyncio.get_running_loop().create_task(poller.run())
    await asyncio.sleep(30.0)
    task.cancel()
    assert most == 16


async def test_the_first_cycle_ends_when_each_target_was_tried() -> None:
    """Tried, not read: a target that fails has been tried."""
    scraped = [Scraped("a"), Scraped("hangs", takes_seconds=4.0, outcome=lambda _count: TIMED_OUT)]
    with polling(scraped) as poller:
        await asyncio.sleep(6.0)
        assert not poller.first_cycle.is_set()
        await asyncio.sleep(1.0)
        assert poller.first_cycle.is_set()


async def test_without_targets_the_first_cycle_is_over_at_once() -> None:
    """There is nothing to wait for."""
    poller = Poller([], clock=simulated_clock())
    await poller.run()
    assert poller.first_cycle.is_set()


async def test_a_fault_of_ours_ends_in_a_failure_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """It is kept each time, logged once with where it came from, and its text, which may be foreign, is not kept."""
    broken = Scraped("broken", outcome=raises(KeyError("s3cr3t")))
    well = Scraped("well")
    with polling([broken, well]):
        await asyncio.sleep(21.0)
    assert broken.starts == pytest.approx([0.0, 5.0, 15.0])  # it counts as any other failure
    assert well.starts == pytest.approx([2.5, 7.5, 12.5, 17.5])
    assert broken.broken == [Failure(FailureReason.INTERNAL, "KeyError: a fault of pdscope, see its log")] * 3
    [record] = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "target broken: a fault of pdscope")
    assert record.exc_info is not None


async def test_each_change_of_state_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A target that fails all night fills no disk."""
    caplog.set_level(logging.INFO)
    refused = Failure(FailureReason.CONNECT, "no connection: Connection refused")
    states = [None, refused, refused, TIMED_OUT, TIMED_OUT, None, None]
    scraped = Scraped("p0", outcome=lambda count: states[count - 1])
    with polling([scraped]):
        await asyncio.sleep(89.0)
    assert len(scraped.starts) == len(states)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "target p0: connect: no connection: Connection refused"),
        ("WARNING", "target p0: timeout: no answer within 4 s"),
        ("INFO", "target p0: answers again"),
    ]


async def test_cancelling_ends_scrapes_under_way() -> None:
    """A daemon that stops waits for nobody."""
    scraped = Scraped("t", takes_seconds=1000.0)
    poller = Poller([scraped.target()], clock=simulated_clock())
    task = asyncio.get_running_loop().create_task(poller.run())
    await asyncio.sleep(1.0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.get_running_loop().time() == pytest.approx(1.0)


async def test_the_given_clock_and_sleep_are_used() -> None:
    """Nothing else tells the time: by this clock a second takes ten."""
    loop = asyncio.get_running_loop()
    clock = Clock(monotonic=lambda: loop.time() / 10, sleep=lambda seconds: asyncio.sleep(seconds * 10))
    scraped = Scraped("t")
    with polling([scraped], clock):
        await asyncio.sleep(110.0)
    assert scraped.starts == pytest.approx([0.0, 50.0, 100.0])


@given(
    takes=st.lists(st.floats(0.0, 4.0), min_size=1, max_size=30),
    limit=st.integers(1, 4),
)
def test_starts_of_a_target_are_never_closer_than_its_interval(takes: list[float], limit: int) -> None:
    """A scrape is a load on the engine; waiting for a place must not push two together."""
    scraped = [Scraped(f"t{i}", takes_seconds=seconds) for i, seconds in enumerate(takes)]

    async def poll() -> None:
        with polling(scraped, max_in_flight=limit):
            await asyncio.sleep(60.0)

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(poll())
    for target in scraped:
        gaps = [b - a for a, b in pairwise(target.starts)]
        assert all(gap >= 5.0 - 1e-6 for gap in gaps)
        assert target.most_in_flight <= 1
