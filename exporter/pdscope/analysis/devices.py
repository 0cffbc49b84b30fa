"""Utilisation and health of devices by instance, and utilisation by role."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median

from pdscope.analysis.board import Board
from pdscope.analysis.device_view import (
    DeviceView,
    Part,
    figure_text,
    mean_of,
    most_of,
    oldest,
    source_of,
    spread_of,
    total_of,
)
from pdscope.analysis.faults import put_faults
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, Scope, SignalId, instance_scope, worst
from pdscope.model.topology import Deployment, Instance, Role

_ALIKE = 0.2
"""Spread of activity up to which a mean over the devices stands for each of them."""

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
_BY_DEVICE = (*(metric for _, metric, _ in _MEANS), Metric.DEVICE_HBM_BYTES_RATE)
_MOST = {SignalId.COMPUTE_UTILIZATION: SignalId.COMPUTE_MOST, SignalId.HBM_UTILIZATION: SignalId.HBM_MOST}
"""Of means that a single device at its limit hides."""
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
        uneven = any(_unlike(view.means(metric)) for _, metric, _ in _MEANS)
        desk = _Desk(board, scope, now, instance.devices, uneven)
        for signal, metric, quality in _MEANS:
            if board.value(signal, scope) is None:
                _put_mean(desk, signal, view.means(metric), metric, quality)
        _put_moved_bytes(desk, instance, view)
        for signal, gauge, counter in _RATES:
            parts = view.means(gauge) if counter is None else view.rates(gauge, counter)
            doubt = desk.foreign(parts)
            desk.put(signal, parts, total_of, gauge, Quality.ESTIMATED if doubt else Quality.MEASURED, doubt)
        _put_health(desk, instance, view)
        _put_foreign(desk, view)


def put_roles(board: Board, deployment: Deployment) -> None:
    """Compute utilisation of prefill and HBM utilisation of decode: means over the instances of the role."""
    _put_role(board, deployment, SignalId.PREFILL_COMPUTE_UTILIZATION, SignalId.COMPUTE_UTILIZATION, Role.PREFILL)
    _put_role(board, deployment, SignalId.DECODE_HBM_UTILIZATION, SignalId.HBM_UTILIZATION, Role.DECODE)


@dataclass(frozen=True, slots=True)
class _Desk:
    """Where the figures of one instance go.

    Attributes:
        devices: that it has by its parallelism.
        uneven: what its pages print are not all at the same work.
    """

    board: Board
    scope: Scope
    now: float
    devices: int
    uneven: bool

    def put(
        self,
        signal: SignalId,
        parts: Mapping[str, Part],
        combine: Combine,
        metric: Metric,
        quality: Quality,
        doubt: str = "",
    ) -> None:
        if parts:
            age = self.now - oldest(parts)
            source = source_of(parts, metric) + (f"; {doubt}" if doubt else "")
            self.board.put(signal, combine(parts), quality, source, scope=self.scope, age_seconds=age)

    def foreign(self, parts: Mapping[str, Part]) -> str:
        """Why these cannot all be devices of the instance; empty where they can.

        One device may mean that nobody said how many there are; then they have to be at unequal work as well.
        """
        if len(parts) <= self.devices or (self.devices == 1 and not self.uneven):
            return ""
        return f"{len(parts)} devices for an instance of {self.devices}: some are not its own"


def _put_mean(desk: _Desk, signal: SignalId, parts: Mapping[str, Part], metric: Metric, quality: Quality) -> None:
    """Mean and most. A mean that does not stand for the devices of the instance is an estimate, and decides nothing.

    The verdicts on prefill hang on tensor activity as on a measurement, so one that is none is left out.
    """
    foreign = desk.foreign(parts)
    doubt = foreign or _unlike(parts)
    if doubt and signal is SignalId.TENSOR_UTILIZATION:
        return
    desk.put(signal, parts, mean_of, metric, worst(quality, Quality.ESTIMATED) if doubt else quality, doubt)
    if signal in _MOST:
        desk.put(_MOST[signal], parts, most_of, metric, worst(quality, Quality.ESTIMATED) if foreign else quality)


def _unlike(parts: Mapping[str, Part]) -> str:
    """Why no mean stands for these devices: in tensor parallelism each does the same work, and reads about the same."""
    if spread_of(parts) <= _ALIKE:
        return ""
    return "too far apart for a mean to stand for each of them"


def _put_moved_bytes(desk: _Desk, instance: Instance, view: DeviceView) -> None:
    """HBM utilisation from the bytes that memory moves, where a device counts those instead of a share."""
    hardware = instance.hardware
    peak = hardware.hbm_bandwidth_bytes_per_second if hardware is not None else None
    moved = view.means(Metric.DEVICE_HBM_BYTES_RATE)
    known = desk.board.value(SignalId.HBM_UTILIZATION, desk.scope) is not None
    if known or hardware is None or not peak or not moved:
        return
    shares = {name: replace(part, value=part.value / peak) for name, part in moved.items()}
    foreign = desk.foreign(shares)
    doubt = foreign or _unlike(shares)
    source = f"{source_of(moved, Metric.DEVICE_HBM_BYTES_RATE)}, by the peak of {hardware.name or 'the device'}"
    for signal, combine, why in (
        (SignalId.HBM_UTILIZATION, mean_of, doubt),
        (SignalId.HBM_MOST, most_of, foreign),
    ):
        desk.board.put(
            signal,
            combine(shares),
            Quality.ESTIMATED if why else Quality.DERIVED,
            f"{source}; {why}" if why else source,
            scope=desk.scope,
            age_seconds=desk.now - oldest(moved),
        )


def _put_health(desk: _Desk, instance: Instance, view: DeviceView) -> None:
    """What holds the clocks down, the last fault, and the device that lies furthest below its peers.

    Where some of the devices are not the instance's, a sign of one of them may be theirs; that none shows it is known.
    """
    slowed, faults = view.means(Metric.DEVICE_SLOWDOWN), view.lasts(Metric.DEVICE_FAULT)
    for signal, metric, parts in (
        (SignalId.DEVICE_SLOWDOWN, Metric.DEVICE_SLOWDOWN, slowed),
        (SignalId.DEVICE_FAULT, Metric.DEVICE_FAULT, faults),
    ):
        if not desk.foreign(parts) or not most_of(parts):
            desk.put(signal, parts, most_of, metric, Quality.MEASURED)
    put_faults(desk.board, view, desk.scope, desk.now, own=not desk.foreign(faults))
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
            f"{metric.name.lower()} of {name}, {figure_text(lowest.value, metric)}, by the median of {len(parts)} "
            f"devices, {figure_text(middle, metric)}",
            scope=desk.scope,
            age_seconds=desk.now - oldest(parts),
        )


def _put_foreign(desk: _Desk, view: DeviceView) -> None:
    """How many devices are read for an instance beyond those that it has, where that is seen."""
    parts = max((view.means(metric) for metric in _BY_DEVICE), key=len)  # two sources may name the same devices apart
    doubt = desk.foreign(parts)
    if doubt:
        desk.board.put(
            SignalId.FOREIGN_DEVICES,
            len(parts) - desk.devices,
            Quality.DERIVED,
            doubt,
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
