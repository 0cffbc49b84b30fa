"""Disaggregation does not pay for this traffic, or does not take place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from operator import and_

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
    """Decode serves requests and computes all of their prompts itself.

    Every instance that generates must say so. An engine that does not count what it received leaves it unknown, unless
    bytes were seen to move. What is no hand-over makes every other judgement of one void, so it is judged early.
    """
    case = board.case
    served = board.weigh(SignalId.REQUESTS_FINISHED, Op.GE, "requests")
    # exactly none: decode that finds nearly all of a prompt in its own prefix cache receives little of it
    own = [
        board.weigh(SignalId.KV_RECEIVED_SHARE, Op.LE, 0.0, instance_scope(decoder.name))
        for decoder in case.instances(Role.DECODE)
        if _generates(board, decoder.name)
    ]
    none = reduce(and_, own) if own else Truth.UNKNOWN
    if board.signal(SignalId.KV_ACHIEVED) is not None:
        none &= board.weigh(SignalId.KV_ACHIEVED, Op.LE, 0.0)
    found = board.finding(
        served & none & case.slo_broken,
        headline=f"{board.text(SignalId.REQUESTS_FINISHED)} were served and not one KV transfer took place: decode "
        "computes every prompt itself",
        strength=1.0,
        decisive=(SignalId.REQUESTS_FINISHED, SignalId.KV_RECEIVED_SHARE),
        remedies=("check_roles", "unify"),
    )
    return replace(found, before=Verdict.DECODE_KV_CAPACITY)


def _generates(board: Bench, name: str) -> bool:
    """Whether it may have served anything: one that generated nothing received nothing either."""
    return board.case.signals.value(SignalId.GENERATION_RATE, instance_scope(name)) != 0.0


def _no_gain(board: Bench) -> Finding:
    """Short prompts whose hand-over takes as long as computing them and makes up TTFT, with room on the link."""
    served = board.weigh(SignalId.REQUESTS_FINISHED, Op.GE, "requests")
    short = board.weigh(SignalId.PROMPT_TOKENS_PER_REQUEST, Op.LT, "prompt")
    dear = board.weigh(SignalId.HANDOVER_TO_PREFILL, Op.GE, "handover")
    matters = board.weigh(SignalId.TRANSFER_TTFT_SHARE, Op.GE, "ttft_share")
    if board.signal(SignalId.SETUP_TTFT_SHARE) is not None:
        matters |= board.weigh(SignalId.SETUP_TTFT_SHARE, Op.GE, "ttft_share")
    if board.signal(SignalId.LINK_UTILIZATION) is not None:
        room = board.weigh(SignalId.LINK_UTILIZATION, Op.LT, "link")
    else:  # the capacity is not known, but a link that is full has many transfers in progress
        room = board.weigh(SignalId.TRANSFER_IN_FLIGHT, Op.LT, "in_flight")
    return board.finding(
        served & short & dear & matters & room & board.case.broken("ttft"),
        headline=f"prompts of {board.text(SignalId.PROMPT_TOKENS_PER_REQUEST)} are handed over in "
        f"{board.text(SignalId.TRANSFER_TIME)}, which with the set-up is {board.text(SignalId.HANDOVER_TO_PREFILL)} of "
        "the time that computing them takes: for such traffic one engine is faster than two",
        strength=0.6,
        decisive=(SignalId.HANDOVER_TO_PREFILL, SignalId.PROMPT_TOKENS_PER_REQUEST),
        remedies=("local_prefill", "unify"),
    )


RULE = Rule(
    id="workload_mismatch",
    verdict=Verdict.WORKLOAD_MISMATCH,
    evaluate=evaluate,
    thresholds=(
        Threshold("requests", 5, Unit.REQUESTS, "served in the window, before a mean or no transfer means anything"),
        Threshold("prompt", 1024, Unit.TOKENS, "prompts below which field reports find no gain (512 to 1,024)"),
        Threshold("handover", 1, Unit.RATIO, "transfer and set-up by the time that prefill computes: the break-even"),
        Threshold("ttft_share", 0.2, Unit.RATIO, "share of TTFT from which a stage counts; tensward's warning level"),
        Threshold("link", 0.5, Unit.RATIO, "demand by capacity above which the link is why the hand-over is slow"),
        Threshold("in_flight", 4, Unit.REQUESTS, "transfers in progress from which an unknown link may be full"),
    ),
    remedies=("local_prefill", "unify", "check_roles"),
)
