"""Others use the ports that KV goes through."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold
from pdscope.model.finding import Finding, Op, Truth
from pdscope.model.signal import Scope, ScopeKind, SignalId
from pdscope.model.units import Unit

_LINK = Scope(ScopeKind.LINK, "prefill->decode")


def evaluate(case: Case) -> Iterator[Finding]:
    """The ports carry KV, and a good part of their line rate besides it."""
    if not case.deployment.disaggregated:
        return
    board = Bench(RULE, case, _LINK)
    line = board.value(SignalId.NIC_CAPACITY)
    share = case.threshold(RULE, "share")
    if line is None:
        board.missing.append(SignalId.NIC_CAPACITY)
    shared = Truth.UNKNOWN if line is None else board.weigh(SignalId.LINK_FOREIGN, Op.GE, share * line)
    yield board.finding(
        shared,
        headline=f"{board.text(SignalId.LINK_FOREIGN)} on the ports is not KV, of {board.text(SignalId.NIC_CAPACITY)} "
        "that they can carry; it is taken off the capacity",
        strength=min(1.0, (board.value(SignalId.LINK_FOREIGN) or 0.0) / line) if line else 0.0,
        decisive=(SignalId.LINK_FOREIGN,),
    )


RULE = Rule(
    id="link_shared",
    verdict=None,
    evaluate=evaluate,
    thresholds=(Threshold("share", 0.1, Unit.RATIO, "share of the line rate that something else takes"),),
    remedies=("separate_traffic", "use_more_nics"),
)
