"""`healthy`: there is traffic, and every configured objective is met."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.healthy import RULE
from pdscope.model.finding import Confidence, Truth, Verdict
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Deployment, Slo
from support.signals import CALM, STORIES, Changes, Figures, changed, deployment, estimated, finding, verdict_of

ALL_SIX = deployment(
    slo=Slo(
        ttft_p50_seconds=1.0,
        ttft_p95_seconds=2.0,
        ttft_p99_seconds=3.0,
        itl_p50_seconds=0.03,
        itl_p95_seconds=0.04,
        itl_p99_seconds=0.05,
    )
)
MET: Figures = changed(
    CALM,
    {
        SignalId.TTFT_P50: 1.0,
        SignalId.TTFT_P95: 2.0,
        SignalId.TTFT_P99: 3.0,
        SignalId.ITL_P50: 0.03,
        SignalId.ITL_P95: 0.04,
        SignalId.ITL_P99: 0.05,
    },
)
LATENCIES = [s for s in MET if isinstance(s, SignalId) and s.name.startswith(("TTFT_P", "ITL_P"))]


@pytest.mark.parametrize("signal", LATENCIES)
def test_silent_when_one_objective_is_broken(signal: SignalId) -> None:
    """Any of them, by however little."""
    assert finding(RULE, MET, ALL_SIX).truth is Truth.TRUE
    assert finding(RULE, changed(MET, {signal: 3.001}), ALL_SIX).truth is Truth.FALSE


def test_silent_without_traffic() -> None:
    """No request finished: nothing was shown to be well."""
    assert finding(RULE, changed(CALM, {SignalId.REQUESTS_FINISHED: 0.0})).truth is Truth.FALSE


@pytest.mark.parametrize("signal", [*LATENCIES, SignalId.REQUESTS_FINISHED])
def test_unknown_names_what_is_missing(signal: SignalId) -> None:
    """An objective that cannot be checked is not met."""
    found = finding(RULE, changed(MET, {signal: None}), ALL_SIX)
    assert found.truth is Truth.UNKNOWN
    assert found.missing == (signal,)


@pytest.mark.parametrize("of", [deployment(), deployment(slo=Slo()), ALL_SIX], ids=["p50", "none", "all"])
def test_holds(of: Deployment) -> None:
    """Also where nothing was promised, and from the first request on."""
    assert finding(RULE, MET, of).truth is Truth.TRUE
    assert finding(RULE, changed(MET, {SignalId.REQUESTS_FINISHED: 1.0}), of).truth is Truth.TRUE


def test_words_have_latencies_and_rate() -> None:
    """And say when nobody has said what they should be."""
    assert finding(RULE, CALM).headline == ("TTFT p50 800 ms, ITL p50 20 ms at 5 requests/s: within the objectives")
    assert "no objective is configured" in finding(RULE, CALM, deployment(slo=Slo())).headline


@pytest.mark.parametrize(
    ("slo", "changes", "confidence"),
    [
        (Slo(ttft_p50_seconds=2.0, itl_p50_seconds=0.05), {}, Confidence.HIGH),
        (
            Slo(ttft_p50_seconds=2.0, itl_p50_seconds=0.05),
            {SignalId.TTFT_P50: estimated(1.0)},
            Confidence.MEDIUM,
        ),
        (Slo(ttft_p50_seconds=2.0), {}, Confidence.LOW),
        (Slo(itl_p50_seconds=0.05), {}, Confidence.LOW),
        (Slo(), {}, Confidence.LOW),
    ],
    ids=["both", "estimated", "TTFT only", "ITL only", "none"],
)
def test_confidence_needs_both_objectives(slo: Slo, changes: Changes, confidence: Confidence) -> None:
    """Half a promise cannot be seen to be kept."""
    diagnosis = verdict_of(changed(CALM, changes), deployment(slo=slo)).diagnosis
    assert (diagnosis.verdict, diagnosis.confidence) == (Verdict.HEALTHY, confidence)


def test_quality_is_the_worst_of_the_latencies() -> None:
    """Traffic is not what the answer hangs on."""
    assert finding(RULE, changed(CALM, {SignalId.REQUESTS_FINISHED: estimated(300.0)})).decisive is Quality.MEASURED
    assert finding(RULE, changed(CALM, {SignalId.ITL_P50: estimated(0.02)})).decisive is Quality.ESTIMATED


def test_is_what_is_left() -> None:
    """Judged only where no other rule of a verdict holds, and asks for nothing."""
    assert RULE.fallback
    assert (RULE.thresholds, RULE.remedies) == ((), ())
    shown = {f.rule for f in verdict_of(STORIES["prefill_queue"]).diagnosis.findings}
    assert "healthy" not in shown


@pytest.mark.parametrize(
    ("of", "running", "truth"),
    [
        (deployment(), 46.0, Truth.UNKNOWN),
        (deployment(), 0.5, Truth.TRUE),
        (deployment(slo=Slo(ttft_p50_seconds=2.0)), 46.0, Truth.TRUE),
    ],
    ids=["untimed", "next to none", "no objective on ITL"],
)
def test_requests_whose_tokens_nobody_times(of: Deployment, running: float, truth: Truth) -> None:
    """The ITL of other requests does not stand for them."""
    found = finding(RULE, changed(CALM, {SignalId.UNTIMED: running}), of)
    assert found.truth is truth
    assert found.missing == ((SignalId.ITL_P50,) if truth is Truth.UNKNOWN else ())
