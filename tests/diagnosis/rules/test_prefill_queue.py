"""`prefill_queue`: requests wait for prefill although its devices have compute to spare, or nobody knows."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules import prefill_compute
from pdscope.diagnosis.rules.prefill_queue import RULE
from pdscope.model.finding import Truth
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Role
from support.signals import (
    CALM,
    STORIES,
    Changes,
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

QUEUE = STORIES["prefill_queue"]
NO_QUEUE = {SignalId.PREFILL_QUEUE: 0.0, SignalId.PREFILL_WAIT_TTFT_SHARE: 0.1}
NO_TELEMETRY = changed(QUEUE, {("p0", SignalId.COMPUTE_UTILIZATION): None, ("p0", SignalId.TENSOR_UTILIZATION): None})


@pytest.mark.parametrize(
    "figures",
    [
        CALM,
        changed(QUEUE, on("p0", {SignalId.COMPUTE_UTILIZATION: 0.8})),
        changed(QUEUE, on("p0", {SignalId.TENSOR_UTILIZATION: 0.5})),
        changed(QUEUE, on("p0", NO_QUEUE)),
        changed(QUEUE, on("p0", {SignalId.KV_FREE_REQUESTS: 0.5})),
        changed(NO_TELEMETRY, on("p0", NO_QUEUE)),
        changed(NO_TELEMETRY, on("p0", {SignalId.KV_FREE_REQUESTS: 0.5})),
    ],
    ids=["calm", "sm at limit", "tensor at limit", "no queue", "pool full", "blind, no queue", "blind, pool full"],
)
def test_silent(figures: Figures) -> None:
    """No queue, or one that compute or a full pool explains."""
    found = finding(RULE, figures)
    assert found.truth is Truth.FALSE
    assert (found.culprits, found.remedies) == ((), ())


@pytest.mark.parametrize("figures", [QUEUE, NO_TELEMETRY], ids=["compute to spare", "compute unknown"])
def test_holds(figures: Figures) -> None:
    """The queue is there; what is known of compute decides how sure the answer is."""
    found = finding(RULE, figures)
    assert found.truth is Truth.TRUE
    assert found.culprits == ("p0",)


def test_busy_scheduler_is_no_computation() -> None:
    """A prefill that always has a batch is busy at any efficiency: compute activity decides."""
    figures = changed(QUEUE, on("p0", {SignalId.PREFILL_BUSY: 1.0}))
    assert finding(RULE, figures).truth is Truth.TRUE
    assert finding(prefill_compute.RULE, figures).truth is Truth.FALSE


@pytest.mark.parametrize("figures", [CALM, QUEUE, NO_TELEMETRY, STORIES["prefill_compute"]])
def test_never_beside_prefill_compute(figures: Figures) -> None:
    """One queue has one cause."""
    truths = {finding(rule, figures).truth for rule in (RULE, prefill_compute.RULE)}
    assert truths != {Truth.TRUE}


def test_unknown_names_what_is_missing() -> None:
    """No queue, no answer."""
    found = finding(RULE, changed(QUEUE, {("p0", SignalId.PREFILL_QUEUE): None}))
    assert found.truth is Truth.UNKNOWN
    assert set(found.missing) == {SignalId.PREFILL_QUEUE}


def test_blind_answer_is_not_relied_on() -> None:
    """Without device telemetry no decisive quality, the missing signal named, and remedies that fit both causes."""
    of = deployment(*deployment().instances, instance("p1", Role.PREFILL))
    found = finding(RULE, NO_TELEMETRY, of, about="p0")
    assert found.decisive is None
    assert SignalId.TENSOR_UTILIZATION in found.missing
    assert "not known whether it computes at its limit" in found.headline
    assert [r.id for r in found.remedies] == ["add_prefill", "raise_token_budget", "keep_prefix_cache"]


@pytest.mark.parametrize(
    ("threshold", "activity", "value"),
    [
        ("sm", {SignalId.COMPUTE_UTILIZATION: 0.7}, 0.6),
        ("tensor", {SignalId.TENSOR_UTILIZATION: 0.4}, 0.35),
    ],
)
def test_thresholds_are_configurable(threshold: str, activity: dict[SignalId, float], value: float) -> None:
    """A lower limit on activity makes it prefill_compute's queue; those of the queue are tried in test_prefill."""
    figures = changed(QUEUE, on("p0", activity))
    assert finding(RULE, figures).truth is Truth.TRUE
    assert finding(RULE, figures, thresholds={threshold: value}).truth is Truth.FALSE


def test_words_have_queue_wait_and_activity() -> None:
    """All four numbers, in one clause."""
    found = finding(RULE, QUEUE)
    assert found.headline == (
        "31 requests wait for prefill on p0 for 6.2 s (86 % of TTFT) although its devices are below their limit "
        "(SM active 40 %, tensor 30 %)"
    )
    assert found.strength == pytest.approx(0.86)
    assert finding(RULE, changed(QUEUE, {("p0", SignalId.PREFILL_WAIT_TTFT_SHARE): None})).strength == 0.5


@pytest.mark.parametrize(
    ("changes", "quality"),
    [
        ({}, Quality.MEASURED),
        ({("p0", SignalId.PREFILL_QUEUE): estimated(31.0)}, Quality.ESTIMATED),
        ({("p0", SignalId.COMPUTE_UTILIZATION): None}, Quality.MEASURED),
        (
            {
                ("p0", SignalId.COMPUTE_UTILIZATION): None,
                ("p0", SignalId.TENSOR_UTILIZATION): Figure(0.3, Quality.DERIVED),
            },
            Quality.DERIVED,
        ),
    ],
)
def test_quality_is_that_of_the_decisive_evidence(changes: Changes, quality: Quality) -> None:
    """The queue, and the activity that was looked at."""
    assert finding(RULE, changed(QUEUE, changes)).decisive is quality


def test_remedies_have_a_cost() -> None:
    """Those of the rule, each with its price; the wasted compute comes before more of it."""
    remedies = finding(RULE, QUEUE).remedies
    assert [r.id for r in remedies] == [r for r in RULE.remedies if r != "keep_prefix_cache"]  # p0 has no peer
    assert remedies[0].id == "raise_token_budget"
    assert all(r.cost and r.precondition for r in remedies)


def test_whoever_computes_prompts_is_judged() -> None:
    """Prefill and unified instances."""
    members = (("p0", Role.PREFILL), ("u0", Role.UNIFIED), ("d0", Role.DECODE))
    found = findings(RULE, QUEUE, deployment(*(instance(n, r) for n, r in members)))
    assert {f.scope.name: f.truth for f in found} == {"p0": Truth.TRUE, "u0": Truth.UNKNOWN}
