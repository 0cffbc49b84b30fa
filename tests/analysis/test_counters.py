"""Increase of counters: restarts, late series, gaps, pages of several workers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from pdscope.analysis.counters import Increase, fill_absent, increase, jumps_back_and_forth
from support.windows import INF, NAN, STEP_SECONDS, times


def gain(*values: float, lazy: bool = False) -> Increase | None:
    return increase(times(len(values)), np.array(values), lazy=lazy)


def test_a_counter_that_only_grows() -> None:
    """Last minus first, over the time between."""
    assert gain(10, 12, 12, 20) == Increase(10.0, 15.0)


def test_rate() -> None:
    """Gain a second."""
    found = gain(10, 12, 20)
    assert found is not None
    assert found.per_second == 1.0


@pytest.mark.parametrize("values", [(), (5,), (NAN, 5), (NAN, NAN, NAN)])
def test_one_point_is_no_rate(values: tuple[float, ...]) -> None:
    """Nothing is known from it, not even zero."""
    assert gain(*values) is None


def test_a_counter_that_stands_still() -> None:
    """That is a known zero."""
    assert gain(7, 7, 7) == Increase(0.0, 10.0)


def test_a_restart_begins_at_zero() -> None:
    """What the counter shows after it was gained since."""
    assert gain(1000, 1010, 4, 14) == Increase(10.0 + 4.0 + 10.0, 15.0, resets=1)


def test_a_restart_at_the_end_of_the_window() -> None:
    """Nothing comes after it that could tell."""
    assert gain(990, 1000, 8) == Increase(18.0, 10.0, resets=1)
    assert gain(1000, 0) == Increase(0.0, 5.0, resets=1)


def test_a_crash_loop() -> None:
    """Each life counts."""
    assert gain(500, 5, 55, 3, 40, 2) == Increase(5.0 + 50.0 + 3.0 + 37.0 + 2.0, 25.0, resets=3)


def test_a_restart_that_has_caught_up() -> None:
    """A young process that passes its old value is no second process."""
    assert gain(18, 20, 2, 5, 9, 14, 22, 30) == Increase(2.0 + 30.0, 35.0, resets=1)
    assert gain(18, 20, 2, 5, 14, 14, 14, 14, 22, 30) == Increase(2.0 + 30.0, 45.0, resets=1)


def test_gaps_are_bridged() -> None:
    """Counters keep what happened while nobody looked; ends that are missing shorten the time."""
    assert gain(NAN, 10, NAN, NAN, 30, NAN) == Increase(20.0, 15.0)


def test_a_restart_inside_a_gap() -> None:
    """It shows as a fall across the gap."""
    assert gain(900, 910, NAN, 5, 25) == Increase(10.0 + 5.0 + 20.0, 20.0, resets=1)


def test_absence_before_the_first_event_is_zero_for_a_lazy_series() -> None:
    """The first failure jumps from absent to one, which is one failure."""
    assert gain(NAN, NAN, 1, 1, lazy=True) == Increase(1.0, 15.0)
    assert gain(NAN, NAN, 1, 1, lazy=False) == Increase(0.0, 5.0)


def test_a_lazy_series_that_never_appears_counts_nothing() -> None:
    """The page was read and had no event to tell."""
    assert gain(NAN, NAN, NAN, lazy=True) == Increase(0.0, 10.0)


def test_absence_after_an_appearance_is_a_gap() -> None:
    """A restart hides the series again; zero would be a fall that never happened."""
    assert gain(3, NAN, NAN, 5, lazy=True) == Increase(2.0, 15.0)
    filled = fill_absent(np.array([NAN, 3, NAN, 5]), lazy=True)
    np.testing.assert_array_equal(filled, [0, 3, NAN, 5])


def test_filling_leaves_the_window_alone() -> None:
    """Windows are shared."""
    values = np.array([NAN, 3.0])
    fill_absent(values, lazy=True)
    np.testing.assert_array_equal(values, [NAN, 3.0])


def test_what_is_not_finite_is_no_count() -> None:
    """An engine that prints infinity has not counted that far."""
    assert gain(10, INF, -INF, 30) == Increase(20.0, 15.0)
    assert gain(INF, 10) is None


@pytest.mark.parametrize(
    "values",
    [
        (1000, 600, 1010, 605, 1020, 610),  # strictly in turn
        (1000, 1010, 1020, 600, 610, 1040),  # in runs
        (500, 1000, 505, 1010),  # the smaller one first
        (1000, 3, 1010, 3, 1020, 3),  # one of them nearly idle
        (1000, 0, 0, 1010),  # or never used
        (1000, 998, 1004, 1003, 1010),  # close together
        (1000, 700, 300, 1010, 705, 310),  # three
        (1000, NAN, 600, NAN, 1010, NAN, 605),  # with gaps
    ],
)
def test_several_workers_behind_one_address(values: tuple[float, ...]) -> None:
    """No rate can be had from counters of several processes."""
    assert gain(*values) is None


def test_one_fall_and_no_return_is_a_restart() -> None:
    """Two scrapes cannot tell a second worker from a restart that was busy at once."""
    assert gain(1000, 600) == Increase(600.0, 5.0, resets=1)


increments = st.lists(st.integers(0, 1000), min_size=2, max_size=20)


@given(increments, st.integers(0, 10**9))
def test_the_gain_of_a_counter_without_restarts_is_the_truth(steps: list[int], start: int) -> None:
    """However much it had counted before the window."""
    values = np.cumsum([start, *steps]).astype(np.float64)
    assert increase(times(len(values)), values, lazy=False) == Increase(sum(steps), STEP_SECONDS * len(steps))


@st.composite
def restarting(
    draw: st.DrawFn, *, most_restarts: int, history: st.SearchStrategy[int]
) -> tuple[list[float], float, int]:
    """(values, gain that the values can tell, falls that they show) of a process that restarts between scrapes.

    What the old process counts after its last scrape dies with it. A new process that has already passed the old value
    at its first scrape hides the restart, and as much of its count as the old value.
    """
    steps = draw(increments)
    restarts = set(draw(st.lists(st.sampled_from(range(len(steps))), max_size=most_restarts)))
    count = float(draw(history))
    values, seen, falls = [count], 0.0, 0
    for index, step in enumerate(steps):
        if index in restarts:
            falls += step < count
            seen += step if step < count else step - count
            count = float(step)
        else:
            seen += step
            count += step
        values.append(count)
    return values, seen, falls


@given(restarting(most_restarts=5, history=st.integers(0, 2000)))
@example(([5.0, 3.0, 8.0, 4.0], 12.0, 2))
def test_restarts_lose_only_what_nobody_saw(process: tuple[list[float], float, int]) -> None:
    """The gain is all that was counted between a scrape or a restart and the next scrape, or it is unknown."""
    values, seen, falls = process
    found = gain(*values)
    assert found in (None, Increase(seen, STEP_SECONDS * (len(values) - 1), falls))


@given(restarting(most_restarts=1, history=st.integers(20_000, 10**9)))
def test_a_restart_of_a_process_with_a_history_is_always_recognised(process: tuple[list[float], float, int]) -> None:
    """One that had counted more than the rest of the window brings cannot look like two workers."""
    values, seen, falls = process
    assert gain(*values) == Increase(seen, STEP_SECONDS * (len(values) - 1), falls)


@given(
    st.integers(1, 10**6),
    st.integers(1, 10**6),
    st.lists(st.booleans(), min_size=5, max_size=16),
    st.data(),
)
def test_two_workers_are_never_taken_for_restarts(
    first: int, second: int, turns: list[bool], data: st.DataObject
) -> None:
    """Whoever answers when, from the second fall on."""
    most = min(first, second) // (10 * len(turns))
    counters = {True: float(first), False: float(second)}
    values = []
    for turn in turns:
        for worker in counters:
            counters[worker] += data.draw(st.integers(0, most))
        values.append(counters[turn])
    falls = sum(after < before for before, after in itertools.pairwise(values))
    assume(falls >= 2)
    assert jumps_back_and_forth(np.array(values))
    assert gain(*values) is None
