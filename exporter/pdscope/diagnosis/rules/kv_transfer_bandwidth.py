"""KV demand reaches what the interconnect can carry."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, past
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import Scope, ScopeKind, SignalId
from pdscope.model.units import Unit

_LINK = Scope(ScopeKind.LINK, "prefill->decode")


def evaluate(case: Case) -> Iterator[Finding]:
    """Demand (what arrives) or the achieved rate near the usable capacity, and transfers slow accordingly.

    Demand shows an overload that the achieved rate, by nature, cannot; a capacity configured too low would show one
    where there is none, so slow transfers must confirm it.
    """
    if not case.deployment.disaggregated:
        return
    board = Bench(RULE, case, _LINK)
    limit = case.threshold(RULE, "utilization")
    demanded = board.weigh(SignalId.LINK_UTILIZATION, Op.GE, limit)
    capacity = board.value(SignalId.LINK_CAPACITY)
    achieved = board.value(SignalId.KV_ACHIEVED)
    if capacity is not None and achieved is not None:
        demanded |= board.weigh(SignalId.KV_ACHIEVED, Op.GE, limit * capacity)
    slow = board.weigh(SignalId.TRANSFER_TTFT_SHARE, Op.GE, "ttft_share") | board.weigh(
        SignalId.TRANSFER_IN_FLIGHT, Op.GE, "in_flight"
    )
    truth = demanded & slow
    moving = f"{board.text(SignalId.KV_ACHIEVED)} get through, " if achieved is not None else ""
    yield board.finding(
        truth,
        headline=f"KV demand of {board.text(SignalId.KV_DEMAND)} meets a link that carries "
        f"{board.text(SignalId.LINK_CAPACITY)} ({board.text(SignalId.LINK_UTILIZATION)}); {moving}"
        f"a transfer takes {board.text(SignalId.TRANSFER_TIME)}",
        strength=past(board.value(SignalId.LINK_UTILIZATION), limit),
        decisive=_decisive(board, slow),
    )


def _decisive(board: Bench, slow: Truth) -> tuple[SignalId, ...]:
    share = board.value(SignalId.TRANSFER_TTFT_SHARE)
    by_share = share is not None and share >= board.case.threshold(RULE, "ttft_share")
    return (SignalId.LINK_UTILIZATION, SignalId.TRANSFER_TTFT_SHARE if by_share else SignalId.TRANSFER_IN_FLIGHT)


RULE = Rule(
    id="kv_transfer_bandwidth",
    verdict=Verdict.KV_TRANSFER_BANDWIDTH,
    evaluate=evaluate,
    thresholds=(
        Threshold("utilization", 0.9, Unit.RATIO, "demand by usable capacity; 0.9 x efficiency 0.8 is 0.72 of nominal"),
        Threshold("ttft_share", 0.2, Unit.RATIO, "share of TTFT from which a stage counts; tensward's warning level"),
        Threshold("in_flight", 4, Unit.REQUESTS, "transfers at a time; healthy pairs had below 1"),
    ),
    remedies=(
        "use_more_nics",
        "faster_link",
        "quantise_kv",
        "decode_prefix_cache",
        "local_prefill",
        "shed_load",
    ),
)
