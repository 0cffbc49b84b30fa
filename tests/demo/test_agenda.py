"""Simulated time."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.demo.agenda import Agenda, IdleClock


@given(st.lists(st.floats(min_value=0, max_value=100)))
def test_appointments_are_kept_in_order_of_time_then_of_making(times: list[float]) -> None:
    """A stable sort is what the agenda is."""
    agenda = Agenda()
    kept: list[tuple[float, int]] = []
    for number, when in enumerate(times):
        agenda.at(when, partial(lambda n: kept.append((agenda.now_seconds, n)), number))
    agenda.run(100.0)
    assert kept == sorted((when, number) for number, when in enumerate(times))
    assert agenda.now_seconds == 100.0


def test_an_appointment_may_make_another_one_within_the_same_run() -> None:
    """A step that starts the next one."""
    agenda = Agenda()
    beats: list[float] = []

    def beat() -> None:
        beats.append(agenda.now_seconds)
        agenda.after(1.0, beat)

    agenda.after(1.0, beat)
    agenda.run(3.5)
    assert beats == [1.0, 2.0, 3.0]


def test_time_does_not_go_back() -> None:
    """Neither for the clock nor for an appointment."""
    agenda = Agenda()
    agenda.run(5.0)
    with pytest.raises(ValueError, match=r"it is 5\.0 s, time does not go back to 4\.0 s"):
        agenda.run(4.0)
    with pytest.raises(ValueError, match=r"it is 5\.0 s, too late for 4\.0 s"):
        agenda.at(4.0, beats_nothing)


def beats_nothing() -> None:
    raise AssertionError("kept an appointment of the past")


def test_idle_time_counts_only_while_nothing_is_held() -> None:
    """Two requests that overlap are one busy stretch."""
    agenda = Agenda()
    idle = IdleClock(agenda)
    for when, action in ((2.0, idle.enter), (3.0, idle.enter), (4.0, idle.leave), (6.0, idle.leave)):
        agenda.at(when, action)
    readings = []
    for when in (1.0, 5.0, 9.0):
        agenda.run(when)
        readings.append((idle.held, idle.seconds))
    assert readings == [(0, 1.0), (1, 2.0), (0, 5.0)]
