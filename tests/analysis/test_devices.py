"""Utilisation of devices, by instance and by role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from pdscope.analysis.board import Board
from pdscope.analysis.device_view import fresh
from pdscope.analysis.devices import put_devices, put_roles
from pdscope.model.hardware import Hardware
from pdscope.model.metric import Metric
from pdscope.model.scrape import SeriesKey
from pdscope.model.signal import Quality, Signal, SignalId, SignalSet, instance_scope
from pdscope.model.topology import Deployment, Role
from pdscope.model.window import Window
from support.windows import INF, NAN, NOW, SCRAPES, VLLM, Column, deployment, instance, window

PAIR = deployment()


def signals(devices: Mapping[str, Sequence[Window]], of: Deployment = PAIR) -> SignalSet:
    board = Board(of.name)
    put_devices(board, of, fresh(devices, NOW, 60.0), NOW)
    put_roles(board, of)
    return board.finish()


def cards(scalars: Mapping[Metric, Column], target: str = "gpu-node1", end: float = NOW) -> Window:
    return window(scalars, target=target, source="dcgm", end=end)


def of_size(**parallelism: int) -> Deployment:
    """One instance a role, of so many devices."""
    return deployment(instance("p0", Role.PREFILL, **parallelism), instance("d0", Role.DECODE, **parallelism))


def node(columns: Mapping[Metric, Sequence[Column]], prefix: str = "GPU-") -> Window:
    """A page that tells its devices apart: their columns by metric."""
    scalars = {
        SeriesKey(metric, f"{prefix}{n}"): np.broadcast_to(np.asarray(column, dtype=np.float64), (SCRAPES,))
        for metric, devices in columns.items()
        for n, column in enumerate(devices)
    }
    return replace(cards({}), scalars=scalars)


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
    nodes = [cards({Metric.SM_ACTIVE: 0.8}, "gpu-node2"), cards({Metric.SM_ACTIVE: 0.7}, "gpu-node1", NOW - 8)]
    one = known(signals({"p0": nodes}, of_size(tp=2)), SignalId.COMPUTE_UTILIZATION, "p0")
    assert one.value == pytest.approx(0.75)
    assert (one.age_seconds, one.quality) == (8.0, Quality.MEASURED)
    assert one.source == "dcgm sm_active of gpu-node1, gpu-node2, 2 devices, 0.7 to 0.8"


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


# devices that are not the instance's, or not alike


SHARED = "8 devices for an instance of 4: some are not its own"
HALF = {Metric.DRAM_ACTIVE: [0.77] * 4 + [0.0] * 4, Metric.SM_ACTIVE: [0.85] * 4 + [0.0] * 4}


def test_more_devices_than_the_instance_has() -> None:
    """Idle cards of others lower the mean: it is an estimate, says why, and stands for nothing else."""
    found = signals({"d0": [node({**HALF, Metric.TENSOR_ACTIVE: [0.12] * 4 + [0.0] * 4})]}, of_size(tp=4))
    for signal, value in ((SignalId.HBM_UTILIZATION, 0.385), (SignalId.COMPUTE_UTILIZATION, 0.425)):
        mean = known(found, signal, "d0")
        assert mean.value == pytest.approx(value)
        assert mean.quality is Quality.ESTIMATED
        assert mean.source.endswith(SHARED)
    most = known(found, SignalId.HBM_MOST, "d0")
    assert (most.value, most.quality) == (pytest.approx(0.77), Quality.ESTIMATED)
    assert known(found, SignalId.COMPUTE_MOST, "d0").value == pytest.approx(0.85)
    assert found.get(SignalId.TENSOR_UTILIZATION, instance_scope("d0")) is None
    assert known(found, SignalId.DECODE_HBM_UTILIZATION).quality is Quality.ESTIMATED


def test_others_that_are_as_busy() -> None:
    """Nobody knows of it: they are too many all the same."""
    mean = known(
        signals({"d0": [node({Metric.DRAM_ACTIVE: [0.7] * 8})]}, of_size(tp=4)), SignalId.HBM_UTILIZATION, "d0"
    )
    assert (mean.value, mean.quality) == (pytest.approx(0.7), Quality.ESTIMATED)


@pytest.mark.parametrize(
    ("parallelism", "quality"),
    [
        ({"tp": 4, "pp": 2}, Quality.MEASURED),
        ({"tp": 4, "dp": 2}, Quality.MEASURED),
        ({"tp": 8}, Quality.MEASURED),
        ({"tp": 16}, Quality.MEASURED),
        ({"tp": 4}, Quality.ESTIMATED),
        ({"tp": 2, "pp": 2}, Quality.ESTIMATED),
        ({}, Quality.MEASURED),
    ],
    ids=str,
)
def test_how_many_devices_an_instance_has(parallelism: dict[str, int], quality: Quality) -> None:
    """By all its parallelism. One is also what nobody has said: of devices at equal work nothing is doubted then."""
    of = deployment(instance("p0", Role.PREFILL), instance("d0", Role.DECODE, VLLM, **parallelism))
    found = signals({"d0": [node({Metric.DRAM_ACTIVE: [0.7] * 8})]}, of)
    assert known(found, SignalId.HBM_UTILIZATION, "d0").quality is quality


def test_one_device_of_eight_at_unequal_work() -> None:
    """Then whoever is at work is one of them at most."""
    mean = known(signals({"d0": [node(HALF)]}), SignalId.HBM_UTILIZATION, "d0")
    assert mean.quality is Quality.ESTIMATED
    assert mean.source.endswith("8 devices for an instance of 1: some are not its own")


@pytest.mark.parametrize(("most", "quality"), [(0.95, Quality.ESTIMATED), (0.49, Quality.MEASURED)])
def test_ranks_that_do_not_work_alike(most: float, quality: Quality) -> None:
    """In tensor parallelism all read about the same; where one does not, the mean hides it, and the most shows it."""
    found = signals({"d0": [node({Metric.DRAM_ACTIVE: [most, 0.3, 0.3, 0.3]})]}, of_size(tp=4))
    mean, top = known(found, SignalId.HBM_UTILIZATION, "d0"), known(found, SignalId.HBM_MOST, "d0")
    assert (mean.quality, top.value, top.quality) == (quality, pytest.approx(most), Quality.MEASURED)
    assert ("too far apart for a mean to stand for each of them" in mean.source) is (quality is Quality.ESTIMATED)


@pytest.mark.parametrize(
    ("rates", "size", "quality"),
    [
        ([1e12, 1e12], 2, Quality.DERIVED),
        ([2e12, 1e12], 2, Quality.ESTIMATED),
        ([1e12, 1e12, 1e12, 1e12], 2, Quality.ESTIMATED),
    ],
    ids=["alike", "apart", "too many"],
)
def test_bytes_that_memory_moves(rates: list[float], size: int, quality: Quality) -> None:
    """By the peak of one device; the same doubts."""
    hardware = Hardware("card", hbm_bandwidth_bytes_per_second=4e12)
    of = deployment(instance("p0", Role.PREFILL), instance("d0", Role.DECODE, tp=size, hardware=hardware))
    found = signals({"d0": [node({Metric.DEVICE_HBM_BYTES_RATE: rates})]}, of)
    mean, most = known(found, SignalId.HBM_UTILIZATION, "d0"), known(found, SignalId.HBM_MOST, "d0")
    assert (mean.value, mean.quality) == (pytest.approx(sum(rates) / len(rates) / 4e12), quality)
    assert most.value == pytest.approx(max(rates) / 4e12)


@pytest.mark.parametrize("metric", [Metric.DEVICE_SLOWDOWN, Metric.DEVICE_FAULT])
def test_what_one_of_too_many_shows(metric: Metric) -> None:
    """May be another's; that none of them shows it holds for its own too."""
    signal = SignalId[metric.name]
    shown, clean = node({metric: [0.0] * 7 + [1.0]}), node({metric: [0.0] * 8})
    assert signals({"d0": [shown]}, of_size(tp=4)).get(signal, instance_scope("d0")) is None
    assert known(signals({"d0": [clean]}, of_size(tp=4)), signal, "d0").value == 0.0
    assert known(signals({"d0": [shown]}, of_size(tp=8)), signal, "d0").value == 1.0


@pytest.mark.parametrize(
    ("size", "activity", "others"),
    [(4, [0.5] * 8, 4.0), (8, [0.5] * 8, None), (1, [0.5] * 8, None), (1, [0.9] + [0.1] * 7, 7.0)],
    ids=["more than it has", "as many", "nobody said how many", "one of unequal ones"],
)
def test_how_many_are_not_its_own_is_known(size: int, activity: list[float], others: float | None) -> None:
    """And why it is thought so."""
    found = signals({"d0": [node({Metric.SM_ACTIVE: activity})]}, of_size(tp=size))
    foreign = found.get(SignalId.FOREIGN_DEVICES, instance_scope("d0"))
    assert (None if foreign is None else foreign.value) == others
    assert foreign is None or foreign.source == f"8 devices for an instance of {size}: some are not its own"


def test_devices_that_two_sources_name_apart_are_no_strangers() -> None:
    """Each source names as many as there are."""
    other = node({Metric.DEVICE_BUSY: [0.5] * 4}, "card")
    found = signals({"d0": [node({Metric.SM_ACTIVE: [0.5] * 4}), other]}, of_size(tp=4))
    assert found.get(SignalId.FOREIGN_DEVICES, instance_scope("d0")) is None


def test_links_of_too_many() -> None:
    """Their sum is too large."""
    total = known(
        signals({"d0": [node({Metric.FABRIC_TX_RATE: [1e9] * 8})]}, of_size(tp=4)), SignalId.FABRIC_TRANSMIT, "d0"
    )
    assert (total.value, total.quality) == (8e9, Quality.ESTIMATED)
    assert total.source.endswith(SHARED)


def test_the_slowest_device_with_units() -> None:
    """Clock and power as people read them."""
    slow = {
        Metric.DEVICE_BUSY: [1.0] * 4,
        Metric.DEVICE_CLOCK: [1.98e9] * 3 + [792e6],
        Metric.DEVICE_POWER: [600.0] * 3 + [240.0],
    }
    found = signals({"d0": [node(slow)]}, of_size(tp=4))
    clock, power = (known(found, s, "d0") for s in (SignalId.DEVICE_CLOCK_LOWEST, SignalId.DEVICE_POWER_LOWEST))
    assert (clock.value, power.value) == (pytest.approx(0.4), pytest.approx(0.4))
    assert clock.source == "device_clock of GPU-3, 792 MHz, by the median of 4 devices, 1.98 GHz"
    assert power.source == "device_power of GPU-3, 240 W, by the median of 4 devices, 600 W"
