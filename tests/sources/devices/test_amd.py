"""AMD's device-metrics-exporter: the profiler's fields are utilisation, the others are not. The page is made."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from pdscope.model.metric import Fact, Metric
from pdscope.model.scrape import FailureReason
from pdscope.sources.reader import PageReader, TargetReader
from pdscope.sources.selection import Selection
from support.pages import AT, DEVICES, Reading, page, read_devices

PAGE = (Path(__file__).parents[2] / "fixtures" / "expositions-made" / "amd.prom").read_bytes()
FIRST, SECOND = "692409005400/0/0", "692409005401/1/0"
UTILISATION = {Metric.SM_ACTIVE, Metric.TENSOR_ACTIVE, Metric.ENGINE_ACTIVE, Metric.DRAM_ACTIVE}


def read(body: bytes) -> Reading:
    """As the only source there is."""
    return read_devices(body, source="amd")


def test_units() -> None:
    """Shares of 1, bytes, hertz and watts; sums over links; one clock, whichever of its indices is read."""
    reading = read(PAGE)
    assert reading.scrape.facts == {Fact.DEVICE_MODEL: "AMD Instinct MI300X OAM"}
    expected = {
        Metric.SM_ACTIVE: 0.815,
        Metric.TENSOR_ACTIVE: 0.3425,
        Metric.DEVICE_BUSY: 0.97,
        Metric.DEVICE_HBM_PEAK_RATE: 5.3e12,
        Metric.DEVICE_MEMORY_USED: 183265 * 2**20,
        Metric.DEVICE_MEMORY_TOTAL: 196592 * 2**20,
        Metric.DEVICE_CLOCK: 2.1e9,
        Metric.DEVICE_POWER: 748,
        Metric.FABRIC_RX_BYTES: 2_001_000,
        Metric.FABRIC_TX_BYTES: 6_001_000,
    }
    assert {metric: reading.value(metric, FIRST) for metric in reading.known()} == pytest.approx(expected)


def test_without_the_profiler_nothing_is_utilisation() -> None:
    """That the engine or the memory controller is busy stands in for nothing: neither do kilobytes of unknown time."""
    body = re.sub(rb"(?m)^gpu_prof_(sm|tensor).*\n", b"", PAGE)
    for name in (b"gpu_gfx_activity{", b"gpu_umc_activity{", b"gpu_prof_fetch_size{"):
        assert name in body
    reading = read(body)
    assert not reading.known() & UTILISATION
    assert Metric.DEVICE_HBM_BYTES_RATE not in reading.known()
    assert reading.value(Metric.DEVICE_BUSY, FIRST) == pytest.approx(0.97)


def test_a_partition_without_a_sensor() -> None:
    """Partitions other than the first print a power of 0, which no device draws."""
    power = read(PAGE).value(Metric.DEVICE_POWER, SECOND)
    assert power is not None
    assert math.isnan(power)
    assert read(PAGE).value(Metric.DEVICE_BUSY, SECOND) == 0


def test_partitions_are_devices() -> None:
    """They share the serial number and differ in the number of the partition."""
    line = 'gpu_gfx_activity{serial_number="s",gpu_id="%d",gpu_partition_id="%d"} %d\n'
    reading = read("".join(line % (part, part, 20 * part) for part in range(3)).encode())
    assert reading.ranks(Metric.DEVICE_BUSY) == {"s/0/0", "s/1/1", "s/2/2"}
    assert reading.value(Metric.DEVICE_BUSY) == pytest.approx(0.2)


def test_select() -> None:
    """By number or by pod, and without a selection by the pod of the instance's name."""
    assert read_devices(PAGE, source="amd", select={"gpu_id": "1"}).ranks(Metric.DEVICE_BUSY) == {SECOND}
    assert read_devices(PAGE, source="amd", select={"pod": "prefill-0"}).ranks(Metric.DEVICE_BUSY) == {FIRST}
    adapters = tuple(a for a in DEVICES if a.name == "amd")
    target = TargetReader("t", PageReader(adapters), adapters, Selection(name="prefill-1"))
    assert Reading(target.read(PAGE, AT)).ranks(Metric.DEVICE_BUSY) == {SECOND}


def test_the_model_where_the_series_of_cards_has_no_name() -> None:
    """Then the card's own model is what there is."""
    body = PAGE.replace(b'card_series="AMD Instinct MI300X OAM"', b'card_series=""')
    assert read(body).scrape.facts == {Fact.DEVICE_MODEL: "102-G30211-0C"}


@pytest.mark.parametrize("name", ["dcgm_t4_2gpu_fake-gpu-operator.txt", "sglang-0.5.23-decode.prom"])
def test_another_page(name: str) -> None:
    """A page without AMD's devices is refused."""
    assert read(page(name)).scrape.reason is FailureReason.METRICS_OFF
