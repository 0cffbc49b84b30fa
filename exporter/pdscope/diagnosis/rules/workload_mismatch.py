"""Disaggregation does not pay for this traffic, or does not take place."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import SignalId, instance_scope
from pdscope.model.topology import Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """Two roles and no transfer between them; or prompts so short that handing them over costs what it saves."""
    if not case.deployment.disaggregated:
        return
    yield _no_transfer(Bench(RULE, case, case.signals.deployment))
    yield _no_gain(Bench(RULE, case, case.signals.deployment))


def _no_transfer(board: Bench) -> Finding:
    """Decode serves requests and computes all of their prompts itself."""
    case = board.case
    served = board.weigh(SignalId.REQUESTS_FINISHED, Op.GE, "requests")
    none = Truth.UNKNOWN
    for instance in case.instances(Role.DECODE):
        scope = instance_scope(instance.name)
        if case.signals.value(SignalId.KV_RECEIVED_SHARE, scope) is not None:
            own = board.weigh(SignalId.KV_RECEIVED_SHARE, Op.LE, "received", scope)
            none = own if none is Truth.UNKNOWN else none & own
    if none is Truth.UNKNOWN:
        return board.finding(Truth.FALSE if board.signal(SignalId.KV_ACHIEVED) is not None else Truth.UNKNOWN)
    if board.signal(SignalId.KV_ACHIEVED) is not None:
        none &= board.weigh(SignalId.KV_ACHIEVED, Op.LE, 0.0)
    return board.finding(
        served & none & case.slo_broken,
        headline=f"{board.text(SignalId.REQUESTS_FINISHED)} were served and not one KV transfer took place: decode "
        "computes every prompt itself, and prefill does nothing",
        strength=1.0,
        decisive=(SignalId.REQUESTS_FINISHED,),
        remedies=("check_roles", "unify"),
    )


def _no_gain(board: Bench) -> Finding:
    """Short prompts whose hand-over takes as long as computing them, with nothing at a limit."""
    short = board.weigh(SignalId.PROMPT_TOKENS_PER_REQUEST, Op.LT, "prompt")
    dear = board.weigh(SignalId.HANDOVER_TO_PREFILL, Op.GE, "handover")
    room = Truth.TRUE
    if board.signal(SignalId.LINK_UTILIZATION) is not None:
        room = board.weigh(SignalId.LINK_UTILIZATION, Op.LT, "link")
    return board.finding(
        short & dear & room & board.case.broken("ttft"),
        headline=f"prompts of {board.text(SignalId.PROMPT_TOKENS_PER_REQUEST)} are handed over in "
        f"{board.text(SignalId.TRANSFER_TIME)}, {board.text(SignalId.HANDOVER_TO_PREFILL)} of the time that computing "
        "them takes: for such traffic one engine is faster than two",
        strength=0.6,
        decisive=(SignalId.HANDOVER_TO_PREFILL, SignalId.PROMPT_TOKENS_PER_REQUEST),
        remedies=("local_prefill", "unify"),
    )


RULE = Rule(
    id="workload_mismatch",
    verdict=Verdict.WORKLOAD_MISMATCH,
    evaluate=evaluate,
    thresholds=(
        Threshold("requests", 5, Unit.REQUESTS, "served in the window, before no transfer at all means anything"),
        Threshold("received", 0.01, Unit.RATIO, "share of the prompt tokens that came from prefill"),
        Threshold("prompt", 1024, Unit.TOKENS, "prompts below which field reports find no gain (512 to 1,024)"),
        Threshold("handover", 1, Unit.RATIO, "transfer and set-up by the time that prefill computes: the break-even"),
        Threshold("link", 0.5, Unit.RATIO, "demand by capacity above which the link is why the hand-over is slow"),
    ),
    remedies=("local_prefill", "unify", "check_roles"),
)
