"""`workload_mismatch`: two roles that hand nothing over, or a hand-over that costs what it saves."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.workload_mismatch import RULE
from pdscope.model.finding import Confidence, Finding, Stage, Truth, Verdict
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Role
from support.signals import (
    CALM,
    STORIES,
    Changes,
    Figures,
    changed,
    deployment,
    derived,
    findings,
    instance,
    on,
    verdict_of,
)

SHORT = STORIES["workload_mismatch"]
ALONE = changed(
    CALM,
    {SignalId.ITL_P50: 0.08, SignalId.KV_ACHIEVED: None, SignalId.TRANSFER_TIME: None},
    on("d0", {SignalId.KV_RECEIVED_SHARE: 0.0}),
)
PAIR = deployment(instance("p0", Role.PREFILL), instance("d0", Role.DECODE), instance("d1", Role.DECODE))


def none(figures: Figures, thresholds: dict[str, float] | None = None) -> Finding:
    return findings(RULE, figures, thresholds=thresholds)[0]


def dear(figures: Figures, thresholds: dict[str, float] | None = None) -> Finding:
    return findings(RULE, figures, thresholds=thresholds)[1]


def test_a_unified_deployment_has_nothing_to_hand_over() -> None:
    """Whatever its prompts."""
    assert findings(RULE, SHORT, deployment(instance("u0", Role.UNIFIED))) == []


# nothing is handed over


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({}, Truth.TRUE),
        ({SignalId.KV_ACHIEVED: 0.0}, Truth.TRUE),
        ({SignalId.KV_ACHIEVED: 1e3}, Truth.FALSE),
        (on("d0", {SignalId.KV_RECEIVED_SHARE: 0.001}), Truth.FALSE),
        ({SignalId.REQUESTS_FINISHED: 4.0}, Truth.FALSE),
        ({SignalId.REQUESTS_FINISHED: 5.0}, Truth.TRUE),
        ({SignalId.ITL_P50: 0.02}, Truth.FALSE),
        ({SignalId.ITL_P50: 0.02, SignalId.TTFT_P50: 3.0}, Truth.TRUE),
    ],
    ids=["none", "no bytes", "bytes", "prefix hits on decode", "few", "enough", "objectives kept", "TTFT"],
)
def test_no_transfer(changes: Changes, truth: Truth) -> None:
    """Not one token was received and not one byte moved, over requests that broke an objective."""
    found = none(changed(ALONE, changes))
    assert found.truth is truth
    assert ("not one KV transfer" in found.headline) is (truth is Truth.TRUE)


@pytest.mark.parametrize("achieved", [None, 0.0])
def test_an_engine_that_does_not_count_what_it_received(achieved: float | None) -> None:
    """Unknown, not none: Dynamo's workers and SGLang's decode do not say it."""
    told = changed(ALONE, {SignalId.KV_ACHIEVED: achieved}, on("d0", {SignalId.KV_RECEIVED_SHARE: None}))
    found = none(told)
    assert (found.truth, found.missing) == (Truth.UNKNOWN, (SignalId.KV_RECEIVED_SHARE,))
    assert none(changed(told, {SignalId.KV_ACHIEVED: 1e9})).truth is Truth.FALSE


@pytest.mark.parametrize(
    ("other", "truth"),
    [
        ({SignalId.GENERATION_RATE: 900.0, SignalId.KV_RECEIVED_SHARE: 0.0}, Truth.TRUE),
        ({SignalId.GENERATION_RATE: 900.0, SignalId.KV_RECEIVED_SHARE: 1.0}, Truth.FALSE),
        ({SignalId.GENERATION_RATE: 900.0}, Truth.UNKNOWN),
        ({}, Truth.UNKNOWN),
        ({SignalId.GENERATION_RATE: 0.0}, Truth.TRUE),
    ],
    ids=["neither", "one does", "one does not say", "one is silent", "one rests"],
)
def test_every_decode_instance_that_generates_is_asked(other: dict[SignalId, float], truth: Truth) -> None:
    """One that may have received something keeps the rule from holding."""
    assert findings(RULE, changed(ALONE, on("d1", other)), PAIR)[0].truth is truth


def test_nobody_generates() -> None:
    """Then nothing says that decode does the work of prefill."""
    still = changed(ALONE, on("d0", {SignalId.GENERATION_RATE: 0.0}))
    assert none(still).truth is Truth.UNKNOWN


@pytest.mark.parametrize("story", ["decode_kv_capacity", "decode_hbm_bandwidth", "prefill_queue"])
def test_roles_that_transfer_nothing_come_early(story: str) -> None:
    """What is no hand-over is the cause of what it makes of decode."""
    other = {place: value for place, value in STORIES[story].items() if CALM.get(place) != value}
    diagnosis = verdict_of(changed(ALONE, other)).diagnosis
    assert diagnosis.verdict is Verdict.WORKLOAD_MISMATCH
    assert (diagnosis.stage, diagnosis.confidence) == (Stage.WORKLOAD, Confidence.HIGH)
    assert story in {f.rule for f in diagnosis.findings if f.truth is Truth.TRUE}


def test_failing_transfers_come_first() -> None:
    """They are why none took place."""
    failing = changed(ALONE, on("p0", {SignalId.FAILURES_PER_SECOND: 1.0}))
    assert verdict_of(failing).diagnosis.verdict is Verdict.KV_TRANSFER_FAILING


# the hand-over costs what it saves


def test_short_prompts() -> None:
    """The numbers stand in the headline."""
    found = dear(SHORT)
    assert (found.truth, found.decisive) == (Truth.TRUE, Quality.DERIVED)
    for words in ("61 tokens", "1.4 s", "900 %"):
        assert words in found.headline
    assert [r.id for r in found.remedies] == ["local_prefill", "unify"]


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({SignalId.PROMPT_TOKENS_PER_REQUEST: 1024.0}, Truth.FALSE),
        ({SignalId.PROMPT_TOKENS_PER_REQUEST: 1023.0}, Truth.TRUE),
        ({SignalId.HANDOVER_TO_PREFILL: 0.99}, Truth.FALSE),
        ({SignalId.HANDOVER_TO_PREFILL: 1.0}, Truth.TRUE),
        ({SignalId.TRANSFER_TTFT_SHARE: 0.19}, Truth.FALSE),
        ({SignalId.TRANSFER_TTFT_SHARE: 0.2}, Truth.TRUE),
        ({SignalId.TRANSFER_TTFT_SHARE: 0.1, SignalId.SETUP_TTFT_SHARE: 0.2}, Truth.TRUE),
        ({SignalId.LINK_UTILIZATION: derived(0.5)}, Truth.FALSE),
        ({SignalId.LINK_UTILIZATION: derived(0.49)}, Truth.TRUE),
        ({SignalId.LINK_UTILIZATION: None, SignalId.TRANSFER_IN_FLIGHT: 4.0}, Truth.FALSE),
        ({SignalId.LINK_UTILIZATION: None, SignalId.TRANSFER_IN_FLIGHT: 3.9}, Truth.TRUE),
        ({SignalId.TTFT_P50: 1.9}, Truth.FALSE),
        ({SignalId.TTFT_P50: 1.9, SignalId.ITL_P50: 0.08}, Truth.FALSE),
        ({SignalId.REQUESTS_FINISHED: 4.0}, Truth.FALSE),
    ],
)
def test_each_condition_counts(changes: Changes, truth: Truth) -> None:
    """At its boundary; a hand-over that is no part of a long TTFT explains nothing of it."""
    assert dear(changed(SHORT, changes)).truth is truth


@pytest.mark.parametrize(
    ("lost", "missing"),
    [
        ({SignalId.PROMPT_TOKENS_PER_REQUEST: None}, SignalId.PROMPT_TOKENS_PER_REQUEST),
        ({SignalId.HANDOVER_TO_PREFILL: None}, SignalId.HANDOVER_TO_PREFILL),
        ({SignalId.TRANSFER_TTFT_SHARE: None}, SignalId.TRANSFER_TTFT_SHARE),
        ({SignalId.REQUESTS_FINISHED: None}, SignalId.REQUESTS_FINISHED),
        ({SignalId.LINK_UTILIZATION: None, SignalId.TRANSFER_IN_FLIGHT: None}, SignalId.TRANSFER_IN_FLIGHT),
    ],
)
def test_unknown_names_what_is_missing(lost: Changes, missing: SignalId) -> None:
    """A link of which nothing is known may be full."""
    found = dear(changed(SHORT, lost))
    assert (found.truth, found.missing) == (Truth.UNKNOWN, (missing,))


@pytest.mark.parametrize(
    ("name", "value", "changes"),
    [
        ("requests", 301, {}),
        ("prompt", 61, {}),
        ("handover", 10, {}),
        ("ttft_share", 0.7, {}),
        ("link", 0.1, {}),
        ("in_flight", 0.1, {SignalId.LINK_UTILIZATION: None}),
    ],
)
def test_thresholds_are_configurable(name: str, value: float, changes: Changes) -> None:
    """A stricter one silences the rule."""
    figures = changed(SHORT, changes)
    assert dear(figures).truth is Truth.TRUE
    assert dear(figures, {name: value}).truth is Truth.FALSE


def test_break_even_comes_late() -> None:
    """Whatever is at a limit explains more; alone it is the answer, derived."""
    diagnosis = verdict_of(SHORT).diagnosis
    assert (diagnosis.verdict, diagnosis.confidence) == (Verdict.WORKLOAD_MISMATCH, Confidence.MEDIUM)
    queue = {place: value for place, value in STORIES["prefill_queue"].items() if CALM.get(place) != value}
    assert verdict_of(changed(SHORT, queue)).diagnosis.verdict is Verdict.PREFILL_QUEUE
