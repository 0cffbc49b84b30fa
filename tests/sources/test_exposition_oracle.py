"""Every recorded page against the official parsers, read in full and by layout."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from pdscope.sources import exposition
from pdscope.sources.exposition import Page, PageParser, SampleId

RECORDED = Path(__file__).parents[1] / "fixtures" / "expositions"
PAGES = sorted(path.name for path in RECORDED.iterdir() if path.suffix in {".prom", ".txt"})


def printed_names(body: bytes) -> frozenset[str]:
    """Sample names, found without either parser."""
    return frozenset(name.decode() for name in re.findall(rb"^[a-zA-Z_:][a-zA-Z0-9_:]*", body, re.MULTILINE))


def by_oracle(families: Iterable[Metric]) -> list[tuple[SampleId, float, float]]:
    """Samples in the order of the page: what, value, unix seconds or NaN."""
    return [
        (
            SampleId(sample.name, tuple(sorted(sample.labels.items()))),
            float(sample.value),
            np.nan if sample.timestamp is None else float(sample.timestamp),
        )
        for family in families
        for sample in family.samples
    ]


def assert_same(page: Page, expected: list[tuple[SampleId, float, float]]) -> None:
    # The text parser appends `_total` to the samples of counters that are declared without it.
    renamed = {name for name, kind in page.layout.types.items() if kind == "counter" and name[-6:] != "_total"}
    names = [
        SampleId(f"{sample.name}_total", sample.labels) if sample.name in renamed else sample
        for sample in page.layout.samples
    ]
    assert names == [sample for sample, _, _ in expected]
    np.testing.assert_array_equal(page.values, [value for _, value, _ in expected])
    timestamps = np.full(len(names), np.nan) if page.timestamps is None else page.timestamps
    np.testing.assert_allclose(timestamps, [seconds for _, _, seconds in expected], rtol=1e-12)


def test_there_are_recorded_pages() -> None:
    """Of all engines, routers and exporters."""
    programs = {re.split(r"[-_]", name)[0] for name in PAGES}
    assert programs == {"dcgm", "dynamo", "nixl", "node", "sglang", "smg", "vllm"}


@pytest.mark.parametrize("name", PAGES)
def test_recorded_page(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All samples, as the official text parser finds them."""
    body = (RECORDED / name).read_bytes()
    expected = by_oracle(text_string_to_metric_families(body.decode()))
    parser = PageParser(printed_names(body))
    in_full = parser.parse(body)
    assert_same(in_full, expected)
    assert in_full.defects.bad_lines == in_full.defects.duplicate_samples == 0
    assert in_full.defects.nan_samples == sum(np.isnan(value) for _, value, _ in expected)

    def refuse(*_: object) -> None:
        raise AssertionError("the page is read in full")

    monkeypatch.setattr(exposition, "read_in_full", refuse)
    by_layout = parser.parse(body, in_full.layout)
    assert by_layout.layout is in_full.layout
    assert_same(by_layout, expected)
    assert by_layout.defects == in_full.defects


@pytest.mark.parametrize("role", ["frontend", "prefill1", "decode1"])
def test_two_scrapes_of_one_process_share_a_layout(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under traffic only numbers change, so the second page is read by the layout of the first."""
    first, second = (
        (RECORDED / f"dynamo-1.6.1-{role}-longhigh-bw450-{time}.prom").read_bytes() for time in ("t0", "t1")
    )
    parser = PageParser(printed_names(first))
    layout = parser.parse(first).layout
    monkeypatch.delattr(exposition, "read_in_full")
    page = parser.parse(second, layout)
    assert page.layout is layout
    assert_same(page, by_oracle(text_string_to_metric_families(second.decode())))


class Timestamped(Collector):
    """Families with times of their own."""

    def collect(self) -> Iterator[Metric]:
        gauge = GaugeMetricFamily("temperature", "a gauge", labels=["site"])
        gauge.add_metric(["a"], 20.5, timestamp=1520879607.789)
        gauge.add_metric(['"b"\\\n'], -3)
        counter = CounterMetricFamily("jobs", "a counter", labels=["site"])
        counter.add_metric(["a"], 7, created=1520872607.123, timestamp=1520879607)
        yield gauge
        yield counter


def openmetrics_page() -> bytes:
    """A page by the official renderer with exemplars, timestamps, `_created` and all kinds of families."""
    registry = CollectorRegistry()
    registry.register(Timestamped())
    requests = Counter("requests", "a counter", ["path"], registry=registry)
    requests.labels(path="/../../etc/passwd").inc(3, exemplar={"trace_id": "abc # {} 1"})
    requests.labels(path="/${jndi:ldap://localhost} 5 # ").inc(float("inf"))
    latency = Histogram("latency_seconds", "a histogram", buckets=(0.1, 1), registry=registry)
    latency.observe(0.5, exemplar={"trace_id": "x"})
    latency.observe(7)
    Summary("size_bytes", "a summary", registry=registry).observe(5)
    Gauge("occupancy", "a gauge", registry=registry).set(float("nan"))
    body: bytes = generate_latest(registry)
    return body


def test_openmetrics() -> None:
    """All samples of an OpenMetrics page, as the official OpenMetrics parser finds them."""
    body = openmetrics_page()
    assert body.endswith(b"# EOF\n")
    assert body.count(b" # {") > 2
    page = PageParser(printed_names(body)).parse(body)
    assert_same(page, by_oracle(openmetrics.text_string_to_metric_families(body.decode())))
    assert page.timestamps is not None
    assert {sample.name for sample in page.layout.samples} >= {"jobs_total", "jobs_created", "latency_seconds_bucket"}
    assert page.defects.bad_lines == 0
    assert page.layout.types["jobs"] == "counter"
