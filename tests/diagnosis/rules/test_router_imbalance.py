"""`router_imbalance`: some hold much for the whole window while others, which could help, hold little."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.router_imbalance import RULE
from pdscope.model.finding import Confidence, Stage, Truth, Verdict
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Deployment, Role
from support.signals import (
    CALM,
    STORIES,
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


def decoders(count: int, role: Role = Role.DECODE) -> Deployment:
    return deployment(instance("p0", Role.PREFILL), *(instance(f"d{n}", role) for n in range(count)))


def holds(least: float, most: float, tokens: float, usage: float = 0.3) -> dict[SignalId, float]:
    return {
        SignalId.WORK_LEAST: least,
        SignalId.WORK_MOST: most,
        SignalId.GENERATION_RATE: tokens,
        SignalId.KV_USAGE: usage,
        SignalId.KV_USAGE_NET: usage,
        SignalId.SCRAPES: 13.0,
        SignalId.ADMISSION_QUEUE: 0.0,
    }


THREE = decoders(3)
UNEVEN = changed(
    CALM,
    {SignalId.ITL_P50: 0.08, SignalId.ITL_MEAN: 0.08, SignalId.ROLE_IMBALANCE: 80.0},
    on("d0", holds(80.0, 90.0, 2500.0)),
    on("d1", holds(60.0, 70.0, 2100.0)),
    on("d2", holds(0.0, 5.0, 100.0, 0.05)),
)
RANKS = STORIES["router_imbalance"]


def test_names_the_hot_ones() -> None:
    """Those at or over the bar, the fullest first; the emptiest stands beside them."""
    found = finding(RULE, UNEVEN, THREE)
    assert (found.truth, found.culprits, found.scope.name) == (Truth.TRUE, ("d0", "d1"), "d0")
    assert found.decisive is Quality.MEASURED
    assert "d0, d1 of decode never held less than 80 requests in the window, d2 never more than 5" in found.headline
    assert [r.id for r in found.remedies] == ["router_policy", "less_affinity", "reset_router_state"]
    mild = changed(UNEVEN, on("d1", {SignalId.WORK_LEAST: 14.9}))
    assert finding(RULE, mild, THREE).culprits == ("d0",)


@pytest.mark.parametrize(
    ("hot", "cold", "truth"),
    [
        (15.0, 5.0, Truth.TRUE),
        (14.9, 5.0, Truth.FALSE),
        (5.0, 1.0, Truth.TRUE),
        (4.9, 1.0, Truth.FALSE),
        (4.0, 0.0, Truth.TRUE),
        (3.9, 0.0, Truth.FALSE),
        (3.0, 1.0, Truth.FALSE),
    ],
)
def test_three_times_and_four_more(hot: float, cold: float, truth: Truth) -> None:
    """Over the whole window: the least of one against the most of the other."""
    told = changed(
        UNEVEN,
        on("d0", {SignalId.WORK_LEAST: hot, SignalId.WORK_MOST: 200.0}),
        on("d1", {SignalId.WORK_LEAST: 0.0, SignalId.WORK_MOST: 200.0}),
        on("d2", {SignalId.WORK_MOST: cold}),
    )
    assert finding(RULE, told, THREE).truth is truth


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        (on("d2", {SignalId.KV_USAGE_NET: 0.51}), Truth.FALSE),
        (on("d2", {SignalId.KV_USAGE_NET: 0.5}), Truth.TRUE),
        (on("d2", {SignalId.KV_USAGE_NET: None}), Truth.UNKNOWN),
        (on("d2", {SignalId.KV_USAGE_NET: None, SignalId.WORK_MOST: 0.0}), Truth.TRUE),
        (on("d2", {SignalId.SCRAPES: 9.0}), Truth.FALSE),
        (on("d2", {SignalId.SCRAPES: 10.0}), Truth.TRUE),
        (on("d2", {SignalId.SCRAPES: None}), Truth.UNKNOWN),
    ],
    ids=["few but long", "room", "memory unknown", "held nothing", "fresh", "there", "who knows how long"],
)
def test_the_emptiest_could_take_more(changes: Changes, truth: Truth) -> None:
    """It has room, and was there for most of the window."""
    assert finding(RULE, changed(UNEVEN, changes), THREE).truth is truth


@pytest.mark.parametrize(
    ("role", "changes", "truth"),
    [
        (Role.DECODE, {SignalId.ITL_P50: 0.02}, Truth.FALSE),
        (Role.DECODE, {SignalId.ITL_P50: 0.02, SignalId.TTFT_P50: 3.0}, Truth.FALSE),
        (
            Role.DECODE,
            {SignalId.ITL_P50: 0.02, SignalId.TTFT_P50: 3.0, ("d0", SignalId.ADMISSION_QUEUE): 1.0},
            Truth.TRUE,
        ),
        (
            Role.DECODE,
            {SignalId.ITL_P50: 0.02, SignalId.TTFT_P50: 3.0, ("d0", SignalId.ADMISSION_QUEUE): None},
            Truth.UNKNOWN,
        ),
        (Role.UNIFIED, {SignalId.ITL_P50: 0.02}, Truth.FALSE),
        (Role.UNIFIED, {SignalId.ITL_P50: 0.02, SignalId.TTFT_P50: 3.0}, Truth.TRUE),
        (Role.UNIFIED, {}, Truth.TRUE),
        (Role.PREFILL, {}, Truth.FALSE),
    ],
)
def test_the_role_breaks_what_it_answers_for(role: Role, changes: Changes, truth: Truth) -> None:
    """Prefix affinity that hurts nobody is no fault, and decode's imbalance is not why prefill is slow."""
    members = decoders(3, role) if role is not Role.PREFILL else deployment(*decoders(3, role).instances[1:])
    assert finding(RULE, changed(UNEVEN, changes), members).truth is truth


@pytest.mark.parametrize(("least", "truth"), [(0.0, Truth.TRUE), (1.0, Truth.FALSE)])
def test_a_prefill_that_always_computes_has_no_time(least: float, truth: Truth) -> None:
    """One long prompt takes as long as many short ones."""
    late = changed(UNEVEN, {SignalId.ITL_P50: 0.02, SignalId.TTFT_P50: 3.0}, on("d2", {SignalId.WORK_LEAST: least}))
    members = deployment(*decoders(3, Role.PREFILL).instances[1:])
    assert finding(RULE, late, members).truth is truth


def test_only_what_is_alike_is_compared() -> None:
    """A larger instance is meant to hold more; one alone, or one of each size, is compared with nobody."""
    small = instance("d2", Role.DECODE)
    large = [instance(name, Role.DECODE, tp=8) for name in ("d0", "d1")]
    assert finding(RULE, UNEVEN, deployment(*large, small)).truth is Truth.FALSE
    assert findings(RULE, UNEVEN, deployment(large[0], small)) == []
    assert findings(RULE, UNEVEN, decoders(1)) == []


def test_unknown_names_what_is_missing() -> None:
    """With fewer than two whose work is known nobody can compare; a silent third does not matter."""
    alone = changed(UNEVEN, *(on(name, {SignalId.WORK_LEAST: None, SignalId.WORK_MOST: None}) for name in ("d1", "d2")))
    found = finding(RULE, alone, THREE)
    assert (found.truth, found.scope.name) == (Truth.UNKNOWN, "d1")
    assert set(found.missing) == {SignalId.WORK_LEAST, SignalId.WORK_MOST}
    two = changed(UNEVEN, on("d1", {SignalId.WORK_LEAST: None, SignalId.WORK_MOST: None}))
    assert finding(RULE, two, THREE).culprits == ("d0",)


@pytest.mark.parametrize(
    ("name", "value"), [("ratio", 17), ("difference", 76), ("room", 0.04), ("seen", 1.1), ("ratio", 30)]
)
def test_thresholds_are_configurable(name: str, value: float) -> None:
    """A stricter one silences the rule."""
    assert finding(RULE, UNEVEN, THREE, {name: value}).truth is Truth.FALSE


def test_threshold_of_the_queue() -> None:
    """From which decode answers for TTFT."""
    late = changed(UNEVEN, {SignalId.ITL_P50: 0.02, SignalId.TTFT_P50: 3.0}, on("d0", {SignalId.ADMISSION_QUEUE: 6.0}))
    assert finding(RULE, late, THREE).truth is Truth.TRUE
    assert finding(RULE, late, THREE, {"queue": 7}).truth is Truth.FALSE


# the order of evidence

CROWDED: Figures = {
    SignalId.TTFT_P50: 7.0,
    **on(
        "d0",
        {
            SignalId.ADMISSION_QUEUE: 33.0,
            SignalId.ADMISSION_TTFT_SHARE: 0.9,
            SignalId.RUNNING_TO_LIMIT: 1.05,
        },
    ),
}


def test_one_hot_instance_outranks_the_queue_on_it() -> None:
    """Decode's admission stands where the router sends too much."""
    diagnosis = verdict_of(changed(UNEVEN, CROWDED), THREE).diagnosis
    assert (diagnosis.verdict, diagnosis.stage) == (Verdict.ROUTER_IMBALANCE, Stage.ROUTER)
    assert diagnosis.confidence is Confidence.HIGH
    assert diagnosis.culprits == ("d0", "d1")
    assert "decode_admission" in {f.rule for f in diagnosis.findings if f.truth is Truth.TRUE}
    assert [diagnosis.worker_verdicts[name] for name in ("d0", "d1", "d2")] == [
        Verdict.ROUTER_IMBALANCE,
        Verdict.ROUTER_IMBALANCE,
        Verdict.HEALTHY,
    ]


@pytest.mark.parametrize("of", ["the cold one is full", "it is only slow", "another is at its limit too"])
def test_but_not_where_it_does_not_explain_it(of: str) -> None:
    """The queue is then what decode itself makes."""
    changes: dict[str, Changes] = {
        "the cold one is full": on("d2", {SignalId.KV_USAGE_NET: 0.9}),
        "it is only slow": on("d0", {SignalId.GENERATION_RATE: 120.0}),
        "another is at its limit too": {
            ("d1", SignalId.WORK_LEAST): 10.0,
            **on("d1", {signal: value for (_, signal), value in _of_d0(CROWDED)}),
        },
    }
    diagnosis = verdict_of(changed(UNEVEN, CROWDED, changes[of]), THREE).diagnosis
    assert diagnosis.verdict is Verdict.DECODE_ADMISSION


def _of_d0(figures: Figures) -> list[tuple[tuple[str, SignalId], float]]:
    return [(p, v) for p, v in figures.items() if isinstance(p, tuple) and isinstance(v, float)]


def test_a_slow_device_explains_what_piles_up_on_it() -> None:
    """Equal tokens from unequal work: the instance is slow, so what makes it so comes first."""
    slow = changed(UNEVEN, on("d0", {SignalId.GENERATION_RATE: 120.0, SignalId.DEVICE_POWER_LOWEST: 0.6}))
    found = finding(RULE, slow, THREE)
    assert (found.truth, found.outranks) == (Truth.TRUE, ())
    assert found.headline.endswith("yet they put out no more")
    assert found.decisive is Quality.DERIVED
    assert verdict_of(slow, THREE).diagnosis.verdict is Verdict.HARDWARE_DEGRADED
    fed = changed(slow, on("d0", {SignalId.GENERATION_RATE: 121.0}))
    assert verdict_of(fed, THREE).diagnosis.verdict is Verdict.ROUTER_IMBALANCE
    assert finding(RULE, fed, THREE, {"output": 1.21}).outranks == ()


# data-parallel ranks


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({}, Truth.TRUE),
        (on("d0", {SignalId.RANK_IMBALANCE: 2.9}), Truth.FALSE),
        (on("d0", {SignalId.RANK_IMBALANCE: 3.0, SignalId.RANK_EXCESS: 4.0}), Truth.TRUE),
        (on("d0", {SignalId.RANK_EXCESS: 3.9, SignalId.WORK_LEAST: 90.0}), Truth.FALSE),
        (on("d0", {SignalId.RANK_EXCESS: None}), Truth.UNKNOWN),
        ({SignalId.ITL_P50: 0.02}, Truth.FALSE),
        ({SignalId.ITL_P50: 0.02, SignalId.TTFT_P50: 3.0}, Truth.FALSE),
    ],
)
def test_ranks(changes: Changes, truth: Truth) -> None:
    """Three requests against one are chance, however many the instance holds."""
    found = finding(RULE, changed(RANKS, changes))
    assert found.truth is truth
    assert found.culprits == (("d0",) if truth is Truth.TRUE else ())


def test_no_ranks_no_judgement() -> None:
    """One rank is no comparison."""
    assert findings(RULE, CALM) == []


def test_verdict_of_ranks() -> None:
    """Of the router, measured."""
    diagnosis = verdict_of(RANKS).diagnosis
    assert (diagnosis.verdict, diagnosis.confidence) == (Verdict.ROUTER_IMBALANCE, Confidence.HIGH)
    assert "test rank_imbalance_ratio" in diagnosis.findings[0].headline


def test_a_hot_rank_outranks_the_queue_on_it() -> None:
    """As a hot instance does: the other ranks have room."""
    queued = changed(RANKS, CROWDED)
    diagnosis = verdict_of(queued).diagnosis
    assert (diagnosis.verdict, diagnosis.culprits) == (Verdict.ROUTER_IMBALANCE, ("d0",))
    assert "decode_admission" in {f.rule for f in diagnosis.findings if f.truth is Truth.TRUE}
    assert diagnosis.worker_verdicts["d0"] is Verdict.ROUTER_IMBALANCE
    even = changed(queued, on("d0", {SignalId.RANK_IMBALANCE: 1.1}))
    assert verdict_of(even).diagnosis.verdict is Verdict.DECODE_ADMISSION
