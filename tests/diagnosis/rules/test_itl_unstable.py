"""`itl_unstable`: tokens come in jerks."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.itl_unstable import RULE
from pdscope.model.finding import Truth, Verdict
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Role
from support.signals import FINDINGS, Figure, changed, deployment, finding, findings, instance, verdict_of

STORY = FINDINGS["itl_unstable"]


def test_holds_with_both_percentiles() -> None:
    """Of the deployment, since no instance is at fault by itself."""
    found = finding(RULE, STORY)
    assert (found.truth, found.culprits) == (Truth.TRUE, ())
    assert "150 ms" in found.headline
    assert "20 ms" in found.headline


@pytest.mark.parametrize(
    ("median", "p95"),
    [(0.06, 0.179), (0.01, 0.099), (0.15, 0.2)],
    ids=["less than three times", "nobody notices", "slow and steady"],
)
def test_silent(median: float, p95: float) -> None:
    """Both the ratio and a gap that a reader sees."""
    assert finding(RULE, changed(STORY, {SignalId.ITL_P50: median, SignalId.ITL_P95: p95})).truth is Truth.FALSE


@pytest.mark.parametrize(("name", "value"), [("ratio", 8.0), ("noticed", 0.2)])
def test_thresholds_are_configurable(name: str, value: float) -> None:
    """A stricter one turns the answer."""
    assert finding(RULE, STORY, thresholds={name: value}).truth is Truth.FALSE


@pytest.mark.parametrize("lacking", [SignalId.ITL_P50, SignalId.ITL_P95])
def test_without_a_percentile_there_is_nothing_to_compare(lacking: SignalId) -> None:
    """No token was generated, or no histogram is there."""
    assert findings(RULE, changed(STORY, {lacking: None})) == []


def test_a_bucket_that_hides_the_limit_makes_it_an_estimate() -> None:
    """A p95 inside a wide bucket is interpolated."""
    wide = changed(STORY, {SignalId.ITL_P95: Figure(0.15, bounds=(0.05, 0.2))})
    assert finding(RULE, wide).decisive is Quality.ESTIMATED
    assert finding(RULE, STORY).decisive is Quality.MEASURED


def test_long_prompts_come_between_the_steps_of_a_unified_engine_only() -> None:
    """Elsewhere they are computed apart already."""
    unified = finding(RULE, STORY, deployment(instance("u0", Role.UNIFIED)))
    assert [r.id for r in unified.remedies] == ["separate_long_prompts", "limit_running", "add_instances"]
    assert [r.id for r in finding(RULE, STORY).remedies] == ["limit_running", "add_decode"]


def test_it_is_no_verdict() -> None:
    """The deployment is as healthy as without it, and the finding stands beside."""
    diagnosis = verdict_of(STORY).diagnosis
    assert diagnosis.verdict is Verdict.HEALTHY
    held = [f for f in diagnosis.findings if f.rule == RULE.id]
    assert [(f.truth, f.verdict) for f in held] == [(Truth.TRUE, None)]
