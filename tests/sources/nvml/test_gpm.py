"""GPM on the double: exact values, return codes, NaN, spacing, leaks."""

from __future__ import annotations

import math

import pytest

from pdscope.sources.nvml.snapshot import Reason, Signal
from support.nvml_double.double import GPM_SAMPLE, LOST, NO_PERMISSION, NOT_READY, NOT_SUPPORTED, UNKNOWN

from .conftest import Rig

GPM = (
    *(Signal.SM_ACTIVE, Signal.TENSOR_ACTIVE, Signal.HBM_BANDWIDTH),
    *(Signal.PCIE_TX_RATE, Signal.PCIE_RX_RATE, Signal.NVLINK_TX_RATE, Signal.NVLINK_RX_RATE),
)
MIB = 1 << 20
SM, TENSOR, DRAM, NVLINK_RX, NVLINK_TX = 2, 5, 10, 60, 61


def decode(rig: Rig) -> None:
    """Two seconds of load, half of them heavy."""
    rig.double.advance(0, 1.0, 0.92, 0.07, 0.81, 10.0, 2048.0)
    rig.double.advance(0, 1.0, 0.50, 0.01, 0.40, 0.0, 0.0)


def test_values(rig: Rig) -> None:
    """Means over the window between two polls, in base units."""
    rig.poll()
    assert all(rig.missing(signal) is Reason.NOT_READY for signal in GPM)
    decode(rig)
    rig.double.pcie(0, 30.0, 7.0)
    rig.poll(2)
    assert rig.value(Signal.SM_ACTIVE) == pytest.approx(0.71, abs=1e-12)
    assert rig.value(Signal.TENSOR_ACTIVE) == pytest.approx(0.04, abs=1e-12)
    assert rig.value(Signal.HBM_BANDWIDTH) == pytest.approx(0.605, abs=1e-12)
    assert rig.value(Signal.NVLINK_RX_RATE) == 1024 * MIB
    assert rig.value(Signal.NVLINK_TX_RATE) == 5 * MIB
    assert rig.value(Signal.PCIE_TX_RATE) == 15 * MIB
    assert rig.value(Signal.PCIE_RX_RATE) == 3.5 * MIB
    assert not rig.device().readings.missing.keys() & set(GPM)


def test_each_poll_is_a_window(rig: Rig) -> None:
    """The newest sample is the next baseline."""
    rig.poll()
    for share in (0.25, 0.5, 0.75):
        rig.double.advance(0, 1.0, share, 0.0, share, 0.0, 0.0)
        rig.poll(1)
        assert rig.value(Signal.SM_ACTIVE) == pytest.approx(share)


def test_two_devices(rig: Rig) -> None:
    """Each has counters of its own."""
    rig.poll()
    rig.double.advance(0, 1.0, 0.9, 0.0, 0.1, 0.0, 0.0)
    rig.double.advance(1, 1.0, 0.2, 0.0, 0.8, 0.0, 0.0)
    rig.poll(1)
    assert [rig.value(Signal.SM_ACTIVE, n) for n in (0, 1)] == pytest.approx([0.9, 0.2])
    assert [rig.value(Signal.HBM_BANDWIDTH, n) for n in (0, 1)] == pytest.approx([0.1, 0.8])


def test_polls_that_are_too_close(rig: Rig) -> None:
    """Below 100 ms no sample is taken: the old baseline and its readings stay, and the next window is whole."""
    rig.poll()
    rig.double.advance(0, 1.0, 0.5, 0.0, 0.5, 0.0, 0.0)
    rig.poll(1)
    taken = rig.double.calls(GPM_SAMPLE)
    rig.double.advance(0, 0.05, 1.0, 1.0, 1.0, 0.0, 0.0)
    rig.poll(0.05)
    assert rig.double.calls(GPM_SAMPLE) == taken
    assert rig.value(Signal.SM_ACTIVE) == pytest.approx(0.5)
    rig.double.advance(0, 0.95, 0.0, 0.0, 0.0, 0.0, 0.0)
    rig.poll(0.95)
    assert rig.value(Signal.SM_ACTIVE) == pytest.approx(0.05)


def test_a_long_pause(rig: Rig) -> None:
    """A mean over a suspended minute is not the present: the next window is."""
    rig.poll()
    rig.double.advance(0, 60.0, 0.5, 0.0, 0.5, 0.0, 0.0)
    rig.poll(60)
    assert rig.missing(Signal.SM_ACTIVE) is Reason.NOT_READY
    rig.double.advance(0, 1.0, 0.7, 0.0, 0.5, 0.0, 0.0)
    rig.poll(1)
    assert rig.value(Signal.SM_ACTIVE) == pytest.approx(0.7)


def test_nan_with_return_code_0(rig: Rig) -> None:
    """Two samples of one moment divide by zero, and the driver says success."""
    rig.poll()
    snapshot = rig.poll(1)
    assert all(rig.missing(signal) is Reason.INVALID for signal in GPM)
    assert snapshot.invalid == {"not_finite": 2 * len(GPM)}


@pytest.mark.parametrize(("percent", "ratio"), [(-0.5, 0), (0, 0), (99.9, 0.999), (100, 1), (104, 1), (110, 1)])
def test_slightly_out_of_range(rig: Rig, percent: float, ratio: float) -> None:
    """Counters read slightly apart lead out of 0..1."""
    rig.poll()
    decode(rig)
    rig.double.metric_value(0, SM, percent)
    rig.poll(2)
    assert rig.value(Signal.SM_ACTIVE) == pytest.approx(ratio)


@pytest.mark.parametrize("percent", [-0.6, 110.1, 1e15, math.inf, -math.inf, math.nan])
def test_no_measurement(rig: Rig, percent: float) -> None:
    """One metric is dropped and counted, the others stay; the next value is taken."""
    rig.poll()
    rig.double.advance(1, 1.0, 0.5, 0.5, 0.5, 0.0, 0.0)
    decode(rig)
    rig.double.metric_value(0, DRAM, percent)
    snapshot = rig.poll(2)
    assert rig.missing(Signal.HBM_BANDWIDTH) is Reason.INVALID
    assert rig.value(Signal.SM_ACTIVE) == pytest.approx(0.71)
    assert snapshot.invalid == {"out_of_range" if math.isfinite(percent) else "not_finite": 1}
    rig.double.metric_measured(0, DRAM)
    decode(rig)
    rig.poll(2)
    assert rig.value(Signal.HBM_BANDWIDTH) == pytest.approx(0.605)


@pytest.mark.parametrize(
    ("code", "reason"),
    [(NO_PERMISSION, Reason.NO_PERMISSION), (NOT_READY, Reason.NOT_READY), (UNKNOWN, Reason.INVALID)],
)
def test_one_metric_is_refused(rig: Rig, code: int, reason: Reason) -> None:
    """Each metric has a return code of its own; one that may change is asked again."""
    rig.poll()
    decode(rig)
    rig.double.metric_return(0, DRAM, code)
    rig.poll(2)
    assert rig.missing(Signal.HBM_BANDWIDTH) is reason
    assert rig.value(Signal.SM_ACTIVE) == pytest.approx(0.71)
    rig.double.metric_return(0, DRAM, 0)
    decode(rig)
    rig.poll(2)
    assert rig.value(Signal.HBM_BANDWIDTH) == pytest.approx(0.605)


def test_one_metric_is_not_supported(rig: Rig) -> None:
    """A board without NVLink says so once and is not asked again; the other metrics keep their places."""
    rig.poll()
    decode(rig)
    for metric in (NVLINK_RX, NVLINK_TX, TENSOR):
        rig.double.metric_return(0, metric, NOT_SUPPORTED)
    rig.poll(2)
    for metric in (NVLINK_RX, NVLINK_TX, TENSOR):
        rig.double.metric_return(0, metric, 0)
    decode(rig)
    rig.double.pcie(0, 4.0, 2.0)
    rig.poll(2)
    for signal in (Signal.NVLINK_RX_RATE, Signal.NVLINK_TX_RATE, Signal.TENSOR_ACTIVE):
        assert rig.missing(signal) is Reason.UNSUPPORTED
    assert rig.value(Signal.SM_ACTIVE) == pytest.approx(0.71)
    assert rig.value(Signal.HBM_BANDWIDTH) == pytest.approx(0.605)
    assert rig.value(Signal.PCIE_RX_RATE) == MIB
    rig.poll(60)
    assert rig.missing(Signal.TENSOR_ACTIVE) is Reason.UNSUPPORTED
    assert rig.missing(Signal.SM_ACTIVE) is Reason.NOT_READY


def test_a_device_without_gpm(rig: Rig) -> None:
    """Ampere: busy fractions only. Memory that is touched all the time is no bandwidth."""
    rig.double.set(0, 0, 0, 1)
    rig.double.coarse(0, 100, 100, 1 << 30, 0)
    for _ in range(3):
        rig.double.advance(0, 1.0, 0.9, 0.1, 0.9, 1.0, 1.0)
        rig.poll(1)
    assert all(rig.missing(signal) is Reason.UNSUPPORTED for signal in GPM)
    assert rig.value(Signal.BUSY) == 1
    assert rig.value(Signal.NVLINK_TX_BYTES) == 3 * MIB
    assert rig.value(Signal.HBM_BANDWIDTH, 1) is None
    names = {name for name, labels, _ in rig.samples() if labels.get("device", "").endswith("000")}
    assert "pdscope_device_busy_ratio" in names
    assert "pdscope_device_hbm_bandwidth_utilization_ratio" not in names
    assert rig.double.live_samples() == 2  # those of the other device


def test_not_supported_is_remembered(rig: Rig) -> None:
    """A device that refuses samples is not asked for more."""
    rig.double.call_error(0, GPM_SAMPLE, NOT_SUPPORTED)
    rig.poll()
    asked = rig.double.calls(GPM_SAMPLE)
    for _ in range(10):
        rig.poll(1)
    assert rig.double.calls(GPM_SAMPLE) == asked + 10  # the other device
    assert rig.missing(Signal.SM_ACTIVE) is Reason.UNSUPPORTED


def test_no_permission(rig: Rig) -> None:
    """Said for each metric, and over as soon as it is granted; the baseline of before is not used."""
    rig.double.call_error(0, GPM_SAMPLE, NO_PERMISSION)
    for _ in range(3):
        rig.poll(1)
        assert all(rig.missing(signal) is Reason.NO_PERMISSION for signal in GPM)
    assert rig.value(Signal.BUSY) is not None
    rig.double.call_error(0, GPM_SAMPLE, 0)
    rig.poll(1)
    assert rig.missing(Signal.SM_ACTIVE) is Reason.NOT_READY
    decode(rig)
    rig.poll(2)
    assert rig.value(Signal.SM_ACTIVE) == pytest.approx(0.71)


def test_a_metric_tells_that_the_device_is_lost(rig: Rig) -> None:
    """Loss shows in whichever call comes first."""
    rig.poll()
    decode(rig)
    rig.double.metric_return(0, SM, LOST)
    snapshot = rig.poll(2)
    assert [device.up for device in snapshot.devices] == [True, False]
