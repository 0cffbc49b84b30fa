"""The store: windows begin at the scrape before them, memory is bounded, failures are kept and not used."""

from __future__ import annotations

import numpy as np
import pytest

from pdscope.collect.store import Store, Stream
from pdscope.model.metric import Metric
from pdscope.model.scrape import FailureReason, Schema, Scrape, SeriesKey

KEY = SeriesKey(Metric.RUNNING)
SCHEMA = Schema((KEY,), {}, frozenset())
STREAM = Stream("d0", "metrics", "d0")


def scrape(at: float, value: float = 1.0) -> Scrape:
    return Scrape("d0", "sglang", at, SCHEMA, np.array([value]))


def failed(at: float) -> Scrape:
    return Scrape("d0", "sglang", at, reason=FailureReason.TIMEOUT)


def filled(*times: float, retention: float = 1000.0) -> Store:
    store = Store(retention)
    for at in times:
        store.add(STREAM, scrape(at, at))
    return store


@pytest.mark.parametrize(
    ("now", "seconds", "expected"),
    [
        (100, 20, [80, 90, 100]),
        (100, 15, [80, 90, 100]),  # a rate over 15 s needs the value before
        (100, 5, [90, 100]),
        (100, 1000, [60, 70, 80, 90, 100]),
        (85, 10, [70, 80]),  # the past can be asked
        (59, 10, None),
    ],
)
def test_window_starts_at_the_last_scrape_before_it(now: float, seconds: float, expected: list[float] | None) -> None:
    """From the last scrape at or before now - seconds to the newest at or before now."""
    window = filled(60, 70, 80, 90, 100).window(STREAM, now, seconds)
    assert (None if window is None else window.times.tolist()) == expected


def test_failures_leave_a_gap() -> None:
    """A failed scrape is kept as the newest and never becomes a point."""
    store = filled(60, 70)
    store.add(STREAM, failed(80))
    store.add(STREAM, scrape(90))
    window = store.window(STREAM, 90, 60)
    assert window is not None
    assert window.times.tolist() == [60, 70, 90]
    store.add(STREAM, failed(100))
    newest = store.newest(STREAM)
    assert newest is not None
    assert newest.reason is FailureReason.TIMEOUT


def test_old_scrapes_are_forgotten() -> None:
    """By age, and by count whatever their age."""
    store = filled(*range(0, 1000, 10), retention=55)
    window = store.window(STREAM, 990, 10_000)
    assert window is not None
    assert window.times.tolist() == [940, 950, 960, 970, 980, 990]
    crowded = Store(1e9, max_scrapes=3)
    for at in range(10):
        crowded.add(STREAM, scrape(at))
    window = crowded.window(STREAM, 9, 100)
    assert window is not None
    assert window.times.tolist() == [7, 8, 9]


def test_streams_are_apart_and_can_be_forgotten() -> None:
    """A target that leaves discovery takes its data along."""
    store = filled(1)
    other = Stream("d0", "loads", "d0")
    assert store.window(other, 10, 10) is None
    assert store.streams() == (STREAM,)
    store.forget(STREAM)
    store.forget(other)
    assert store.newest(STREAM) is None


@pytest.mark.parametrize(("count", "times"), [(2, [80, 90]), (9, [60, 70, 80, 90])])
def test_recent_scrapes_are_the_newest_good_or_not(count: int, times: list[int]) -> None:
    """At most so many, the newest last; of an unknown stream none."""
    store = filled(60, 70)
    store.add(STREAM, failed(80))
    store.add(STREAM, scrape(90))
    assert [s.at for s in store.recent(STREAM, count)] == times
    assert store.recent(Stream("x", "metrics", "x"), count) == ()


def test_failures_in_a_row_end_at_the_last_good_scrape() -> None:
    """A gap is one; an unknown stream has none."""
    store = filled(60, 70)
    assert store.failed_in_a_row(STREAM) == 0
    store.add(STREAM, failed(80))
    store.add(STREAM, failed(90))
    assert store.failed_in_a_row(STREAM) == 2
    store.add(STREAM, scrape(100))
    assert store.failed_in_a_row(STREAM) == 0
    assert store.failed_in_a_row(Stream("x", "metrics", "x")) == 0


def test_failures_in_a_row_are_counted_beyond_what_is_kept() -> None:
    """A target that is long gone has not failed less often for being asked less often."""
    store = filled(60, 70)
    for at in range(80, 80_000, 400):
        store.add(STREAM, failed(at))
    assert store.failed_in_a_row(STREAM) == 200
    assert len(store.recent(STREAM, 1000)) < 200
    store.forget(STREAM)
    assert store.failed_in_a_row(STREAM) == 0
