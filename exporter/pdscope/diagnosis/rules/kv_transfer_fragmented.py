"""Many small pieces: posting them costs more than moving them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pdscope.diagnosis import symptoms
from pdscope.diagnosis.base import Bench, Case, Rule, Threshold
from pdscope.diagnosis.handover import POSTING, heads_are_cut, hurts, posting_explains
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import Scope, ScopeKind, SignalId
from pdscope.model.topology import Role
from pdscope.model.units import Unit

_LINK = Scope(ScopeKind.LINK, "prefill->decode")


def evaluate(case: Case) -> Iterator[Finding]:
    """Posting explains the pace; or pages are small and speed falls; or unequal parallelism cuts heads into slices.

    Each only with transfers that are late, and all but a timed posting only where they are slow for their bytes over a
    link that is far from full: small pages on a quick link are healthy, and so is unequal parallelism, and a rate falls
    with the traffic as well.
    """
    if not case.deployment.disaggregated:
        return
    board = Bench(RULE, case, _LINK)
    late = board.weigh(SignalId.TRANSFER_TTFT_SHARE, Op.GE, "ttft_share")
    posting = posting_explains(board)
    timed = board.signal(SignalId.POST_SHARE) is not None
    small = board.weigh(SignalId.DESCRIPTOR_BYTES, Op.LT, "piece")
    falling = board.weigh(SignalId.ACHIEVED_TREND, Op.LT, 1 - case.threshold(RULE, "loss"))
    scattered = falling & board.weigh(SignalId.TRANSFER_IN_FLIGHT, Op.GE, "many")
    slow = board.weigh(SignalId.MOVING_SHARE, Op.LT, "slow")
    room = board.weigh(SignalId.LINK_UTILIZATION, Op.LT, "room")
    guessed = (scattered | Truth.of(heads_are_cut(case))) & small
    guessed = (guessed if timed else guessed | posting) & slow & room
    decisive = SignalId.POST_SHARE if timed and posting is Truth.TRUE else SignalId.DESCRIPTOR_BYTES
    busy = _posts_all_the_time(case)
    found = board.finding(
        ((posting | guessed) if timed else guessed) & late & hurts(case),
        headline=_words(board, posting, scattered, timed=timed),
        strength=0.75,
        decisive=(decisive, SignalId.TRANSFER_TTFT_SHARE),
        culprits=tuple(i.name for i in case.deployment.of_role(Role.DECODE)) if busy else (),
    )
    # the thread that posts is the one that runs the steps: what piles up on decode is for want of them
    yield replace(found, outranks=RULE.outranks) if busy else found


def _posts_all_the_time(case: Case) -> bool:
    busy = case.signals.value(SignalId.POST_BUSY, case.signals.deployment)
    return busy is not None and busy >= case.threshold(RULE, "busy")


def _words(board: Bench, posting: Truth, scattered: Truth, *, timed: bool) -> str:
    pieces = f"pieces of {board.text(SignalId.DESCRIPTOR_BYTES)}"
    took = f"a transfer takes {board.text(SignalId.TRANSFER_TIME)}, {board.text(SignalId.TRANSFER_TTFT_SHARE)} of TTFT"
    if timed and posting is Truth.TRUE:
        if board.signal(SignalId.POST_BUSY) is not None and _posts_all_the_time(board.case):
            return f"{took}; decode posts {pieces} {_how_long(board)}, and its steps wait for that"
        return f"{took}, {board.text(SignalId.POST_SHARE)} of it to post {pieces}"
    full = f"the link is {board.text(SignalId.LINK_UTILIZATION)} full"
    if scattered is Truth.TRUE:
        return (
            f"{took}; in {pieces} the rate fell to {board.text(SignalId.ACHIEVED_TREND)} within the window with "
            f"{board.count(SignalId.TRANSFER_IN_FLIGHT)} in flight, while {full}"
        )
    if posting is Truth.TRUE:
        pace = board.text(SignalId.DESCRIPTOR_TIME)
        return f"{took}; it goes in {pieces}, one every {pace} on a rank: as fast as they can be posted, while {full}"
    return f"{took}; unequal tensor parallelism cuts the cache into {pieces}, while {full}"


def _how_long(board: Bench) -> str:
    """A rank that posts several transfers at once spends more than a second in each second."""
    busy = board.value(SignalId.POST_BUSY) or 0.0
    if busy <= 1:
        return f"for {board.text(SignalId.POST_BUSY)} of the time"
    return f"all the time, {busy:.3g} transfers at once on each rank"


RULE = Rule(
    id="kv_transfer_fragmented",
    verdict=Verdict.KV_TRANSFER_FRAGMENTED,
    evaluate=evaluate,
    thresholds=(
        *POSTING,
        Threshold("loss", 0.15, Unit.RATIO, "of the older half's rate, that the newer half of the window has lost"),
        Threshold("many", 4, Unit.REQUESTS, "transfers at a time; healthy pairs had below 1"),
        Threshold("slow", 0.1, Unit.RATIO, "of what a pair has; a link at half its load slows a transfer by 1.5"),
        Threshold("room", 0.5, Unit.RATIO, "demand by capacity above which the link itself explains slow transfers"),
        Threshold("ttft_share", 0.2, Unit.RATIO, "share of TTFT from which a stage counts; tensward's warning level"),
    ),
    remedies=("larger_pages", "equal_parallelism", "staging_buffer", "restart_decode"),
    outranks=(Verdict.DECODE_KV_CAPACITY, Verdict.DECODE_ADMISSION),
    covers=symptoms.FETCH | {"decode_admission", "decode_kv_capacity", "pd_ratio"},
)
