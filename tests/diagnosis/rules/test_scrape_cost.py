"""`scrape_cost`: an engine that is busy with its metrics page."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.scrape_cost import RULE
from pdscope.model.finding import Truth, Verdict
from pdscope.model.signal import SignalId
from support.signals import CALM, FINDINGS, changed, finding, findings, on, verdict_of

STORY = FINDINGS["scrape_cost"]


def test_holds_with_the_share() -> None:
    """Of the instance's time."""
    found = finding(RULE, STORY)
    assert (found.truth, found.culprits) == (Truth.TRUE, ("d0",))
    assert "5 % of the time" in found.headline
    assert [r.id for r in found.remedies] == ["fewer_series", "longer_interval"]


@pytest.mark.parametrize(("share", "truth"), [(0.02, Truth.FALSE), (0.021, Truth.TRUE)])
def test_two_hundredths_are_tolerated(share: float, truth: Truth) -> None:
    """More is not, unless configured."""
    assert finding(RULE, changed(STORY, on("d0", {SignalId.SCRAPE_COST: share}))).truth is truth
    assert finding(RULE, STORY, thresholds={"share": 0.05}).truth is Truth.FALSE


def test_what_is_not_asked_costs_nothing() -> None:
    """A recording, or an instance that has not answered often enough."""
    assert findings(RULE, CALM) == []


def test_it_is_no_verdict() -> None:
    """The deployment is as healthy as without it, and the finding stands beside."""
    diagnosis = verdict_of(STORY).diagnosis
    assert diagnosis.verdict is Verdict.HEALTHY
    held = [f for f in diagnosis.findings if f.rule == RULE.id]
    assert [(f.truth, f.verdict) for f in held] == [(Truth.TRUE, None)]
