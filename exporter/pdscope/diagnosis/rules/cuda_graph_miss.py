"""Decode steps run outside the captured CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Case, Rule, Threshold, bench
from pdscope.diagnosis.steps import slow_steps
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import Quality, Signal, SignalId
from pdscope.model.topology import Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """Per instance that decodes: many steps miss the graphs, ITL is over for its sake, and memory does not explain it.

    A roofline is enough to say that memory explains it. Without any figure of memory the rule may hold, but what it
    hangs on is not complete then, and so is the confidence.
    """
    for instance in case.instances(Role.DECODE, Role.UNIFIED):
        board = bench(RULE, case, instance)
        missed = board.weigh(SignalId.GRAPH_MISS, Op.GE, "share")
        calm, known = Truth.TRUE, board.signal(SignalId.HBM_UTILIZATION)
        if known is not None:
            calm = board.weigh(SignalId.HBM_UTILIZATION, Op.LT, "memory")
        hangs_on = (SignalId.GRAPH_MISS,) if _measured(known) else (SignalId.GRAPH_MISS, SignalId.HBM_UTILIZATION)
        yield board.finding(
            missed & calm & case.broken("itl") & slow_steps(board),
            headline=f"{board.text(SignalId.GRAPH_MISS)} of the decode steps of {instance.name} run outside CUDA "
            f"graphs, with {board.text(SignalId.RUNNING)} in the batch; ITL p50 is {board.text(SignalId.ITL_P50)}",
            strength=board.value(SignalId.GRAPH_MISS) or 0.0,
            decisive=hangs_on,
            culprits=(instance.name,),
        )


def _measured(signal: Signal | None) -> bool:
    return signal is not None and signal.quality is not Quality.ESTIMATED


RULE = Rule(
    id="cuda_graph_miss",
    verdict=Verdict.CUDA_GRAPH_MISS,
    evaluate=evaluate,
    thresholds=(
        Threshold("share", 0.2, Unit.RATIO, "of decode steps outside graphs, which take about three times as long"),
        Threshold("memory", 0.68, Unit.RATIO, "of the theoretical bandwidth, from which memory is what steps wait for"),
    ),
    remedies=("capture_graphs", "capture_larger_graphs", "limit_running_to_graphs"),
    covers=frozenset({"host_bound", "itl_unstable"}),
)
