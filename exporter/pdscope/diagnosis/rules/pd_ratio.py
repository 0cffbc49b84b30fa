"""Prefill and decode are sized wrongly for each other."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold
from pdscope.model.finding import Finding, Op, Truth
from pdscope.model.signal import SignalId, instance_scope
from pdscope.model.topology import Role
from pdscope.model.units import Unit, format_quantity

_PARTS = 3
"""Whole instances of one role for so many of the other at most: 3 : 2 is as exact as loads are, 17 : 2 is not."""
_MOST = 9
"""Instances of one role for one of the other, beyond which the ratio is not told more exactly."""


def evaluate(case: Case) -> Iterator[Finding]:
    """One role works at its limit and the other at ease, with room on the link.

    An instance at a load serves that share of what it can, so the rate by the load of all its instances is the service
    rate of one; the roles are in balance where instances x service rate is the same of both. While the link is full
    another ratio only asks more of it, and a queue in front of prefill's full pool waits for decode to fetch, not for
    more prefill.
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
    if board.signal(SignalId.ROLES_ANSWERING) is not None:  # the devices of a dead instance say nothing of a ratio
        room &= board.weigh(SignalId.ROLES_ANSWERING, Op.GE, 1.0)
    yield board.finding(
        (prefill_hot | decode_hot) & room,
        headline=f"prefill works at {board.text(SignalId.PREFILL_LOAD)} and decode at "
        f"{board.text(SignalId.DECODE_LOAD)}: {_balance(board, prefill, decode)}",
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


def _balance(board: Bench, prefill: float | None, decode: float | None) -> str:
    """The ratio of instances at which both roles would serve as much, and the service rates that it comes from."""
    senders, receivers = (len(board.case.instances(role)) for role in (Role.PREFILL, Role.DECODE))
    if not prefill or not decode:
        return f"{senders} prefill : {receivers} decode do not fit the traffic"
    wanted = _ratio(senders * prefill, receivers * decode)
    said = f"{wanted} would balance; there are {senders} : {receivers}"
    served = board.value(SignalId.REQUESTS_PER_SECOND)
    if not served:
        return said
    rates = [
        format_quantity(served / work, Unit.REQUESTS_PER_SECOND) for work in (senders * prefill, receivers * decode)
    ]
    return f"{said} (by service rates of about {rates[0]} for one prefill and {rates[1]} for one decode instance)"


def _ratio(prefill: float, decode: float) -> str:
    """Work as a ratio of small whole numbers."""
    uneven = max(prefill, decode) / min(prefill, decode)
    near = Fraction(uneven).limit_denominator(_PARTS if uneven < _PARTS else 1)
    more, less = (f"over {_MOST}", "1") if uneven > _MOST else (str(near.numerator), str(near.denominator))
    return f"{more} prefill : {less} decode" if prefill >= decode else f"{less} prefill : {more} decode"


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
