"""Decode steps run outside the captured CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """Per instance that decodes: most steps miss the graphs, ITL is over, and neither queue nor memory explains it."""
    for instance in case.instances(Role.DECODE, Role.UNIFIED):
        board = bench(RULE, case, instance)
        missed = board.weigh(SignalId.GRAPH_MISS, Op.GE, "share")
        calm = Truth.TRUE
        memory = board.signal(SignalId.HBM_UTILIZATION)
        if memory is not None and memory.quality is not Quality.ESTIMATED:
            calm = board.weigh(SignalId.HBM_UTILIZATION, Op.LT, "memory")
        yield board.finding(
            missed & calm & case.broken("itl"),
            headline=f"{board.text(SignalId.GRAPH_MISS)} of the decode steps of {instance.name} run outside CUDA "
            f"graphs, with {board.text(SignalId.RUNNING)} in the batch; ITL p50 is {board.text(SignalId.ITL_P50)}",
            strength=board.value(SignalId.GRAPH_MISS) or 0.0,
            decisive=(SignalId.GRAPH_MISS,),
            culprits=(instance.name,),
        )


RULE = Rule(
    id="cuda_graph_miss",
    verdict=Verdict.CUDA_GRAPH_MISS,
    evaluate=evaluate,
    thresholds=(
        Threshold("share", 0.2, Unit.RATIO, "of decode steps outside graphs, which take about three times as long"),
        Threshold("memory", 0.68, Unit.RATIO, "of the theoretical bandwidth, from which memory is what steps wait for"),
    ),
    remedies=("capture_larger_graphs", "limit_running_to_graphs"),
)
