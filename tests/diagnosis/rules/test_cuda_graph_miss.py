"""`cuda_graph_miss`: decode steps outside the captured graphs, and ITL is over for it."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.cuda_graph_miss import RULE
from pdscope.model.finding import Confidence, Stage, Truth, Verdict
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Role, Slo
from support.signals import (
    CALM,
    STORIES,
    Changes,
    changed,
    deployment,
    estimated,
    finding,
    findings,
    instance,
    on,
    verdict_of,
)

MISSED = STORIES["cuda_graph_miss"]
TWO = deployment(instance("p0", Role.PREFILL), instance("d0", Role.DECODE), instance("d1", Role.DECODE))


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({}, Truth.TRUE),
        (on("d0", {SignalId.GRAPH_MISS: 0.2}), Truth.TRUE),
        (on("d0", {SignalId.GRAPH_MISS: 0.19}), Truth.FALSE),
        (on("d0", {SignalId.HBM_UTILIZATION: 0.67}), Truth.TRUE),
        (on("d0", {SignalId.HBM_UTILIZATION: 0.68}), Truth.FALSE),
        (on("d0", {SignalId.HBM_UTILIZATION: estimated(0.3)}), Truth.TRUE),
        (on("d0", {SignalId.HBM_UTILIZATION: estimated(0.7)}), Truth.FALSE),
        (on("d0", {SignalId.HBM_UTILIZATION: None}), Truth.TRUE),
        ({SignalId.ITL_P50: 0.05}, Truth.FALSE),
        ({SignalId.ITL_P50: 0.04, SignalId.TTFT_P50: 9.0}, Truth.FALSE),
        ({SignalId.ITL_P50: None}, Truth.UNKNOWN),
        (on("d0", {SignalId.GRAPH_MISS: None}), Truth.UNKNOWN),
        (on("d0", {SignalId.GRAPH_MISS: None, SignalId.HBM_UTILIZATION: 0.8}), Truth.FALSE),
    ],
)
def test_each_condition(changes: Changes, truth: Truth) -> None:
    """Steps outside graphs, memory with room, ITL over; a roofline is enough to say that memory explains it."""
    assert finding(RULE, changed(MISSED, changes)).truth is truth


def test_calm() -> None:
    """An engine that does not count its steps, and keeps its objectives."""
    assert finding(RULE, CALM).truth is Truth.FALSE


def test_unknown_names_the_steps() -> None:
    """Engines that count no steps by graph."""
    found = finding(RULE, changed(MISSED, on("d0", {SignalId.GRAPH_MISS: None})))
    assert found.missing == (SignalId.GRAPH_MISS,)


def test_without_an_objective_nobody_can_tell() -> None:
    """Steps outside graphs may be quick enough."""
    assert finding(RULE, MISSED, deployment(slo=Slo())).truth is Truth.UNKNOWN


@pytest.mark.parametrize(
    ("memory", "decisive"),
    [(0.2, Quality.MEASURED), (estimated(0.2), Quality.ESTIMATED), (None, None)],
    ids=["measured", "roofline", "unknown"],
)
def test_what_is_known_of_memory_is_the_worth_of_the_answer(memory: float | None, decisive: Quality | None) -> None:
    """Without it the rule holds, and says that something is missing."""
    found = finding(RULE, changed(MISSED, on("d0", {SignalId.HBM_UTILIZATION: memory})))
    assert found.truth is Truth.TRUE
    assert found.decisive is decisive


def test_words() -> None:
    """Share, batch and ITL."""
    found = finding(RULE, MISSED)
    for words in ("97 %", "d0", "40", "80 ms"):
        assert words in found.headline
    assert found.culprits == ("d0",)
    assert found.strength == pytest.approx(0.97)
    assert [r.id for r in found.remedies] == ["capture_larger_graphs", "limit_running_to_graphs"]


def test_graphs_that_are_off_are_turned_on() -> None:
    """Where not one step runs in a graph it is no question of sizes alone."""
    found = finding(RULE, changed(MISSED, on("d0", {SignalId.GRAPH_MISS: 1.0})))
    assert [r.id for r in found.remedies] == list(RULE.remedies)


@pytest.mark.parametrize(
    ("figures", "truth"),
    [
        ({SignalId.GENERATION_RATE: 40 / 0.06}, Truth.TRUE),
        ({SignalId.GENERATION_RATE: 40 / 0.059}, Truth.FALSE),
        ({SignalId.GENERATION_RATE: None}, Truth.UNKNOWN),
        ({SignalId.RUNNING: None}, Truth.UNKNOWN),
    ],
)
def test_another_instance_may_make_the_long_gaps(figures: dict[SignalId, float | None], truth: Truth) -> None:
    """An instance whose own tokens come quicker than three quarters of the mean ITL of 80 ms has no part in it."""
    told = changed(MISSED, on("d0", figures))
    assert finding(RULE, told, TWO, about="d0").truth is truth
    assert finding(RULE, told, about="d0").truth is Truth.TRUE
    lost = changed(MISSED, {SignalId.ITL_MEAN: None})
    assert finding(RULE, lost, TWO, about="d0").truth is Truth.UNKNOWN
    assert SignalId.ITL_MEAN in finding(RULE, lost, TWO, about="d0").missing


def test_prefill_is_not_judged() -> None:
    """It runs no decode steps; unified engines do."""
    of = deployment(instance("p0", Role.PREFILL), instance("u0", Role.UNIFIED))
    assert [f.scope.name for f in findings(RULE, changed(MISSED, on("p0", {SignalId.GRAPH_MISS: 1.0})), of)] == ["u0"]


@pytest.mark.parametrize(("name", "value"), [("share", 0.98), ("memory", 0.2)])
def test_thresholds_are_configurable(name: str, value: float) -> None:
    """A stricter one silences the rule."""
    assert finding(RULE, MISSED, thresholds={name: value}).truth is Truth.FALSE


def test_verdict() -> None:
    """Of the host, measured; a roofline makes it medium, nothing at all low."""
    diagnosis = verdict_of(MISSED).diagnosis
    assert (diagnosis.verdict, diagnosis.verdict.stage) == (Verdict.CUDA_GRAPH_MISS, Stage.HOST)
    assert diagnosis.confidence is Confidence.HIGH
    for memory, confidence in ((estimated(0.2), Confidence.MEDIUM), (None, Confidence.LOW)):
        told = verdict_of(changed(MISSED, on("d0", {SignalId.HBM_UTILIZATION: memory}))).diagnosis
        assert (told.verdict, told.confidence) == (Verdict.CUDA_GRAPH_MISS, confidence)
