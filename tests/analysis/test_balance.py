"""How work is spread: the least and the most that an instance, or a data-parallel rank, held in the window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.analysis.balance import put_balance
from pdscope.analysis.board import Board
from pdscope.model.metric import Metric
from pdscope.model.scrape import SeriesKey
from pdscope.model.signal import Quality, SignalId, SignalSet, instance_scope
from pdscope.model.topology import Role
from pdscope.model.window import Window
from support.windows import NAN, SCRAPES, Column, deployment, instance, observed, ramp, rising, window

D0 = instance_scope("d0")


def signals(*windows: Window, role: Role = Role.DECODE) -> SignalSet:
    board = Board("pd")
    put_balance(board, observed(deployment(instance("d0", role)), {"d0": windows}))
    return board.finish()


def extremes(*windows: Window, role: Role = Role.DECODE) -> tuple[float | None, float | None]:
    found = signals(*windows, role=role)
    return found.value(SignalId.WORK_LEAST, D0), found.value(SignalId.WORK_MOST, D0)


def by_rank(ranks: Mapping[str, Column], metric: Metric = Metric.RUNNING, base: Window | None = None) -> Window:
    """A page whose gauge stands there for each rank."""
    page = base or window()
    columns = {
        SeriesKey(metric, rank): np.broadcast_to(np.asarray(column, dtype=np.float64), (SCRAPES,))
        for rank, column in ranks.items()
    }
    return replace(page, scalars={**page.scalars, **columns})


@pytest.mark.parametrize(
    ("role", "gauges", "least", "most"),
    [
        (Role.DECODE, {Metric.RUNNING: ramp(1.0, 3.0), Metric.WAITING_CAPACITY: 2.0}, 5.0, 17.0),
        (Role.DECODE, {Metric.RUNNING: ramp(1.0), Metric.WAITING_CAPACITY: ramp(-1.0, 12.0)}, 12.0, 12.0),
        (Role.DECODE, {Metric.RUNNING: 1.0, Metric.WAITING: 9.0, Metric.WAITING_CAPACITY: 3.0}, 10.0, 10.0),
        (
            Role.DECODE,
            {Metric.RUNNING: 1.0, Metric.DECODE_ALLOCATION_QUEUE: 2.0, Metric.DECODE_TRANSFER_QUEUE: 4.0},
            7,
            7,
        ),
        (
            Role.PREFILL,
            {Metric.RUNNING: 1.0, Metric.PREFILL_BOOTSTRAP_QUEUE: 2.0, Metric.PREFILL_TRANSFER_QUEUE: 4.0},
            7,
            7,
        ),
        (Role.PREFILL, {Metric.RUNNING: 1.0, Metric.DECODE_TRANSFER_QUEUE: 40.0}, 1.0, 1.0),
        (Role.UNIFIED, {Metric.RUNNING: 1.0, Metric.WAITING: ramp(1.0)}, 1.0, 13.0),
        (Role.DECODE, {Metric.IN_FLIGHT: ramp(1.0, 2.0), Metric.RUNNING: 900.0}, 2.0, 14.0),
        (Role.DECODE, {Metric.WAITING: 5.0}, None, None),
    ],
)
def test_work_over_the_window(
    role: Role, gauges: dict[Metric, Column], least: float | None, most: float | None
) -> None:
    """Added scrape by scrape: what moves from one queue to the next is neither less nor more."""
    assert extremes(window(gauges), role=role) == (least, most)


def test_scrapes_that_miss_a_queue_do_not_count() -> None:
    """Half of the work is no least."""
    queue = np.where(np.arange(SCRAPES) == 3, NAN, 4.0)
    found = signals(window({Metric.RUNNING: ramp(1.0), Metric.WAITING_CAPACITY: queue}))
    signal = found.get(SignalId.WORK_LEAST, D0)
    assert signal is not None
    assert (signal.value, signal.samples, signal.quality) == (4.0, SCRAPES - 1, Quality.MEASURED)
    assert extremes(window({Metric.RUNNING: NAN})) == (None, None)


def test_the_first_source_that_knows() -> None:
    """Two pages of one instance are not added."""
    loads, page = window({Metric.KV_USAGE: 0.5}), window({Metric.RUNNING: 3.0})
    assert extremes(loads, page) == (3.0, 3.0)
    assert extremes(window({Metric.RUNNING: 7.0}), page) == (7.0, 7.0)


def test_a_router_holds_no_work() -> None:
    """It only passes it on."""
    assert len(signals(window({Metric.RUNNING: 3.0}), role=Role.ROUTER)) == 0


def test_an_engine_that_sleeps_holds_nothing() -> None:
    """Its gauges froze, those of its ranks too."""
    idle = by_rank({"0": 30.0, "1": 1.0}, base=window({Metric.RUNNING: 31.0, Metric.IDLE: rising(1.0)}))
    found = signals(idle)
    assert (found.value(SignalId.WORK_LEAST, D0), found.value(SignalId.WORK_MOST, D0)) == (0.0, 0.0)
    assert found.get(SignalId.RANK_IMBALANCE, D0) is None


def test_ranks() -> None:
    """The fullest at its least against the emptiest at its most."""
    found = signals(by_rank({"0": ramp(1.0, 20.0), "1": ramp(-0.25, 4.0), "2": ramp(2.0)}))
    assert found.value(SignalId.RANK_IMBALANCE, D0) == 5.0
    assert found.value(SignalId.RANK_EXCESS, D0) == 16.0
    signal = found.get(SignalId.RANK_IMBALANCE, D0)
    assert signal is not None
    assert signal.source == "rank 0 of d0 never held less than 20, the emptiest never more than 4"


@pytest.mark.parametrize(
    ("ranks", "ratio", "excess"),
    [
        ({"0": 6.0, "1": 0.0}, 6.0, 6.0),
        ({"0": 3.0, "1": 1.0}, 3.0, 2.0),
        ({"0": 5.0, "1": 5.0}, 1.0, 0.0),
        ({"0": ramp(1.0), "1": ramp(1.0)}, 0.0, 0.0),
    ],
)
def test_how_far_ranks_are_apart(ranks: dict[str, Column], ratio: float, excess: float) -> None:
    """An empty one counts as one request; who fills and empties in turn is not apart."""
    found = signals(by_rank(ranks))
    assert found.value(SignalId.RANK_IMBALANCE, D0) == ratio
    assert found.value(SignalId.RANK_EXCESS, D0) == excess


def test_queues_of_a_rank_count() -> None:
    """As on the instance."""
    page = by_rank({"0": 8.0, "1": 0.0}, Metric.DECODE_ALLOCATION_QUEUE, by_rank({"0": 2.0, "1": 2.0}))
    assert signals(page).value(SignalId.RANK_EXCESS, D0) == 8.0


@pytest.mark.parametrize("ranks", [{}, {"0": 9.0}, {"0": 9.0, "1": NAN}])
def test_one_rank_is_no_comparison(ranks: dict[str, Column]) -> None:
    """Nor one of which nothing is known."""
    assert signals(by_rank(ranks)).get(SignalId.RANK_IMBALANCE, D0) is None


@given(st.lists(st.lists(st.floats(0, 1e4), min_size=SCRAPES, max_size=SCRAPES), min_size=2, max_size=4))
def test_ranks_are_apart_only_if_one_is_always_above_another(columns: list[list[float]]) -> None:
    """An excess says that at every pair of scrapes the fullest held that much more."""
    excess = signals(by_rank({str(n): column for n, column in enumerate(columns)})).value(SignalId.RANK_EXCESS, D0)
    assert excess is not None
    assert excess >= 0.0
    if excess > 0:
        hot = max(columns, key=min)
        assert any(min(hot) - max(cold) == excess for cold in columns if cold is not hot)
