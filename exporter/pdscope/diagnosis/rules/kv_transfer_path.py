"""The transfer takes a wrong path: TCP instead of RDMA, the wrong NICs or half of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pdscope.diagnosis import symptoms
from pdscope.diagnosis.base import Bench, Case, Rule, Threshold
from pdscope.diagnosis.handover import POSTING, heads_are_cut, hurts, posting_explains
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import Scope, ScopeKind, SignalId
from pdscope.model.units import Unit

_LINK = Scope(ScopeKind.LINK, "prefill->decode")


def evaluate(case: Case) -> Iterator[Finding]:
    """What is in flight crawls, alone or together, and no posting of small pieces explains it; or one port carries all.

    Judged only where one transfer at the threshold's speed would take longer than an engine step: a quick transfer of
    few bytes is rounded up to the step in which it is noticed, and its speed says nothing. With TTFT within its
    objective a slow way hurts nobody.

    Where unequal parallelism cuts heads into slices and no engine times the posting, pieces are far smaller than a page
    and nobody knows how small: then the slices are the nearer cause, and the path is named only if they are not.
    """
    if not case.deployment.disaggregated:
        return
    board = Bench(RULE, case, _LINK)
    late = board.weigh(SignalId.TRANSFER_TTFT_SHARE, Op.GE, "ttft_share")
    visible = board.weigh(SignalId.TRANSFER_FLOOR_STEPS, Op.GE, "steps")
    crawls = board.weigh(SignalId.MOVING_SHARE, Op.LT, "share")
    lopsided = _lopsided(board)
    decisive = SignalId.MOVING_SHARE if crawls is Truth.TRUE else SignalId.NIC_IMBALANCE
    sliced = heads_are_cut(case) and board.signal(SignalId.POST_SHARE) is None and lopsided is not Truth.TRUE
    found = board.finding(
        ((crawls & visible & ~posting_explains(board)) | lopsided) & late & hurts(case),
        headline=_words(board, crawls),
        strength=0.8,
        decisive=(decisive, SignalId.TRANSFER_TTFT_SHARE),
    )
    yield replace(found, before=Verdict.KV_TRANSFER_SETUP) if sliced else found


def _lopsided(board: Bench) -> Truth:
    """Some ports carry all of it, and a transfer is no faster than they are.

    Ports that KV does not go through say nothing. Ports that lie idle beside enough others are no fault: a host has
    ports of other devices and of storage.
    """
    imbalance = board.value(SignalId.NIC_IMBALANCE)
    if imbalance is None or board.signal(SignalId.LINK_FOREIGN) is None:
        return Truth.FALSE
    uneven = board.weigh(SignalId.NIC_IMBALANCE, Op.GE, "imbalance")
    return uneven & board.weigh(SignalId.TRANSFER_LINK_SHARE, Op.LE, 1 / imbalance) if uneven is Truth.TRUE else uneven


def _words(board: Bench, crawls: Truth) -> str:
    took = f"a transfer takes {board.text(SignalId.TRANSFER_TIME)}, {board.text(SignalId.TRANSFER_TTFT_SHARE)} of TTFT"
    if crawls is Truth.TRUE:
        return (
            f"{took}; with {board.count(SignalId.TRANSFER_IN_FLIGHT)} in flight on average KV moves at "
            f"{board.text(SignalId.MOVING_SHARE)} of what the link between them carries "
            f"({board.text(SignalId.PAIR_CAPACITY)} a pair)"
        )
    return f"{took}; one port carries {board.text(SignalId.NIC_IMBALANCE)} of the mean of the ports"


RULE = Rule(
    id="kv_transfer_path",
    verdict=Verdict.KV_TRANSFER_PATH,
    evaluate=evaluate,
    thresholds=(
        Threshold("share", 0.05, Unit.RATIO, "of the link; TCP instead of RDMA is a hundredth of it in field reports"),
        *POSTING,
        Threshold("steps", 1, Unit.COUNT, "engine steps that a transfer at `share` of the link takes"),
        Threshold("ttft_share", 0.2, Unit.RATIO, "share of TTFT from which a stage counts; tensward's warning level"),
        Threshold("imbalance", 1.8, Unit.RATIO, "busiest port by the mean: two ports of which one carries nine tenths"),
    ),
    remedies=("check_transport", "use_more_nics", "check_topology"),
    covers=symptoms.FETCH | {"pd_ratio"},
)
