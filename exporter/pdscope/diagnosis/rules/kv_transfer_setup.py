"""Handshake, bootstrap or the control path is slow: little moves, and nothing is full."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold
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
        larger & late & room & _decode_has_room(board),
        headline=f"set-up takes {board.text(SignalId.SETUP_TIME)} before a transfer of "
        f"{board.text(SignalId.TRANSFER_TIME)} begins, {board.text(SignalId.SETUP_TTFT_SHARE)} of TTFT, while the link "
        f"is {board.text(SignalId.LINK_UTILIZATION)} full and decode has room",
        strength=0.7,
        decisive=(SignalId.SETUP_SHARE, SignalId.SETUP_TTFT_SHARE),
    )


def _decode_has_room(board: Bench) -> Truth:
    """No decode instance keeps anyone waiting for slots or memory: a handshake waits for that as well."""
    truth = Truth.TRUE
    for instance in board.case.instances(Role.DECODE):
        scope = instance_scope(instance.name)
        queue = board.case.signals.value(SignalId.ADMISSION_QUEUE, scope)
        if queue is not None:
            truth &= board.weigh(SignalId.ADMISSION_QUEUE, Op.LT, "queue", scope)
        if board.case.signals.value(SignalId.KV_FREE_REQUESTS, scope) is not None:
            truth &= board.weigh(SignalId.KV_FREE_REQUESTS, Op.GE, 1.0, scope)
    return truth


RULE = Rule(
    id="kv_transfer_setup",
    verdict=Verdict.KV_TRANSFER_SETUP,
    evaluate=evaluate,
    thresholds=(
        Threshold("share", 0.5, Unit.RATIO, "set-up by set-up and transfer: the larger part"),
        Threshold("ttft_share", 0.2, Unit.RATIO, "share of TTFT from which a stage counts; tensward's warning level"),
        Threshold("room", 0.5, Unit.RATIO, "demand by capacity above which the link itself may delay a handshake"),
        Threshold("queue", 1, Unit.REQUESTS, "requests that stand before decode's admission"),
    ),
    remedies=("warm_up_connections", "faster_bootstrap", "more_transfer_threads"),
)
