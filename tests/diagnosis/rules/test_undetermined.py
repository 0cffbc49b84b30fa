"""`undetermined`: an objective is broken, or requests wait and none finishes, and no rule says why."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.undetermined import RULE
from pdscope.model.finding import Confidence, Truth, Verdict
from pdscope.model.signal import SignalId
from pdscope.model.topology import Slo
from support.signals import CALM, STORIES, Figures, changed, deployment, finding, verdict_of

BROKEN = STORIES["undetermined"]
STUCK: Figures = changed(CALM, {SignalId.QUEUED: 4.0, SignalId.REQUESTS_FINISHED: 0.0})


@pytest.mark.parametrize(
    "figures",
    [
        CALM,
        changed(CALM, {SignalId.TTFT_P50: 2.0, SignalId.ITL_P50: 0.05}),
        changed(STUCK, {SignalId.QUEUED: 0.9}),
        changed(STUCK, {SignalId.REQUESTS_FINISHED: 1.0}),
    ],
    ids=["calm", "at the objectives", "nothing waits", "something finishes"],
)
def test_silent(figures: Figures) -> None:
    """Objectives met (equality counts as met), and whatever waits is served."""
    assert finding(RULE, figures).truth is Truth.FALSE


@pytest.mark.parametrize(
    ("slo", "figures", "words"),
    [
        (Slo(itl_p50_seconds=0.05), BROKEN, "ITL p50 80 ms is over its objective of 50 ms"),
        (Slo(ttft_p50_seconds=0.5), CALM, "TTFT p50 800 ms is over its objective of 500 ms"),
        (
            Slo(ttft_p95_seconds=1.0),
            changed(CALM, {SignalId.TTFT_P95: 4.0}),
            "TTFT p95 4 s is over its objective of 1 s",
        ),
        (
            Slo(ttft_p99_seconds=1.0, itl_p99_seconds=0.1, itl_p95_seconds=0.2),
            changed(CALM, {SignalId.TTFT_P99: 4.0, SignalId.ITL_P99: 0.3, SignalId.ITL_P95: 0.1}),
            "TTFT p99 4 s is over its objective of 1 s, ITL p99 300 ms is over its objective of 100 ms",
        ),
    ],
)
def test_holds_when_any_objective_is_broken(slo: Slo, figures: Figures, words: str) -> None:
    """The broken ones are named with value and limit, the others are not."""
    found = finding(RULE, figures, deployment(slo=slo))
    assert found.truth is Truth.TRUE
    assert found.headline == words


def test_holds_when_nothing_moves() -> None:
    """Also without any objective."""
    found = finding(RULE, STUCK, deployment(slo=Slo()))
    assert found.truth is Truth.TRUE
    assert finding(RULE, changed(STUCK, {SignalId.QUEUED: 1.0}), deployment(slo=Slo())).truth is Truth.TRUE
    assert found.headline == "4 requests wait and none finished in the window"


@pytest.mark.parametrize("signal", [SignalId.TTFT_P50, SignalId.ITL_P50])
def test_unknown_names_what_is_missing(signal: SignalId) -> None:
    """A latency with an objective that nobody knows."""
    found = finding(RULE, changed(CALM, {signal: None}))
    assert found.truth is Truth.UNKNOWN
    assert found.missing == (signal,)
    assert finding(RULE, changed(BROKEN, {SignalId.TTFT_P50: None})).truth is Truth.TRUE


def test_is_never_more_than_a_guess() -> None:
    """Confidence low, no remedy, judged only where nothing else holds."""
    diagnosis = verdict_of(BROKEN).diagnosis
    assert (diagnosis.verdict, diagnosis.confidence) == (Verdict.UNDETERMINED, Confidence.LOW)
    assert RULE.fallback
    assert (RULE.thresholds, RULE.remedies) == ((), ())
