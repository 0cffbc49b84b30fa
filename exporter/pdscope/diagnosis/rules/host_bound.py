"""CPU or scheduler: neither compute nor memory is busy, and yet steps are slow."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """Per instance that decodes: ITL is over while its devices, by measurement, have time to spare.

    Measured activity is needed: a roofline that explains little may lack what the engine does not export.
    """
    for instance in case.instances(Role.DECODE, Role.UNIFIED):
        board = bench(RULE, case, instance)
        runs = board.weigh(SignalId.RUNNING, Op.GE, "running")
        idle = _idle_devices(board)
        gaps = Truth.UNKNOWN
        if board.signal(SignalId.DECODE_BUSY) is not None:
            gaps = board.weigh(SignalId.DECODE_BUSY, Op.LT, "busy")
        yield board.finding(
            runs & case.broken("itl") & (idle if idle is not Truth.UNKNOWN else gaps) & ~_busy_steps(gaps),
            headline=_words(board, instance.name),
            strength=0.6,
            decisive=(SignalId.HBM_UTILIZATION if idle is not Truth.UNKNOWN else SignalId.DECODE_BUSY,),
            culprits=(instance.name,),
        )


def _idle_devices(board: Bench) -> Truth:
    """Memory calm, and neither units nor matrix engines busy; unknown where memory is not measured."""
    memory = board.signal(SignalId.HBM_UTILIZATION)
    if memory is None or memory.quality is Quality.ESTIMATED:
        if SignalId.HBM_UTILIZATION not in board.missing:
            board.missing.append(SignalId.HBM_UTILIZATION)
        return Truth.UNKNOWN
    truth = board.weigh(SignalId.HBM_UTILIZATION, Op.LT, "memory")
    compute = board.signal(SignalId.COMPUTE_UTILIZATION)
    if compute is not None and compute.quality is not Quality.ESTIMATED:
        truth &= board.weigh(SignalId.COMPUTE_UTILIZATION, Op.LT, "compute")
    if board.signal(SignalId.TENSOR_UTILIZATION) is not None:
        truth &= board.weigh(SignalId.TENSOR_UTILIZATION, Op.LT, "tensor")
    return truth


def _busy_steps(gaps: Truth) -> Truth:
    """Devices that run decode steps all the time leave no gaps, however little of them the steps use."""
    return ~gaps if gaps is not Truth.UNKNOWN else Truth.FALSE


def _words(board: Bench, name: str) -> str:
    busy = board.signal(SignalId.DECODE_BUSY)
    steps = f", and it runs decode steps {board.text(SignalId.DECODE_BUSY)} of the time" if busy is not None else ""
    return (
        f"ITL p50 is {board.text(SignalId.ITL_P50)} with {board.text(SignalId.RUNNING)} running on {name}, whose "
        f"memory works at {board.text(SignalId.HBM_UTILIZATION)} and whose compute at "
        f"{board.text(SignalId.COMPUTE_UTILIZATION)}{steps}: steps wait for the host"
    )


RULE = Rule(
    id="host_bound",
    verdict=Verdict.HOST_BOUND,
    evaluate=evaluate,
    thresholds=(
        Threshold("memory", 0.4, Unit.RATIO, "of the theoretical bandwidth: half of what can be had"),
        Threshold("compute", 0.5, Unit.RATIO, "SM activity; below 0.5 use is ineffective (DCGM documentation)"),
        Threshold("tensor", 0.3, Unit.RATIO, "tensor activity that a busy prefill or a large batch exceeds"),
        Threshold("busy", 0.8, Unit.RATIO, "share of the time in which the devices run decode steps"),
        Threshold("running", 1, Unit.REQUESTS, "in the batch: an empty one has no steps"),
    ),
    remedies=("overlap_scheduler", "free_cpu", "capture_graphs", "larger_batch"),
)
