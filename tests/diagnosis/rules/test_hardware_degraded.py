"""`hardware_degraded`: one device is slow, and an objective is broken for it."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.hardware_degraded import RULE
from pdscope.model.finding import Confidence, Stage, Truth, Verdict
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Role, Slo
from support.signals import CALM, STORIES, Changes, Figure, changed, deployment, finding, instance, on, verdict_of

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


# all devices of an instance, beside those of its peers

PAIR = deployment(instance("p0", Role.PREFILL), *(instance(f"d{n}", Role.DECODE) for n in range(2)))
BEHIND = {
    SignalId.CLOCK_TO_PEERS: 0.17,
    SignalId.POWER_TO_PEERS: 0.44,
    SignalId.TOKEN_TIME_TO_PEERS: 6.3,
    SignalId.OUTPUT_TO_PEERS: 1.1,
}
KEPT = changed(CALM, on("d1", {**SOUND, **BEHIND}))
BROKEN = changed(KEPT, {SignalId.ITL_P50: 0.08, SignalId.ITL_MEAN: 0.08})


def test_an_instance_that_is_slow_as_a_whole() -> None:
    """Its devices agree with each other and not with those of its peers."""
    found = finding(RULE, BROKEN, PAIR, about="d1")
    assert (found.truth, found.culprits, found.before) == (Truth.TRUE, ("d1",), None)
    assert found.headline == (
        "d1 is slower than its peers: its clock is 17 % of theirs (test instance_clock_to_peers_ratio); its power is "
        "44 % of theirs (test instance_power_to_peers_ratio); test instance_token_time_to_peers_ratio"
    )
    assert found.decisive is Quality.MEASURED


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({SignalId.CLOCK_TO_PEERS: 0.85, SignalId.POWER_TO_PEERS: 1.0}, Truth.TRUE),
        ({SignalId.CLOCK_TO_PEERS: 0.86, SignalId.POWER_TO_PEERS: 0.75}, Truth.TRUE),
        ({SignalId.CLOCK_TO_PEERS: 0.86, SignalId.POWER_TO_PEERS: 0.76}, Truth.FALSE),
        ({SignalId.TOKEN_TIME_TO_PEERS: 1.5}, Truth.TRUE),
        ({SignalId.TOKEN_TIME_TO_PEERS: 1.49}, Truth.FALSE),
        ({SignalId.OUTPUT_TO_PEERS: 1.2}, Truth.TRUE),
        ({SignalId.OUTPUT_TO_PEERS: 1.21}, Truth.FALSE),
        ({SignalId.CLOCK_TO_PEERS: None, SignalId.POWER_TO_PEERS: None}, Truth.FALSE),
        ({SignalId.TOKEN_TIME_TO_PEERS: None}, Truth.FALSE),
        ({SignalId.OUTPUT_TO_PEERS: None}, Truth.FALSE),
    ],
    ids=str,
)
def test_slower_at_no_more_work(changes: dict[SignalId, float | None], truth: Truth) -> None:
    """A hot instance at its power limit has a low clock as well; it gives more than the others."""
    assert finding(RULE, changed(BROKEN, on("d1", changes)), PAIR, about="d1").truth is truth


def test_power_alone_is_medium() -> None:
    """Between instances it may be what the software does."""
    told = changed(BROKEN, on("d1", {SignalId.CLOCK_TO_PEERS: 1.0}))
    found = finding(RULE, told, PAIR, about="d1")
    assert (found.truth, found.decisive) == (Truth.TRUE, Quality.DERIVED)


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({}, Truth.TRUE),
        ({SignalId.CLOCK_TO_PEERS: 0.7}, Truth.TRUE),
        ({SignalId.CLOCK_TO_PEERS: 0.71}, Truth.FALSE),
        ({SignalId.CLOCK_TO_PEERS: 1.0}, Truth.FALSE),
        ({SignalId.CLOCK_TO_PEERS: 1.0, SignalId.DEVICE_CLOCK_LOWEST: 0.6}, Truth.TRUE),
        ({SignalId.CLOCK_TO_PEERS: 1.0, SignalId.DEVICE_SLOWDOWN: 0.9}, Truth.TRUE),
        ({SignalId.CLOCK_TO_PEERS: 1.0, SignalId.DEVICE_POWER_LOWEST: 0.6}, Truth.FALSE),
        ({SignalId.DEVICE_SLOWDOWN: 0.9, SignalId.TOKEN_TIME_TO_PEERS: 1.0}, Truth.FALSE),
    ],
    ids=str,
)
def test_with_objectives_kept(changes: dict[SignalId, float], truth: Truth) -> None:
    """A clock that is clearly down, and a token that takes visibly longer: half of the users may be slow."""
    found = finding(RULE, changed(KEPT, on("d1", changes)), PAIR, about="d1")
    assert found.truth is truth
    assert found.headline.endswith("; no objective is broken for it") is (truth is Truth.TRUE)


def test_verdict_with_objectives_kept() -> None:
    """Users are served as promised: the slow card is told beside the verdict, also beside another one."""
    diagnosis = verdict_of(KEPT, PAIR).diagnosis
    assert diagnosis.verdict is Verdict.HEALTHY
    assert [f.culprits for f in diagnosis.findings if f.rule == RULE.id and f.truth is Truth.TRUE] == [("d1",)]
    queue = {place: value for place, value in STORIES["prefill_queue"].items() if CALM.get(place) != value}
    both = verdict_of(changed(KEPT, queue), PAIR).diagnosis
    assert both.verdict is Verdict.PREFILL_QUEUE
    assert "hardware_degraded" in {f.rule for f in both.findings if f.truth is Truth.TRUE}


def test_without_objectives() -> None:
    """What is clearly down and slower needs none; a mere lag does."""
    free = deployment(*PAIR.instances, slo=Slo())
    assert finding(RULE, KEPT, free, about="d1").truth is Truth.TRUE
    mild = changed(KEPT, on("d1", {SignalId.CLOCK_TO_PEERS: 0.8}))
    assert finding(RULE, mild, free, about="d1").truth is Truth.UNKNOWN


@pytest.mark.parametrize(("name", "value"), [("clock_lag", 0.9), ("token_time", 7.0), ("output", 1.0)])
def test_thresholds_between_instances(name: str, value: float) -> None:
    """A stricter one silences it."""
    told = changed(BROKEN, on("d1", {SignalId.POWER_TO_PEERS: None, SignalId.CLOCK_TO_PEERS: 0.8}))
    assert finding(RULE, told, PAIR, about="d1").truth is Truth.TRUE
    assert finding(RULE, told, PAIR, {name: value}, about="d1").truth is Truth.FALSE


def test_threshold_of_what_is_clear() -> None:
    """From which no objective is needed."""
    told = changed(KEPT, on("d1", {SignalId.CLOCK_TO_PEERS: 0.8}))
    assert finding(RULE, told, PAIR, about="d1").truth is Truth.FALSE
    assert finding(RULE, told, PAIR, {"clear_lag": 0.2}, about="d1").truth is Truth.TRUE


# faults that the driver tells

NEW_FAULT = {**SOUND, SignalId.HARDWARE_FAULTS: 1.0}
OLD_FAULT = {**SOUND, SignalId.HARDWARE_FAULTS: Figure(1.0, Quality.DERIVED)}


@pytest.mark.parametrize(
    ("figures", "truth"),
    [(NEW_FAULT, Truth.TRUE), (OLD_FAULT, Truth.FALSE), ({**SOUND, SignalId.HARDWARE_FAULTS: 0.0}, Truth.FALSE)],
    ids=["came within the window", "may be old", "none"],
)
def test_a_fault_within_the_window(figures: dict[SignalId, float | Figure], truth: Truth) -> None:
    """Is a sign like the others; it is named."""
    found = finding(RULE, changed(SLOW, on("d0", figures)), about="d0")
    assert found.truth is truth
    assert ("the driver told of test device_hardware_faults" in found.headline) is (truth is Truth.TRUE)
    assert finding(RULE, changed(CALM, on("d0", figures)), about="d0").truth is Truth.FALSE


def test_an_old_fault_is_asked_last() -> None:
    """Where nothing else explains what is slow; then with confidence medium."""
    told = changed(SLOW, on("d0", OLD_FAULT))
    diagnosis = verdict_of(told).diagnosis
    assert (diagnosis.verdict, diagnosis.confidence) == (Verdict.HARDWARE_DEGRADED, Confidence.MEDIUM)
    assert "othing else explains what is slow, and on d0 the driver told of test device_hardware_faults" in (
        diagnosis.summary
    )
    explained = changed(STORIES["decode_hbm_bandwidth"], on("d0", OLD_FAULT))
    assert verdict_of(explained).diagnosis.verdict is Verdict.DECODE_HBM_BANDWIDTH
    assert verdict_of(changed(CALM, on("d0", OLD_FAULT))).diagnosis.verdict is Verdict.HEALTHY
    none = changed(SLOW, on("d0", {**SOUND, SignalId.HARDWARE_FAULTS: 0.0}))
    assert verdict_of(none).diagnosis.verdict is Verdict.UNDETERMINED
    assert verdict_of(changed(SLOW, on("d0", SOUND))).diagnosis.verdict is Verdict.UNDETERMINED


def test_threshold_of_faults() -> None:
    """One device in a thousand may be nothing to somebody."""
    told = changed(SLOW, on("d0", NEW_FAULT))
    assert finding(RULE, told, thresholds={"faults": 2}, about="d0").truth is Truth.FALSE
