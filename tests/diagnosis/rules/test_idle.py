"""`idle`: too few requests to judge, and nothing waits."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.idle import RULE
from pdscope.model.finding import Confidence, Truth, Verdict
from pdscope.model.signal import Quality, SignalId
from support.signals import CALM, STORIES, Changes, Figures, changed, finding, verdict_of

IDLE = STORIES["idle"]


@pytest.mark.parametrize(
    "figures",
    [CALM, changed(IDLE, {SignalId.REQUESTS_FINISHED: 5.0}), changed(IDLE, {SignalId.QUEUED: 1.0})],
    ids=["traffic", "five finished", "one queued"],
)
def test_silent(figures: Figures) -> None:
    """Five requests say something, and a queue that does not move is not idleness."""
    assert finding(RULE, figures).truth is Truth.FALSE


@pytest.mark.parametrize("changes", [{}, {SignalId.REQUESTS_FINISHED: 0.0}, {SignalId.REQUESTS_FINISHED: 4.9}])
def test_holds(changes: Changes) -> None:
    """None to four requests."""
    assert finding(RULE, changed(IDLE, changes)).truth is Truth.TRUE


@pytest.mark.parametrize("signal", [SignalId.REQUESTS_FINISHED, SignalId.QUEUED])
def test_unknown_names_what_is_missing(signal: SignalId) -> None:
    """Missing is never zero."""
    found = finding(RULE, changed(IDLE, {signal: None}))
    assert found.truth is Truth.UNKNOWN
    assert found.missing == (signal,)


def test_threshold_is_configurable() -> None:
    """How few is too few."""
    assert {t.name for t in RULE.thresholds} == {"finished", "observed"}
    assert finding(RULE, IDLE, thresholds={"finished": 2.0}).truth is Truth.FALSE
    assert finding(RULE, CALM, thresholds={"finished": 301.0}).truth is Truth.TRUE


def test_broken_objective_outranks_it() -> None:
    """Three slow requests are a problem, not idleness."""
    assert verdict_of(changed(IDLE, {SignalId.TTFT_P50: 9.0})).diagnosis.verdict is Verdict.UNDETERMINED


def test_says_how_many_and_is_sure_of_it() -> None:
    """Counting to two needs no large sample."""
    found = finding(RULE, IDLE)
    assert found.headline == "2 requests finished in 60 s and nothing is queued"
    assert found.decisive is Quality.MEASURED
    assert found.remedies == ()
    diagnosis = verdict_of(IDLE).diagnosis
    assert (diagnosis.verdict, diagnosis.confidence) == (Verdict.IDLE, Confidence.HIGH)
    assert RULE.fallback
