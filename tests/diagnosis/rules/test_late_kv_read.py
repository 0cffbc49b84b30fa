"""`late_kv_read`: blocks were read whose lease had ended."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.late_kv_read import RULE
from pdscope.model.finding import Truth, Verdict
from pdscope.model.signal import Quality, SignalId
from support.signals import CALM, FINDINGS, changed, finding, findings, on, verdict_of

STORY = FINDINGS["late_kv_read"]


def test_holds_and_warns_of_wrong_answers() -> None:
    """The strongest finding of all: HTTP 200 does not mean right."""
    found = finding(RULE, STORY)
    assert (found.truth, found.culprits, found.strength) == (Truth.TRUE, ("p0",), 1.0)
    assert "0.02/s" in found.headline
    assert "WRONG" in found.headline
    assert found.decisive is Quality.MEASURED


@pytest.mark.parametrize("name", ["p0", "d0"])
def test_either_side_may_count_them(name: str) -> None:
    """With a pull it is prefill that learns of them."""
    counted = changed(CALM, on(name, {SignalId.LATE_KV_READS: 0.1}))
    assert finding(RULE, counted).culprits == (name,)


def test_none_is_none() -> None:
    """A counter that stands still."""
    assert finding(RULE, changed(STORY, on("p0", {SignalId.LATE_KV_READS: 0.0}))).truth is Truth.FALSE
    assert finding(RULE, STORY, thresholds={"rate": 0.02}).truth is Truth.FALSE


def test_an_engine_that_counts_none_is_not_judged() -> None:
    """Absent is not zero."""
    assert findings(RULE, CALM) == []


def test_it_is_no_verdict() -> None:
    """The deployment is as healthy as without it, and the finding stands beside."""
    diagnosis = verdict_of(STORY).diagnosis
    assert diagnosis.verdict is Verdict.HEALTHY
    held = [f for f in diagnosis.findings if f.rule == RULE.id]
    assert [(f.truth, f.verdict) for f in held] == [(Truth.TRUE, None)]
