"""Device figures that cannot be: nothing done on devices whose instance works, or far less than its work must take.

The exporter may have no access (all zeros), read another host, or have lost its profiling counters; a sensor may count
wrongly. Such a figure is taken off the board under a name of its own: it is shown, and no rule uses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pdscope.analysis.board import Board
from pdscope.analysis.device_view import DeviceView
from pdscope.analysis.floors import Floor, compute_floor, hbm_floor
from pdscope.analysis.observed import Observed
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, Scope, SignalId, instance_scope
from pdscope.model.topology import Deployment

_STILL = 0.001
"""Activity that no work of a whole window leaves; a single step a second is more."""
_SHARE_OF_FLOOR = 1 / 3
"""Of the least that physics allows, below which a figure is refuted: an error of the inputs is not that large."""
_FLOOR_COUNTS = 0.03
"""A floor below it proves nothing: what is measured beside it may be rounding."""
_PROMPT_TOKENS = 500.0
"""Computed a second, from which a device computes for a visible part of the time, whatever the model."""
_SAME_TIME = 0.5
"""Of the window, within which the newest device figure has to lie to be one of the same work."""

_DOUBLES: Mapping[SignalId, SignalId] = {
    SignalId.HBM_UTILIZATION: SignalId.DISTRUSTED_HBM,
    SignalId.COMPUTE_UTILIZATION: SignalId.DISTRUSTED_COMPUTE,
    SignalId.TENSOR_UTILIZATION: SignalId.DISTRUSTED_TENSOR,
    SignalId.DEVICE_BUSY: SignalId.DISTRUSTED_BUSY,
}
_MOST = {SignalId.HBM_UTILIZATION: SignalId.HBM_MOST, SignalId.COMPUTE_UTILIZATION: SignalId.COMPUTE_MOST}


def put_sensors(
    board: Board, deployment: Deployment, observed: Sequence[Observed], devices: Mapping[str, DeviceView]
) -> None:
    """Needs what devices measure on the board, and nothing estimated in its place yet."""
    for o in observed:
        view = devices.get(o.instance.name)
        if view is not None:
            judge = _Judge(board, instance_scope(o.instance.name), _span_seconds(o))
            judge.distrust_still(_work(o), prefills=_computes_prompts(o))
            judge.distrust_low(deployment, o, view)


@dataclass(frozen=True, slots=True)
class _Judge:
    """Judges the figures of the devices of one instance; `span_seconds`: of its own window."""

    board: Board
    scope: Scope
    span_seconds: float

    def distrust_still(self, work: str, *, prefills: bool) -> None:
        """Figures at nothing while the instance works all the time.

        Decode may do without matrix engines, so their zero counts as one only where something else is at zero too.
        """
        if not work:
            return
        still = [signal for signal in _DOUBLES if self._below(signal, _STILL)]
        tensor = SignalId.TENSOR_UTILIZATION
        for signal in still:
            if signal is not tensor or prefills or len(still) > 1:
                self._withdraw(signal, f"which cannot be while {work}")

    def distrust_low(self, deployment: Deployment, o: Observed, view: DeviceView) -> None:
        """Figures far below the floor, where the devices are as many as the instance has."""
        counted = view.means(Metric.DRAM_ACTIVE) or view.means(Metric.DEVICE_HBM_BYTES_RATE)
        if o.instance.decodes and len(counted) == o.instance.devices:
            self._compare(SignalId.HBM_UTILIZATION, SignalId.HBM_FLOOR, hbm_floor(self.board, deployment, o))
        if o.instance.prefills and len(view.means(Metric.SM_ACTIVE)) == o.instance.devices:
            floor = compute_floor(self.board, deployment, o)
            if self._compare(SignalId.COMPUTE_UTILIZATION, SignalId.COMPUTE_FLOOR, floor) and floor is not None:
                self._distrust(SignalId.TENSOR_UTILIZATION, floor)

    def _compare(self, signal: SignalId, put: SignalId, floor: Floor | None) -> bool:
        """Distrust a figure below its floor; the floor is shown beside one that was distrusted for whatever reason."""
        if floor is None or floor.share < _FLOOR_COUNTS:
            return False
        distrusted = self._distrust(signal, floor)
        if distrusted or self.board.value(_DOUBLES[signal], self.scope) is not None:
            self.board.put(put, floor.share, Quality.ESTIMATED, floor.source, scope=self.scope)
        return distrusted

    def _distrust(self, signal: SignalId, floor: Floor) -> bool:
        if not self._below(signal, _SHARE_OF_FLOOR * floor.share, measured=True):
            return False
        self._withdraw(signal, f"where the work takes at least {floor.share:.3g}")
        return True

    def _below(self, signal: SignalId, limit: float, *, measured: bool = False) -> bool:
        found = self.board.signal(signal, self.scope)
        if found is None or found.value > limit or found.age_seconds > _SAME_TIME * self.span_seconds:
            return False
        return not measured or found.quality is not Quality.ESTIMATED

    def _withdraw(self, signal: SignalId, why: str) -> None:
        taken = self.board.withdraw(signal, self.scope)
        if signal in _MOST:
            self.board.withdraw(_MOST[signal], self.scope)
        if taken is not None:
            self.board.add(replace(taken, id=_DOUBLES[signal], source=f"{taken.source}, {why}"))


def _work(o: Observed) -> str:
    """What the instance did all through the window, in words; empty where it may have paused."""
    running, tokens = o.level(Metric.RUNNING), o.rate(Metric.GENERATED_TOKENS)
    steady = running is not None and running.low >= 1 and not o.asleep
    if o.instance.decodes and steady and running is not None and tokens is not None and tokens.per_second > 0:
        return f"{running.mean:.0f} requests run and {tokens.per_second:,.0f} tokens/s are generated"
    computed = o.rate(Metric.PREFILL_COMPUTED_TOKENS)
    if computed is not None and _computes_prompts(o):
        return f"{computed.per_second:,.0f} prompt tokens/s are computed"
    return ""


def _computes_prompts(o: Observed) -> bool:
    computed = o.rate(Metric.PREFILL_COMPUTED_TOKENS)
    return o.instance.prefills and computed is not None and computed.per_second >= _PROMPT_TOKENS


def _span_seconds(o: Observed) -> float:
    return max((w.span_seconds for w in o.windows), default=0.0)
