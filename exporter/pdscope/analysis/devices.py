"""Compute, tensor and HBM utilisation by instance, and by role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pdscope.analysis.board import Board
from pdscope.model.metric import Metric
from pdscope.model.scrape import SeriesKey
from pdscope.model.signal import Quality, SignalId, instance_scope, worst
from pdscope.model.topology import Deployment, Role
from pdscope.model.window import Window

# `ENGINE_ACTIVE` (some kernel runs) is no measure of computation. It stands in for SM activity as an estimate, so that
# it can support a finding and never decide one.
_SIGNALS = (
    (SignalId.COMPUTE_UTILIZATION, Metric.SM_ACTIVE, Quality.MEASURED),
    (SignalId.TENSOR_UTILIZATION, Metric.TENSOR_ACTIVE, Quality.MEASURED),
    (SignalId.HBM_UTILIZATION, Metric.DRAM_ACTIVE, Quality.MEASURED),
    (SignalId.COMPUTE_UTILIZATION, Metric.ENGINE_ACTIVE, Quality.ESTIMATED),
)


def put_devices(board: Board, deployment: Deployment, devices: Mapping[str, Sequence[Window]], now: float) -> None:
    """Means over the devices of an instance and over the window, then over the instances of a role.

    Args:
        board: receives the signals.
        deployment: whose instances the devices serve.
        devices: windows of the device sources, by instance name.
        now: unix seconds.
    """
    for name, windows in devices.items():
        scope = instance_scope(name)
        for signal, metric, quality in _SIGNALS:
            if board.value(signal, scope) is not None:
                continue
            known = [(w, mean) for w in windows if (mean := _mean(w, metric)) is not None]
            if known:
                targets = ", ".join(sorted({w.target for w, _ in known}))
                board.put(
                    signal,
                    sum(mean for _, mean in known) / len(known),
                    quality,
                    f"{known[0][0].source} {metric.name} of {targets}",
                    scope=scope,
                    age_seconds=now - min(float(w.times[-1]) for w, _ in known),
                )
    _put_role(board, deployment, SignalId.PREFILL_COMPUTE_UTILIZATION, SignalId.COMPUTE_UTILIZATION, Role.PREFILL)
    _put_role(board, deployment, SignalId.DECODE_HBM_UTILIZATION, SignalId.HBM_UTILIZATION, Role.DECODE)


def _mean(window: Window, metric: Metric) -> float | None:
    values = window.scalars.get(SeriesKey(metric))
    known = values[np.isfinite(values)] if values is not None else ()
    return float(np.mean(known)) if len(known) else None


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
