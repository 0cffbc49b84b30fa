"""One instance over the window: which source answers, and what a gauge, a counter and a histogram come to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.analysis.observed import Observed
from pdscope.model.metric import Metric
from pdscope.model.scrape import SeriesKey
from pdscope.model.topology import Role
from pdscope.model.window import HistogramWindow, Window
from support.windows import INF, NAN, NOW, Column, histogram, instance, ramp, rising, window


def seen(*windows: Window) -> Observed:
    return Observed(instance("d0", Role.DECODE), windows, NOW)


def test_a_gauge_over_the_window() -> None:
    """Mean, ends, extremes, and what stood in the newer half all the time."""
    level = seen(window({Metric.WAITING: [1, 9, 2, 4, 3]}, scrapes=5)).level(Metric.WAITING)
    assert level is not None
    assert (level.mean, level.low, level.high) == (3.8, 1, 9)
    assert (level.first, level.last, level.standing) == (1, 3, 2)
    assert (level.seconds, level.samples, level.age_seconds) == (20.0, 5, 0.0)
    assert level.growth_per_second == 2 / 20
    assert level.source == "engine waiting of d0"


def test_a_burst_that_is_over_does_not_stand() -> None:
    """One empty scrape in the newer half is enough."""
    level = seen(window({Metric.WAITING: [50, 50, 50, 50, 0, 1]}, scrapes=6)).level(Metric.WAITING)
    assert level is not None
    assert level.standing == 0


def test_a_queue_that_was_empty_earlier_stands_all_the_same() -> None:
    """Only the newer half is looked at."""
    level = seen(window({Metric.WAITING: [9, 9, 0, 7, 8, 9]}, scrapes=6)).level(Metric.WAITING)
    assert level is not None
    assert level.standing == 7


def test_a_gauge_with_gaps() -> None:
    """Its age is that of its own newest point, not of the page."""
    level = seen(window({Metric.WAITING: [NAN, 2, NAN, 4, INF]}, scrapes=5)).level(Metric.WAITING)
    assert level is not None
    assert (level.mean, level.samples, level.seconds, level.age_seconds) == (3.0, 2, 10.0, 5.0)


def test_one_point_has_no_growth() -> None:
    """A single scrape shows a state, no motion."""
    level = seen(window({Metric.WAITING: 7}, scrapes=1)).level(Metric.WAITING)
    assert level is not None
    assert level.growth_per_second is None


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=13))
def test_a_gauges_figures_are_in_order(values: list[float]) -> None:
    """What stood is at least the least and at most what is there now."""
    level = seen(window({Metric.WAITING: values}, scrapes=len(values))).level(Metric.WAITING)
    assert level is not None
    assert level.low <= level.standing <= level.last <= level.high
    assert level.low <= level.mean * (1 + 1e-12)
    assert level.mean <= level.high * (1 + 1e-12)


def test_the_preferred_source_answers() -> None:
    """The first that has a number; a column of gaps is none."""
    fresh = window({Metric.RUNNING: 3, Metric.WAITING: NAN}, source="loads")
    other = window({Metric.RUNNING: 9, Metric.WAITING: 5, Metric.KV_USAGE: 0.5}, source="metrics")
    found = seen(fresh, other)
    sources = {}
    for metric in (Metric.RUNNING, Metric.WAITING, Metric.KV_USAGE):
        level = found.level(metric)
        assert level is not None
        sources[metric] = (level.mean, level.source.split()[0])
    assert sources == {
        Metric.RUNNING: (3, "loads"),
        Metric.WAITING: (5, "metrics"),
        Metric.KV_USAGE: (0.5, "metrics"),
    }
    assert found.level(Metric.MAX_RUNNING) is None


def test_a_rank_is_not_the_instance() -> None:
    """Each has its own series."""
    one = window({Metric.RUNNING: 8})
    ranked = Window(
        one.target,
        one.source,
        one.times,
        {SeriesKey(Metric.RUNNING): np.full(13, 8.0), SeriesKey(Metric.RUNNING, "1"): np.full(13, 5.0)},
        {},
        {},
        frozenset(),
    )
    found = seen(ranked)
    whole, rank = found.level(Metric.RUNNING), found.level(Metric.RUNNING, "1")
    assert whole is not None
    assert rank is not None
    assert (whole.mean, rank.mean) == (8, 5)
    assert found.level(Metric.RUNNING, "2") is None


def test_a_counter_over_the_window() -> None:
    """Gain and rate, with the source named."""
    rate = seen(window({Metric.REQUESTS_FINISHED: rising(2.0)}, end=NOW - 3)).rate(Metric.REQUESTS_FINISHED)
    assert rate is not None
    assert (rate.gain, rate.per_second, rate.age_seconds) == (120.0, 2.0, 3.0)
    assert rate.source == "rate of engine requests_finished of d0"


def test_a_counter_that_the_preferred_source_cannot_rate() -> None:
    """One scrape of it is no rate; the next source has several."""
    found = seen(
        window({Metric.REQUESTS_FINISHED: 5}, source="loads", scrapes=1),
        window({Metric.REQUESTS_FINISHED: rising(1.0)}, source="metrics"),
    )
    rate = found.rate(Metric.REQUESTS_FINISHED)
    assert rate is not None
    assert rate.per_second == 1.0


def test_a_lazy_counter_that_is_on_no_page() -> None:
    """Its program prints it with the first event: no failure so far is zero failures."""
    rate = seen(window(scrapes=2, end=NOW - 3, lazy=[Metric.TRANSFER_FAILURES])).rate(Metric.TRANSFER_FAILURES)
    assert rate is not None
    assert (rate.gain, rate.per_second, rate.age_seconds) == (0.0, 0.0, 3.0)
    assert "no event yet" in rate.source


def test_a_lazy_counter_of_one_scrape_is_unknown() -> None:
    """Nothing was watched yet."""
    assert seen(window(scrapes=1, lazy=[Metric.TRANSFER_FAILURES])).rate(Metric.TRANSFER_FAILURES) is None


def test_a_counter_that_nobody_exports_is_unknown() -> None:
    """Missing is not zero."""
    assert seen(window({Metric.RUNNING: 1})).rate(Metric.PREEMPTIONS) is None


def test_a_histogram_over_the_window() -> None:
    """From the first source that has it twice."""
    waits = histogram((1.0, 2.0, INF), [0.5, 1.5, 1.5], history=[9.0])
    found = seen(window(source="loads"), window(histograms={Metric.TTFT: waits})).distribution(Metric.TTFT)
    assert found is not None
    assert found.counts.tolist() == [1, 2, 0]
    assert seen(window(histograms={Metric.TTFT: waits})).distribution(Metric.ITL) is None


@pytest.mark.parametrize(("lazy", "held"), [([Metric.TTFT], [1, 0]), ([], None)])
def test_a_histogram_that_appears_in_the_second_of_two_scrapes(lazy: list[Metric], held: list[int] | None) -> None:
    """Its program may print it with the first observation, or may have been asked too late."""
    late = HistogramWindow((1.0, INF), np.array([[NAN, NAN], [1.0, 1.0]]), np.array([NAN, 0.5]))
    found = seen(window(histograms={Metric.TTFT: late}, scrapes=2, lazy=lazy)).distribution(Metric.TTFT)
    assert (None if found is None else found.counts.tolist()) == held


def test_a_histogram_of_one_scrape_is_unknown() -> None:
    """What it holds may be of last week."""
    waits = histogram((1.0, INF), [0.5], scrapes=1)
    assert seen(window(histograms={Metric.TTFT: waits}, scrapes=1)).distribution(Metric.TTFT) is None


def test_usable_means_two_scrapes_of_one_source() -> None:
    """One scrape each of two sources gives no rate."""
    assert not seen(window(scrapes=1), window(scrapes=1)).usable
    assert seen(window(scrapes=1), window(scrapes=2)).usable
    assert not seen().usable


def test_the_age_is_that_of_the_newest_scrape() -> None:
    """Of any source; unknown without any."""
    assert seen(window(end=NOW - 40), window(end=NOW - 2)).age_seconds == 2.0
    assert seen().age_seconds is None


@pytest.mark.parametrize(
    ("idle_share", "http_active", "asleep"),
    [
        (1.0, 0, True),
        (0.96, 0, True),
        (0.9375, 0, False),
        (0.0, 0, False),
        (1.0, 1, False),
        (1.0, ramp(-1.0, 12.0), True),
        (1.0, ramp(1.0, -11.0), False),
        (1.0, None, True),
    ],
)
def test_asleep_by_what_does_not_freeze(idle_share: float, http_active: Column | None, asleep: bool) -> None:
    """Idle nearly all the time with no request open, whatever the gauges show."""
    columns: dict[Metric, Column] = {Metric.IDLE: rising(idle_share), Metric.RUNNING: 6.0}
    if http_active is not None:
        columns[Metric.HTTP_ACTIVE] = http_active
    assert seen(window(columns)).asleep is asleep


def test_not_asleep_without_evidence() -> None:
    """An engine that does not count its idle time may be busy."""
    assert not seen(window({Metric.RUNNING: 0, Metric.HTTP_ACTIVE: 0})).asleep


def test_sources_are_named() -> None:
    """By the page that has the metric; else by the instance alone."""
    found = seen(window({Metric.RUNNING: 1}, source="loads"), window(histograms={Metric.TTFT: histogram((INF,), [])}))
    assert found.source_of(Metric.RUNNING) == "loads running of d0"
    assert found.source_of(Metric.TTFT) == "engine ttft of d0"
    assert found.source_of(Metric.ITL) == "d0: itl"


def test_a_gauge_of_senseless_size_has_a_mean() -> None:
    """Numbers whose sum is none break nothing."""
    level = seen(window({Metric.RUNNING: 1.7e308})).level(Metric.RUNNING)
    assert level is not None
    assert level.mean == pytest.approx(1.7e308)
