"""Columns out of scrapes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.model.metric import Fact, Metric
from pdscope.model.scrape import Schema, Scrape, SeriesKey
from pdscope.model.window import Window, build_window
from support.windows import INF, NAN, failure, page

RUNNING, USAGE = SeriesKey(Metric.RUNNING), SeriesKey(Metric.KV_USAGE)
TTFT = SeriesKey(Metric.TTFT)


def built(*scrapes: Scrape) -> Window:
    window = build_window(scrapes)
    assert window is not None
    return window


def test_no_good_scrape_is_no_window() -> None:
    """Failures alone have nothing to say."""
    assert build_window([]) is None
    assert build_window([failure(1.0), failure(2.0)]) is None


def test_failures_leave_no_row() -> None:
    """The gap shows in the times."""
    window = built(page(0.0, {Metric.RUNNING: 1}), failure(5.0), page(10.0, {Metric.RUNNING: 3}))
    assert window.times.tolist() == [0.0, 10.0]
    assert window.scalars[RUNNING].tolist() == [1.0, 3.0]
    assert window.span_seconds == 10.0


def test_one_scrape_spans_nothing() -> None:
    """No rate can be had from it."""
    assert built(page(7.0, {Metric.RUNNING: 1})).span_seconds == 0.0


def test_repeated_and_late_points_are_dropped() -> None:
    """A page with its own time stamps repeats them until its program measures again."""
    values = ((0.0, 1.0), (0.0, 9.0), (5.0, 2.0), (4.0, 9.0), (5.0, 9.0), (6.0, 3.0))
    window = built(*(page(at, {Metric.RUNNING: value}) for at, value in values))
    assert window.times.tolist() == [0.0, 5.0, 6.0]
    assert window.scalars[RUNNING].tolist() == [1.0, 2.0, 3.0]


def test_one_schema_for_all_is_taken_as_it_is() -> None:
    """The usual case: pages of one layout share their schema."""
    schema = Schema((RUNNING,), {TTFT: (1.0, INF)}, frozenset({Metric.TTFT}))
    rows = ([1.0, 4.0, 6.0, 2.5], [2.0, 5.0, 8.0, 3.5])
    window = built(*(Scrape("d0", "engine", float(n), schema, np.array(row)) for n, row in enumerate(rows)))
    assert window.scalars[RUNNING].tolist() == [1.0, 2.0]
    found = window.histograms[TTFT]
    assert found.bounds == (1.0, INF)
    assert found.cumulative.tolist() == [[4.0, 6.0], [5.0, 8.0]]
    assert found.sums.tolist() == [2.5, 3.5]
    assert window.lazy == {Metric.TTFT}


def test_series_that_come_and_go_leave_gaps() -> None:
    """Absent is not zero."""
    first, second = {Metric.RUNNING: 1.0}, {Metric.KV_USAGE: 0.5, Metric.RUNNING: 2.0}
    window = built(page(0.0, first), page(5.0, second), page(10.0, {Metric.KV_USAGE: 0.6}))
    np.testing.assert_array_equal(window.scalars[RUNNING], [1.0, 2.0, NAN])
    np.testing.assert_array_equal(window.scalars[USAGE], [NAN, 0.5, 0.6])


def test_a_histogram_that_appears_late() -> None:
    """Its buckets and its sum are missing before, all of them."""
    window = built(page(0.0, {}), page(5.0, {}, {Metric.TTFT: ((1.0, INF), (2, 3), 4.5)}))
    found = window.histograms[TTFT]
    np.testing.assert_array_equal(found.cumulative, [[NAN, NAN], [2.0, 3.0]])
    np.testing.assert_array_equal(found.sums, [NAN, 4.5])


def test_histograms_of_pages_in_another_order() -> None:
    """Each keeps its own buckets and its own sum."""
    ttft, itl = ((1.0, INF), (2, 3), 4.5), ((0.1, 0.2, INF), (7, 8, 9), 1.5)
    first = page(0.0, {Metric.RUNNING: 5}, {Metric.TTFT: ttft, Metric.ITL: itl})
    window = built(first, page(5.0, {}, {Metric.ITL: itl, Metric.TTFT: ttft}))
    for key, (bounds, cumulative, total) in {TTFT: ttft, SeriesKey(Metric.ITL): itl}.items():
        found = window.histograms[key]
        assert found.bounds == bounds
        assert found.cumulative.tolist() == [list(cumulative)] * 2
        assert found.sums.tolist() == [total] * 2
    np.testing.assert_array_equal(window.scalars[RUNNING], [5.0, NAN])


def test_changed_buckets_start_a_new_history() -> None:
    """The newest page's buckets count; older rows cannot be expressed in them."""
    old, new = (1.0, 2.0, INF), (0.5, 2.0, INF)
    window = built(
        page(0.0, {Metric.RUNNING: 1}, {Metric.TTFT: (old, (90, 95, 99), 80.0)}),
        page(5.0, {Metric.RUNNING: 2}, {Metric.TTFT: (new, (1, 2, 3), 2.0)}),
        page(10.0, {Metric.RUNNING: 3}, {Metric.TTFT: (new, (4, 5, 6), 7.0)}),
    )
    found = window.histograms[TTFT]
    assert found.bounds == new
    np.testing.assert_array_equal(found.cumulative, [[NAN] * 3, [1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(found.sums, [NAN, 2.0, 7.0])
    assert window.scalars[RUNNING].tolist() == [1.0, 2.0, 3.0]


def test_lazy_on_any_page_is_lazy() -> None:
    """Before the first event the page does not even say that the series exists."""
    window = built(page(0.0, {}), page(5.0, {Metric.PREEMPTIONS: 1}, lazy=[Metric.PREEMPTIONS]))
    assert window.lazy == {Metric.PREEMPTIONS}


def test_identity_and_facts_are_those_of_the_newest_page() -> None:
    """An engine that was restarted with another version is the other version."""
    schema = Schema((RUNNING,), {}, frozenset())
    old = Scrape("d0", "engine", 0.0, schema, np.array([1.0]), {Fact.ENGINE_VERSION: "1"})
    new = Scrape("d0", "engine_2", 5.0, schema, np.array([2.0]), {Fact.ENGINE_VERSION: "2"})
    window = built(old, new)
    assert (window.target, window.source) == ("d0", "engine_2")
    assert window.facts == {Fact.ENGINE_VERSION: "2"}


def test_ranks_of_a_metric() -> None:
    """The instance's own series is no rank; other metrics' ranks are not its."""
    keys = [RUNNING, SeriesKey(Metric.RUNNING, "1"), SeriesKey(Metric.RUNNING, "0"), SeriesKey(Metric.KV_USAGE, "7")]
    window = built(page(0.0, dict.fromkeys(keys, 1.0)))
    assert window.ranks(Metric.RUNNING) == ("0", "1")
    assert window.ranks(Metric.WAITING) == ()


METRICS = [Metric.RUNNING, Metric.WAITING, Metric.KV_USAGE, Metric.STEPS]
pages = st.lists(st.dictionaries(st.sampled_from(METRICS), st.integers(0, 99)), min_size=1, max_size=6)


@given(pages, st.permutations(METRICS))
def test_every_number_stays_with_its_series_and_time(contents: list[dict[Metric, int]], order: list[Metric]) -> None:
    """Whatever the pages hold and in whatever order, a column is what its series said."""
    shuffled = [{m: c[m] for m in (order if n % 2 else order[::-1]) if m in c} for n, c in enumerate(contents)]
    window = built(*(page(float(n), dict(values.items())) for n, values in enumerate(shuffled)))
    assert {key.metric for key in window.scalars} == {metric for values in contents for metric in values}
    for key, column in window.scalars.items():
        expected = [values.get(key.metric, NAN) for values in contents]
        np.testing.assert_array_equal(column, expected)


@pytest.mark.parametrize("width", [1, 5])
def test_columns_have_the_length_of_the_times(width: int) -> None:
    """Also those of a single scrape."""
    window = built(*(page(float(n), {Metric.RUNNING: n}) for n in range(width)))
    assert window.scalars[RUNNING].shape == window.times.shape == (width,)
