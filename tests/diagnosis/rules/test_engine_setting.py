"""`engine_setting`: two sides that do not fit each other."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.engine_setting import RULE
from pdscope.model.finding import Confidence, Op, Truth, Verdict
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Deployment, Role
from support.signals import (
    CALM,
    FINDINGS,
    Changes,
    Figures,
    changed,
    deployment,
    finding,
    findings,
    instance,
    on,
    verdict_of,
)

STORY = FINDINGS["engine_setting"]


def of(prefill: str | None, decode: str | None) -> Deployment:
    """One instance of each role with its KV type."""
    return deployment(instance("p0", Role.PREFILL, kv_dtype=prefill), instance("d0", Role.DECODE, kv_dtype=decode))


def pages(prefill: float | None, decode: float | None) -> Figures:
    """The calm state with these page sizes."""
    return changed(CALM, {("p0", SignalId.PAGE_TOKENS): prefill, ("d0", SignalId.PAGE_TOKENS): decode})


def test_page_sizes_that_differ() -> None:
    """Both are named and both are shown as evidence."""
    found = finding(RULE, STORY)
    assert found.truth is Truth.TRUE
    assert "KV pages (tokens) prefill 64, decode 16" in found.headline
    assert {(e.scope.name, e.value, e.op, e.threshold) for e in found.evidence} == {
        ("p0", 64.0, Op.GT, 16.0),
        ("d0", 16.0, Op.GT, 16.0),
    }
    assert found.decisive is Quality.MEASURED


@pytest.mark.parametrize(
    ("prefill", "decode", "truth"),
    [
        ("fp8_e4m3", "bfloat16", Truth.TRUE),
        ("fp8_e4m3", "fp8_e4m3", Truth.FALSE),
        ("auto", "bfloat16", Truth.UNKNOWN),
        (None, "bfloat16", Truth.UNKNOWN),
        (None, None, Truth.UNKNOWN),
    ],
)
def test_types_that_differ(prefill: str | None, decode: str | None, truth: Truth) -> None:
    """`auto` is the type of the model, whatever that is."""
    found = finding(RULE, CALM, of(prefill, decode))
    assert found.truth is truth
    assert (SignalId.PAGE_TOKENS in found.missing) == (truth is not Truth.FALSE)
    if truth is Truth.TRUE:
        assert "KV types prefill fp8_e4m3, decode bfloat16" in found.headline


@pytest.mark.parametrize(
    ("prefill", "decode", "truth"),
    [(16.0, 16.0, Truth.FALSE), (16.0, None, Truth.UNKNOWN), (None, None, Truth.UNKNOWN)],
)
def test_sizes_that_do_not_differ(prefill: float | None, decode: float | None, truth: Truth) -> None:
    """What one side does not say differs from nothing."""
    assert finding(RULE, pages(prefill, decode)).truth is truth


def test_both_differences_are_told() -> None:
    """In one sentence."""
    found = finding(RULE, STORY, of("fp8_e4m3", "bfloat16"))
    assert "KV pages" in found.headline
    assert "KV types" in found.headline
    assert [r.id for r in found.remedies] == ["check_shapes"]


def test_one_side_fits_itself() -> None:
    """Unified engines hand nothing over."""
    assert findings(RULE, STORY, deployment(instance("p0", Role.UNIFIED), instance("d0", Role.UNIFIED))) == []


def test_it_is_no_verdict() -> None:
    """The deployment is as healthy as without it, and the finding stands beside."""
    diagnosis = verdict_of(STORY).diagnosis
    assert diagnosis.verdict is Verdict.HEALTHY
    held = [f for f in diagnosis.findings if f.rule == RULE.id]
    assert [(f.truth, f.verdict) for f in held] == [(Truth.TRUE, None)]


# the configuration against what is there


SWAPPED = on("p0", {SignalId.CONTRADICTIONS: 1.0})


def test_a_contradiction_is_a_finding_of_its_instance() -> None:
    """Its evidence is where the text stands; its remedy is the configuration."""
    found = finding(RULE, changed(CALM, SWAPPED), about="p0")
    assert found.truth is Truth.TRUE
    assert found.headline == f"p0 is not what is configured (test {SignalId.CONTRADICTIONS})"
    assert [(e.signal, e.value, e.op, e.threshold) for e in found.evidence] == [
        (SignalId.CONTRADICTIONS, 1.0, Op.GT, 0.0)
    ]
    assert [r.id for r in found.remedies] == ["correct_configuration"]
    assert found.culprits == ("p0",)


def test_contradictions_do_not_need_two_roles() -> None:
    """A unified engine may be configured wrongly too; one without any has no finding."""
    alone = deployment(instance("p0", Role.UNIFIED), instance("r0", Role.ROUTER))
    assert [f.scope.name for f in findings(RULE, changed(CALM, SWAPPED), alone)] == ["p0"]


def test_an_answer_beside_a_contradiction_is_doubted() -> None:
    """It stands, it is not sure, and it says so."""
    before, after = verdict_of(CALM).diagnosis, verdict_of(changed(CALM, SWAPPED)).diagnosis
    assert after.verdict is before.verdict is Verdict.HEALTHY
    assert (before.confidence, after.confidence) == (Confidence.HIGH, Confidence.MEDIUM)
    assert "; but p0 is not what is configured (" in after.summary
    assert "not what is configured" not in before.summary


@pytest.mark.parametrize(
    "blind",
    [
        {("d0", SignalId.SCRAPES): 1.0},
        dict.fromkeys((SignalId.TTFT_P50, SignalId.ITL_P50, SignalId.REQUESTS_FINISHED)),
    ],
    ids=["a role is silent", "no verdict holds"],
)
def test_what_cannot_be_told_because_of_it_begins_with_it(blind: Changes) -> None:
    """Whoever reads the first words knows what to do."""
    diagnosis = verdict_of(changed(CALM, SWAPPED, blind)).diagnosis
    assert diagnosis.verdict is Verdict.INSUFFICIENT_DATA
    assert diagnosis.summary.startswith("p0 is not what is configured (")


def test_many_contradictions_are_not_all_spelt_out() -> None:
    """Two of them, those of the silent instance first, and the names of the others."""
    names = ("d0", "d1", "d2", "d3")
    of_many = deployment(instance("p0", Role.PREFILL), *(instance(name, Role.DECODE) for name in names))
    told = {(name, SignalId.CONTRADICTIONS): 1.0 for name in ("p0", *names)}
    summary = verdict_of(changed(CALM, told, {("d0", SignalId.SCRAPES): 1.0}), of_many).diagnosis.summary
    assert summary.startswith("d0 is not what is configured (")
    assert summary.count("is not what is configured") == 2
    assert "; likewise " in summary
