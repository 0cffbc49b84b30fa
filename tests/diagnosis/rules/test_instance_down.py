"""`instance_down`: nothing answers there."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.instance_down import RULE
from pdscope.model.finding import Truth, Verdict
from pdscope.model.signal import SignalId
from pdscope.model.topology import Role
from support.signals import CALM, FINDINGS, changed, deployment, finding, findings, instance, on, verdict_of

STORY = FINDINGS["instance_down"]

OTHER = FINDINGS["telemetry_lost"]


def test_holds_with_the_count() -> None:
    """And names the instance with its role."""
    found = finding(RULE, STORY)
    assert (found.truth, found.culprits) == (Truth.TRUE, ("d0",))
    assert "d0 (decode) does not answer; 3 scrapes in a row have failed" in found.headline


def test_the_other_silence_is_the_other_finding() -> None:
    """Never both: restarting what merely prints no metrics would cost requests."""
    assert finding(RULE, OTHER).truth is Truth.FALSE


@pytest.mark.parametrize(("count", "truth"), [(0.0, Truth.FALSE), (2.0, Truth.FALSE), (3.0, Truth.TRUE)])
def test_a_lost_scrape_is_none(count: float, truth: Truth) -> None:
    """Three in a row are."""
    assert finding(RULE, changed(STORY, on("d0", {SignalId.SILENT_SCRAPES: count}))).truth is truth
    assert finding(RULE, STORY, thresholds={"failures": 4}).truth is Truth.FALSE


def test_a_recording_does_not_know_the_manner_of_the_silence() -> None:
    """No page is all that is left of an instance that died."""
    found = finding(RULE, changed(STORY, {("d0", SignalId.ANSWERS): None}))
    assert (found.truth, found.missing) == (Truth.TRUE, ())
    assert "3 scrapes in a row have left no page at the end of the recording" in found.headline


@pytest.mark.parametrize("role", Role)
def test_every_role_is_asked(role: Role) -> None:
    """Routers too."""
    told = on("x0", {SignalId.SILENT_SCRAPES: 5.0, SignalId.ANSWERS: 0.0})
    assert finding(RULE, told, deployment(instance("x0", role))).truth is Truth.TRUE


def test_a_recording_without_gaps_does_not_tell() -> None:
    """A bundle has no attempts, only pages."""
    assert findings(RULE, CALM) == []


def test_it_is_no_verdict() -> None:
    """The deployment is as healthy as without it, and the finding stands beside."""
    diagnosis = verdict_of(STORY).diagnosis
    assert diagnosis.verdict is Verdict.HEALTHY
    held = [f for f in diagnosis.findings if f.rule == RULE.id]
    assert [(f.truth, f.verdict) for f in held] == [(Truth.TRUE, None)]
