"""Handshake, bootstrap or the control path is slow: little moves, and nothing is full."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis import symptoms
from pdscope.diagnosis.base import Bench, Case, Rule, Threshold
from pdscope.diagnosis.handover import hurts
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import Scope, ScopeKind, SignalId, instance_scope
from pdscope.model.topology import Role
from pdscope.model.units import Unit

_LINK = Scope(ScopeKind.LINK, "prefill->decode")


def evaluate(case: Case) -> Iterator[Finding]:
    """Set-up takes the larger part of the hand-over and a real part of TTFT, while link, slots and pools have room."""
    if not case.deployment.disaggregated:
        return
    board = Bench(RULE, case, _LINK)
    larger = board.weigh(SignalId.SETUP_SHARE, Op.GE, "share")
    late = board.weigh(SignalId.SETUP_TTFT_SHARE, Op.GE, "ttft_share")
    room = board.weigh(SignalId.LINK_UTILIZATION, Op.LT, "room")
    yield board.finding(
        larger & late & room & _decode_has_room(board) & hurts(case),
        headline=f"set-up takes {board.text(SignalId.SETUP_TIME)} before a transfer of "
        f"{board.text(SignalId.TRANSFER_TIME)} begins, {board.text(SignalId.SETUP_TTFT_SHARE)} of TTFT, while the link "
        f"is {board.text(SignalId.LINK_UTILIZATION)} full and decode has room",
        strength=0.7,
        decisive=(SignalId.SETUP_SHARE, SignalId.SETUP_TTFT_SHARE),
    )


def _decode_has_room(board: Bench) -> Truth:
    """No decode instance keeps anyone waiting for slots or memory: a handshake waits for that as well.

    An engine's admission queue may hold the handshakes themselves: rate by set-up time of them, by Little's law. Where
    one of queue and memory is not told the other decides; where neither is, nobody knows.
    """
    handshakes = (board.value(SignalId.SETUP_TIME) or 0.0) * (board.value(SignalId.REQUESTS_PER_SECOND) or 0.0)
    longest = board.case.threshold(RULE, "queue") + handshakes
    truth = Truth.TRUE
    for instance in board.case.instances(Role.DECODE):
        scope = instance_scope(instance.name)
        told = (SignalId.ADMISSION_QUEUE, SignalId.KV_FREE_REQUESTS)
        neither = all(board.signal(signal, scope) is None for signal in told)
        for signal, op, limit in (
            (SignalId.ADMISSION_QUEUE, Op.LT, longest),
            (SignalId.KV_FREE_REQUESTS, Op.GE, 1.0),
        ):
            if neither or board.signal(signal, scope) is not None:
                truth &= board.weigh(signal, op, limit, scope)
        if board.signal(SignalId.RUNNING_TO_LIMIT, scope) is not None:
            truth &= board.weigh(SignalId.RUNNING_TO_LIMIT, Op.LT, 1.0, scope)
    return truth


RULE = Rule(
    id="kv_transfer_setup",
    verdict=Verdict.KV_TRANSFER_SETUP,
    evaluate=evaluate,
    thresholds=(
        Threshold("share", 0.5, Unit.RATIO, "set-up by set-up and transfer: the larger part"),
        Threshold("ttft_share", 0.2, Unit.RATIO, "share of TTFT from which a stage counts; tensward's warning level"),
        Threshold("room", 0.5, Unit.RATIO, "demand by capacity above which the link itself may delay a handshake"),
        Threshold("queue", 1, Unit.REQUESTS, "requests that stand before decode's admission, handshakes aside"),
    ),
    remedies=("warm_up_connections", "faster_bootstrap", "more_transfer_threads", "more_transfer_queues"),
    covers=symptoms.FETCH - {"kv_transfer_setup"} | {"pd_ratio"},
)
