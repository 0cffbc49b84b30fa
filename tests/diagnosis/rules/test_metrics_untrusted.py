"""`metrics_untrusted`: transfers faster than their line, and devices that do nothing while they are busy."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.base import Case
from pdscope.diagnosis.rules.metrics_untrusted import RULE, contradictions
from pdscope.model.finding import Confidence, Finding, Stage, Truth, Verdict
from pdscope.model.signal import ScopeKind, SignalId
from pdscope.model.topology import Role
from support.signals import (
    CALM,
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
    signal_set,
    verdict_of,
)

FAST = STORIES["metrics_untrusted"]
LINK = "prefill->decode"
COUNTERS = {SignalId.DEVICE_BUSY: 0.99, SignalId.HBM_UTILIZATION: 0.0}
BLIND = changed(CALM, {SignalId.ITL_P50: 0.08}, on("d0", COUNTERS))


def told(figures: Figures, thresholds: dict[str, float] | None = None) -> Finding:
    """What is said of the link."""
    return finding(RULE, figures, thresholds=thresholds, about=LINK)


@pytest.mark.parametrize(
    "changes",
    [
        {SignalId.SPEED_TO_LINE: derived(1.05)},
        {SignalId.TTFT_P50: 2.0},
        {SignalId.TRANSFER_IN_FLIGHT: 0.99},
        {SignalId.REQUESTS_PER_SECOND: 10.0},
        {SignalId.SPEED_TO_LINE: None},
    ],
    ids=["the line itself", "objective kept", "nobody waits", "too few for the traffic", "no speed"],
)
def test_silent(changes: Changes) -> None:
    """A figure is distrusted only where it is impossible and the answer hangs on it."""
    found = told(changed(FAST, changes))
    assert found.truth is Truth.FALSE
    assert (found.missing, found.headline, found.remedies) == ((), "", ())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {SignalId.SPEED_TO_LINE: derived(1.06)},
        {SignalId.TTFT_P50: 2.01},
        {SignalId.TRANSFER_IN_FLIGHT: 1.0},
        {SignalId.REQUESTS_PER_SECOND: 4.5},
        {SignalId.REQUESTS_PER_SECOND: None, SignalId.TRANSFER_IN_FLIGHT: 1.0},
        {SignalId.TTFT_MEAN: None, SignalId.TRANSFER_IN_FLIGHT: 1.0},
    ],
    ids=["story", "speed", "objective", "one waits", "a fifth of TTFT in transfer", "no rate", "no mean"],
)
def test_holds(changes: Changes) -> None:
    """From each limit on."""
    assert told(changed(FAST, changes)).truth is Truth.TRUE


def test_unknown_names_what_is_missing() -> None:
    """An impossible speed, and nobody knows whether anyone waits for a transfer, or whether TTFT is over."""
    found = told(changed(FAST, {SignalId.TRANSFER_IN_FLIGHT: None}))
    assert (found.truth, found.missing) == (Truth.UNKNOWN, (SignalId.TRANSFER_IN_FLIGHT,))
    assert told(changed(FAST, {SignalId.TTFT_P50: None})).truth is Truth.UNKNOWN


@pytest.mark.parametrize(("name", "value"), [("excess", 1.6), ("in_flight", 3.1), ("ttft_share", 0.95)])
def test_thresholds_of_the_link_are_configurable(name: str, value: float) -> None:
    """A stricter one silences the rule."""
    assert told(FAST, {name: value}).truth is Truth.FALSE


def test_words() -> None:
    """Time, speed and those who wait stand in the headline; the scope is the link."""
    found = told(FAST)
    assert found.scope == (ScopeKind.LINK, LINK)
    for words in ("2.6 ms", "250 %", "3 wait for theirs"):
        assert words in found.headline
    assert [r.id for r in found.remedies] == ["measure_handover", "free_profiler"]


def test_no_link_without_roles() -> None:
    """A unified instance has devices and no transfer."""
    assert findings(RULE, FAST, deployment(instance("u0", Role.UNIFIED))) == []


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({}, Truth.TRUE),
        ({("d0", SignalId.DEVICE_BUSY): 0.5}, Truth.TRUE),
        ({("d0", SignalId.HBM_UTILIZATION): 0.001}, Truth.TRUE),
        ({("d0", SignalId.DEVICE_BUSY): 0.49}, Truth.FALSE),
        ({("d0", SignalId.HBM_UTILIZATION): 0.0011}, Truth.FALSE),
        ({SignalId.ITL_P50: 0.05}, Truth.FALSE),
        ({SignalId.ITL_P50: 0.05, SignalId.TTFT_P50: 9.0}, Truth.FALSE),
        ({SignalId.ITL_P50: None}, Truth.UNKNOWN),
    ],
    ids=["story", "busy", "still", "not busy", "something moves", "objective kept", "another stage's", "no ITL"],
)
def test_a_blind_sensor(changes: Changes, truth: Truth) -> None:
    """Counters at zero on a busy device, where the latency that it makes is over."""
    found = finding(RULE, changed(BLIND, changes), about="d0")
    assert found.truth is truth
    assert found.culprits == (("d0",) if truth is Truth.TRUE else ())


@pytest.mark.parametrize(
    "changes",
    [
        {("d0", SignalId.HBM_UTILIZATION): estimated(0.0)},
        {("d0", SignalId.HBM_UTILIZATION): None},
        {("d0", SignalId.DEVICE_BUSY): None},
    ],
    ids=["an estimate", "no counter", "no utilisation"],
)
def test_without_a_sensor_none_is_blind(changes: Changes) -> None:
    """Nothing is said of the instance at all."""
    assert {f.scope.name for f in findings(RULE, changed(BLIND, changes))} == {LINK}


@pytest.mark.parametrize(("name", "value"), [("busy", 1.0), ("still", -1.0)])
def test_thresholds_of_a_sensor_are_configurable(name: str, value: float) -> None:
    """A stricter one silences the rule."""
    assert finding(RULE, BLIND, about="d0", thresholds={name: value}).truth is Truth.FALSE


def test_each_role_by_its_latency() -> None:
    """Prefill answers for TTFT, a unified instance for either."""
    slow = changed(CALM, {SignalId.TTFT_P50: 9.0})
    found = finding(RULE, changed(slow, on("p0", COUNTERS)), about="p0")
    assert found.truth is Truth.TRUE
    assert "busy 99 % of the time and move 0 %" in found.headline
    unified = deployment(instance("u0", Role.UNIFIED))
    for latency, seconds in ((SignalId.TTFT_P50, 9.0), (SignalId.ITL_P50, 0.08)):
        assert finding(RULE, changed(CALM, {latency: seconds}, on("u0", COUNTERS)), unified).truth is Truth.TRUE


def test_verdict() -> None:
    """Of no stage; a speed is derived from two figures, a sensor measured."""
    for figures, confidence in ((FAST, Confidence.MEDIUM), (BLIND, Confidence.HIGH)):
        diagnosis = verdict_of(figures).diagnosis
        assert (diagnosis.verdict, diagnosis.verdict.stage) == (Verdict.METRICS_UNTRUSTED, Stage.NONE)
        assert diagnosis.confidence is confidence


QUEUE = changed(CALM, {SignalId.TTFT_P50: 3.0, SignalId.TTFT_MEAN: 3.0}, on("d0", {SignalId.DISTRUSTED_QUEUE: 45.0}))


def test_a_queue_that_contradicts_ttft_is_the_last_resort() -> None:
    """It says nothing while something that is believed explains the state, or nothing is broken."""
    diagnosis = verdict_of(QUEUE).diagnosis
    assert diagnosis.verdict is Verdict.METRICS_UNTRUSTED
    assert diagnosis.culprits == ("d0",)
    assert "45 requests are said to stand in front of d0" in diagnosis.summary
    explained = changed(QUEUE, on("d0", {SignalId.PREEMPTIONS_PER_SECOND: 2.0, SignalId.KV_FREE_REQUESTS: 0.2}))
    assert verdict_of(explained).diagnosis.verdict is Verdict.DECODE_KV_CAPACITY
    calm = changed(QUEUE, {SignalId.TTFT_P50: 0.4, SignalId.TTFT_MEAN: 0.4})
    assert verdict_of(calm).diagnosis.verdict is Verdict.HEALTHY
    short = changed(QUEUE, on("d0", {SignalId.DISTRUSTED_QUEUE: 7.0}))
    assert verdict_of(short).diagnosis.verdict is Verdict.UNDETERMINED


def test_the_last_resort_is_asked_of_each_decode() -> None:
    """By its own queue and the objective on TTFT; where none is distrusted, or nothing decodes, nothing is said."""
    of = deployment(instance("p0", Role.PREFILL), instance("d0", Role.DECODE), instance("d1", Role.DECODE))
    told = changed(QUEUE, on("d1", {SignalId.DISTRUSTED_QUEUE: 8.0}), on("p0", {SignalId.DISTRUSTED_QUEUE: 99.0}))

    def truths(figures: Figures, **thresholds: float) -> dict[str, Truth]:
        configured = {f"metrics_untrusted.{name}": value for name, value in thresholds.items()}
        return {f.scope.name: f.truth for f in contradictions(Case(of, signal_set(figures), configured))}

    assert truths(told) == {"d0": Truth.TRUE, "d1": Truth.TRUE}
    assert truths(told, queue=9.0) == {"d0": Truth.TRUE, "d1": Truth.FALSE}
    assert truths(changed(told, {SignalId.TTFT_P50: None})) == {"d0": Truth.UNKNOWN, "d1": Truth.UNKNOWN}
    assert truths(CALM) == {}
