"""`decode_hbm_bandwidth`: ITL is over and the memory interface is as busy as it gets."""

from __future__ import annotations

from typing import Any

import pytest

from pdscope.diagnosis.rules.decode_hbm_bandwidth import RULE
from pdscope.model.finding import Confidence, Phase, Truth, Verdict
from pdscope.model.hardware import Hardware
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

PINNED = STORIES["decode_hbm_bandwidth"]


@pytest.mark.parametrize(
    "changes",
    [
        on("d0", {SignalId.HBM_UTILIZATION: 0.67}),
        {SignalId.ITL_P50: 0.05},
        {SignalId.ITL_P50: 0.02},
        on("d0", {SignalId.ITL_TO_STEP: 3.8}),
    ],
    ids=["memory calm", "ITL at its objective", "ITL within", "tokens wait behind decode"],
)
def test_silent(changes: Changes) -> None:
    """Full use of HBM is no fault while ITL is kept; high ITL beside a calm memory has another cause."""
    assert finding(RULE, changed(PINNED, changes)).truth is Truth.FALSE
    assert finding(RULE, CALM).truth is not Truth.TRUE


def test_holds_and_says_how_much_is_left() -> None:
    """Theoretical and achievable share, batch and ITL."""
    found = finding(RULE, PINNED)
    assert found.truth is Truth.TRUE
    assert found.culprits == ("d0",)
    for words in ("78 %", "97.5 % of what can be had", "80 ms"):
        assert words in found.headline
    assert [r.id for r in found.remedies] == [r for r in RULE.remedies if r != "speculative_decoding"]  # 40 run
    assert all(r.cost and r.precondition for r in found.remedies)


def test_threshold_is_relative_to_what_can_be_had() -> None:
    """0.85 of 0.8 by default; both configurable."""
    at = changed(PINNED, on("d0", {SignalId.HBM_UTILIZATION: 0.68}))
    assert finding(RULE, at).truth is Truth.TRUE
    assert finding(RULE, at, thresholds={"achievable": 0.875}).truth is Truth.FALSE
    assert finding(RULE, at, thresholds={"utilization": 0.9}).truth is Truth.FALSE


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        (on("d0", {SignalId.HBM_UTILIZATION: None}), SignalId.HBM_UTILIZATION),
        ({SignalId.ITL_P50: None}, SignalId.ITL_P50),
    ],
)
def test_unknown_names_what_is_missing(changes: Changes, missing: SignalId) -> None:
    """Without device telemetry nobody knows."""
    found = finding(RULE, changed(PINNED, changes))
    assert found.truth is Truth.UNKNOWN
    assert found.missing == (missing,)


def test_without_an_objective_nothing_is_too_slow() -> None:
    """No promise on ITL, no verdict on it."""
    free = deployment(instance("p0", Role.PREFILL), instance("d0", Role.DECODE), slo=Slo(ttft_p50_seconds=2.0))
    assert {f.truth for f in findings(RULE, PINNED, free)} == {Truth.UNKNOWN}


ROOFLINE: dict[SignalId, Any] = {
    SignalId.HBM_UTILIZATION: estimated(0.6),
    SignalId.STEP_EXPLAINED: estimated(0.9),
    SignalId.STEP_PREDICTED: estimated(0.072),
    SignalId.STEP_BYTES: estimated(190e9),
}


def test_the_roofline_stands_in_for_telemetry() -> None:
    """Most of ITL explained by what a step has to read: confidence medium, and said to be estimated."""
    guessed = changed(PINNED, on("d0", ROOFLINE))
    found = finding(RULE, guessed)
    assert (found.truth, found.decisive) == (Truth.TRUE, Quality.ESTIMATED)
    for words in ("190 GB", "72 ms", "90 %", "no device telemetry"):
        assert words in found.headline
    assert verdict_of(guessed).diagnosis.confidence is Confidence.MEDIUM


@pytest.mark.parametrize("share", [0.69, 1.31, None])
def test_the_roofline_never_denies(share: float | None) -> None:
    """Too little may be what the engine does not export, too much an input that is wrong: telemetry would tell."""
    told = {**ROOFLINE, SignalId.STEP_EXPLAINED: None if share is None else estimated(share)}
    found = finding(RULE, changed(PINNED, on("d0", told)))
    assert (found.truth, found.missing) == (Truth.UNKNOWN, (SignalId.HBM_UTILIZATION,))


def test_measured_use_outranks_the_roofline() -> None:
    """A calm memory is calm whatever the arithmetic says."""
    told = {**ROOFLINE, SignalId.HBM_UTILIZATION: 0.3}
    assert finding(RULE, changed(PINNED, on("d0", told))).truth is Truth.FALSE


def test_achievable_share_of_the_hardware() -> None:
    """The table knows that an H200 reaches 0.875; a configured share wins."""
    h200 = Hardware(name="H200 SXM", achievable_hbm_fraction=0.875)
    of = deployment(instance("p0", Role.PREFILL), instance("d0", Role.DECODE, hardware=h200))
    at = changed(PINNED, on("d0", {SignalId.HBM_UTILIZATION: 0.7}))
    assert finding(RULE, at, of).truth is Truth.FALSE
    assert finding(RULE, at, of, thresholds={"achievable": 0.8}).truth is Truth.TRUE


def test_verdict_phase_and_confidence() -> None:
    """The plain form of the ITL-vs-TTFT rule, with its mechanism."""
    diagnosis = verdict_of(PINNED).diagnosis
    assert diagnosis.verdict is Verdict.DECODE_HBM_BANDWIDTH
    assert diagnosis.phase is Phase.DECODE_STEADY_STATE
    assert diagnosis.confidence is Confidence.HIGH
