"""`hardware_degraded`: one device is slow, and an objective is broken for it."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.hardware_degraded import RULE
from pdscope.model.finding import Confidence, Stage, Truth, Verdict
from pdscope.model.signal import SignalId
from support.signals import CALM, STORIES, Changes, changed, finding, on, verdict_of

SLOW = STORIES["hardware_degraded"]
SOUND = {
    SignalId.DEVICE_SLOWDOWN: 0.0,
    SignalId.DEVICE_CLOCK_LOWEST: 0.99,
    SignalId.DEVICE_POWER_LOWEST: 0.9,
}


@pytest.mark.parametrize(
    "sign",
    [
        {SignalId.DEVICE_SLOWDOWN: 0.3},
        {SignalId.DEVICE_CLOCK_LOWEST: 0.85},
        {SignalId.DEVICE_POWER_LOWEST: 0.75},
    ],
    ids=["slowed down", "clock", "power"],
)
def test_each_sign_is_enough(sign: dict[SignalId, float]) -> None:
    """The other two being those of a sound device."""
    found = finding(RULE, changed(SLOW, on("d0", {**SOUND, **sign})), about="d0")
    assert (found.truth, found.culprits) == (Truth.TRUE, ("d0",))
    assert f"test {next(iter(sign))}" in found.headline


def test_sound_devices_are_not_it() -> None:
    """Whatever is broken."""
    assert finding(RULE, changed(SLOW, on("d0", SOUND)), about="d0").truth is Truth.FALSE


@pytest.mark.parametrize(
    "changes",
    [
        {SignalId.ITL_P50: 0.02},
        {SignalId.ITL_P50: 0.02, SignalId.TTFT_P50: 9.0},
    ],
    ids=["objectives kept", "another stage's objective"],
)
def test_a_slow_device_that_hurts_nobody(changes: Changes) -> None:
    """Decode's devices answer for ITL, prefill's for TTFT."""
    assert finding(RULE, changed(SLOW, changes), about="d0").truth is Truth.FALSE


def test_prefill_answers_for_ttft() -> None:
    """Its slow device breaks what it makes."""
    hot = changed(CALM, {SignalId.TTFT_P50: 4.0}, on("p0", {SignalId.DEVICE_SLOWDOWN: 0.8}))
    found = finding(RULE, hot, about="p0")
    assert found.truth is Truth.TRUE
    assert "held down 80 % of the time" in found.headline


def test_without_telemetry_nobody_knows() -> None:
    """All three signs are named."""
    found = finding(RULE, changed(SLOW, on("d0", {SignalId.DEVICE_POWER_LOWEST: None})), about="d0")
    assert found.truth is Truth.UNKNOWN
    assert set(found.missing) == set(SOUND)


@pytest.mark.parametrize(("name", "value"), [("slowdown", 0.2), ("clock_lag", 0.05), ("power_lag", 0.05)])
def test_thresholds_are_configurable(name: str, value: float) -> None:
    """A stricter one turns the answer."""
    told = {
        SignalId.DEVICE_SLOWDOWN: 0.25,
        SignalId.DEVICE_CLOCK_LOWEST: 0.9,
        SignalId.DEVICE_POWER_LOWEST: 0.9,
    }
    figures = changed(SLOW, on("d0", told))
    assert finding(RULE, figures, about="d0").truth is Truth.FALSE
    assert finding(RULE, figures, about="d0", thresholds={name: value}).truth is Truth.TRUE


def test_verdict() -> None:
    """Of the hardware, measured."""
    diagnosis = verdict_of(SLOW).diagnosis
    assert (diagnosis.verdict, diagnosis.verdict.stage) == (Verdict.HARDWARE_DEGRADED, Stage.HARDWARE)
    assert diagnosis.confidence is Confidence.HIGH
