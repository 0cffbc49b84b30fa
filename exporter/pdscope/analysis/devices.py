"""Utilisation and health of devices by instance, and utilisation by role."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from pdscope.analysis.board import Board
from pdscope.analysis.device_view import DeviceView, Part, mean_of, most_of, oldest, source_of, total_of
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, Scope, SignalId, instance_scope, worst
from pdscope.model.topology import Deployment, Instance, Role

Combine = Callable[[Mapping[str, Part]], float | None]

_AT_WORK = 0.5
"""Activity, and share of the busiest device's, from which a device is at work like its peers."""

# `ENGINE_ACTIVE` (the engine did something) is no measure of computation. It stands in for SM activity as an estimate,
# so that it can support a finding and never decide one. `DEVICE_BUSY` stands in for nothing.
_MEANS = (
    (SignalId.COMPUTE_UTILIZATION, Metric.SM_ACTIVE, Quality.MEASURED),
    (SignalId.TENSOR_UTILIZATION, Metric.TENSOR_ACTIVE, Quality.MEASURED),
    (SignalId.HBM_UTILIZATION, Metric.DRAM_ACTIVE, Quality.MEASURED),
    (SignalId.COMPUTE_UTILIZATION, Metric.ENGINE_ACTIVE, Quality.ESTIMATED),
    (SignalId.DEVICE_BUSY, Metric.DEVICE_BUSY, Quality.MEASURED),
)
_RATES = (
    (SignalId.FABRIC_TRANSMIT, Metric.FABRIC_TX_RATE, Metric.FABRIC_TX_BYTES),
    (SignalId.FABRIC_RECEIVE, Metric.FABRIC_RX_RATE, Metric.FABRIC_RX_BYTES),
    (SignalId.PCIE_TRANSMIT, Metric.PCIE_TX_RATE, None),
    (SignalId.PCIE_RECEIVE, Metric.PCIE_RX_RATE, None),
)


def put_devices(board: Board, deployment: Deployment, devices: Mapping[str, DeviceView], now: float) -> None:
    """Means over the devices of an instance and over the window; what holds one of them back; bytes on its links.

    Args:
        board: receives the signals.
        deployment: whose instances the devices serve.
        devices: by instance name.
        now: unix seconds.
    """
    for instance in deployment.instances:
        view = devices.get(instance.name)
        if view is None:
            continue
        scope = instance_scope(instance.name)
        desk = _Desk(board, scope, now)
        for signal, metric, quality in _MEANS:
            if board.value(signal, scope) is None:
                desk.put(signal, view.means(metric), mean_of, metric, quality)
        _put_moved_bytes(desk, instance, view)
        for signal, gauge, counter in _RATES:
            parts = view.means(gauge) if counter is None else view.rates(gauge, counter)
            desk.put(signal, parts, total_of, gauge, Quality.MEASURED)
        _put_health(desk, instance, view)


def put_roles(board: Board, deployment: Deployment) -> None:
    """Compute utilisation of prefill and HBM utilisation of decode: means over the instances of the role."""
    _put_role(board, deployment, SignalId.PREFILL_COMPUTE_UTILIZATION, SignalId.COMPUTE_UTILIZATION, Role.PREFILL)
    _put_role(board, deployment, SignalId.DECODE_HBM_UTILIZATION, SignalId.HBM_UTILIZATION, Role.DECODE)


@dataclass(frozen=True, slots=True)
class _Desk:
    """Where the figures of one instance go."""

    board: Board
    scope: Scope
    now: float

    def put(
        self, signal: SignalId, parts: Mapping[str, Part], combine: Combine, metric: Metric, quality: Quality
    ) -> None:
        if parts:
            age = self.now - oldest(parts)
            source = source_of(parts, metric)
            self.board.put(signal, combine(parts), quality, source, scope=self.scope, age_seconds=age)


def _put_moved_bytes(desk: _Desk, instance: Instance, view: DeviceView) -> None:
    """HBM utilisation from the bytes that memory moves, where a device counts those instead of a share."""
    hardware = instance.hardware
    peak = hardware.hbm_bandwidth_bytes_per_second if hardware is not None else None
    moved = view.means(Metric.DEVICE_HBM_BYTES_RATE)
    known = desk.board.value(SignalId.HBM_UTILIZATION, desk.scope) is not None
    if known or hardware is None or not peak or not moved:
        return
    source = source_of(moved, Metric.DEVICE_HBM_BYTES_RATE)
    desk.board.put(
        SignalId.HBM_UTILIZATION,
        (mean_of(moved) or 0.0) / peak,
        Quality.DERIVED,
        f"{source}, by the peak of {hardware.name or 'the device'}",
        scope=desk.scope,
        age_seconds=desk.now - oldest(moved),
    )


def _put_health(desk: _Desk, instance: Instance, view: DeviceView) -> None:
    """What holds the clocks down, the last fault, and the device that lies furthest below its peers."""
    slowed = view.means(Metric.DEVICE_SLOWDOWN)
    desk.put(SignalId.DEVICE_SLOWDOWN, slowed, most_of, Metric.DEVICE_SLOWDOWN, Quality.MEASURED)
    faults = view.lasts(Metric.DEVICE_FAULT)
    desk.put(SignalId.DEVICE_FAULT, faults, most_of, Metric.DEVICE_FAULT, Quality.MEASURED)
    for signal, metric in (
        (SignalId.DEVICE_CLOCK_LOWEST, Metric.DEVICE_CLOCK),
        (SignalId.DEVICE_POWER_LOWEST, Metric.DEVICE_POWER),
    ):
        parts = view.means(metric)
        middle = median(part.value for part in parts.values()) if parts else 0.0
        if middle <= 0 or not _alike(instance, view, parts):
            continue
        name, lowest = min(parts.items(), key=lambda item: item[1].value)
        desk.board.put(
            signal,
            lowest.value / middle,
            Quality.MEASURED,
            f"{metric.name.lower()} of {name}, {lowest.value:.4g}, by the median of {len(parts)} devices, {middle:.4g}",
            scope=desk.scope,
            age_seconds=desk.now - oldest(parts),
        )


def _alike(instance: Instance, view: DeviceView, parts: Mapping[str, Part]) -> bool:
    """Whether these are the devices of one instance, all at work: only then do they have to work alike.

    Tensor parallelism gives each the same work. A device of another instance, or one that idles, is no peer.
    """
    if len(parts) < 2 or len(parts) != instance.tp:
        return False
    for metric in (Metric.DEVICE_BUSY, Metric.ENGINE_ACTIVE, Metric.SM_ACTIVE):
        activity = view.means(metric)
        if set(activity) >= set(parts):
            busy = [activity[name].value for name in parts]
            return min(busy) >= _AT_WORK and min(busy) >= _AT_WORK * max(busy)
    return False


def _put_role(board: Board, deployment: Deployment, target: SignalId, source: SignalId, role: Role) -> None:
    names = {i.name for i in (deployment.of_role(role) or deployment.of_role(Role.UNIFIED))}
    members = [s for s in board.signals if s.id is source and s.scope.name in names]
    if members:
        board.put(
            target,
            sum(s.value for s in members) / len(members),
            worst(*(s.quality for s in members)),
            f"mean of {source} over {len(members)} {role} instance(s)",
            age_seconds=max(s.age_seconds for s in members),
        )
