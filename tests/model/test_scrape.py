"""Rows and what their numbers mean."""

from __future__ import annotations

import numpy as np

from pdscope.model.metric import Metric
from pdscope.model.scrape import HistogramSlot, Schema, Scrape, SeriesKey
from support.windows import INF, failure


def test_a_row_holds_scalars_then_histograms() -> None:
    """Each histogram takes its buckets and one number for the sum."""
    running, rank = SeriesKey(Metric.RUNNING), SeriesKey(Metric.RUNNING, "1")
    ttft, itl = SeriesKey(Metric.TTFT), SeriesKey(Metric.ITL)
    schema = Schema((running, rank), {ttft: (1.0, 2.0, INF), itl: (0.1, INF)}, frozenset({Metric.TTFT}))
    assert schema.scalars == {running: 0, rank: 1}
    assert schema.histograms == {ttft: HistogramSlot((1.0, 2.0, INF), 2), itl: HistogramSlot((0.1, INF), 6)}
    assert schema.width == 9
    assert schema.lazy == {Metric.TTFT}


def test_a_schema_of_nothing() -> None:
    """A page whose series are all unknown is a row of no numbers."""
    assert Schema((), {}, frozenset()).width == 0


def test_a_scrape_is_good_when_it_brought_data() -> None:
    """A reason and a row exclude each other; neither is no data either."""
    schema = Schema((SeriesKey(Metric.RUNNING),), {}, frozenset())
    assert Scrape("d0", "engine", 1.0, schema, np.array([3.0])).ok
    assert not failure(1.0).ok
    assert not Scrape("d0", "engine", 1.0).ok
