"""A figure that the answer would hang on contradicts itself."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import Quality, Scope, ScopeKind, SignalId
from pdscope.model.topology import Instance, Role
from pdscope.model.units import Unit

_LINK = Scope(ScopeKind.LINK, "prefill->decode")


def evaluate(case: Case) -> Iterator[Finding]:
    """Transfers faster than their line while TTFT is broken; devices that do nothing while their instance works."""
    if case.deployment.disaggregated:
        yield _faster_than_the_line(Bench(RULE, case, _LINK))
    for instance in case.instances(Role.PREFILL, Role.DECODE, Role.UNIFIED):
        board = bench(RULE, case, instance)
        moved = board.signal(SignalId.HBM_UTILIZATION)
        sensed = moved is not None and moved.quality is Quality.MEASURED  # an estimate is no sensor
        if sensed and board.signal(SignalId.DEVICE_BUSY) is not None:
            yield _blind_sensor(board, instance)


def _faster_than_the_line(board: Bench) -> Finding:
    """Whether the transfer is slow cannot be told from a time that is not the time of its bytes.

    With TTFT within its objective nothing hangs on it. By Little's law the requests in transfer tell how long the
    hand-over takes at least about: where that is no real part of TTFT, nothing hangs on it either.
    """
    impossible = board.weigh(SignalId.SPEED_TO_LINE, Op.GT, 1.0 + board.case.threshold(RULE, "excess"))
    if impossible is Truth.UNKNOWN:
        board.missing.clear()  # nothing is distrusted for lack of a figure
        return board.finding(Truth.FALSE)
    waiting = board.weigh(SignalId.TRANSFER_IN_FLIGHT, Op.GE, _enough(board))
    return board.finding(
        impossible & board.case.broken("ttft") & waiting,
        headline=f"transfers are said to take {board.text(SignalId.TRANSFER_TIME)}, "
        f"{board.text(SignalId.SPEED_TO_LINE)} of what the line can do, while "
        f"{board.count(SignalId.TRANSFER_IN_FLIGHT)} wait for theirs: the time is not that of the bytes, and nothing "
        "tells how long the hand-over really takes",
        strength=0.9,
        decisive=(SignalId.SPEED_TO_LINE,),
    )


def _enough(board: Bench) -> float:
    """Requests in transfer from which the hand-over is a real share of TTFT, and at least so many that some wait."""
    least = board.case.threshold(RULE, "in_flight")
    rate, ttft = board.value(SignalId.REQUESTS_PER_SECOND), board.value(SignalId.TTFT_MEAN)
    if rate is None or ttft is None:
        return least
    return max(least, board.case.threshold(RULE, "ttft_share") * ttft * rate)


def _blind_sensor(board: Bench, instance: Instance) -> Finding:
    """Profiling counters at zero on a device that is busy all the time: another profiler holds them.

    The answer hangs on them only where the latency that the role makes is over.
    """
    broken = board.case.slo_broken
    if instance.role is not Role.UNIFIED:
        broken = board.case.broken("ttft" if instance.role is Role.PREFILL else "itl")
    busy = board.weigh(SignalId.DEVICE_BUSY, Op.GE, "busy")
    still = board.weigh(SignalId.HBM_UTILIZATION, Op.LE, "still")
    return board.finding(
        busy & still & broken,
        headline=f"the devices of {board.scope.name} are busy {board.text(SignalId.DEVICE_BUSY)} of the time and move "
        f"{board.text(SignalId.HBM_UTILIZATION)} of their memory's bandwidth: the profiling counters are not counting",
        strength=0.8,
        decisive=(SignalId.HBM_UTILIZATION,),
        culprits=(board.scope.name,),
    )


def contradictions(case: Case) -> Iterator[Finding]:
    """A queue that cannot be what it says, where TTFT is broken and nothing that is believed explains it."""
    for instance in case.instances(Role.DECODE):
        board = bench(RULE, case, instance)
        if board.signal(SignalId.DISTRUSTED_QUEUE) is None:
            continue
        signal = board.signal(SignalId.DISTRUSTED_QUEUE)
        queue = board.weigh(SignalId.DISTRUSTED_QUEUE, Op.GE, "queue")
        yield board.finding(
            queue & case.broken("ttft"),
            headline=f"{board.text(SignalId.DISTRUSTED_QUEUE)} are said to stand in front of {instance.name} "
            f"({signal.source if signal is not None else ''}): the two contradict each other, and nothing else "
            "explains TTFT",
            strength=0.7,
            decisive=(SignalId.DISTRUSTED_QUEUE,),
            culprits=(instance.name,),
        )


RULE = Rule(
    id="metrics_untrusted",
    verdict=Verdict.METRICS_UNTRUSTED,
    evaluate=evaluate,
    last_resort=contradictions,
    thresholds=(
        Threshold("excess", 0.05, Unit.RATIO, "over the line rate; no transfer is faster than its line"),
        Threshold("in_flight", 1, Unit.REQUESTS, "transfers that wait, for the time to matter"),
        Threshold("ttft_share", 0.2, Unit.RATIO, "share of TTFT from which a stage counts; tensward's warning level"),
        Threshold("busy", 0.5, Unit.RATIO, "share of the time in which a kernel runs on a device that works"),
        Threshold("queue", 8, Unit.REQUESTS, "requests that contradict the latencies"),
        Threshold("still", 0.001, Unit.RATIO, "memory activity that no running kernel leaves"),
    ),
    remedies=("measure_handover", "free_profiler"),
)
