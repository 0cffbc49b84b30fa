"""Decode reads KV and weights at the memory-bandwidth limit."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, bench, objectives
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import SignalId
from pdscope.model.topology import Role
from pdscope.model.units import Unit, format_quantity


def evaluate(case: Case) -> Iterator[Finding]:
    """Per instance that decodes: ITL is over, and its memory interface is as busy as it gets.

    Full use of HBM with ITL within its objective, or without one, is a batch of the right size and no fault.
    """
    achievable = case.threshold(RULE, "achievable")
    for instance in case.instances(Role.DECODE, Role.UNIFIED):
        board = bench(RULE, case, instance)
        over = _itl_over(board)
        full = board.weigh(SignalId.HBM_UTILIZATION, Op.GE, case.threshold(RULE, "utilization") * achievable)
        reached = (board.value(SignalId.HBM_UTILIZATION) or 0.0) / achievable if achievable > 0 else 1.0
        yield board.finding(
            over & full,
            headline=f"the memory of {instance.name} works at {board.text(SignalId.HBM_UTILIZATION)} of its "
            f"theoretical bandwidth, {format_quantity(reached, Unit.RATIO)} of what can be had, with "
            f"{board.text(SignalId.RUNNING)} in the batch; ITL p50 is {board.text(SignalId.ITL_P50)}",
            strength=reached / 2,
            decisive=(SignalId.HBM_UTILIZATION,),
            culprits=(instance.name,),
        )


def _itl_over(board: Bench) -> Truth:
    """Whether any objective on ITL is exceeded; unknown when there is none."""
    limits = objectives(board.case.deployment, "itl")
    truth = Truth.FALSE if limits else Truth.UNKNOWN
    for signal, limit in limits:
        truth |= board.weigh(signal, Op.GT, limit)
    return truth


RULE = Rule(
    id="decode_hbm_bandwidth",
    verdict=Verdict.DECODE_HBM_BANDWIDTH,
    evaluate=evaluate,
    thresholds=(
        Threshold("utilization", 0.85, Unit.RATIO, "share of the achievable bandwidth at which it is used up"),
        Threshold(
            "achievable", 0.8, Unit.RATIO, "share of the theoretical bandwidth that can be had (DCGM documentation)"
        ),
    ),
    remedies=("limit_running", "quantise_kv", "add_decode", "quantise_weights", "speculative_decoding"),
)
