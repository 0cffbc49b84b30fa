"""The transfer takes a wrong path: TCP instead of RDMA, the wrong NICs or half of them."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import Scope, ScopeKind, SignalId
from pdscope.model.units import Unit

_LINK = Scope(ScopeKind.LINK, "prefill->decode")


def evaluate(case: Case) -> Iterator[Finding]:
    """A transfer that is alone crawls, or many together never get above a crawl, or some ports carry all of it.

    Judged only where one transfer at the threshold's speed would take longer than an engine step: a quick transfer of
    few bytes is rounded up to the step in which it is noticed, and its speed says nothing. Small pieces explain a crawl
    without a wrong path.
    """
    if not case.deployment.disaggregated:
        return
    board = Bench(RULE, case, _LINK)
    late = board.weigh(SignalId.TRANSFER_TTFT_SHARE, Op.GE, "ttft_share")
    visible = board.weigh(SignalId.TRANSFER_FLOOR_STEPS, Op.GE, "steps")
    alone = _alone(board)
    flat = _flat(board)
    lopsided = _lopsided(board)
    decisive = SignalId.TRANSFER_LINK_SHARE
    if alone is not Truth.TRUE:
        decisive = SignalId.ACHIEVED_SHARE if flat is Truth.TRUE else SignalId.NIC_IMBALANCE
    yield board.finding(
        ((alone | flat) & visible | lopsided) & late,
        headline=_words(board, alone, flat),
        strength=0.8,
        decisive=(decisive, SignalId.TRANSFER_TTFT_SHARE),
    )


def _alone(board: Bench) -> Truth:
    """About one in flight, in large pieces, at a twentieth of what its pair has."""
    few = board.weigh(SignalId.TRANSFER_IN_FLIGHT, Op.LE, "few")
    large = board.weigh(SignalId.DESCRIPTOR_BYTES, Op.GE, "piece")
    slow = board.weigh(SignalId.TRANSFER_LINK_SHARE, Op.LT, "share")
    return few & large & slow


def _flat(board: Bench) -> Truth:
    """Many in flight, and yet no more bytes than before: what carries them is at its limit, far below the link."""
    many = board.weigh(SignalId.TRANSFER_IN_FLIGHT, Op.GE, "many")
    low = board.weigh(SignalId.ACHIEVED_SHARE, Op.LT, "share")
    steady = board.weigh(SignalId.ACHIEVED_TREND, Op.GE, 1 - board.case.threshold(RULE, "drift"))
    settled = board.weigh(SignalId.ACHIEVED_TREND, Op.LE, 1 + board.case.threshold(RULE, "drift"))
    return many & low & steady & settled


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


def _words(board: Bench, alone: Truth, flat: Truth) -> str:
    took = f"a transfer takes {board.text(SignalId.TRANSFER_TIME)}, {board.text(SignalId.TRANSFER_TTFT_SHARE)} of TTFT"
    if alone is Truth.TRUE:
        return (
            f"{took}, although about {board.count(SignalId.TRANSFER_IN_FLIGHT)} is in flight at a time: "
            f"{board.text(SignalId.TRANSFER_LINK_SHARE)} of the {board.text(SignalId.PAIR_CAPACITY)} that its pair has"
        )
    if flat is Truth.TRUE:
        return (
            f"{took}; with {board.count(SignalId.TRANSFER_IN_FLIGHT)} in flight all of them together move "
            f"{board.text(SignalId.KV_ACHIEVED)}, {board.text(SignalId.ACHIEVED_SHARE)} of the link, and no more as "
            "they add up"
        )
    return f"{took}; one port carries {board.text(SignalId.NIC_IMBALANCE)} of the mean of the ports"


RULE = Rule(
    id="kv_transfer_path",
    verdict=Verdict.KV_TRANSFER_PATH,
    evaluate=evaluate,
    thresholds=(
        Threshold("share", 0.05, Unit.RATIO, "of the link; TCP instead of RDMA is a hundredth of it in field reports"),
        Threshold("few", 1.5, Unit.REQUESTS, "transfers at a time that count as one alone"),
        Threshold("many", 4, Unit.REQUESTS, "transfers at a time; healthy pairs had below 1"),
        Threshold("piece", 65536, Unit.BYTES, "descriptors from which posting is no explanation"),
        Threshold("drift", 0.15, Unit.RATIO, "by which the rate of the newer half of the window differs: flat"),
        Threshold("steps", 1, Unit.COUNT, "engine steps that a transfer at `share` of the link takes"),
        Threshold("ttft_share", 0.2, Unit.RATIO, "share of TTFT from which a stage counts; tensward's warning level"),
        Threshold("imbalance", 1.8, Unit.RATIO, "busiest port by the mean: two ports of which one carries nine tenths"),
    ),
    remedies=("check_transport", "use_more_nics", "check_topology"),
)
