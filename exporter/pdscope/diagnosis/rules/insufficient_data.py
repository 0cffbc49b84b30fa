"""Cannot tell: a whole role is not seen, or not seen twice."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import SignalId, instance_scope
from pdscope.model.topology import Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """True when some role of the deployment has no instance with two fresh scrapes.

    One instance of a role that answers is enough to judge the role; the others are named in findings of their own.
    """
    board = bench(RULE, case)
    truth = Truth.FALSE
    blind: list[str] = []
    scrapes = round(case.threshold(RULE, "scrapes"))
    for role in (Role.PREFILL, Role.DECODE, Role.UNIFIED):
        members = case.instances(role)
        if not members:
            continue
        seen = Truth.FALSE
        for instance in members:
            seen |= board.weigh(SignalId.SCRAPES, Op.GE, scrapes, instance_scope(instance.name))
        if seen is not Truth.TRUE:
            blind += [i.name for i in members]
            truth = Truth.TRUE
    if not case.instances(Role.PREFILL, Role.DECODE, Role.UNIFIED):
        truth = Truth.TRUE
    names = ", ".join(blind) or "any instance"
    yield board.finding(
        truth,
        headline=f"fewer than {scrapes} fresh scrapes of {names}: no rate and no latency can be had",
        strength=1.0,
        decisive=(SignalId.SCRAPES,),
        culprits=blind,
    )


RULE = Rule(
    id="insufficient_data",
    verdict=Verdict.INSUFFICIENT_DATA,
    evaluate=evaluate,
    thresholds=(Threshold("scrapes", 2, Unit.COUNT, "a rate needs two points"),),
)
