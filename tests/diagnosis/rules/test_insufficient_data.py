"""`insufficient_data`: a whole role is not seen twice."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.insufficient_data import RULE
from pdscope.model.finding import Confidence, Truth, Verdict
from pdscope.model.signal import SignalId
from pdscope.model.topology import Role
from support.signals import CALM, STORIES, changed, deployment, finding, instance, on, verdict_of

TWO_AND_TWO = deployment(
    *(instance(f"{role[0]}{n}", role) for role in (Role.PREFILL, Role.DECODE) for n in (0, 1)),
)


def test_silent() -> None:
    """Two scrapes of each role are enough."""
    assert finding(RULE, CALM).truth is Truth.FALSE
    twice = {("p0", SignalId.SCRAPES): 2.0, ("d0", SignalId.SCRAPES): 2.0}
    assert finding(RULE, changed(CALM, twice)).truth is Truth.FALSE


def test_one_instance_of_a_role_is_enough() -> None:
    """The others are named elsewhere; the role can be judged."""
    assert finding(RULE, CALM, TWO_AND_TWO).truth is Truth.FALSE
    assert finding(RULE, changed(CALM, on("p1", {SignalId.SCRAPES: 1.0})), TWO_AND_TWO).truth is Truth.FALSE


def test_a_router_is_not_needed() -> None:
    """It serves no tokens."""
    members = (("p0", Role.PREFILL), ("d0", Role.DECODE), ("r0", Role.ROUTER))
    assert finding(RULE, CALM, deployment(*(instance(n, r) for n, r in members))).truth is Truth.FALSE


@pytest.mark.parametrize("role", ["p0", "d0"])
@pytest.mark.parametrize("scrapes", [1.0, 0.0, None], ids=["one scrape", "none", "never seen"])
def test_holds_for_each_role(role: str, scrapes: float | None) -> None:
    """A role that was not seen twice makes every answer a guess; it names the blind instances."""
    found = finding(RULE, changed(CALM, {(role, SignalId.SCRAPES): scrapes}))
    assert found.truth is Truth.TRUE
    assert found.culprits == (role,)
    assert (SignalId.SCRAPES in found.missing) is (scrapes is None)
    assert found.headline == f"fewer than 2 fresh scrapes of {role}: no rate and no latency can be had"


def test_unified_instances_are_a_role() -> None:
    """Nothing but unified instances, none of them seen."""
    unified = deployment(instance("u0", Role.UNIFIED), instance("u1", Role.UNIFIED))
    found = finding(RULE, on("u0", {SignalId.SCRAPES: 1.0}), unified)
    assert (found.truth, found.culprits) == (Truth.TRUE, ("u0", "u1"))
    assert finding(RULE, on("u1", {SignalId.SCRAPES: 2.0}), unified).truth is Truth.FALSE


def test_holds_where_nobody_serves() -> None:
    """A deployment of routers alone has nothing to judge."""
    found = finding(RULE, CALM, deployment(instance("r0", Role.ROUTER)))
    assert (found.truth, found.culprits) == (Truth.TRUE, ())


def test_threshold_is_configurable() -> None:
    """The headline names the number that was asked for."""
    assert {t.name for t in RULE.thresholds} == {"scrapes"}
    found = finding(RULE, CALM, thresholds={"scrapes": 14.0})
    assert found.truth is Truth.TRUE
    assert "fewer than 14 fresh scrapes of p0, d0" in found.headline


def test_outranks_every_cause_at_low_confidence() -> None:
    """Alarming gauges of a single scrape are no diagnosis."""
    alarming = changed(STORIES["decode_kv_capacity"], on("d0", {SignalId.SCRAPES: 1.0}))
    diagnosis = verdict_of(alarming).diagnosis
    assert (diagnosis.verdict, diagnosis.confidence) == (Verdict.INSUFFICIENT_DATA, Confidence.LOW)
    assert diagnosis.findings[0].remedies == ()
