"""`host_bound`: ITL is over while the devices have time to spare."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.host_bound import RULE
from pdscope.model.finding import Confidence, Stage, Truth, Verdict
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Role, Slo
from support.signals import (
    CALM,
    STORIES,
    Changes,
    Figure,
    changed,
    deployment,
    estimated,
    finding,
    findings,
    instance,
    on,
    verdict_of,
)

SPARE = STORIES["host_bound"]
BLIND: Changes = on(
    "d0",
    {SignalId.HBM_UTILIZATION: None, SignalId.COMPUTE_UTILIZATION: None, SignalId.TENSOR_UTILIZATION: None},
)
UNIFIED = deployment(instance("d0", Role.UNIFIED))


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({}, Truth.TRUE),
        ({SignalId.ITL_P50: 0.05}, Truth.FALSE),
        ({SignalId.ITL_P50: 0.04, SignalId.TTFT_P50: 9.0}, Truth.FALSE),
        ({SignalId.ITL_P50: None}, Truth.UNKNOWN),
        (on("d0", {SignalId.HBM_UTILIZATION: 0.39}), Truth.TRUE),
        (on("d0", {SignalId.HBM_UTILIZATION: 0.4}), Truth.FALSE),
        (on("d0", {SignalId.COMPUTE_UTILIZATION: 0.49}), Truth.TRUE),
        (on("d0", {SignalId.COMPUTE_UTILIZATION: 0.5}), Truth.FALSE),
        (on("d0", {SignalId.TENSOR_UTILIZATION: 0.29}), Truth.TRUE),
        (on("d0", {SignalId.TENSOR_UTILIZATION: 0.3}), Truth.FALSE),
        (on("d0", {SignalId.RUNNING: 1.0}), Truth.TRUE),
        (on("d0", {SignalId.RUNNING: 0.9}), Truth.FALSE),
        (on("d0", {SignalId.RUNNING: None}), Truth.UNKNOWN),
        (on("d0", {SignalId.WORK_LEAST: 1.0}), Truth.TRUE),
        (on("d0", {SignalId.WORK_LEAST: 0.0}), Truth.FALSE),
        (on("d0", {SignalId.WORK_LEAST: None}), Truth.UNKNOWN),
    ],
)
def test_each_condition(changes: Changes, truth: Truth) -> None:
    """Requests all the time, ITL over, memory calm and neither units nor matrix engines busy."""
    assert finding(RULE, changed(SPARE, changes)).truth is truth


@pytest.mark.parametrize(
    ("figures", "truth"),
    [
        ({SignalId.COMPUTE_UTILIZATION: None}, Truth.TRUE),
        ({SignalId.TENSOR_UTILIZATION: None}, Truth.TRUE),
        ({SignalId.COMPUTE_UTILIZATION: estimated(0.9)}, Truth.TRUE),
        ({SignalId.COMPUTE_UTILIZATION: None, SignalId.TENSOR_UTILIZATION: None}, Truth.UNKNOWN),
        ({SignalId.COMPUTE_UTILIZATION: estimated(0.1), SignalId.TENSOR_UTILIZATION: None}, Truth.UNKNOWN),
        ({SignalId.HBM_UTILIZATION: None}, Truth.UNKNOWN),
        ({SignalId.HBM_UTILIZATION: estimated(0.1)}, Truth.UNKNOWN),
        ({SignalId.HBM_UTILIZATION: estimated(0.1), SignalId.TENSOR_UTILIZATION: 0.5}, Truth.FALSE),
        ({SignalId.HBM_UTILIZATION: 0.9, SignalId.COMPUTE_UTILIZATION: None}, Truth.FALSE),
    ],
)
def test_only_what_is_measured_is_calm(figures: dict[SignalId, float | Figure | None], truth: Truth) -> None:
    """Memory, and one of the two kinds of computation; a roofline may lack what is not exported."""
    assert finding(RULE, changed(SPARE, on("d0", figures))).truth is truth


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        (
            BLIND,
            (SignalId.HBM_UTILIZATION, SignalId.COMPUTE_UTILIZATION, SignalId.DECODE_BUSY),
        ),
        (on("d0", {SignalId.HBM_UTILIZATION: estimated(0.1)}), (SignalId.HBM_UTILIZATION, SignalId.DECODE_BUSY)),
        (
            on("d0", {SignalId.COMPUTE_UTILIZATION: None, SignalId.TENSOR_UTILIZATION: None}),
            (SignalId.COMPUTE_UTILIZATION, SignalId.DECODE_BUSY),
        ),
    ],
)
def test_unknown_names_what_is_missing(changes: Changes, missing: tuple[SignalId, ...]) -> None:
    """Either the devices' activity or the time that they spend in steps would do."""
    assert finding(RULE, changed(SPARE, changes)).missing == missing


@pytest.mark.parametrize(
    ("busy", "truth"), [(0.55, Truth.TRUE), (0.79, Truth.TRUE), (0.8, Truth.FALSE), (None, Truth.UNKNOWN)]
)
def test_gaps_between_steps_stand_in_for_activity(busy: float | None, truth: Truth) -> None:
    """The engine's own timer of its devices, where nobody measures these."""
    found = finding(RULE, changed(SPARE, BLIND, on("d0", {SignalId.DECODE_BUSY: busy})))
    assert found.truth is truth
    assert found.decisive is (Quality.DERIVED if truth is Truth.TRUE else None)


def test_devices_that_run_steps_all_the_time_wait_for_nobody() -> None:
    """However little of them the steps use; and busy ones are busy whatever the timer says."""
    assert finding(RULE, changed(SPARE, on("d0", {SignalId.DECODE_BUSY: 0.8}))).truth is Truth.FALSE
    assert finding(RULE, changed(SPARE, on("d0", {SignalId.DECODE_BUSY: 0.5}))).truth is Truth.TRUE
    worked = on("d0", {SignalId.DECODE_BUSY: 0.5, SignalId.HBM_UTILIZATION: 0.7})
    assert finding(RULE, changed(SPARE, worked)).truth is Truth.FALSE


@pytest.mark.parametrize(
    ("prompts", "truth"), [(0.2, Truth.TRUE), (0.3, Truth.FALSE), (0.9, Truth.FALSE), (None, Truth.UNKNOWN)]
)
def test_a_unified_engine_computes_prompts_between_steps(prompts: float | None, truth: Truth) -> None:
    """That time is no gap: 0.5 in decode steps and 0.3 in prompts are 0.8."""
    figures = on("d0", {SignalId.DECODE_BUSY: 0.5, SignalId.PREFILL_BUSY: prompts})
    found = finding(RULE, changed(SPARE, BLIND, figures), UNIFIED)
    assert found.truth is truth
    assert (SignalId.PREFILL_BUSY in found.missing) is (truth is Truth.UNKNOWN)
    assert finding(RULE, changed(SPARE, BLIND, figures)).truth is Truth.TRUE


def test_a_quick_instance_beside_a_slow_one() -> None:
    """Few requests, quick steps and idle devices are no cause of the other's long gaps."""
    of = deployment(instance("d0", Role.DECODE), instance("d1", Role.DECODE))
    idle = {
        SignalId.RUNNING: 2.0,
        SignalId.WORK_LEAST: 1.0,
        SignalId.GENERATION_RATE: 200.0,
        SignalId.HBM_UTILIZATION: 0.3,
        SignalId.COMPUTE_UTILIZATION: 0.2,
    }
    loaded = on("d0", {SignalId.HBM_UTILIZATION: 0.75})
    told = changed(SPARE, loaded, on("d1", idle))
    assert {f.scope.name: f.truth for f in findings(RULE, told, of)} == {"d0": Truth.FALSE, "d1": Truth.FALSE}
    slow = changed(told, on("d1", {SignalId.GENERATION_RATE: 25.0}))
    assert finding(RULE, slow, of, about="d1").truth is Truth.TRUE


def test_calm() -> None:
    """Nothing is over, whatever the devices do."""
    assert finding(RULE, CALM).truth is Truth.FALSE


def test_without_an_objective_nobody_can_tell() -> None:
    """Idle devices alone are no complaint."""
    assert finding(RULE, SPARE, deployment(slo=Slo())).truth is Truth.UNKNOWN


def test_words() -> None:
    """ITL, batch and activity; the timer where there is one."""
    found = finding(RULE, SPARE)
    for words in ("80 ms", "40", "d0", "28 %", "compute at 40 %"):
        assert words in found.headline
    assert "decode steps" not in found.headline
    assert found.culprits == ("d0",)
    assert [r.id for r in found.remedies] == [r for r in RULE.remedies if r != "larger_batch"]  # d0 is the only one
    timed = finding(RULE, changed(SPARE, on("d0", {SignalId.DECODE_BUSY: 0.55})))
    assert "decode steps 55 % of the time" in timed.headline


@pytest.mark.parametrize(
    ("name", "value"),
    [("memory", 0.28), ("compute", 0.4), ("tensor", 0.03), ("busy", 0.5), ("running", 39.0)],
)
def test_thresholds_are_configurable(name: str, value: float) -> None:
    """A stricter one silences the rule."""
    figures = changed(SPARE, on("d0", {SignalId.DECODE_BUSY: 0.5}))
    assert finding(RULE, figures).truth is Truth.TRUE
    assert finding(RULE, figures, thresholds={name: value}).truth is Truth.FALSE


def test_verdict() -> None:
    """Of the host, measured."""
    diagnosis = verdict_of(changed(SPARE, on("d0", {SignalId.GRAPH_MISS: 0.0}))).diagnosis
    assert (diagnosis.verdict, diagnosis.verdict.stage) == (Verdict.HOST_BOUND, Stage.HOST)
    assert diagnosis.confidence is Confidence.HIGH


def test_who_does_not_tell_of_graphs_leaves_a_doubt() -> None:
    """Kernels outside of graphs are launched by the host as well."""
    assert verdict_of(SPARE).diagnosis.confidence is Confidence.MEDIUM
