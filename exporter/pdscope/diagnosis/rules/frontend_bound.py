"""The wait is in the router, a proxy, the tokenizer or the detokenizer."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import SignalId
from pdscope.model.topology import Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """TTFT that no stage explains, or gaps between tokens that the engine's steps do not make."""
    yield _before(Bench(RULE, case, case.signals.deployment))
    for instance in case.instances(Role.PREFILL, Role.DECODE, Role.UNIFIED):
        board = bench(RULE, case, instance)
        if board.signal(SignalId.UNSTAGED_TTFT_SHARE) is not None:
            yield _unstaged(board, instance.name)
    for instance in case.instances(Role.DECODE, Role.UNIFIED):
        board = bench(RULE, case, instance)
        if board.signal(SignalId.ITL_TO_STEP) is not None:
            yield _behind(board, instance.name)


def _before(board: Bench) -> Finding:
    """The router's TTFT less that of the engines; unknown without both."""
    share = board.weigh(SignalId.FRONTEND_TTFT_SHARE, Op.GE, "ttft_share")
    over = board.case.broken("ttft")
    ttft, engines = board.text(SignalId.TTFT_MEAN), board.text(SignalId.ENGINE_TTFT_MEAN)
    return board.finding(
        share & over,
        headline=f"of a mean TTFT of {ttft} at the router the engines explain {engines}; "
        f"{board.text(SignalId.FRONTEND_TTFT_SHARE)} passes in front of them",
        strength=board.value(SignalId.FRONTEND_TTFT_SHARE) or 0.0,
        decisive=(SignalId.FRONTEND_TTFT_SHARE,),
        remedies=("look_at_router", "scale_frontend"),
    )


def _unstaged(board: Bench, name: str) -> Finding:
    """TTFT of an instance that no stage of its scheduler explains; where processes are timed, one of them is busy."""
    left = board.weigh(SignalId.UNSTAGED_TTFT_SHARE, Op.GE, "ttft_share")
    known = board.signal(SignalId.FRONTEND_CPU) is not None
    busy = board.weigh(SignalId.FRONTEND_CPU, Op.GE, "cpu_queue") if known else Truth.TRUE
    process = f"; its tokenizer or detokenizer uses {board.text(SignalId.FRONTEND_CPU)} of a core" if known else ""
    return board.finding(
        left & busy & board.case.broken("ttft"),
        headline=f"{board.text(SignalId.UNSTAGED_TTFT)} of the TTFT of {name}, "
        f"{board.text(SignalId.UNSTAGED_TTFT_SHARE)} of what users wait, passes outside of all stages of its "
        f"scheduler{process}",
        strength=board.value(SignalId.UNSTAGED_TTFT_SHARE) or 0.0,
        decisive=(SignalId.UNSTAGED_TTFT_SHARE,),
        culprits=(name,),
        remedies=("scale_frontend", "fewer_stream_events"),
    )


def _behind(board: Bench, name: str) -> Finding:
    """Users see longer gaps than the engine makes, and not because requests were taken out of the batch half-way.

    Such requests wait for their next token without running, so the gaps are the engine's after all; only a process
    that visibly uses its core outweighs them.
    """
    longer = board.weigh(SignalId.ITL_TO_STEP, Op.GT, "itl_to_step")
    known = board.signal(SignalId.FRONTEND_CPU) is not None
    busy = board.weigh(SignalId.FRONTEND_CPU, Op.GE, "cpu") if known else Truth.UNKNOWN
    steady = Truth.TRUE
    if busy is not Truth.TRUE:
        steady = board.weigh(SignalId.PREEMPTIONS_PER_SECOND, Op.LE, 0.0)
    process = f"; its tokenizer or detokenizer uses {board.text(SignalId.FRONTEND_CPU)} of a core" if known else ""
    return board.finding(
        longer & steady & board.case.broken("itl"),
        headline=f"users of {name} see tokens {board.text(SignalId.ITL_TO_STEP)} as far apart as the engine makes them "
        f"(ITL p50 {board.text(SignalId.ITL_P50)}){process}",
        strength=min(1.0, (board.value(SignalId.ITL_TO_STEP) or 0.0) / 6),
        decisive=(SignalId.ITL_TO_STEP,),
        culprits=(name,),
        remedies=("scale_frontend", "fewer_stream_events"),
    )


RULE = Rule(
    id="frontend_bound",
    verdict=Verdict.FRONTEND_BOUND,
    evaluate=evaluate,
    thresholds=(
        Threshold("ttft_share", 0.3, Unit.RATIO, "share of TTFT that no engine, or none of its stages, explains"),
        Threshold("itl_to_step", 2, Unit.RATIO, "gaps that users see by those of the engine; 1 with nothing between"),
        Threshold("cpu_queue", 0.75, Unit.RATIO, "of a core, from which requests queue in front of a single process"),
        Threshold("cpu", 0.9, Unit.RATIO, "of a core, by a process that has one thread"),
    ),
    remedies=("look_at_router", "scale_frontend", "fewer_stream_events"),
)
