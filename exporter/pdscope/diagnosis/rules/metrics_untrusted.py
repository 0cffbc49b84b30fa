"""A figure that the answer would hang on contradicts itself."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import Scope, ScopeKind, SignalId
from pdscope.model.topology import Role
from pdscope.model.units import Unit

_LINK = Scope(ScopeKind.LINK, "prefill->decode")


def evaluate(case: Case) -> Iterator[Finding]:
    """Transfers faster than their line while TTFT is broken; devices that do nothing while their instance works."""
    if case.deployment.disaggregated:
        yield _faster_than_the_line(Bench(RULE, case, _LINK))
    for instance in case.instances(Role.PREFILL, Role.DECODE, Role.UNIFIED):
        board = bench(RULE, case, instance)
        if board.signal(SignalId.DEVICE_BUSY) is not None and board.signal(SignalId.HBM_UTILIZATION) is not None:
            yield _blind_sensor(board)


def _faster_than_the_line(board: Bench) -> Finding:
    """Whether the transfer is slow cannot be told from a time that is not the time of its bytes.

    With TTFT within its objective nothing hangs on it, and where nothing is in transfer either.
    """
    impossible = board.weigh(SignalId.SPEED_TO_LINE, Op.GT, "line")
    if impossible is Truth.UNKNOWN:
        board.missing.clear()  # nothing is distrusted for lack of a figure
        return board.finding(Truth.FALSE)
    waiting = board.weigh(SignalId.TRANSFER_IN_FLIGHT, Op.GE, "in_flight")
    return board.finding(
        impossible & board.case.broken("ttft") & waiting,
        headline=f"transfers are said to take {board.text(SignalId.TRANSFER_TIME)}, "
        f"{board.text(SignalId.SPEED_TO_LINE)} of what the line can do, while "
        f"{board.count(SignalId.TRANSFER_IN_FLIGHT)} wait for theirs: the time is not that of the bytes, and nothing "
        "tells how long the hand-over really takes",
        strength=0.9,
        decisive=(SignalId.SPEED_TO_LINE,),
    )


def _blind_sensor(board: Bench) -> Finding:
    """Profiling counters at zero on a device that is busy all the time: another profiler holds them."""
    busy = board.weigh(SignalId.DEVICE_BUSY, Op.GE, "busy")
    still = board.weigh(SignalId.HBM_UTILIZATION, Op.LE, "still")
    return board.finding(
        busy & still & board.case.slo_broken,
        headline=f"the devices of {board.scope.name} are busy {board.text(SignalId.DEVICE_BUSY)} of the time and move "
        f"{board.text(SignalId.HBM_UTILIZATION)} of their memory's bandwidth: the profiling counters are not counting",
        strength=0.8,
        decisive=(SignalId.HBM_UTILIZATION,),
        culprits=(board.scope.name,),
    )


RULE = Rule(
    id="metrics_untrusted",
    verdict=Verdict.METRICS_UNTRUSTED,
    evaluate=evaluate,
    thresholds=(
        Threshold("line", 1.05, Unit.RATIO, "of the line rate; no transfer is faster than its line"),
        Threshold("in_flight", 1, Unit.REQUESTS, "transfers that wait, for the time to matter"),
        Threshold("busy", 0.5, Unit.RATIO, "share of the time in which a kernel runs on a device that works"),
        Threshold("still", 0.001, Unit.RATIO, "memory activity that no running kernel leaves"),
    ),
    remedies=("measure_handover", "free_profiler"),
)
