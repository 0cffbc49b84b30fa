"""Devices of an instance: each counted once, by whichever page, while it is fresh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from pdscope.analysis.device_view import (
    DeviceView,
    figure_text,
    fresh,
    mean_of,
    most_of,
    oldest,
    source_of,
    spread_of,
    total_of,
)
from pdscope.model.metric import Metric
from pdscope.model.scrape import SeriesKey
from pdscope.model.window import Window
from support.windows import NAN, NOW, SCRAPES, rising, window


def exporter(
    columns: Mapping[Metric, Mapping[str, object]], *, target: str = "gpu-node1", end: float = NOW, refresh: float = 0.0
) -> Window:
    """A page of devices: metric -> device -> column."""
    scalars = {
        SeriesKey(metric, device): np.broadcast_to(np.asarray(column, dtype=np.float64), (SCRAPES,))
        for metric, devices in columns.items()
        for device, column in devices.items()
    }
    one = window({}, target=target, source="dcgm", end=end)
    return replace(one, scalars=scalars, refresh_seconds=refresh)


def test_each_device_has_its_mean() -> None:
    """Over the window, without the scrapes in which it had no number."""
    view = DeviceView([exporter({Metric.SM_ACTIVE: {"GPU-a": 0.5, "GPU-b": [NAN] * 12 + [0.9]}})])
    assert {name: part.value for name, part in view.means(Metric.SM_ACTIVE).items()} == {"GPU-a": 0.5, "GPU-b": 0.9}
    assert mean_of(view.means(Metric.SM_ACTIVE)) == pytest.approx(0.7)
    assert most_of(view.means(Metric.SM_ACTIVE)) == 0.9
    assert spread_of(view.means(Metric.SM_ACTIVE)) == pytest.approx(0.4)
    assert mean_of(view.means(Metric.DRAM_ACTIVE)) is total_of({}) is most_of({}) is None
    assert spread_of({}) == 0.0


def test_a_device_on_two_pages_counts_once() -> None:
    """Two exporters of a host print the same cards; the one that is configured first is believed."""
    first = exporter({Metric.FABRIC_TX_RATE: {"GPU-a": 10e9, "GPU-b": NAN}}, target="agent")
    second = exporter({Metric.FABRIC_TX_RATE: {"GPU-a": 99e9, "GPU-b": 5e9}}, target="dcgm-1")
    parts = DeviceView([first, second]).means(Metric.FABRIC_TX_RATE)
    assert total_of(parts) == 15e9
    assert source_of(parts, Metric.FABRIC_TX_RATE) == (
        "dcgm fabric_tx_rate of agent, dcgm-1, 2 devices, 5 GB/s to 10 GB/s"
    )


def test_pages_that_tell_no_devices_apart() -> None:
    """Each is one device, named after its target."""
    pages = [window({Metric.DRAM_ACTIVE: value}, target=name) for name, value in (("n1", 0.2), ("n2", 0.6))]
    assert set(DeviceView(pages).means(Metric.DRAM_ACTIVE)) == {"n1", "n2"}


def test_a_rate_is_printed_or_counted() -> None:
    """The printed one is preferred where both are there."""
    counted = exporter({Metric.FABRIC_RX_BYTES: {"GPU-a": rising(4e9), "GPU-b": rising(6e9)}})
    both = exporter(
        {Metric.FABRIC_RX_BYTES: {"GPU-a": rising(4e9), "GPU-b": rising(6e9)}, Metric.FABRIC_RX_RATE: {"GPU-a": 5e9}}
    )
    read = [DeviceView([page]).rates(Metric.FABRIC_RX_RATE, Metric.FABRIC_RX_BYTES) for page in (counted, both)]
    assert [{name: part.value for name, part in parts.items()} for parts in read] == [
        {"GPU-a": pytest.approx(4e9), "GPU-b": pytest.approx(6e9)},
        {"GPU-a": 5e9, "GPU-b": pytest.approx(6e9)},
    ]


@pytest.mark.parametrize(
    ("age", "refresh", "counts"),
    [(60, 0, True), (61, 0, False), (180, 60, True), (181, 60, False), (59, 5, True), (61, 5, False)],
)
def test_old_pages_are_no_pages(age: float, refresh: float, counts: bool) -> None:
    """One that refreshes each minute may be three minutes old; one that answers at once may not."""
    page = exporter({Metric.DRAM_ACTIVE: {"npu-0": 0.5}}, end=NOW - age, refresh=refresh)
    views = fresh({"d0": [page]}, NOW, 60.0)
    assert ("d0" in views) is counts
    if counts:
        assert NOW - oldest(views["d0"].means(Metric.DRAM_ACTIVE)) == age


def test_newest_values() -> None:
    """For what is a state and no level."""
    page = exporter({Metric.DEVICE_FAULT: {"GPU-a": [0.0] * 12 + [79.0], "GPU-b": [31.0] + [0.0] * 12}})
    assert {n: p.value for n, p in DeviceView([page]).lasts(Metric.DEVICE_FAULT).items()} == {
        "GPU-a": 79.0,
        "GPU-b": 0.0,
    }


def test_what_is_new() -> None:
    """A value that the device did not have all the time; NaN is no value."""
    page = exporter(
        {Metric.DEVICE_FAULT: {"came": [0.0] * 12 + [79.0], "stays": 79.0, "gap": [NAN] * 12 + [79.0], "none": NAN}}
    )
    assert {n: p.value for n, p in DeviceView([page]).new(Metric.DEVICE_FAULT).items()} == {"came": 79.0}


@pytest.mark.parametrize(
    ("value", "metric", "text"),
    [
        (345e6, Metric.DEVICE_CLOCK, "345 MHz"),
        (1.98e9, Metric.DEVICE_CLOCK, "1.98 GHz"),
        (37.04, Metric.DEVICE_POWER, "37 W"),
        (0.7712, Metric.DRAM_ACTIVE, "0.771"),
        (79.0, Metric.DEVICE_FAULT, "79"),
    ],
)
def test_figures_have_their_units(value: float, metric: Metric, text: str) -> None:
    """Shares and codes need none."""
    assert figure_text(value, metric) == text
