"""`decode_kv_capacity`: the pool is full, and requests are pushed out or nothing moves."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.decode_kv_capacity import RULE
from pdscope.model.finding import Truth
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Role
from support.signals import STORIES, Figures, changed, deployment, estimated, finding, findings, instance, on

PUSHED = STORIES["decode_kv_capacity"]
STUCK = changed(PUSHED, on("d0", {SignalId.PREEMPTIONS_PER_SECOND: 0.0, SignalId.GENERATION_RATE: 0.0}))
ROOM = {SignalId.KV_FREE_REQUESTS: 1.0, SignalId.KV_USAGE_NET: 0.49}


@pytest.mark.parametrize(
    "figures",
    [
        changed(PUSHED, on("d0", ROOM)),
        changed(STUCK, on("d0", ROOM)),
        changed(STUCK, on("d0", {SignalId.KV_FREE_REQUESTS: 1.0, SignalId.KV_USAGE_NET: 0.96})),
        changed(PUSHED, on("d0", {SignalId.PREEMPTIONS_PER_SECOND: 0.0})),
        changed(PUSHED, on("d0", {SignalId.PREEMPTIONS_PER_SECOND: 0.049})),
        changed(PUSHED, on("d0", {SignalId.PREEMPTIONS_PER_SECOND: 0.0}), {SignalId.REQUESTS_PER_SECOND: 0.0}),
        changed(STUCK, on("d0", {SignalId.WORK_IN_FLIGHT: 0.9})),
        changed(STUCK, on("d0", {SignalId.GENERATION_RATE: 0.1})),
    ],
    ids=[
        "pushed, room",
        "stuck, room",
        "stuck, nearly full",
        "full only",
        "a rare one",
        "nothing finishes",
        "stuck, empty",
        "slow",
    ],
)
def test_silent(figures: Figures) -> None:
    """A full pool at work is what it was bought for; so is a rare preemption."""
    found = finding(RULE, figures)
    assert found.truth is Truth.FALSE
    assert (found.culprits, found.remedies) == ((), ())


@pytest.mark.parametrize(
    "figures",
    [
        PUSHED,
        changed(PUSHED, on("d0", {SignalId.PREEMPTIONS_PER_SECOND: 0.05})),
        changed(PUSHED, on("d0", {SignalId.KV_FREE_REQUESTS: 0.9, SignalId.KV_USAGE_NET: 0.1})),
        changed(PUSHED, on("d0", {SignalId.KV_FREE_REQUESTS: 9.0, SignalId.KV_USAGE_NET: 0.7})),
        changed(PUSHED, on("d0", {SignalId.KV_FREE_REQUESTS: None})),
        changed(STUCK, on("d0", {SignalId.WORK_IN_FLIGHT: 1.0})),
        changed(STUCK, on("d0", {SignalId.KV_FREE_REQUESTS: 9.0, SignalId.KV_USAGE_NET: 0.97})),
        changed(STUCK, on("d0", {SignalId.KV_FREE_REQUESTS: 0.9, SignalId.KV_USAGE_NET: 0.85})),
        changed(STUCK, on("d0", {SignalId.KV_FREE_REQUESTS: None, SignalId.PREEMPTIONS_PER_SECOND: None})),
        changed(PUSHED, {SignalId.REQUESTS_PER_SECOND: 0.0}),
    ],
    ids=[
        "plain",
        "just enough",
        "one large request",
        "full in between",
        "pool of unknown size",
        "stuck",
        "stuck by usage",
        "stuck with large requests",
        "stuck, preemptions unknown",
        "nothing finishes",
    ],
)
def test_holds(figures: Figures) -> None:
    """The need of the next request decides what is full; whoever pushes out has said so itself."""
    found = finding(RULE, figures)
    assert found.truth is Truth.TRUE
    assert found.culprits == ("d0",)


@pytest.mark.parametrize(
    ("figures", "missing"),
    [
        (
            changed(PUSHED, on("d0", {SignalId.KV_FREE_REQUESTS: None, SignalId.KV_USAGE_NET: None})),
            {SignalId.KV_FREE_REQUESTS, SignalId.KV_USAGE_NET},
        ),
        (changed(PUSHED, on("d0", {SignalId.PREEMPTIONS_PER_SECOND: None})), {SignalId.PREEMPTIONS_PER_SECOND}),
        (changed(PUSHED, {SignalId.REQUESTS_PER_SECOND: None}), {SignalId.REQUESTS_PER_SECOND}),
        (changed(STUCK, on("d0", {SignalId.GENERATION_RATE: None})), {SignalId.GENERATION_RATE}),
        (changed(STUCK, on("d0", {SignalId.WORK_IN_FLIGHT: None})), {SignalId.WORK_IN_FLIGHT}),
    ],
    ids=["memory", "preemptions", "finishes", "tokens", "work"],
)
def test_unknown_names_what_is_missing(figures: Figures, missing: set[SignalId]) -> None:
    """Each signal on which it hangs."""
    found = finding(RULE, figures)
    assert found.truth is Truth.UNKNOWN
    assert set(found.missing) == missing


@pytest.mark.parametrize(
    ("threshold", "figures", "value"),
    [
        ("free", changed(STUCK, on("d0", {SignalId.KV_FREE_REQUESTS: 2.0})), 0.01),
        (
            "usage_when_pushed",
            changed(PUSHED, on("d0", {SignalId.KV_FREE_REQUESTS: 9.0, SignalId.KV_USAGE_NET: 0.8})),
            0.85,
        ),
        ("preemptions", PUSHED, 0.2),
    ],
)
def test_thresholds_are_configurable(threshold: str, figures: Figures, value: float) -> None:
    """A stricter configured value silences the rule."""
    assert finding(RULE, figures).truth is Truth.TRUE
    assert finding(RULE, figures, thresholds={threshold: value}).truth is Truth.FALSE


def test_words_say_which_of_the_two() -> None:
    """Usage gross and net, and either the preemptions or the standstill."""
    pushed, stuck = finding(RULE, PUSHED), finding(RULE, STUCK)
    assert "d0 is full (99 % in use, 98 % net of KV in flight)" in pushed.headline
    assert "0.5/s preemptions" in pushed.headline
    assert "40 requests are there and not a single token comes out" in stuck.headline
    assert pushed.strength == pytest.approx(0.98)


def test_a_pool_that_has_room_on_average_is_not_called_full() -> None:
    """It was full in between, or nobody had been pushed out."""
    figures = on("d0", {SignalId.KV_FREE_REQUESTS: 9.0, SignalId.KV_USAGE: 0.503, SignalId.KV_USAGE_NET: 0.5})
    words = finding(RULE, changed(PUSHED, figures)).headline
    assert words.startswith("the KV pool of d0 fills up again and again, with 50.3 % in use on average")
    assert "is full" not in words
    assert "0.5/s preemptions" in words


@pytest.mark.parametrize(
    ("figures", "quality"),
    [
        (PUSHED, Quality.MEASURED),
        (STUCK, Quality.MEASURED),
        (changed(PUSHED, on("d0", {SignalId.KV_USAGE_NET: estimated(0.98)})), Quality.ESTIMATED),
        (changed(PUSHED, on("d0", {SignalId.PREEMPTIONS_PER_SECOND: estimated(0.5)})), Quality.ESTIMATED),
        (changed(STUCK, on("d0", {SignalId.PREEMPTIONS_PER_SECOND: estimated(0.0)})), Quality.MEASURED),
        (changed(STUCK, on("d0", {SignalId.GENERATION_RATE: estimated(0.0)})), Quality.ESTIMATED),
        (changed(PUSHED, on("d0", {SignalId.KV_USAGE_NET: None})), None),
    ],
)
def test_quality_is_that_of_the_decisive_evidence(figures: Figures, quality: Quality | None) -> None:
    """Usage, and whichever of the two tells that it hurts."""
    assert finding(RULE, figures).decisive is quality


def test_remedies_have_a_cost() -> None:
    """Those of the rule, each with its price."""
    remedies = finding(RULE, PUSHED).remedies
    assert [r.id for r in remedies] == list(RULE.remedies)
    assert all(r.cost and r.precondition for r in remedies)


def test_whoever_decodes_is_judged() -> None:
    """Decode and unified instances; prefill pushes nobody out."""
    members = (("p0", Role.PREFILL), ("u0", Role.UNIFIED), ("d0", Role.DECODE))
    found = findings(RULE, PUSHED, deployment(*(instance(n, r) for n, r in members)))
    assert {f.scope.name: f.truth for f in found} == {"d0": Truth.TRUE, "u0": Truth.UNKNOWN}
