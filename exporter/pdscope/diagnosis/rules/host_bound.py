"""CPU or scheduler: neither compute nor memory is busy, and yet steps are slow."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, bench
from pdscope.diagnosis.steps import slow_steps
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Instance, Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """Per instance that decodes and never runs empty: ITL is over for its sake while its devices have time to spare.

    Measured activity is needed: a roofline that explains little may lack what the engine does not export. And the
    activity is a mean over the window, which says nothing of steps where the engine had no request for part of it.
    An engine that does not say which steps ran in CUDA graphs leaves the cause open: small kernels are launched by the
    host as well, so confidence is not high.
    """
    for instance in case.instances(Role.DECODE, Role.UNIFIED):
        board = bench(RULE, case, instance)
        runs = board.weigh(SignalId.RUNNING, Op.GE, "running") & board.weigh(SignalId.WORK_LEAST, Op.GE, "running")
        idle, gaps = _idle_devices(board), _gaps(board, instance)
        by_devices = idle is not Truth.UNKNOWN
        # devices that run steps all the time leave no gaps, however little of them the steps use
        spare = idle & (gaps | Truth.of(gaps is Truth.UNKNOWN)) if by_devices else gaps
        if spare is Truth.UNKNOWN:
            board.missing += _lacking(board)
        yield board.finding(
            runs & case.broken("itl") & spare & slow_steps(board),
            headline=_words(board, instance.name),
            strength=0.6,
            decisive=(SignalId.HBM_UTILIZATION if by_devices else SignalId.DECODE_BUSY,),
            at_best=Quality.DERIVED if board.signal(SignalId.GRAPH_MISS) is None else Quality.MEASURED,
            culprits=(instance.name,),
        )


def _idle_devices(board: Bench) -> Truth:
    """Memory calm, and neither units nor matrix engines busy; unknown without memory, and without both of these."""
    memory = _weigh_measured(board, SignalId.HBM_UTILIZATION, "memory")
    units = _weigh_measured(board, SignalId.COMPUTE_UTILIZATION, "compute")
    engines = _weigh_measured(board, SignalId.TENSOR_UTILIZATION, "tensor")
    if Truth.FALSE in (memory, units, engines):
        return Truth.FALSE
    return memory & (units | engines)


def _weigh_measured(board: Bench, signal: SignalId, threshold: str) -> Truth:
    found = board.signal(signal)
    if found is None or found.quality is Quality.ESTIMATED:
        return Truth.UNKNOWN
    return board.weigh(signal, Op.LT, threshold)


def _gaps(board: Bench, instance: Instance) -> Truth:
    """Whether devices run nothing between steps; a unified engine computes prompts in that time as well."""
    prompts = board.value(SignalId.PREFILL_BUSY) if instance.role is Role.UNIFIED else 0.0
    if board.signal(SignalId.DECODE_BUSY) is None or prompts is None:
        return Truth.UNKNOWN
    return board.weigh(SignalId.DECODE_BUSY, Op.LT, max(0.0, board.case.threshold(RULE, "busy") - prompts))


def _lacking(board: Bench) -> list[SignalId]:
    """Either of the two sets would do: activity of the devices, or the time that they spend in steps."""
    devices = {e.signal for e in board.evidence} & {SignalId.COMPUTE_UTILIZATION, SignalId.TENSOR_UTILIZATION}
    lacking = [] if devices else [SignalId.COMPUTE_UTILIZATION]
    if SignalId.HBM_UTILIZATION not in {e.signal for e in board.evidence}:
        lacking.insert(0, SignalId.HBM_UTILIZATION)
    steps = SignalId.DECODE_BUSY if board.signal(SignalId.DECODE_BUSY) is None else SignalId.PREFILL_BUSY
    return [*lacking, steps]


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
        Threshold(
            "busy", 0.8, Unit.RATIO, "share of the time in which devices run steps, prompts of a unified engine too"
        ),
        Threshold("running", 1, Unit.REQUESTS, "in the batch: an empty one has no steps"),
    ),
    remedies=("overlap_scheduler", "free_cpu", "capture_graphs", "larger_batch"),
)
