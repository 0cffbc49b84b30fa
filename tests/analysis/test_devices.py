"""Utilisation of devices, by instance and by role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from pdscope.analysis.board import Board
from pdscope.analysis.device_view import fresh
from pdscope.analysis.devices import put_devices, put_roles
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, Signal, SignalId, SignalSet, instance_scope
from pdscope.model.topology import Deployment, Role
from pdscope.model.window import Window
from support.windows import INF, NAN, NOW, Column, deployment, instance, window

PAIR = deployment()


def signals(devices: Mapping[str, Sequence[Window]], of: Deployment = PAIR) -> SignalSet:
    board = Board(of.name)
    put_devices(board, of, fresh(devices, NOW, 60.0), NOW)
    put_roles(board, of)
    return board.finish()


def cards(scalars: Mapping[Metric, Column], target: str = "gpu-node1", end: float = NOW) -> Window:
    return window(scalars, target=target, source="dcgm", end=end)


def known(found: SignalSet, signal: SignalId, name: str | None = None) -> Signal:
    one = found.get(signal, None if name is None else instance_scope(name))
    assert one is not None, signal
    return one


def test_means_over_the_window() -> None:
    """Of each kind of activity."""
    moving = [0.2, 0.4] * 6 + [NAN]
    found = signals({"p0": [cards({Metric.SM_ACTIVE: moving, Metric.TENSOR_ACTIVE: 0.5, Metric.DRAM_ACTIVE: 0.125})]})
    assert known(found, SignalId.COMPUTE_UTILIZATION, "p0").value == pytest.approx(0.3)
    tensor = known(found, SignalId.TENSOR_UTILIZATION, "p0")
    assert (tensor.value, tensor.quality) == (0.5, Quality.MEASURED)
    assert known(found, SignalId.HBM_UTILIZATION, "p0").value == 0.125
    assert known(found, SignalId.COMPUTE_UTILIZATION, "p0").source == "dcgm sm_active of gpu-node1"


def test_an_instance_on_several_hosts() -> None:
    """Their mean, as old as the oldest."""
    nodes = [cards({Metric.SM_ACTIVE: 0.9}, "gpu-node2"), cards({Metric.SM_ACTIVE: 0.5}, "gpu-node1", NOW - 8)]
    one = known(signals({"p0": nodes}), SignalId.COMPUTE_UTILIZATION, "p0")
    assert one.value == pytest.approx(0.7)
    assert one.age_seconds == 8.0
    assert one.source == "dcgm sm_active of gpu-node1, gpu-node2, 2 devices, 0.5 to 0.9"


@pytest.mark.parametrize("column", [NAN, INF, [NAN] * 12 + [INF]])
def test_a_device_without_a_number(column: Column) -> None:
    """Is not at zero, and takes nothing away from the others."""
    broken = cards({Metric.SM_ACTIVE: column}, "gpu-node2")
    assert len(signals({"p0": [broken]})) == 0
    found = signals({"p0": [cards({Metric.SM_ACTIVE: 0.9}), broken]})
    assert known(found, SignalId.COMPUTE_UTILIZATION, "p0").value == pytest.approx(0.9)


def test_busy_is_not_utilised() -> None:
    """That some kernel runs stands in for activity as an estimate, and only where nothing better is known."""
    found = signals({"p0": [cards({Metric.ENGINE_ACTIVE: 0.99})]})
    assert known(found, SignalId.COMPUTE_UTILIZATION, "p0").quality is Quality.ESTIMATED
    assert known(found, SignalId.PREFILL_COMPUTE_UTILIZATION).quality is Quality.ESTIMATED
    both = signals({"p0": [cards({Metric.ENGINE_ACTIVE: 0.99, Metric.SM_ACTIVE: 0.25})]})
    one = known(both, SignalId.COMPUTE_UTILIZATION, "p0")
    assert (one.value, one.quality) == (0.25, Quality.MEASURED)


def test_busy_says_nothing_of_memory() -> None:
    """Bandwidth of memory is known from memory."""
    found = signals({"d0": [cards({Metric.ENGINE_ACTIVE: 0.99})]})
    assert found.get(SignalId.HBM_UTILIZATION, instance_scope("d0")) is None
    assert found.get(SignalId.DECODE_HBM_UTILIZATION) is None


def test_figures_of_a_role() -> None:
    """Compute of prefill, memory bandwidth of decode, each the mean of its own instances."""
    of = deployment(instance("p0", Role.PREFILL), instance("p1", Role.PREFILL), instance("d0", Role.DECODE))
    found = signals(
        {
            "p0": [cards({Metric.SM_ACTIVE: 0.9, Metric.DRAM_ACTIVE: 0.2})],
            "p1": [cards({Metric.ENGINE_ACTIVE: 0.5}, end=NOW - 9)],
            "d0": [cards({Metric.SM_ACTIVE: 0.1, Metric.DRAM_ACTIVE: 0.75}, end=NOW - 3)],
        },
        of,
    )
    compute = known(found, SignalId.PREFILL_COMPUTE_UTILIZATION)
    assert compute.value == pytest.approx(0.7)
    assert (compute.quality, compute.age_seconds) == (Quality.ESTIMATED, 9.0)
    memory = known(found, SignalId.DECODE_HBM_UTILIZATION)
    assert (memory.value, memory.quality, memory.age_seconds) == (0.75, Quality.MEASURED, 3.0)


def test_a_unified_instance_is_both_roles() -> None:
    """Where nothing is disaggregated."""
    of = deployment(instance("u0", Role.UNIFIED))
    found = signals({"u0": [cards({Metric.SM_ACTIVE: 0.875, Metric.DRAM_ACTIVE: 0.375})]}, of)
    assert known(found, SignalId.PREFILL_COMPUTE_UTILIZATION).value == 0.875
    assert known(found, SignalId.DECODE_HBM_UTILIZATION).value == 0.375


def test_no_devices_no_figures() -> None:
    """Engines say nothing about them."""
    assert len(signals({})) == 0
    assert len(signals({"p0": []})) == 0
