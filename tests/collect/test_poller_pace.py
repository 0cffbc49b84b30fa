"""How often a target is asked: less while it fails, and less where its page is a burden to it. In simulated time."""

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

from pdscope.collect.pace import COST_SHARE, MAX_INTERVAL_SECONDS, MAX_STRETCH, Pace
from pdscope.collect.poller import Failure, Poller, Target
from pdscope.model.scrape import FailureReason
from support.simulated_time import SIMULATED, simulated_clock

REFUSED = Failure(FailureReason.CONNECT, "no connection: Connection refused")


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Intervals pass at once."""
    return SIMULATED


@dataclass
class Paced:
    """A target by the outcome and the cost of each scrape, counted from 1."""

    name: str
    outcome: Callable[[int], Failure | None] = lambda _count: None
    cost: Callable[[int], float | None] = lambda _count: None
    interval_seconds: float = 5.0
    starts: list[float] = field(default_factory=list)

    def target(self) -> Target:
        return Target(
            self.name, self.interval_seconds, self._scrape, lambda _failure: None, lambda: self.cost(len(self.starts))
        )

    async def _scrape(self) -> Failure | None:
        self.starts.append(asyncio.get_running_loop().time())
        return self.outcome(len(self.starts))

    def gaps(self) -> list[float]:
        """Seconds from each start to the next."""
        return [round(b - a, 6) for a, b in pairwise(self.starts)]


@contextlib.contextmanager
def polling(*paced: Paced) -> Iterator[Poller]:
    """A poller that runs meanwhile."""
    poller = Poller([p.target() for p in paced], clock=simulated_clock())
    task = asyncio.get_running_loop().create_task(poller.run())
    yield poller
    assert not task.done()
    task.cancel()


async def test_a_target_that_goes_on_failing_is_asked_less_and_less() -> None:
    """One failure may be an accident; from the second on the interval doubles, up to eightfold."""
    dead = Paced("dead", outcome=lambda _count: REFUSED)
    with polling(dead) as poller:
        await asyncio.sleep(200.0)
        assert (poller.paces["dead"].failures, poller.paces["dead"].back_off) == (8, 8)
    assert dead.gaps() == [5.0, 10.0, 20.0, 40.0, 40.0, 40.0, 40.0]


async def test_one_success_brings_the_interval_back() -> None:
    """And the next failure begins anew."""
    flaky = Paced("flaky", outcome=lambda count: None if count in (5, 6) else REFUSED)
    with polling(flaky):
        await asyncio.sleep(106.0)
    assert flaky.gaps() == [5.0, 10.0, 20.0, 40.0, 5.0, 5.0, 5.0, 10.0]


@pytest.mark.parametrize(("interval", "last"), [(5.0, 40.0), (10.0, 60.0), (30.0, 60.0), (90.0, 90.0)])
async def test_no_back_off_makes_an_interval_longer_than_a_minute(interval: float, last: float) -> None:
    """Nor shorter than the configured one, where that is longer."""
    dead = Paced("dead", outcome=lambda _count: REFUSED, interval_seconds=interval)
    with polling(dead):
        await asyncio.sleep(1000.0)
    assert dead.gaps()[-1] == last
    assert max(dead.gaps()) == last


async def test_a_page_that_is_a_burden_is_asked_for_less_often(caplog: pytest.LogCaptureFixture) -> None:
    """0.2 s of 5 s are 4 %: 10 s make it 2 %. It is said once, and can be seen."""
    heavy = Paced("heavy", cost=lambda _count: 0.2)
    with polling(heavy) as poller:
        await asyncio.sleep(58.0)
        pace = poller.paces["heavy"]
        assert (pace.cost_seconds, pace.stretch, pace.interval_seconds) == pytest.approx((0.2, 2.0, 10.0))
    assert heavy.gaps() == [5.0, 5.0, *[10.0] * 4]
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (
            logging.WARNING,
            "target heavy: its page takes 0.2 s, over 2 % of the interval of 5 s: asked every 10 s instead",
        )
    ]


async def test_a_stretched_interval_follows_the_page_back_and_forth(caplog: pytest.LogCaptureFixture) -> None:
    """A page that got light is asked for as configured again; that it is heavy once more is not told again."""
    heavy = Paced("heavy", cost=lambda count: 0.01 if count in (4, 5, 6) else 0.2)
    with polling(heavy):
        await asyncio.sleep(96.0)
    assert heavy.gaps() == [5.0, 5.0, 10.0, *[5.0] * 5, *[10.0] * 5]
    assert len(caplog.records) == 1


async def test_a_slow_answer_now_and_then_stretches_nothing() -> None:
    """It tells of a busy moment of the network or of ours, not of the page."""
    busy = Paced("busy", cost=lambda count: 0.01 if count % 3 == 0 else 1.0)
    with polling(busy):
        await asyncio.sleep(51.0)
    assert set(busy.gaps()) == {5.0}


@pytest.mark.parametrize(("interval", "cost", "stretched"), [(5.0, 3.0, 30.0), (5.0, 0.1, 5.0), (15.0, 9.0, 60.0)])
async def test_a_stretch_has_an_end(interval: float, cost: float, stretched: float) -> None:
    """Six intervals or a minute: with fewer figures nothing could be judged. Exactly 2 % is not too much."""
    heavy = Paced("heavy", cost=lambda _count: cost, interval_seconds=interval)
    with polling(heavy):
        await asyncio.sleep(300.0)
    assert heavy.gaps()[-1] == pytest.approx(stretched)


async def test_failures_and_burden_do_not_multiply() -> None:
    """The longer of the two holds."""
    both = Paced("both", outcome=lambda count: None if count <= 3 else REFUSED, cost=lambda _count: 0.3)
    with polling(both):
        await asyncio.sleep(130.0)
    assert both.gaps() == [5.0, 5.0, 15.0, 15.0, 15.0, 20.0, 40.0]


async def test_a_target_of_which_one_page_came_is_asked_on() -> None:
    """A page that needs a key must not keep the other from being read."""
    half = Paced("half", outcome=lambda _count: Failure(FailureReason.HTTP_STATUS, "401", partial=True))
    with polling(half) as poller:
        await asyncio.sleep(51.0)
        assert poller.paces["half"].failures == 0
    assert set(half.gaps()) == {5.0}


async def test_other_targets_keep_their_pace() -> None:
    """Whatever one of them does."""
    well = Paced("well")
    with polling(Paced("dead", outcome=lambda _count: REFUSED), well, Paced("heavy", cost=lambda _count: 9.0)):
        await asyncio.sleep(100.0)
    assert set(well.gaps()) == {5.0}
    assert len(well.starts) == 20


@given(
    interval=st.floats(0.5, 120.0),
    outcomes=st.lists(st.one_of(st.none(), st.floats(0.0, 30.0), st.just("failure")), max_size=30),
)
def test_an_interval_stays_within_its_bounds(interval: float, outcomes: list[float | str | None]) -> None:
    """Never shorter than configured, never longer than eightfold or a minute; a settled page costs its share."""
    pace = Pace(interval)
    for outcome in outcomes:
        if isinstance(outcome, str):
            pace.failed()
        else:
            pace.succeeded(outcome)
        assert interval <= pace.interval_seconds <= max(interval, min(8 * interval, MAX_INTERVAL_SECONDS))
        cost = pace.cost_seconds
        limited = pace.stretch == MAX_STRETCH or pace.interval_seconds == max(interval, MAX_INTERVAL_SECONDS)
        assert cost is None or limited or cost <= COST_SHARE * pace.interval_seconds * (1 + 1e-9)
