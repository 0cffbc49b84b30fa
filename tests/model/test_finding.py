"""Three-valued truth and the vocabulary of verdicts."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.model.finding import Confidence, Diagnosis, Phase, Stage, Truth, Verdict

T, F, U = Truth.TRUE, Truth.FALSE, Truth.UNKNOWN
truths = st.sampled_from(Truth)


@pytest.mark.parametrize(
    ("left", "right", "both", "either"),
    [
        (T, T, T, T),
        (T, F, F, T),
        (T, U, U, T),
        (F, T, F, T),
        (F, F, F, F),
        (F, U, F, U),
        (U, T, U, T),
        (U, F, F, U),
        (U, U, U, U),
    ],
)
def test_tables_of_kleene(left: Truth, right: Truth, both: Truth, either: Truth) -> None:
    """Unknown stays unknown only where the other operand does not decide."""
    assert left & right is both
    assert left | right is either


def test_negation() -> None:
    """What is not known is not known to be false either."""
    assert [~truth for truth in (T, F, U)] == [F, T, U]


@given(truths, truths, truths)
def test_algebra(a: Truth, b: Truth, c: Truth) -> None:
    """De Morgan, associativity, distributivity: rules may be rearranged."""
    assert ~(a & b) is ~a | ~b
    assert ~~a is a
    assert a & (b & c) is (a & b) & c
    assert a & (b | c) is (a & b) | (a & c)


@given(st.lists(truths, min_size=1, max_size=4), st.data())
def test_learning_more_never_changes_what_was_known(operands: list[Truth], data: st.DataObject) -> None:
    """Whatever an unknown turns out to be, an answer that was not unknown stands."""
    known = [t if t is not U else data.draw(st.sampled_from([T, F])) for t in operands]
    for join in (Truth.__and__, Truth.__or__):
        before = list(itertools.accumulate(operands, join))[-1]
        after = list(itertools.accumulate(known, join))[-1]
        assert before in (U, after)


@pytest.mark.parametrize("truth", Truth)
def test_a_truth_is_no_condition(truth: Truth) -> None:
    """`if truth:` would take unknown for true."""
    with pytest.raises(TypeError, match="no boolean"):
        bool(truth)


@pytest.mark.parametrize(("value", "truth"), [(True, T), (False, F), (None, U)])
def test_from_an_optional_boolean(value: bool | None, truth: Truth) -> None:
    """None is unknown."""
    assert Truth.of(value) is truth


STAGES = {
    Stage.NONE: "healthy idle insufficient_data metrics_untrusted undetermined",
    Stage.PREFILL: "prefill_compute prefill_queue",
    Stage.KV_TRANSFER: "kv_transfer_bandwidth kv_transfer_path kv_transfer_fragmented kv_transfer_setup"
    " kv_transfer_failing kv_pinned",
    Stage.DECODE: "decode_hbm_bandwidth decode_kv_capacity decode_admission",
    Stage.ROUTER: "router_imbalance",
    Stage.HOST: "frontend_bound host_bound cuda_graph_miss",
    Stage.HARDWARE: "hardware_degraded",
    Stage.WORKLOAD: "workload_mismatch",
}


def test_every_verdict_blames_its_stage() -> None:
    """The whole vocabulary, as dashboards know it."""
    expected = {name: stage for stage, names in STAGES.items() for name in names.split()}
    assert {str(verdict): verdict.stage for verdict in Verdict} == expected


def test_a_diagnosis_blames_the_stage_of_its_verdict() -> None:
    """Phase and stage are kept apart: TTFT may break in decode."""
    diagnosis = Diagnosis(
        deployment="pd",
        at=60.0,
        window_seconds=60.0,
        phase=Phase.PREFILL,
        verdict=Verdict.DECODE_ADMISSION,
        confidence=Confidence.HIGH,
        summary="",
        since=0.0,
        culprits=("d0",),
        findings=(),
        next_steps=(),
        worker_verdicts={},
    )
    assert diagnosis.stage is Stage.DECODE
