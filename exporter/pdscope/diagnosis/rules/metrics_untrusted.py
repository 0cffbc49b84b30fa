"""A figure that the answer would hang on contradicts itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, bench, objectives
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import Quality, Scope, ScopeKind, SignalId
from pdscope.model.topology import Instance, Role
from pdscope.model.units import Unit

_LINK = Scope(ScopeKind.LINK, "prefill->decode")
_ENGINES = (Role.PREFILL, Role.DECODE, Role.UNIFIED)

_REFUTED: Mapping[SignalId, tuple[str, SignalId | None]] = {
    SignalId.DISTRUSTED_HBM: ("memory", SignalId.HBM_FLOOR),
    SignalId.DISTRUSTED_COMPUTE: ("units", SignalId.COMPUTE_FLOOR),
    SignalId.DISTRUSTED_TENSOR: ("matrix engines", SignalId.COMPUTE_FLOOR),
}
"""Figures that analysis has taken back, of what they are, and the least that the instance's work takes of it."""
_IDLE: Mapping[SignalId, tuple[str, SignalId | None]] = {SignalId.DISTRUSTED_BUSY: ("time with a kernel", None)}
"""The same of a figure on which no answer hangs, though it shows that the exporter reads nothing."""


_ON_DEVICES = Verdict.HOST_BOUND
"""The first verdict, in the order of evidence, that hangs on what the devices say."""


def evaluate(case: Case) -> Iterator[Finding]:
    """Transfers faster than their line, counters that jump, devices that do nothing at work."""
    if case.deployment.disaggregated:
        yield _faster_than_the_line(Bench(RULE, case, _LINK))
    for instance in case.deployment.instances:
        if bench(RULE, case, instance).signal(SignalId.COUNTERS_JUMP) is not None:
            yield _several_workers(bench(RULE, case, instance), instance)
    for instance in case.instances(*_ENGINES):
        board = bench(RULE, case, instance)
        if any(board.signal(signal) is not None for signal in _REFUTED):
            # a full pool, a hot instance or a slow frontend is seen without any device
            yield replace(_refuted(board, instance, _REFUTED, _hangs_on_devices(board, instance)), before=_ON_DEVICES)
            continue
        moved = board.signal(SignalId.HBM_UTILIZATION)
        sensed = moved is not None and moved.quality is Quality.MEASURED  # an estimate is no sensor
        if sensed and board.signal(SignalId.DEVICE_BUSY) is not None:
            yield _blind_sensor(board, instance)


def _several_workers(board: Bench, instance: Instance) -> Finding:
    """One address that several processes answer in turn: nothing that is counted there can be had.

    Of an engine everything hangs on it. A router's counters matter where no engine says how long users wait.
    """
    jump = board.weigh(SignalId.COUNTERS_JUMP, Op.GE, "counters")
    needed = Truth.TRUE if instance.role in _ENGINES else _lost(board.case, "ttft")
    found = board.signal(SignalId.COUNTERS_JUMP)
    return board.finding(
        jump & needed,
        headline=f"{board.text(SignalId.COUNTERS_JUMP)} counters of {instance.name} go back and forth "
        f"({found.source if found is not None else ''}): several processes answer at its address in turn, and nothing "
        "that is counted there can be had",
        strength=0.95,
        decisive=(SignalId.COUNTERS_JUMP,),
        culprits=(instance.name,),
        remedies=("scrape_each_worker",),
    )


def _impossible_mean(board: Bench, instance: Instance, latency: str, outside: SignalId) -> Finding:
    """Buckets that cannot hold the sum beside them, where that latency is promised and known from nothing else."""
    impossible = board.weigh(outside, Op.GT, 1.0 + board.case.threshold(RULE, "outside"))
    found = board.signal(outside)
    return board.finding(
        impossible & _lost(board.case, latency),
        headline=f"the {latency.upper()} histogram of {instance.name} contradicts itself "
        f"({found.source if found is not None else ''}): no quantile can be had from it",
        strength=0.9,
        decisive=(outside,),
        culprits=(instance.name,),
        remedies=("read_raw_page",),
    )


def _lost(case: Case, latency: str) -> Truth:
    """Whether an objective on this latency cannot be checked."""
    return Truth.of(any(case.signals.value(signal) is None for signal, _ in objectives(case.deployment, latency)))


def _hangs_on_devices(board: Bench, instance: Instance) -> Truth:
    """Whether the activity of the devices would decide: ITL is over, or TTFT with a wait for prefill in it."""
    hangs = Truth.FALSE
    if instance.decodes:
        hangs |= board.case.broken("itl")
    if instance.prefills:
        hangs |= board.case.broken("ttft") & board.weigh(SignalId.PREFILL_WAIT_TTFT_SHARE, Op.GE, "ttft_share")
    return hangs


def _refuted(
    board: Bench, instance: Instance, figures: Mapping[SignalId, tuple[str, SignalId | None]], hangs: Truth
) -> Finding:
    """Devices that are said to do nothing, or less than their work must take, while their instance works."""
    said: list[str] = []
    still, refuted = False, Truth.FALSE
    for signal, (part, floor) in figures.items():
        found = board.signal(signal)
        if found is None:
            continue
        least = board.signal(floor) if floor is not None else None
        at_zero = found.value <= board.case.threshold(RULE, "still")
        refuted |= (
            board.weigh(signal, Op.LE, "still") if least is None or at_zero else board.weigh(signal, Op.LT, least.value)
        )
        still |= at_zero
        takes = f" where its work takes at least {board.text(least.id)}" if least is not None else ""
        said.append(f"{part} {board.text(signal)}{takes}")
    return board.finding(
        hangs & refuted,
        headline=f"the devices of {instance.name} are said to be used next to nothing ({', '.join(said)}) while it "
        f"{_work(board, instance)}: the exporter reads other devices, or its counters do not count",
        strength=0.85,
        decisive=tuple(s for s in figures if board.signal(s) is not None)[:1],
        at_best=Quality.MEASURED if still else Quality.ESTIMATED,
        culprits=(instance.name,),
        remedies=("check_device_source", "free_profiler"),
    )


def _work(board: Bench, instance: Instance) -> str:
    if instance.decodes and board.signal(SignalId.GENERATION_RATE) is not None:
        return f"runs {board.text(SignalId.RUNNING)} and generates {board.text(SignalId.GENERATION_RATE)}"
    return "computes prompts"


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
        remedies=("measure_handover",),
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
    broken = _serves_badly(board.case, instance)
    busy = board.weigh(SignalId.DEVICE_BUSY, Op.GE, "busy")
    still = board.weigh(SignalId.HBM_UTILIZATION, Op.LE, "still")
    return board.finding(
        busy & still & broken,
        headline=f"the devices of {board.scope.name} are busy {board.text(SignalId.DEVICE_BUSY)} of the time and move "
        f"{board.text(SignalId.HBM_UTILIZATION)} of their memory's bandwidth: the profiling counters are not counting",
        strength=0.8,
        decisive=(SignalId.HBM_UTILIZATION,),
        culprits=(board.scope.name,),
        remedies=("free_profiler", "check_device_source"),
    )


def _serves_badly(case: Case, instance: Instance) -> Truth:
    """Whether the latency is over that the role makes."""
    if instance.role is Role.UNIFIED:
        return case.slo_broken
    return case.broken("ttft" if instance.role is Role.PREFILL else "itl")


def contradictions(case: Case) -> Iterator[Finding]:
    """Where nothing that is believed explains the state: latencies, devices and queues that cannot be as they are said.

    A full KV pool or a full link is seen without any of them.
    """
    for instance in case.deployment.instances:
        for latency, outside in (("ttft", SignalId.TTFT_OUTSIDE), ("itl", SignalId.ITL_OUTSIDE)):
            board = bench(RULE, case, instance)
            if board.signal(outside) is not None:
                yield _impossible_mean(board, instance, latency, outside)
    for instance in case.instances(*_ENGINES):
        board = bench(RULE, case, instance)
        doubted = {**_REFUTED, **_IDLE}
        if any(board.signal(signal) is not None for signal in doubted):
            yield _refuted(board, instance, doubted, _serves_badly(case, instance))
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
            remedies=("measure_handover",),
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
        Threshold("still", 0.001, Unit.RATIO, "activity that no running kernel leaves"),
        Threshold("counters", 2, Unit.COUNT, "that go back and forth; one alone may be wrong by itself"),
        Threshold("outside", 0.1, Unit.RATIO, "of the mean beyond its buckets, that a page read half-way explains"),
    ),
    remedies=("measure_handover", "free_profiler", "check_device_source", "scrape_each_worker", "read_raw_page"),
)
