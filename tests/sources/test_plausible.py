"""What cannot be a value of its metric: dropped, counted, named; what engines and devices really print stays."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from pdscope.model.metric import Kind, Metric
from pdscope.model.scrape import Dropped
from pdscope.runtime.plugins import load_plugins
from pdscope.sources.adapter import Adapter, InfoLabel, Series
from pdscope.sources.plausible import plausible, plausible_sum
from pdscope.sources.reader import PageReader, TargetReader
from support.pages import AT, Reading, read_with

PLUGINS = load_plugins()
REAL = sorted((Path(__file__).parent.parent / "fixtures").rglob("*.prom"))


def read(metric: Metric, body: str, series: Series | None = None, **options: object) -> Reading:
    """A page with one metric."""
    chosen = {metric: (series or Series("x_a"),)}
    return read_with((Adapter(name="x", probe=("x_",), series=chosen, **options),), body.encode())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("metric", "value", "kept"),
    [
        (Metric.KV_USAGE, 1.1, True),
        (Metric.KV_USAGE, -0.01, True),
        (Metric.KV_USAGE, 99.0, False),
        (Metric.KV_USAGE, -0.02, False),
        (Metric.RUNNING, 0.0, True),
        (Metric.RUNNING, 1e15, True),
        (Metric.RUNNING, -1.0, False),
        (Metric.RUNNING, 1e16, False),
        (Metric.RUNNING, 1e308, False),
        (Metric.RUNNING, math.inf, False),
        (Metric.KV_POOL_BYTES, 1e18, True),
        (Metric.KV_POOL_BYTES, 1e19, False),
        (Metric.NIC_TX_BYTES, 2.0**64, True),
        (Metric.NIC_TRANSMIT_WAIT, 2.0**64, True),
        (Metric.REQUESTS_FINISHED, -1.0, False),
        (Metric.DECODE_BUSY, 1e16, False),
        (Metric.ESTIMATED_FLOP, 1e25, True),
    ],
)
def test_bounds_by_unit_and_kind(metric: Metric, value: float, kept: bool) -> None:
    """A ratio is one, nothing counts below zero, nothing is beyond what a machine can hold or do."""
    reading = read(metric, f"x_a {value!r}\n")
    found = reading.value(metric)
    assert found is not None
    assert (found == value) is kept
    assert math.isnan(found) is not kept
    assert reading.scrape.quality.impossible == (() if kept else (Dropped(metric, value),))


def test_bounds_are_in_the_base_unit() -> None:
    """Of the scaled number, and told in it."""
    per_cent = Series("x_a", scale=0.01)
    assert read(Metric.KV_USAGE, "x_a 99\n", per_cent).value(Metric.KV_USAGE) == pytest.approx(0.99)
    (dropped,) = read(Metric.KV_USAGE, "x_a 9900\n", per_cent).scrape.quality.impossible
    assert dropped.metric is Metric.KV_USAGE
    assert dropped.value == pytest.approx(99.0)


def test_a_driver_s_blank_is_missing_and_no_news() -> None:
    """Its adapter knows it; what lies within `valid` and still cannot be is told."""
    series = Series("x_a", valid=(0.0, 100.0))
    assert read(Metric.KV_USAGE, "x_a 9e18\n", series).scrape.quality.impossible == ()
    assert read(Metric.KV_USAGE, "x_a 50\n", series).scrape.quality.impossible == (Dropped(Metric.KV_USAGE, 50.0),)


def test_a_sample_counts_once() -> None:
    """It stands in its rank and in the whole; the other rank keeps its number."""
    reading = read(Metric.RUNNING, 'x_a{r="0"} -5\nx_a{r="1"} 3\n', rank_labels=("r",))
    assert reading.scrape.quality.impossible == (Dropped(Metric.RUNNING, -5.0),)
    assert reading.value(Metric.RUNNING, "1") == 3
    assert math.isnan(reading.value(Metric.RUNNING) or 0.0)


def test_histograms() -> None:
    """A bucket that counts below zero, and a sum that is none, are missing; the rest stays."""
    reading = read(
        Metric.TTFT,
        'x_a_bucket{le="1"} -2\nx_a_bucket{le="2"} 3\nx_a_bucket{le="+Inf"} 4\nx_a_sum 1e300\nx_a_count 4\n',
    )
    found = reading.buckets(Metric.TTFT)
    assert found is not None
    assert math.isnan(found.cumulative[1])
    assert (found.cumulative[2], found.cumulative[math.inf]) == (3, 4)
    assert math.isnan(found.total)
    assert len(reading.scrape.quality.impossible) == 2


def test_a_number_in_a_label_is_held_to_the_same() -> None:
    """Labels of info series are foreign, too."""
    infos = {Metric.KV_POOL_PAGES: (InfoLabel("x_i", "pages"),)}
    own = Adapter(name="x", probe=("x_",), series={}, infos=infos, labelled=("x_i",))
    reading = read_with((own,), b'x_i{pages="1e300"} 1\n')
    assert math.isnan(reading.value(Metric.KV_POOL_PAGES) or 0.0)
    assert [d.metric for d in reading.scrape.quality.impossible] == [Metric.KV_POOL_PAGES]


@pytest.mark.parametrize("metric", Metric)
def test_every_metric_can_be_zero_and_one(metric: Metric) -> None:
    """The bounds are no thresholds, and sums of many such values do not overflow."""
    low, high = plausible_sum(metric) if metric.spec.kind is Kind.HISTOGRAM else plausible(metric)
    assert low <= 0.0
    assert 1.0 <= high <= 1e30


@pytest.mark.parametrize("path", REAL, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_real_pages_lose_nothing(path: Path) -> None:
    """Every recorded page, read as an instance's and as a device's."""
    body = path.read_bytes()
    engines, devices = PageReader(PLUGINS.engines), PageReader(PLUGINS.devices)
    for reader, adapters in (
        (engines, engines.candidates(engine=None, role=None)),
        (devices, PLUGINS.devices),
    ):
        assert TargetReader("t", reader, adapters).read(body, AT).quality.impossible == ()
