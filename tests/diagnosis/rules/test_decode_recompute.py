"""`decode_recompute`: decode computes prompts whose KV is handed over."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.decode_recompute import RULE
from pdscope.model.finding import Truth, Verdict
from pdscope.model.signal import SignalId
from pdscope.model.topology import Role
from support.signals import CALM, FINDINGS, changed, deployment, finding, findings, instance, on, verdict_of

STORY = FINDINGS["decode_recompute"]


def test_holds_with_both_shares() -> None:
    """What it computes, and what it gets."""
    found = finding(RULE, STORY)
    assert (found.truth, found.scope.name, found.culprits) == (Truth.TRUE, "d0", ("d0",))
    assert "30 %" in found.headline
    assert "70 %" in found.headline
    assert found.strength == pytest.approx(0.3)


@pytest.mark.parametrize(("share", "truth"), [(0.099, Truth.FALSE), (0.1, Truth.TRUE)])
def test_one_token_a_request_is_tolerated(share: float, truth: Truth) -> None:
    """A tenth of the prompt tokens is not."""
    assert finding(RULE, changed(STORY, on("d0", {SignalId.RECOMPUTED_SHARE: share}))).truth is truth
    assert finding(RULE, STORY, thresholds={"share": 0.31}).truth is Truth.FALSE


def test_where_nothing_is_fetched_it_is_something_else() -> None:
    """Roles that do not work together; and without the share fetched nobody knows."""
    assert finding(RULE, changed(STORY, on("d0", {SignalId.KV_RECEIVED_SHARE: 0.0}))).truth is Truth.FALSE
    unknown = finding(RULE, changed(STORY, {("d0", SignalId.KV_RECEIVED_SHARE): None}))
    assert (unknown.truth, unknown.missing) == (Truth.UNKNOWN, (SignalId.KV_RECEIVED_SHARE,))


def test_a_unified_engine_recomputes_nothing() -> None:
    """It computes all of its prompts."""
    told = changed(CALM, on("u0", {SignalId.RECOMPUTED_SHARE: 1.0, SignalId.KV_RECEIVED_SHARE: 0.5}))
    assert findings(RULE, told, deployment(instance("u0", Role.UNIFIED))) == []


def test_an_engine_that_does_not_tell_is_not_judged() -> None:
    """Its prompt tokens have no source."""
    assert findings(RULE, CALM) == []


def test_it_is_no_verdict() -> None:
    """The deployment is as healthy as without it, and the finding stands beside."""
    diagnosis = verdict_of(STORY).diagnosis
    assert diagnosis.verdict is Verdict.HEALTHY
    held = [f for f in diagnosis.findings if f.rule == RULE.id]
    assert [(f.truth, f.verdict) for f in held] == [(Truth.TRUE, None)]
