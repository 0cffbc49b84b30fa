"""`metrics_untrusted`: transfers faster than their line, devices that do nothing at work, counters of several."""

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
    assert [r.id for r in found.remedies] == ["measure_handover"]


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


# devices that cannot be as idle as they are said to be

DEAD = changed(
    CALM,
    {SignalId.ITL_P50: 0.08},
    on(
        "d0",
        {
            SignalId.DISTRUSTED_HBM: 0.0,
            SignalId.DISTRUSTED_COMPUTE: 0.0,
            SignalId.RUNNING: 48.0,
            SignalId.GENERATION_RATE: 800.0,
        },
    ),
)
LOW = changed(DEAD, on("d0", {SignalId.DISTRUSTED_HBM: 0.02, SignalId.HBM_FLOOR: estimated(0.6)}))
LOW = changed(LOW, {("d0", SignalId.DISTRUSTED_COMPUTE): None})


@pytest.mark.parametrize(
    ("figures", "changes", "truth"),
    [
        (DEAD, {}, Truth.TRUE),
        (LOW, {}, Truth.TRUE),
        (DEAD, {SignalId.ITL_P50: 0.05}, Truth.FALSE),
        (DEAD, {SignalId.ITL_P50: 0.05, SignalId.TTFT_P50: 9.0}, Truth.FALSE),
        (DEAD, {SignalId.ITL_P50: None}, Truth.UNKNOWN),
    ],
    ids=["at zero", "below the floor", "objective kept", "another stage's", "no ITL"],
)
def test_devices_of_a_decode_at_work(figures: Figures, changes: Changes, truth: Truth) -> None:
    """They are distrusted where ITL is over: then the answer would hang on them."""
    found = finding(RULE, changed(figures, changes), about="d0")
    assert found.truth is truth
    if truth is Truth.TRUE:
        assert found.culprits == ("d0",)
        assert [r.id for r in found.remedies] == ["check_device_source", "free_profiler"]
        assert "while it runs 48 requests and generates 800 tokens/s" in found.headline


@pytest.mark.parametrize("story", ["cuda_graph_miss", "decode_kv_capacity", "kv_transfer_failing"])
def test_what_is_seen_without_devices_is_named_all_the_same(story: str) -> None:
    """No number of that answer contradicts itself; the doubt stands beside it."""
    dead = changed(STORIES[story], {SignalId.ITL_P50: 0.08}, on("d0", {SignalId.DISTRUSTED_HBM: 0.0}))
    diagnosis = verdict_of(dead).diagnosis
    assert diagnosis.verdict is Verdict(story)
    assert any(f.rule == RULE.id and f.truth is Truth.TRUE for f in diagnosis.findings)


def test_words_of_what_is_said_and_of_what_must_be() -> None:
    """Zeros are measured; a floor is an estimate, and so is what hangs on it."""
    assert "(memory 0 %, units 0 %)" in finding(RULE, DEAD, about="d0").headline
    assert "(memory 2 % where its work takes at least 60 %)" in finding(RULE, LOW, about="d0").headline
    for figures, confidence in ((DEAD, Confidence.HIGH), (LOW, Confidence.MEDIUM)):
        diagnosis = verdict_of(figures).diagnosis
        assert (diagnosis.verdict, diagnosis.culprits) == (Verdict.METRICS_UNTRUSTED, ("d0",))
        assert diagnosis.confidence is confidence


QUEUED_DEAD = changed(
    STORIES["prefill_queue"], on("p0", {SignalId.DISTRUSTED_COMPUTE: 0.0, SignalId.DISTRUSTED_TENSOR: 0.0})
)


def test_devices_of_a_prefill_at_work() -> None:
    """Where requests wait for it: whether it computes at its limit would decide between two verdicts."""
    found = finding(RULE, QUEUED_DEAD, about="p0")
    assert (found.truth, found.culprits) == (Truth.TRUE, ("p0",))
    assert "(units 0 %, matrix engines 0 %) while it computes prompts" in found.headline
    short = changed(QUEUED_DEAD, on("p0", {SignalId.PREFILL_WAIT_TTFT_SHARE: 0.1}))
    assert finding(RULE, short, about="p0").truth is Truth.FALSE
    within = changed(QUEUED_DEAD, {SignalId.TTFT_P50: 0.4, SignalId.TTFT_MEAN: 0.4})
    assert finding(RULE, within, about="p0").truth is Truth.FALSE


def test_a_unified_instance_answers_for_either() -> None:
    """For ITL at once, for TTFT where requests wait for prefill."""
    unified = deployment(instance("u0", Role.UNIFIED))
    dead = on("u0", {SignalId.DISTRUSTED_HBM: 0.0, SignalId.PREFILL_WAIT_TTFT_SHARE: 0.5})
    for latency, seconds in ((SignalId.TTFT_P50, 9.0), (SignalId.ITL_P50, 0.08)):
        assert finding(RULE, changed(CALM, {latency: seconds}, dead), unified).truth is Truth.TRUE
    assert finding(RULE, changed(CALM, dead), unified).truth is Truth.FALSE


def test_a_dead_exporter_is_told_where_nothing_else_explains_the_state() -> None:
    """Whether a kernel runs decides nothing, but shows that the exporter reads nothing."""
    flat = changed(CALM, {SignalId.ITL_P50: 0.08}, on("d0", {SignalId.DISTRUSTED_BUSY: 0.0}))
    diagnosis = verdict_of(flat).diagnosis
    assert diagnosis.verdict is Verdict.METRICS_UNTRUSTED
    assert "time with a kernel 0 %" in diagnosis.summary
    assert findings(RULE, flat)[-1].scope.name == LINK
    assert verdict_of(changed(flat, {SignalId.ITL_P50: 0.02})).diagnosis.verdict is Verdict.HEALTHY


# counters of several processes


@pytest.mark.parametrize(("counters", "truth"), [(15.0, Truth.TRUE), (2.0, Truth.TRUE), (1.0, Truth.FALSE)])
def test_counters_that_go_back_and_forth(counters: float, truth: Truth) -> None:
    """All that is counted of the instance is missing, so no answer is given; one counter may be wrong by itself."""
    figures = changed(CALM, on("d0", {SignalId.COUNTERS_JUMP: counters}))
    found = finding(RULE, figures, about="d0")
    assert found.truth is truth
    verdict = Verdict.METRICS_UNTRUSTED if truth is Truth.TRUE else Verdict.HEALTHY
    assert verdict_of(figures).diagnosis.verdict is verdict
    if truth is Truth.TRUE:
        assert found.culprits == ("d0",)
        assert [r.id for r in found.remedies] == ["scrape_each_worker"]
        assert f"{counters:.0f} counters of d0 go back and forth (test counters_back_and_forth)" in found.headline


def test_a_routers_counters_matter_where_nobody_else_knows_ttft() -> None:
    """Replicas of a router behind one address are usual, and the engines say how long users wait."""
    of = deployment(instance("r0", Role.ROUTER), instance("p0", Role.PREFILL), instance("d0", Role.DECODE))
    figures = changed(CALM, on("r0", {SignalId.COUNTERS_JUMP: 9.0}))
    assert finding(RULE, figures, of, about="r0").truth is Truth.FALSE
    assert finding(RULE, changed(figures, {SignalId.TTFT_P50: None}), of, about="r0").truth is Truth.TRUE


# histograms whose sum no bucket can hold

LIES = changed(CALM, {SignalId.ITL_P50: None}, on("d0", {SignalId.ITL_OUTSIDE: 25.0}))


def test_a_histogram_that_contradicts_itself() -> None:
    """Its quantiles are missing, and the reader is told why."""
    diagnosis = verdict_of(LIES).diagnosis
    assert (diagnosis.verdict, diagnosis.culprits) == (Verdict.METRICS_UNTRUSTED, ("d0",))
    assert "ITL histogram of d0 contradicts itself" in diagnosis.summary
    found = next(f for f in diagnosis.findings if f.rule == "metrics_untrusted" and f.truth is Truth.TRUE)
    assert [r.id for r in found.remedies] == ["read_raw_page"]


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({SignalId.ITL_P50: 0.02}, Verdict.HEALTHY),
        ({("d0", SignalId.ITL_OUTSIDE): 1.1}, Verdict.INSUFFICIENT_DATA),
        (
            on("d0", {SignalId.PREEMPTIONS_PER_SECOND: 2.0, SignalId.KV_FREE_REQUESTS: 0.2}),
            Verdict.DECODE_KV_CAPACITY,
        ),
    ],
    ids=["known from elsewhere", "hardly outside", "explained without it"],
)
def test_a_histogram_on_which_nothing_hangs(changes: Changes, verdict: Verdict) -> None:
    """It is the last resort."""
    assert verdict_of(changed(LIES, changes)).diagnosis.verdict is verdict
