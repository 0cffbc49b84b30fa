"""Decode reads KV and weights at the memory-bandwidth limit."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, bench, objectives
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Instance, Role
from pdscope.model.units import Unit, format_quantity


def evaluate(case: Case) -> Iterator[Finding]:
    """Per instance that decodes: ITL is over, and its memory interface is as busy as it gets.

    Full use of HBM with ITL within its objective, or without one, is a batch of the right size and no fault; and where
    users wait for a token several times longer than a step takes, it is not the step that they wait for. Measured
    use decides where there is any; else the roofline may say that reading explains most of ITL. It cannot say that it
    does not: an estimate that explains little may lack what the engine does not export.
    """
    for instance in case.instances(Role.DECODE, Role.UNIFIED):
        board = bench(RULE, case, instance)
        over = _itl_over(board)
        measured = board.signal(SignalId.HBM_UTILIZATION)
        if measured is None or measured.quality is Quality.ESTIMATED:
            yield _estimated(board, instance, over)
        else:
            yield _measured(board, instance, over)


def _measured(board: Bench, instance: Instance, over: Truth) -> Finding:
    achievable = _achievable(board, instance)
    full = board.weigh(SignalId.HBM_UTILIZATION, Op.GE, board.case.threshold(RULE, "utilization") * achievable)
    stretched = Truth.FALSE
    if board.signal(SignalId.ITL_TO_STEP) is not None:
        stretched = board.weigh(SignalId.ITL_TO_STEP, Op.GT, "itl_to_step")
    reached = (board.value(SignalId.HBM_UTILIZATION) or 0.0) / achievable if achievable > 0 else 1.0
    return board.finding(
        over & full & ~stretched,
        headline=f"the memory of {instance.name} works at {board.text(SignalId.HBM_UTILIZATION)} of its "
        f"theoretical bandwidth, {format_quantity(reached, Unit.RATIO)} of what can be had, with "
        f"{board.text(SignalId.RUNNING)} in the batch; ITL p50 is {board.text(SignalId.ITL_P50)}",
        strength=reached / 2,
        decisive=(SignalId.HBM_UTILIZATION,),
        culprits=(instance.name,),
    )


def _estimated(board: Bench, instance: Instance, over: Truth) -> Finding:
    """The least time that a step can take, by ITL: most of it, and not more than there is."""
    reading = Truth.UNKNOWN
    if board.signal(SignalId.STEP_EXPLAINED) is not None:
        explained = board.weigh(SignalId.STEP_EXPLAINED, Op.GE, "explained")
        reading = explained & board.weigh(SignalId.STEP_EXPLAINED, Op.LE, "impossible")
    if reading is not Truth.TRUE:
        reading = Truth.UNKNOWN
        board.missing.append(SignalId.HBM_UTILIZATION)
    return board.finding(
        over & reading,
        headline=f"by the roofline a step of {instance.name} has to read {board.text(SignalId.STEP_BYTES)} a device, "
        f"which takes {board.text(SignalId.STEP_PREDICTED)} and explains {board.text(SignalId.STEP_EXPLAINED)} of ITL "
        f"p50, {board.text(SignalId.ITL_P50)}; {_told_by_devices(board)}",
        strength=(board.value(SignalId.STEP_EXPLAINED) or 0.0) / 2,
        decisive=(SignalId.STEP_EXPLAINED,),
        culprits=(instance.name,),
    )


def _told_by_devices(board: Bench) -> str:
    if board.signal(SignalId.HBM_MOST) is None:
        return "no device telemetry confirms it"
    return "which of the devices that are told of serve it is not sure"


def _achievable(board: Bench, instance: Instance) -> float:
    """A configured share wins, then that of the hardware table."""
    known = instance.hardware.achievable_hbm_fraction if instance.hardware is not None else None
    if known is None or f"{RULE.id}.achievable" in board.case.thresholds:
        return board.case.threshold(RULE, "achievable")
    return known


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
            "achievable",
            0.8,
            Unit.RATIO,
            "share of the theoretical bandwidth that can be had (DCGM); the hardware table may know better",
        ),
        Threshold(
            "explained", 0.7, Unit.RATIO, "share of ITL that reading must explain by the roofline, without telemetry"
        ),
        Threshold(
            "itl_to_step", 2.0, Unit.RATIO, "ITL by the step, over which the wait is behind decode (frontend_bound)"
        ),
        Threshold("impossible", 1.3, Unit.RATIO, "a step that should take longer than ITL refutes the estimate"),
    ),
    remedies=("limit_running", "quantise_kv", "add_decode", "quantise_weights", "speculative_decoding"),
    covers=frozenset({"itl_unstable"}),
)
