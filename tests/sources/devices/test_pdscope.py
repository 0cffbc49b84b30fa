"""pdscope's own page of devices, under both of its names; what NVML does not measure never becomes bandwidth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdscope.model.metric import Fact, Metric
from pdscope.model.scrape import FailureReason
from pdscope.sources.nvml.page import render_page
from pdscope.sources.nvml.snapshot import (
    DeviceSample,
    Identity,
    Process,
    Readings,
    Reason,
    Signal,
    Snapshot,
    SourceReason,
)
from pdscope.sources.reader import PageReader, TargetReader
from pdscope.sources.selection import Selection
from support.pages import AT, DEVICES, Reading, page, read_devices

METRICS = {
    Signal.SM_ACTIVE: Metric.SM_ACTIVE,
    Signal.TENSOR_ACTIVE: Metric.TENSOR_ACTIVE,
    Signal.HBM_BANDWIDTH: Metric.DRAM_ACTIVE,
    Signal.BUSY: Metric.DEVICE_BUSY,
    Signal.MEMORY_USED: Metric.DEVICE_MEMORY_USED,
    Signal.MEMORY_TOTAL: Metric.DEVICE_MEMORY_TOTAL,
    Signal.HBM_PEAK: Metric.DEVICE_HBM_PEAK_RATE,
    Signal.CLOCK: Metric.DEVICE_CLOCK,
    Signal.CLOCK_MAX: Metric.DEVICE_CLOCK_MAX,
    Signal.POWER: Metric.DEVICE_POWER,
    Signal.POWER_LIMIT: Metric.DEVICE_POWER_LIMIT,
    Signal.SLOWDOWN: Metric.DEVICE_SLOWDOWN,
    Signal.POWER_CAPPED: Metric.DEVICE_POWER_CAPPED,
    Signal.XID: Metric.DEVICE_FAULT,
    Signal.NVLINK_TX_RATE: Metric.FABRIC_TX_RATE,
    Signal.NVLINK_RX_RATE: Metric.FABRIC_RX_RATE,
    Signal.NVLINK_TX_BYTES: Metric.FABRIC_TX_BYTES,
    Signal.NVLINK_RX_BYTES: Metric.FABRIC_RX_BYTES,
    Signal.PCIE_TX_RATE: Metric.PCIE_TX_RATE,
    Signal.PCIE_RX_RATE: Metric.PCIE_RX_RATE,
}
FIRST = {
    Signal.SM_ACTIVE: 0.71,
    Signal.TENSOR_ACTIVE: 0.04,
    Signal.HBM_BANDWIDTH: 0.605,
    Signal.BUSY: 0.99,
    Signal.MEMORY_USED: 1e11,
    Signal.MEMORY_TOTAL: 1.5e11,
    Signal.HBM_PEAK: 4.916736e12,
    Signal.CLOCK: 1.755e9,
    Signal.CLOCK_MAX: 1.98e9,
    Signal.POWER: 412.345,
    Signal.POWER_LIMIT: 700.0,
    Signal.SLOWDOWN: 0.0,
    Signal.POWER_CAPPED: 1.0,
    Signal.XID: 0.0,
    Signal.NVLINK_TX_RATE: 5.0 * 2**20,
    Signal.NVLINK_RX_RATE: 2.0**30,
    Signal.NVLINK_TX_BYTES: 2.0**40,
    Signal.NVLINK_RX_BYTES: 2.0**41,
    Signal.PCIE_TX_RATE: 3e9,
    Signal.PCIE_RX_RATE: 4e9,
}
SECOND = FIRST | {Signal.SM_ACTIVE: 0.31, Signal.SLOWDOWN: 1.0, Signal.XID: 94.0}


def host(*devices: tuple[dict[Signal, float], tuple[int, ...]]) -> Snapshot:
    """Devices with their figures and the ports of the server on them."""
    return Snapshot(
        AT,
        "node-a",
        None,
        tuple(
            DeviceSample(
                Identity(f"GPU-{index}", index, "NVIDIA H200"),
                up=True,
                readings=Readings(values, {s: Reason.UNSUPPORTED for s in Signal if s not in values}),
                processes=(Process(100 + index, "worker", ports),) if ports else (),
            )
            for index, (values, ports) in enumerate(devices)
        ),
    )


def read_for(body: bytes, port: str) -> Reading:
    """Read for the instance on a port, without a `select`."""
    adapters = tuple(adapter for adapter in DEVICES if adapter.name == "nvml")
    return Reading(TargetReader("t", PageReader(adapters), adapters, Selection(port=port)).read(body, AT))


@pytest.mark.parametrize("source", ["pdscope", "nvml"])
def test_everything(source: str) -> None:
    """Each signal is its metric, in base units; devices have their own figures."""
    assert set(METRICS) == set(FIRST) == {signal for signal in Signal if signal not in {"processes", "ports"}}
    reading = read_devices(render_page(host((FIRST, ()), (SECOND, ()))), source=source)
    assert reading.scrape.source == source
    assert reading.scrape.facts[Fact.DEVICE_MODEL] == "NVIDIA H200"
    assert reading.known() == set(METRICS.values())
    for signal, metric in METRICS.items():
        assert reading.value(metric, "GPU-0") == FIRST[signal]
        assert reading.value(metric, "GPU-1") == SECOND[signal]
    assert reading.value(Metric.SM_ACTIVE) == pytest.approx(0.51)
    assert reading.value(Metric.DEVICE_SLOWDOWN) == 1
    assert reading.value(Metric.DEVICE_FAULT) == 94
    assert reading.value(Metric.FABRIC_RX_RATE) == 2.0**31


def test_memory_that_is_touched_is_no_bandwidth() -> None:
    """Without GPM only busy fractions are there, and nothing stands in for bandwidth or compute."""
    reading = read_devices(render_page(host(({Signal.BUSY: 1.0, Signal.POWER: 300.0}, ()))), source="nvml")
    assert reading.known() == {Metric.DEVICE_BUSY, Metric.DEVICE_POWER}
    (adapter,) = (adapter for adapter in DEVICES if adapter.name == "nvml")
    assert "Hopper" in adapter.enable[Metric.DRAM_ACTIVE]


def test_the_instance_whose_port_it_is() -> None:
    """A device belongs to the server whose process computes on it; one without a server is nobody's."""
    body = render_page(host((FIRST, (30000,)), (SECOND, (5557, 30001)), (FIRST, ())))
    assert read_for(body, "30000").ranks(Metric.SM_ACTIVE) == {"GPU-0"}
    assert read_for(body, "30001").ranks(Metric.SM_ACTIVE) == {"GPU-1"}
    assert read_for(body, "3000").known() == set()


def test_ports_that_nobody_knows() -> None:
    """Where no process could be seen, all devices are the instance's, as with any other exporter."""
    body = render_page(host((FIRST, ()), (SECOND, ())))
    assert read_for(body, "30000").ranks(Metric.SM_ACTIVE) == {"GPU-0", "GPU-1"}


def test_select_goes_before_ports() -> None:
    """What the configuration says is meant."""
    body = render_page(host((FIRST, (30000,)), (SECOND, (30001,))))
    assert read_devices(body, source="nvml", select={"index": "0-1"}).ranks(Metric.SM_ACTIVE) == {"GPU-0", "GPU-1"}
    assert read_devices(body, source="nvml", select={"ports": "30001"}).ranks(Metric.SM_ACTIVE) == {"GPU-1"}


def test_a_lost_device() -> None:
    """It has no figures; the others' mean is theirs."""
    snapshot = host((FIRST, ()), (SECOND, ()))
    lost = replace(snapshot.devices[0], up=False, readings=Readings(missing=dict.fromkeys(Signal, Reason.LOST)))
    reading = read_devices(render_page(replace(snapshot, devices=(lost, snapshot.devices[1]))), source="nvml")
    assert reading.ranks(Metric.SM_ACTIVE) == {"GPU-1"}
    assert reading.value(Metric.SM_ACTIVE) == 0.31


def test_a_host_without_data() -> None:
    """The page is recognised, and has nothing."""
    reading = read_devices(render_page(Snapshot(AT, "node-a", SourceReason.GPU_LOST)), source="pdscope")
    assert reading.scrape.ok
    assert reading.known() == set()


def test_another_page() -> None:
    """A page of DCGM under this name is refused."""
    scrape = read_devices(page("dcgm_t4_2gpu_fake-gpu-operator.txt"), source="pdscope").scrape
    assert scrape.reason is FailureReason.METRICS_OFF
