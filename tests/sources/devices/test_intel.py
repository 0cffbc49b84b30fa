"""Intel's xpumd: OpenTelemetry's names, one row of the many that a device has. The page is made, not recorded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pdscope.model.metric import Metric
from pdscope.model.scrape import FailureReason
from support.pages import Reading, page, read_devices

PAGE = (Path(__file__).parents[2] / "fixtures" / "expositions-made" / "intel.prom").read_bytes()
FIRST, SECOND = "gpu-uuid-0/0000:03:00.0", "gpu-uuid-1/0000:05:00.0"


def read(body: bytes) -> Reading:
    """As the only source there is."""
    return read_devices(body, source="intel")


def test_units() -> None:
    """Everything is printed in base units; averages of clocks, limits and sensors are told apart by labels."""
    reading = read(PAGE)
    expected = {
        Metric.DRAM_ACTIVE: 0.43,
        Metric.DEVICE_BUSY: 0.92,
        Metric.DEVICE_MEMORY_USED: 8_589_934_592,
        Metric.DEVICE_MEMORY_TOTAL: 25_669_140_480,
        Metric.DEVICE_CLOCK: 960e6,
        Metric.DEVICE_CLOCK_MAX: 2.4e9,
        Metric.DEVICE_POWER: 31.5,
    }
    assert {metric: reading.value(metric, FIRST) for metric in reading.known()} == pytest.approx(expected)
    assert reading.ranks(Metric.DRAM_ACTIVE) == {FIRST, SECOND}
    assert reading.value(Metric.DRAM_ACTIVE) == pytest.approx(0.22)
    assert reading.value(Metric.DEVICE_MEMORY_USED) == 8_589_934_592 + 4_294_967_296


def test_busy_is_not_utilised() -> None:
    """Engines at work are no share of compute; without the task of computing, that of all is taken."""
    body = re.sub(rb"(?m)^.*compute-all.*\n", b"", PAGE)
    assert body != PAGE
    reading = read(body)
    assert reading.value(Metric.DEVICE_BUSY, FIRST) == pytest.approx(0.97)
    assert not reading.known() & {Metric.SM_ACTIVE, Metric.TENSOR_ACTIVE, Metric.ENGINE_ACTIVE}
    none = re.sub(rb'(?m)^.*hw_gpu_task="all".*\n', b"", body)
    assert b"copy-all" in none
    assert Metric.DEVICE_BUSY not in read(none).known()


def test_power_of_the_package() -> None:
    """Where the card has no sensor."""
    body = re.sub(rb'(?m)^hw_power_watts.*"card".*\n', b"", PAGE)
    assert read(body).value(Metric.DEVICE_POWER, SECOND) == 22.25


def test_select() -> None:
    """By the address on the bus."""
    reading = read_devices(PAGE, source="intel", select={"pci_bdf": "0000:05:.*"})
    assert reading.ranks(Metric.DRAM_ACTIVE) == {SECOND}
    assert reading.value(Metric.DRAM_ACTIVE) == 0.01


def test_another_page() -> None:
    """A page without Intel's devices is refused."""
    assert read(page("dcgm_t4_2gpu_fake-gpu-operator.txt")).scrape.reason is FailureReason.METRICS_OFF
