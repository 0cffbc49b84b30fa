"""npu-exporter: units, time stamps, failures, and that capacity is not bandwidth. The page is made, not recorded."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from pdscope.model.metric import Fact, Metric
from pdscope.model.scrape import FailureReason
from pdscope.sources.reader import PageReader, TargetReader
from pdscope.sources.selection import Selection
from support.pages import DEVICES, Reading, page, read_devices, read_with

PAGE = (Path(__file__).parents[2] / "fixtures" / "expositions-made" / "npu.prom").read_bytes()
ADAPTERS = tuple(a for a in DEVICES if a.name == "npu")
FIRST, SECOND = "A1B2C3D4-00000000/0", "A1B2C3D4-00000001/1"
NOW = 1_764_400_060.0


def test_units() -> None:
    """Shares of 1, bytes, bytes a second, hertz and watts."""
    reading = read_with(ADAPTERS, PAGE, at=NOW)
    assert reading.scrape.source == "npu"
    assert reading.scrape.facts == {Fact.DEVICE_MODEL: "910B3"}
    expected = {
        Metric.SM_ACTIVE: 0.37,
        Metric.TENSOR_ACTIVE: 0.12,
        Metric.DRAM_ACTIVE: 0.71,
        Metric.DEVICE_MEMORY_USED: 60948 * 2**20,
        Metric.DEVICE_MEMORY_TOTAL: 64 * 2**30,
        Metric.DEVICE_CLOCK: 1.8e9,
        Metric.DEVICE_POWER: 312.5,
        Metric.FABRIC_TX_RATE: 0.4e9,
        Metric.FABRIC_RX_RATE: 21.4e9,
        Metric.NIC_TX_RATE: 3e6,
        Metric.NIC_RX_RATE: 11.25e9,
        Metric.NIC_ACTIVE: 1,
    }
    assert {metric: reading.value(metric, FIRST) for metric in reading.known()} == pytest.approx(expected)


def test_failures_are_missing() -> None:
    """-1 is a failed measurement and 4294967295 the driver's blank; a port that is down is not active."""
    reading = read_with(ADAPTERS, PAGE, at=NOW)
    for metric in (Metric.DRAM_ACTIVE, Metric.FABRIC_TX_RATE, Metric.FABRIC_RX_RATE, Metric.NIC_ACTIVE):
        value = reading.value(metric, SECOND)
        assert value is not None
        assert math.isnan(value), metric
    assert reading.value(Metric.SM_ACTIVE, SECOND) == 0
    blank = read_with(ADAPTERS, b'npu_chip_info_utilization{id="0"} 4294967295\n').value(Metric.SM_ACTIVE)
    assert blank is not None
    assert math.isnan(blank)


def test_capacity_is_not_bandwidth() -> None:
    """`hbm_utilization` is how full the memory is: without the bandwidth's own gauge, the bandwidth is unknown."""
    body = re.sub(rb"(?m)^npu_chip_info_hbm_bandwidth_utilization.*\n", b"", PAGE)
    assert body != PAGE
    assert Metric.DRAM_ACTIVE not in read_with(ADAPTERS, body).known()
    assert "npu_chip_info_hbm_utilization" not in ADAPTERS[0].sample_names()
    assert "npu_chip_link_speed" not in ADAPTERS[0].sample_names()


def test_own_time_stamps() -> None:
    """The page is as old as its youngest sample, and HBM may be a minute older: the refresh says so."""
    reading = read_with(ADAPTERS, PAGE, at=NOW)
    assert reading.scrape.at == NOW - 1
    assert reading.scrape.schema is not None
    assert reading.scrape.schema.refresh_seconds == 60
    old = re.sub(rb" 17644000\d{5}\n", b" 1764399000000\n", PAGE)
    assert read_with(ADAPTERS, old, at=NOW).scrape.at == NOW - 1060


@pytest.mark.parametrize(
    ("select", "ranks"),
    [
        ({"id": "0"}, {FIRST}),
        ({"id": "0-7"}, {FIRST, SECOND}),
        ({"pod": "decode-.*"}, {FIRST}),
        ({"pod_name": "decode-0"}, {FIRST}),
        ({"container": "infer"}, {FIRST}),
        ({"vdie_id": "A1B2C3D4-00000001"}, {SECOND}),
    ],
)
def test_select(select: dict[str, str], ranks: set[str]) -> None:
    """By number, by pod, by die."""
    assert read_devices(PAGE, source="npu", select=select).ranks(Metric.SM_ACTIVE) == ranks


def test_whose_a_device_is() -> None:
    """The pod of the instance's name has its NPUs."""
    target = TargetReader("t", PageReader(ADAPTERS), ADAPTERS, Selection(name="decode-0"))
    assert Reading(target.read(PAGE, NOW)).ranks(Metric.SM_ACTIVE) == {FIRST}


def test_the_oldest_versions() -> None:
    """They have no label but `id`."""
    body = b'npu_chip_info_utilization{id="0"} 10\nnpu_chip_info_utilization{id="1"} 30\n'
    reading = read_with(ADAPTERS, body)
    assert reading.ranks(Metric.SM_ACTIVE) == {"0", "1"}
    assert reading.value(Metric.SM_ACTIVE) == pytest.approx(0.2)


def test_another_exporter() -> None:
    """A page without NPUs is refused."""
    scrape = read_devices(page("dcgm_t4_2gpu_fake-gpu-operator.txt"), source="npu").scrape
    assert scrape.reason is FailureReason.METRICS_OFF
