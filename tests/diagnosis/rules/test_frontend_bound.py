"""`frontend_bound`: TTFT that engines or their stages do not explain, or gaps that their steps do not make."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.frontend_bound import RULE
from pdscope.model.finding import Confidence, Finding, Stage, Truth, Verdict
from pdscope.model.signal import Quality, ScopeKind, SignalId
from pdscope.model.topology import Role, Slo
from support.signals import (
    CALM,
    NAME,
    STORIES,
    Changes,
    Figures,
    changed,
    deployment,
    derived,
    estimated,
    finding,
    findings,
    instance,
    on,
    verdict_of,
)

BEHIND = STORIES["frontend_bound"]
BEFORE: Figures = changed(
    CALM,
    {
        SignalId.TTFT_P50: 2.4,
        SignalId.TTFT_MEAN: 2.5,
        SignalId.ENGINE_TTFT_MEAN: 1.4,
        SignalId.FRONTEND_TTFT_SHARE: 0.44,
    },
)

UNSTAGED: Figures = changed(
    CALM,
    {SignalId.TTFT_P50: 2.4, SignalId.TTFT_MEAN: 2.5},
    on(
        "d0",
        {
            SignalId.UNSTAGED_TTFT: derived(1.2),
            SignalId.UNSTAGED_TTFT_SHARE: derived(0.48),
            SignalId.FRONTEND_CPU: 0.8,
        },
    ),
)


def before(figures: Figures, **thresholds: float) -> Finding:
    return finding(RULE, figures, thresholds=thresholds, about=NAME)


def behind(figures: Figures, **thresholds: float) -> Finding:
    return finding(RULE, figures, thresholds=thresholds, about="d0")


# in front of the engines


def test_a_wait_that_no_engine_knows() -> None:
    """Of the deployment, with what the router and the engines measured."""
    found = before(BEFORE)
    assert found.truth is Truth.TRUE
    assert found.scope == (ScopeKind.DEPLOYMENT, NAME)
    for words in ("2.5 s at the router", "1.4 s", "44 %"):
        assert words in found.headline
    assert found.strength == pytest.approx(0.44)
    assert found.decisive is Quality.MEASURED
    assert [r.id for r in found.remedies] == ["look_at_router", "scale_frontend"]


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({SignalId.FRONTEND_TTFT_SHARE: 0.3}, Truth.TRUE),
        ({SignalId.FRONTEND_TTFT_SHARE: 0.29}, Truth.FALSE),
        ({SignalId.TTFT_P50: 2.0}, Truth.FALSE),
        ({SignalId.FRONTEND_TTFT_SHARE: None}, Truth.UNKNOWN),
        ({SignalId.FRONTEND_TTFT_SHARE: None, SignalId.TTFT_P50: 1.9}, Truth.FALSE),
        ({SignalId.TTFT_P50: None}, Truth.UNKNOWN),
    ],
    ids=["at the threshold", "engines explain it", "objective kept", "one view", "one view of a kept one", "no TTFT"],
)
def test_each_condition_in_front(changes: Changes, truth: Truth) -> None:
    """A large share of a wait that keeps its promise hurts nobody."""
    assert before(changed(BEFORE, changes)).truth is truth


def test_what_is_missing_in_front() -> None:
    """The share needs both a router and engines that measure."""
    assert before(changed(BEFORE, {SignalId.FRONTEND_TTFT_SHARE: None})).missing == (SignalId.FRONTEND_TTFT_SHARE,)


def test_a_sum_of_two_legs_is_an_estimate() -> None:
    """And so is what is left of it."""
    assert before(changed(BEFORE, {SignalId.FRONTEND_TTFT_SHARE: estimated(0.5)})).decisive is Quality.ESTIMATED


def test_without_an_objective_nobody_can_tell() -> None:
    """Whether the wait is too long is for the operator to say."""
    found = finding(RULE, BEFORE, deployment(slo=Slo()), about=NAME)
    assert found.truth is Truth.UNKNOWN


# inside of an instance, outside of its scheduler


def test_a_wait_that_no_stage_explains() -> None:
    """Of the instance, with the process in front of which requests queue."""
    found = behind(UNSTAGED)
    assert found.truth is Truth.TRUE
    assert (found.scope, found.culprits) == ((ScopeKind.INSTANCE, "d0"), ("d0",))
    for words in ("1.2 s of the TTFT of d0", "48 % of what users wait", "80 % of a core"):
        assert words in found.headline
    assert found.strength == pytest.approx(0.48)
    assert found.decisive is Quality.DERIVED
    assert [r.id for r in found.remedies] == ["scale_frontend", "fewer_stream_events"]


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        (on("d0", {SignalId.UNSTAGED_TTFT_SHARE: derived(0.3)}), Truth.TRUE),
        (on("d0", {SignalId.UNSTAGED_TTFT_SHARE: derived(0.29)}), Truth.FALSE),
        (on("d0", {SignalId.FRONTEND_CPU: 0.75}), Truth.TRUE),
        (on("d0", {SignalId.FRONTEND_CPU: 0.74}), Truth.FALSE),
        (on("d0", {SignalId.FRONTEND_CPU: None}), Truth.TRUE),
        ({SignalId.TTFT_P50: 2.0}, Truth.FALSE),
        ({SignalId.TTFT_P50: None}, Truth.UNKNOWN),
    ],
    ids=["at the threshold", "explained", "busy", "idle processes", "no processes", "objective kept", "no TTFT"],
)
def test_each_condition_inside(changes: Changes, truth: Truth) -> None:
    """Where processes are timed one of them must be busy: what waits for something else is not in them."""
    assert behind(changed(UNSTAGED, changes)).truth is truth


def test_a_process_that_nobody_times_is_not_named_inside() -> None:
    """A headline without a number that is not there."""
    assert "core" not in behind(changed(UNSTAGED, on("d0", {SignalId.FRONTEND_CPU: None}))).headline


def test_each_instance_with_stages_is_judged() -> None:
    """Prefill and unified ones have a server and a tokenizer too."""
    of = deployment(*(instance(name, role) for name, role in (("p0", Role.PREFILL), ("u0", Role.UNIFIED))))
    told = changed(UNSTAGED, on("p0", {SignalId.UNSTAGED_TTFT_SHARE: 0.4}), on("u0", {SignalId.UNSTAGED_TTFT_SHARE: 0}))
    found = {f.scope.name: f.truth for f in findings(RULE, told, of)}
    assert found == {NAME: Truth.UNKNOWN, "p0": Truth.TRUE, "u0": Truth.FALSE}


# behind the engines


def test_gaps_that_the_engine_does_not_make() -> None:
    """Of the instance, with the process that is at its limit."""
    found = behind(BEHIND)
    assert found.truth is Truth.TRUE
    assert (found.scope, found.culprits) == ((ScopeKind.INSTANCE, "d0"), ("d0",))
    for words in ("460 %", "180 ms", "98 % of a core"):
        assert words in found.headline
    assert found.decisive is Quality.DERIVED
    assert [r.id for r in found.remedies] == ["scale_frontend", "fewer_stream_events"]


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        (on("d0", {SignalId.ITL_TO_STEP: derived(2.0)}), Truth.FALSE),
        (on("d0", {SignalId.ITL_TO_STEP: derived(2.01)}), Truth.TRUE),
        ({SignalId.ITL_P50: 0.05}, Truth.FALSE),
        ({SignalId.ITL_P50: None}, Truth.UNKNOWN),
        (on("d0", {SignalId.FRONTEND_CPU: 0.2}), Truth.TRUE),
        (on("d0", {SignalId.FRONTEND_CPU: None}), Truth.TRUE),
    ],
    ids=["at the threshold", "past it", "objective kept", "no ITL", "it waits for something else", "no processes"],
)
def test_each_condition_behind(changes: Changes, truth: Truth) -> None:
    """The quotient and a broken objective; the process only names the place."""
    assert behind(changed(BEHIND, changes)).truth is truth


@pytest.mark.parametrize(
    ("cpu", "preempted", "truth"),
    [
        (0.2, 0.1, Truth.FALSE),
        (None, 0.1, Truth.FALSE),
        (0.89, 0.1, Truth.FALSE),
        (0.9, 0.1, Truth.TRUE),
        (0.2, None, Truth.UNKNOWN),
        (None, None, Truth.UNKNOWN),
        (0.9, None, Truth.TRUE),
    ],
)
def test_requests_that_were_taken_out_of_the_batch(cpu: float | None, preempted: float | None, truth: Truth) -> None:
    """They wait for their next token without running; only a process at its limit outweighs that."""
    figures = on("d0", {SignalId.FRONTEND_CPU: cpu, SignalId.PREEMPTIONS_PER_SECOND: preempted})
    found = behind(changed(BEHIND, figures))
    assert found.truth is truth
    assert found.missing == ((SignalId.PREEMPTIONS_PER_SECOND,) if truth is Truth.UNKNOWN else ())


def test_a_process_that_nobody_measures_is_not_named() -> None:
    """A headline without a number that is not there."""
    assert "core" not in behind(changed(BEHIND, on("d0", {SignalId.FRONTEND_CPU: None}))).headline


def test_without_the_quotient_nothing_is_said_of_an_instance() -> None:
    """Engines that measure no ITL, or one that an interval explains."""
    figures = changed(BEHIND, on("d0", {SignalId.ITL_TO_STEP: None}))
    assert [f.scope.name for f in findings(RULE, figures)] == [NAME]


def test_each_instance_that_decodes_is_judged() -> None:
    """By its own quotient; prefill makes no tokens."""
    of = deployment(instance("p0", Role.PREFILL), instance("d0", Role.DECODE), instance("u0", Role.UNIFIED))
    told = changed(BEHIND, on("u0", {SignalId.ITL_TO_STEP: 1.0}), on("p0", {SignalId.ITL_TO_STEP: 9.0}))
    assert {f.scope.name: f.truth for f in findings(RULE, told, of)} == {
        NAME: Truth.FALSE,
        "d0": Truth.TRUE,
        "u0": Truth.FALSE,
    }


# both


def test_calm() -> None:
    """Nothing is over."""
    assert before(CALM).truth is Truth.FALSE
    assert before(CALM).remedies == ()


def test_thresholds_are_configurable() -> None:
    """A stricter configured value silences, a milder one speaks."""
    assert before(BEFORE, ttft_share=0.45).truth is Truth.FALSE
    assert behind(UNSTAGED, ttft_share=0.49).truth is Truth.FALSE
    assert behind(UNSTAGED, cpu_queue=0.81).truth is Truth.FALSE
    assert behind(BEHIND, itl_to_step=5.0).truth is Truth.FALSE
    preempted = changed(BEHIND, on("d0", {SignalId.PREEMPTIONS_PER_SECOND: 0.1}))
    assert behind(preempted).truth is Truth.TRUE
    assert behind(preempted, cpu=0.99).truth is Truth.FALSE


@pytest.mark.parametrize(
    ("figures", "confidence"),
    [(BEFORE, Confidence.HIGH), (UNSTAGED, Confidence.MEDIUM), (BEHIND, Confidence.MEDIUM)],
)
def test_verdict(figures: Figures, confidence: Confidence) -> None:
    """Of the host; a quotient of two views is derived."""
    diagnosis = verdict_of(figures).diagnosis
    assert (diagnosis.verdict, diagnosis.verdict.stage) == (Verdict.FRONTEND_BOUND, Stage.HOST)
    assert diagnosis.confidence is confidence
