"""`prefill_compute`: requests wait for prefill, and its devices compute at their limit."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.prefill_compute import RULE
from pdscope.model.finding import Truth
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Role
from support.signals import (
    CALM,
    STORIES,
    Figure,
    Figures,
    changed,
    deployment,
    estimated,
    finding,
    findings,
    instance,
    on,
)

LIMITED = STORIES["prefill_compute"]


@pytest.mark.parametrize(
    "figures",
    [
        CALM,
        changed(CALM, on("p0", {SignalId.COMPUTE_UTILIZATION: 0.95, SignalId.TENSOR_UTILIZATION: 0.7})),
        changed(LIMITED, on("p0", {SignalId.COMPUTE_UTILIZATION: 0.79, SignalId.TENSOR_UTILIZATION: 0.49})),
        changed(LIMITED, on("p0", {SignalId.COMPUTE_UTILIZATION: estimated(0.99), SignalId.TENSOR_UTILIZATION: 0.49})),
        changed(LIMITED, on("p0", {SignalId.KV_FREE_REQUESTS: 0.5})),
    ],
    ids=["calm", "busy, nobody waits", "waits, computes below", "some kernel runs", "pool full"],
)
def test_silent(figures: Figures) -> None:
    """A busy prefill at which nobody waits is well used; a queue with compute to spare has another cause."""
    found = finding(RULE, figures)
    assert found.truth is Truth.FALSE
    assert (found.culprits, found.remedies) == ((), ())


@pytest.mark.parametrize(
    "activity",
    [
        {SignalId.COMPUTE_UTILIZATION: 0.8, SignalId.TENSOR_UTILIZATION: 0.1},
        {SignalId.COMPUTE_UTILIZATION: 0.1, SignalId.TENSOR_UTILIZATION: 0.5},
        {SignalId.COMPUTE_UTILIZATION: None, SignalId.TENSOR_UTILIZATION: 0.5},
        {SignalId.COMPUTE_UTILIZATION: 0.8, SignalId.TENSOR_UTILIZATION: None},
        {SignalId.COMPUTE_UTILIZATION: estimated(0.1), SignalId.TENSOR_UTILIZATION: 0.5},
    ],
    ids=["sm", "tensor", "tensor alone", "sm alone", "sm estimated"],
)
def test_holds(activity: dict[SignalId, float | Figure | None]) -> None:
    """SM or tensor activity, whichever is known to be high."""
    found = finding(RULE, changed(LIMITED, on("p0", activity)))
    assert found.truth is Truth.TRUE
    assert found.culprits == ("p0",)


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        (
            {SignalId.COMPUTE_UTILIZATION: None, SignalId.TENSOR_UTILIZATION: None},
            {SignalId.TENSOR_UTILIZATION},
        ),
        (
            {SignalId.COMPUTE_UTILIZATION: estimated(0.99), SignalId.TENSOR_UTILIZATION: None},
            {SignalId.TENSOR_UTILIZATION},
        ),
        ({SignalId.PREFILL_QUEUE: None}, {SignalId.PREFILL_QUEUE}),
    ],
    ids=["no device telemetry", "some kernel runs", "no queue"],
)
def test_unknown_names_what_is_missing(changes: dict[SignalId, float | Figure | None], missing: set[SignalId]) -> None:
    """Without telemetry of the devices the two verdicts on prefill cannot be told apart."""
    found = finding(RULE, changed(LIMITED, on("p0", changes)))
    assert found.truth is Truth.UNKNOWN
    assert set(found.missing) == missing


@pytest.mark.parametrize(
    ("threshold", "activity", "value"),
    [
        ("sm", {SignalId.TENSOR_UTILIZATION: 0.1}, 0.95),
        ("tensor", {SignalId.COMPUTE_UTILIZATION: 0.1}, 0.7),
    ],
)
def test_thresholds_are_configurable(threshold: str, activity: dict[SignalId, float], value: float) -> None:
    """A stricter configured value silences the rule; those of the queue are tried in test_prefill."""
    figures = changed(LIMITED, on("p0", activity))
    assert finding(RULE, figures).truth is Truth.TRUE
    assert finding(RULE, figures, thresholds={threshold: value}).truth is Truth.FALSE


def test_words_have_queue_wait_and_activity() -> None:
    """All four numbers."""
    found = finding(RULE, LIMITED)
    assert "31 requests wait for prefill on p0 for 6.2 s (86 % of TTFT)" in found.headline
    assert "at its limit (SM active 93 %, tensor 62 %)" in found.headline
    assert found.strength == pytest.approx(0.86)
    assert finding(RULE, changed(LIMITED, on("p0", {SignalId.PREFILL_WAIT_TTFT_SHARE: None}))).strength == 0.5


def test_that_some_kernel_runs_is_not_called_sm_activity() -> None:
    """It is said as what it is, after what decides."""
    figures = changed(LIMITED, on("p0", {SignalId.COMPUTE_UTILIZATION: estimated(0.99)}))
    assert "at its limit (tensor 62 %; some kernel runs 99 % of the time)" in finding(RULE, figures).headline
    alone = changed(LIMITED, on("p0", {SignalId.COMPUTE_UTILIZATION: None}))
    assert "at its limit (tensor 62 %)" in finding(RULE, alone).headline


@pytest.mark.parametrize(
    ("changes", "quality"),
    [
        ({}, Quality.MEASURED),
        ({SignalId.PREFILL_QUEUE: estimated(31.0)}, Quality.ESTIMATED),
        ({SignalId.TENSOR_UTILIZATION: estimated(0.62)}, Quality.MEASURED),
        ({SignalId.COMPUTE_UTILIZATION: None, SignalId.TENSOR_UTILIZATION: estimated(0.62)}, Quality.ESTIMATED),
    ],
)
def test_quality_is_that_of_the_decisive_evidence(
    changes: dict[SignalId, float | Figure | None], quality: Quality
) -> None:
    """The queue, and the activity that was looked at."""
    assert finding(RULE, changed(LIMITED, on("p0", changes))).decisive is quality


def test_remedies_have_a_cost() -> None:
    """Those of the rule, each with its price."""
    remedies = finding(RULE, LIMITED).remedies
    assert [r.id for r in remedies] == [r for r in RULE.remedies if r != "keep_prefix_cache"]  # p0 has no peer
    assert all(r.cost and r.precondition for r in remedies)


def test_whoever_computes_prompts_is_judged() -> None:
    """Prefill and unified instances."""
    members = (("p0", Role.PREFILL), ("u0", Role.UNIFIED), ("d0", Role.DECODE))
    found = findings(RULE, LIMITED, deployment(*(instance(n, r) for n, r in members)))
    assert {f.scope.name: f.truth for f in found} == {"p0": Truth.TRUE, "u0": Truth.UNKNOWN}
