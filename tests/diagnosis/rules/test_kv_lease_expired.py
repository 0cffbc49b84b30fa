"""`kv_lease_expired`: prefill drops finished prompts that decode has not fetched."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.kv_lease_expired import RULE
from pdscope.model.finding import Truth, Verdict
from pdscope.model.signal import SignalId
from support.signals import CALM, FINDINGS, STORIES, changed, finding, findings, on, verdict_of

STORY = FINDINGS["kv_lease_expired"]

FULL = STORIES["decode_admission"]


def test_holds_with_the_rate_and_its_danger() -> None:
    """The counter stands on prefill; what becomes of the request is said aloud."""
    found = finding(RULE, STORY)
    assert (found.truth, found.scope.name, found.culprits) == (Truth.TRUE, "p0", ("p0",))
    assert "0.05/s" in found.headline
    assert "HTTP 200" in found.headline
    assert [r.id for r in found.remedies] == list(RULE.remedies)


@pytest.mark.parametrize(("rate", "truth"), [(0.0, Truth.FALSE), (1e-6, Truth.TRUE)])
def test_any_is_one_too_many(rate: float, truth: Truth) -> None:
    """And none is none."""
    assert finding(RULE, changed(STORY, on("p0", {SignalId.LEASES_EXPIRED: rate}))).truth is truth


def test_threshold_is_configurable() -> None:
    """For a proxy that is known to lose some."""
    assert finding(RULE, STORY, thresholds={"rate": 0.1}).truth is Truth.FALSE


def test_an_engine_that_counts_none_is_not_judged() -> None:
    """Nor is decode, which holds no lease."""
    assert findings(RULE, CALM) == []
    assert findings(RULE, changed(CALM, on("d0", {SignalId.LEASES_EXPIRED: 1.0}))) == []


def test_a_longer_lease_is_not_offered_in_front_of_a_full_decode() -> None:
    """It would hide the queue; alone the finding offers it."""
    both = verdict_of(changed(FULL, on("p0", {SignalId.LEASES_EXPIRED: 0.05}))).diagnosis
    offered = {f.rule: [r.id for r in f.remedies] for f in both.findings if f.truth is Truth.TRUE}
    assert both.verdict is Verdict.DECODE_ADMISSION
    assert offered["kv_lease_expired"] == ["fail_on_expiry", "add_decode"]
    alone = {f.rule: [r.id for r in f.remedies] for f in verdict_of(STORY).diagnosis.findings}
    assert "longer_lease" in alone["kv_lease_expired"]


def test_it_is_no_verdict() -> None:
    """The deployment is as healthy as without it, and the finding stands beside."""
    diagnosis = verdict_of(STORY).diagnosis
    assert diagnosis.verdict is Verdict.HEALTHY
    held = [f for f in diagnosis.findings if f.rule == RULE.id]
    assert [(f.truth, f.verdict) for f in held] == [(Truth.TRUE, None)]
