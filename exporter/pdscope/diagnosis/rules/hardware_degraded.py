"""One device is slow: held down by heat or power, or behind its peers at the same work."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, bench, objectives
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import SignalId
from pdscope.model.topology import Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """Per instance: an objective is broken, and one of its devices cannot keep up with the others.

    The devices of an instance work in step, so the slowest sets the pace and the others wait. A slowdown for heat, a
    power brake or a fault of the hardware says it outright; without one, a clock or a power draw far below that of the
    peers at the same work does. A power limit that all share is usual in prefill and no fault.
    """
    for instance in case.instances(Role.PREFILL, Role.DECODE, Role.UNIFIED):
        board = bench(RULE, case, instance)
        slowed = board.weigh(SignalId.DEVICE_SLOWDOWN, Op.GE, "slowdown")
        clock = board.weigh(SignalId.DEVICE_CLOCK_LOWEST, Op.LE, 1.0 - case.threshold(RULE, "clock_lag"))
        power = board.weigh(SignalId.DEVICE_POWER_LOWEST, Op.LE, 1.0 - case.threshold(RULE, "power_lag"))
        signs = {
            SignalId.DEVICE_SLOWDOWN: slowed,
            SignalId.DEVICE_CLOCK_LOWEST: clock,
            SignalId.DEVICE_POWER_LOWEST: power,
        }
        decisive = [signal for signal, truth in signs.items() if truth is Truth.TRUE]
        yield board.finding(
            (slowed | clock | power) & _hurts(case, board, instance.role),
            headline=f"{instance.name} is as slow as its slowest device: "
            + "; ".join(_words(board, signal) for signal in decisive),
            strength=0.7,
            decisive=decisive[:1],
            culprits=(instance.name,),
        )


def _hurts(case: Case, board: Bench, role: Role) -> Truth:
    """Whether the objective on what this role makes is broken."""
    for latency in ("ttft", "itl"):
        for signal, limit in objectives(case.deployment, latency):
            board.weigh(signal, Op.GT, limit)
    if role is Role.PREFILL:
        return case.broken("ttft")
    return case.broken("itl") if role is Role.DECODE else case.slo_broken


def _words(board: Bench, signal: SignalId) -> str:
    found = board.signal(signal)
    source = found.source if found is not None else ""
    if signal is SignalId.DEVICE_SLOWDOWN:
        return f"its clocks are held down {board.text(signal)} of the time ({source})"
    return f"{board.text(signal)} of its peers ({source})"


RULE = Rule(
    id="hardware_degraded",
    verdict=Verdict.HARDWARE_DEGRADED,
    evaluate=evaluate,
    thresholds=(
        Threshold("slowdown", 0.3, Unit.RATIO, "share of the window in which a device is slowed down by its hardware"),
        Threshold("clock_lag", 0.15, Unit.RATIO, "by which a device's clock lies below the median of its peers"),
        Threshold("power_lag", 0.25, Unit.RATIO, "by which a device draws less than the median of its peers at work"),
    ),
    remedies=("drain_device", "cool_device"),
)
