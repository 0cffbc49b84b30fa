"""Prefill and decode are sized wrongly for each other."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold
from pdscope.model.finding import Finding, Op, Truth
from pdscope.model.signal import SignalId, instance_scope
from pdscope.model.topology import Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """One role works at its limit and the other at ease, with room on the link.

    The balanced ratio is that of the loads: instances of a role x its load is the work, and the work of both has to be
    the same share of what each has. While the link is full another ratio only asks more of it, and a queue in front of
    prefill's full pool waits for decode to fetch, not for more prefill.
    """
    if not case.deployment.disaggregated:
        return
    board = Bench(RULE, case, case.signals.deployment)
    prefill = board.value(SignalId.PREFILL_LOAD)
    decode = board.value(SignalId.DECODE_LOAD)
    prefill_hot = board.weigh(SignalId.PREFILL_LOAD, Op.GE, "hot") & board.weigh(SignalId.DECODE_LOAD, Op.LE, "cold")
    prefill_hot &= ~_pinned(board)
    decode_hot = board.weigh(SignalId.DECODE_LOAD, Op.GE, "hot") & board.weigh(SignalId.PREFILL_LOAD, Op.LE, "cold")
    room = Truth.TRUE
    if board.signal(SignalId.LINK_UTILIZATION) is not None:
        room = board.weigh(SignalId.LINK_UTILIZATION, Op.LT, "link")
    yield board.finding(
        (prefill_hot | decode_hot) & room,
        headline=f"prefill works at {board.text(SignalId.PREFILL_LOAD)} and decode at "
        f"{board.text(SignalId.DECODE_LOAD)}: {_balance(case, prefill, decode)}",
        strength=0.6,
        decisive=(SignalId.PREFILL_LOAD, SignalId.DECODE_LOAD),
        remedies=("add_prefill",) if prefill_hot is Truth.TRUE else ("add_decode",),
    )


def _pinned(board: Bench) -> Truth:
    """Some prefill pool has no room for the next prompt. Unknown counts as no: then its queue is all that is known."""
    scopes = [instance_scope(i.name) for i in board.case.instances(Role.PREFILL)]
    known = [scope for scope in scopes if board.signal(SignalId.KV_FREE_REQUESTS, scope) is not None]
    full = [board.weigh(SignalId.KV_FREE_REQUESTS, Op.LT, 1.0, scope) for scope in known]
    return Truth.of(Truth.TRUE in full)


def _balance(case: Case, prefill: float | None, decode: float | None) -> str:
    """The ratio in which the same instances would carry the same share each."""
    senders, receivers = len(case.instances(Role.PREFILL)), len(case.instances(Role.DECODE))
    if not prefill or not decode:
        return "the ratio of instances does not fit the traffic"
    total, work = senders + receivers, senders * prefill + receivers * decode
    wanted = min(max(total * senders * prefill / work, 1.0), total - 1.0)
    return f"balanced would be about {wanted:.1f} prefill to {total - wanted:.1f} decode, now {senders} to {receivers}"


RULE = Rule(
    id="pd_ratio",
    verdict=None,
    evaluate=evaluate,
    thresholds=(
        Threshold("hot", 0.85, Unit.RATIO, "load of the role that is at its limit"),
        Threshold("cold", 0.4, Unit.RATIO, "load of the role that has time"),
        Threshold("link", 0.9, Unit.RATIO, "demand by capacity from which the ratio is not the question"),
    ),
    remedies=("add_prefill", "add_decode"),
)
