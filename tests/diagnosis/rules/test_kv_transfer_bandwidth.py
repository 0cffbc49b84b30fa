"""`kv_transfer_bandwidth`: demand or achieved rate near capacity with slow transfers, or a link that is too narrow."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.base import Case
from pdscope.diagnosis.rules.kv_transfer_bandwidth import RULE, crowded
from pdscope.model.finding import Confidence, Truth, Verdict
from pdscope.model.signal import Quality, ScopeKind, SignalId
from pdscope.model.topology import Role, Slo
from support.signals import (
    CALM,
    STORIES,
    Changes,
    Figure,
    Figures,
    changed,
    deployment,
    derived,
    estimated,
    finding,
    findings,
    instance,
    signal_set,
    verdict_of,
)

FULL = STORIES["kv_transfer_bandwidth"]
ROOM: Figures = {SignalId.LINK_UTILIZATION: derived(0.89), SignalId.KV_ACHIEVED: 35.9e9}
FAST: Figures = {SignalId.TRANSFER_TTFT_SHARE: 0.19, SignalId.TRANSFER_IN_FLIGHT: 3.9}


@pytest.mark.parametrize(
    "figures",
    [
        CALM,
        changed(FULL, ROOM),
        changed(FULL, FAST),
        changed(FULL, {SignalId.TRANSFER_TTFT_SHARE: 0.0, SignalId.TRANSFER_IN_FLIGHT: 0.0}),
    ],
    ids=["calm", "slow transfers over a link with room", "capacity configured too low", "nothing in flight"],
)
def test_silent(figures: Figures) -> None:
    """Neither slow transfers alone nor a high utilisation alone is a full link."""
    found = finding(RULE, figures)
    assert found.truth is Truth.FALSE
    assert (found.headline, found.remedies, found.strength) == ("", (), 0.0)


def test_silent_where_nothing_is_transferred() -> None:
    """A unified deployment has no link to judge."""
    assert findings(RULE, FULL, deployment(instance("u0", Role.UNIFIED))) == []


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {SignalId.KV_ACHIEVED: 1e9},
        {SignalId.LINK_UTILIZATION: derived(0.5), SignalId.KV_ACHIEVED: 36e9},
        {SignalId.LINK_UTILIZATION: derived(0.9), SignalId.KV_ACHIEVED: 0.0},
        {SignalId.TRANSFER_TTFT_SHARE: 0.2, SignalId.TRANSFER_IN_FLIGHT: 0.0},
        {SignalId.TRANSFER_TTFT_SHARE: 0.0, SignalId.TRANSFER_IN_FLIGHT: 4.0},
        {SignalId.KV_ACHIEVED: None},
        {SignalId.TRANSFER_TTFT_SHARE: None},
    ],
    ids=["both", "demand", "achieved", "demand at limit", "share at limit", "in flight", "uncounted bytes", "no share"],
)
def test_holds(changes: Changes) -> None:
    """One of two figures for the load and one of two for slow transfers are enough."""
    assert finding(RULE, changed(FULL, changes)).truth is Truth.TRUE


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        (
            {SignalId.LINK_UTILIZATION: None, SignalId.LINK_CAPACITY: None},
            {SignalId.LINK_UTILIZATION},
        ),
        (
            {SignalId.TRANSFER_TTFT_SHARE: None, SignalId.TRANSFER_IN_FLIGHT: None},
            {SignalId.TRANSFER_TTFT_SHARE, SignalId.TRANSFER_IN_FLIGHT},
        ),
    ],
    ids=["no capacity", "no transfer time"],
)
def test_unknown_names_what_is_missing(changes: Changes, missing: set[SignalId]) -> None:
    """Without a capacity, or without a sign of slow transfers, nobody can tell."""
    found = finding(RULE, changed(FULL, changes))
    assert found.truth is Truth.UNKNOWN
    assert set(found.missing) == missing
    assert found.decisive is None


@pytest.mark.parametrize(
    ("threshold", "changes", "value"),
    [
        ("utilization", {}, 1.6),
        ("ttft_share", {SignalId.TRANSFER_IN_FLIGHT: 0.0}, 0.9),
        ("in_flight", {SignalId.TRANSFER_TTFT_SHARE: 0.0}, 15.0),
    ],
)
def test_thresholds_are_configurable(threshold: str, changes: Changes, value: float) -> None:
    """A stricter configured value silences the rule."""
    assert finding(RULE, changed(FULL, changes)).truth is Truth.TRUE
    assert finding(RULE, changed(FULL, changes), thresholds={threshold: value}).truth is Truth.FALSE


def test_evidence_and_words() -> None:
    """Demand, capacity and transfer time stand in the headline; the scope is the link."""
    found = finding(RULE, FULL)
    assert found.scope == (ScopeKind.LINK, "prefill->decode")
    for words in ("60 GB/s", "40 GB/s", "150 %", "38 GB/s get through", "6 s"):
        assert words in found.headline
    assert 0.5 < found.strength < 1
    assert finding(RULE, changed(FULL, {SignalId.LINK_UTILIZATION: derived(3.0)})).strength > found.strength
    filled = finding(RULE, changed(FULL, {SignalId.KV_DEMAND: derived(20e9), SignalId.LINK_UTILIZATION: derived(0.5)}))
    assert filled.headline == (
        "38 GB/s of KV fill a link that carries 40 GB/s (demand in the window: 20 GB/s, 50 %); a transfer takes 6 s"
    )
    assert "get through" not in finding(RULE, changed(FULL, {SignalId.KV_ACHIEVED: None})).headline


@pytest.mark.parametrize(
    ("changes", "quality"),
    [
        ({}, Quality.DERIVED),
        ({SignalId.LINK_UTILIZATION: 1.5}, Quality.DERIVED),
        ({SignalId.LINK_UTILIZATION: Figure(1.5, Quality.ASSUMED)}, Quality.ASSUMED),
        ({SignalId.TRANSFER_TTFT_SHARE: estimated(0.8)}, Quality.ESTIMATED),
        ({SignalId.TRANSFER_TTFT_SHARE: estimated(0.2)}, Quality.ESTIMATED),
        ({SignalId.TRANSFER_IN_FLIGHT: estimated(14.0)}, Quality.DERIVED),
        ({SignalId.TRANSFER_TTFT_SHARE: 0.1, SignalId.TRANSFER_IN_FLIGHT: estimated(14.0)}, Quality.ESTIMATED),
        ({SignalId.LINK_UTILIZATION: None}, Quality.DERIVED),
        ({SignalId.LINK_UTILIZATION: derived(0.5), SignalId.KV_ACHIEVED: estimated(38e9)}, Quality.ESTIMATED),
        ({SignalId.KV_ACHIEVED: estimated(38e9)}, Quality.DERIVED),
    ],
)
def test_quality_is_that_of_the_decisive_evidence(changes: Changes, quality: Quality) -> None:
    """The load that is near the limit and the figure that shows slow transfers; the capacity is configured."""
    found = finding(RULE, changed(FULL, changes))
    assert found.truth is Truth.TRUE
    assert found.decisive is quality


def test_remedies_widen_the_link_or_send_less() -> None:
    """Each has a price, and none of them is more prefill or decode."""
    remedies = finding(RULE, FULL).remedies
    assert [r.id for r in remedies] == list(RULE.remedies)
    assert all(r.cost and r.precondition for r in remedies)
    assert not {"add_prefill", "add_decode"} & {r.id for r in remedies}


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({SignalId.KV_ACHIEVED: 51e9}, Truth.FALSE),  # more than a quarter above what the link is said to carry
        ({SignalId.KV_ACHIEVED: 49e9}, Truth.TRUE),
        ({SignalId.KV_ACHIEVED: None, SignalId.KV_BYTES_PER_REQUEST: 400e9}, Truth.UNKNOWN),  # one transfer at 67 GB/s
        ({SignalId.KV_ACHIEVED: None, SignalId.KV_BYTES_PER_REQUEST: 200e9}, Truth.TRUE),
    ],
)
def test_an_impossible_capacity_decides_nothing(changes: Changes, truth: Truth) -> None:
    """Bytes that really cross a link show what it carries at least; a wrong figure must not name the bottleneck."""
    assert finding(RULE, changed(FULL, changes)).truth is truth


CONGESTED: Figures = {SignalId.NIC_CONGESTION: 5000.0, SignalId.LINK_FOREIGN: derived(0.0)}


def test_notices_of_congestion_stand_in_for_the_rate() -> None:
    """The ports that KV goes through say that they are full, and transfers are late."""
    told = changed(FULL, ROOM, CONGESTED)
    found = finding(RULE, told)
    assert found.truth is Truth.TRUE
    assert found.headline.startswith("ports tell of congestion 5000/s, with ")
    assert "fill a link" not in found.headline
    assert "; ports tell of congestion 5000/s; a transfer" in finding(RULE, changed(FULL, CONGESTED)).headline
    assert finding(RULE, told, thresholds={"congestion": 6000}).truth is Truth.FALSE


@pytest.mark.parametrize(
    "changes",
    [{SignalId.LINK_FOREIGN: None}, {SignalId.TRANSFER_TTFT_SHARE: 0.1}],
    ids=["of ports that KV does not take", "transfers are not late"],
)
def test_notices_that_say_nothing_of_kv(changes: Changes) -> None:
    """Congestion of something else, or one that hurts nobody."""
    assert finding(RULE, changed(FULL, ROOM, CONGESTED, changes)).truth is Truth.FALSE


def test_a_measured_link_is_worth_more_than_a_data_sheet() -> None:
    """Then the answer is as good as demand and times."""
    measured = changed(FULL, {SignalId.LINK_CAPACITY: 40e9, SignalId.LINK_UTILIZATION: 1.5})
    assert finding(RULE, measured).decisive is Quality.MEASURED
    assumed = changed(measured, {SignalId.LINK_CAPACITY: Figure(40e9, Quality.ASSUMED)})
    assert finding(RULE, assumed).decisive is Quality.DERIVED


NARROW: Figures = changed(
    CALM,
    {
        SignalId.TTFT_P50: 2.5,
        SignalId.TTFT_MEAN: 2.5,
        SignalId.TRANSFER_TIME: 1.2,
        SignalId.TRANSFER_TTFT_SHARE: 0.48,
        SignalId.KV_BYTES_PER_REQUEST: 8e9,
        SignalId.PAIR_CAPACITY: Figure(8e9, Quality.ASSUMED),
        SignalId.LINK_FLOOR_SHARE: derived(0.4),
        SignalId.MOVING_SHARE: derived(0.83),
    },
)
"""A link that is an eighth full, and whose pairs take a second for one request."""


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({}, Truth.TRUE),
        ({SignalId.LINK_FLOOR_SHARE: derived(0.3)}, Truth.TRUE),
        ({SignalId.MOVING_SHARE: derived(0.5)}, Truth.TRUE),
        ({SignalId.TRANSFER_TTFT_SHARE: 0.2}, Truth.TRUE),
        ({SignalId.TTFT_P50: None}, Truth.TRUE),
        ({SignalId.LINK_UTILIZATION: None}, Truth.TRUE),
        ({SignalId.LINK_FLOOR_SHARE: derived(0.29)}, Truth.FALSE),
        ({SignalId.MOVING_SHARE: derived(0.49)}, Truth.FALSE),
        ({SignalId.TRANSFER_TTFT_SHARE: 0.19}, Truth.FALSE),
        ({SignalId.TTFT_P50: 2.0}, Truth.FALSE),
        ({SignalId.KV_ACHIEVED: 51e9}, Truth.FALSE),
        ({SignalId.LINK_FLOOR_SHARE: None}, Truth.FALSE),
        ({SignalId.MOVING_SHARE: None}, Truth.FALSE),
    ],
    ids=[
        "story",
        "floor",
        "moving",
        "share of TTFT",
        "no TTFT",
        "no demand",
        "quick for a request",
        "it crawls: a path",
        "not late",
        "TTFT kept",
        "the figure is wrong",
        "no floor",
        "no speed",
    ],
)
def test_a_link_too_narrow_for_one_request(changes: Changes, truth: Truth) -> None:
    """Never full, and each request keeps it busy for a good part of its TTFT: each condition turned by itself."""
    assert finding(RULE, changed(NARROW, changes)).truth is truth


def test_words_of_a_narrow_link() -> None:
    """What one request has to move, and what its pair can do; the strength is that of the floor."""
    found = finding(RULE, NARROW)
    assert found.headline == (
        "the 8 GB of one request take 40 % of TTFT at its full share of a link that carries 40 GB/s (8 GB/s a pair): "
        "it is too slow for what comes at a time, full on average or not; a transfer takes 1.2 s"
    )
    assert found.strength == pytest.approx(0.4 / 0.7)
    assert found.decisive is Quality.DERIVED
    told = finding(RULE, changed(NARROW, {SignalId.LINK_FLOOR_SHARE: estimated(0.4)}))
    assert told.decisive is Quality.ESTIMATED


@pytest.mark.parametrize(("name", "value"), [("floor", 0.41), ("moving", 0.84)])
def test_thresholds_of_a_narrow_link_are_configurable(name: str, value: float) -> None:
    """A stricter one silences the rule."""
    assert finding(RULE, NARROW, thresholds={name: value}).truth is Truth.FALSE


def test_a_full_link_is_named_first() -> None:
    """It may be too narrow for a request as well."""
    both = changed(FULL, {SignalId.LINK_FLOOR_SHARE: derived(0.4), SignalId.MOVING_SHARE: derived(0.95)})
    assert finding(RULE, both).headline.startswith("KV demand of 60 GB/s meets")


def test_verdict_of_a_narrow_link() -> None:
    """Of the transfer, although the link has room on average."""
    assert verdict_of(NARROW).diagnosis.verdict is Verdict.KV_TRANSFER_BANDWIDTH


def test_what_else_is_on_the_ports_is_told() -> None:
    """Where it takes more than it leaves."""
    beside = changed(FULL, {SignalId.LINK_FOREIGN: derived(44e9)})
    assert "38 GB/s get through, beside 44 GB/s on its ports that is not KV;" in finding(RULE, beside).headline
    assert "not KV" not in finding(RULE, changed(beside, {SignalId.LINK_FOREIGN: derived(39e9)})).headline


CROWDED: Figures = changed(
    CALM,
    {
        SignalId.TTFT_P50: 10.0,
        SignalId.TTFT_MEAN: 10.0,
        SignalId.TRANSFER_TIME: 5.0,
        SignalId.TRANSFER_TTFT_SHARE: 0.5,
        SignalId.TRANSFER_IN_FLIGHT: 5.0,
        SignalId.ACHIEVED_TREND: 0.94,
        SignalId.MOVING_SHARE: derived(0.125),
        SignalId.DESCRIPTOR_BYTES: 268_866.0,
        SignalId.POST_SHARE: 0.0002,
    },
)
"""A link that is narrower than it is said to be."""
GROWING = changed(CROWDED, {SignalId.TRANSFER_IN_FLIGHT_TREND: 1.9})
NO_CAPACITY: Changes = {SignalId.LINK_CAPACITY: None, SignalId.LINK_UTILIZATION: None, SignalId.MOVING_SHARE: None}


@pytest.mark.parametrize("changes", [{}, NO_CAPACITY], ids=["wrong capacity", "no capacity"])
def test_a_plateau_needs_no_capacity(changes: Changes) -> None:
    """The rate stays while more and more is in flight: that is what the link carries."""
    diagnosis = verdict_of(changed(GROWING, changes)).diagnosis
    assert (diagnosis.verdict, diagnosis.confidence) == (Verdict.KV_TRANSFER_BANDWIDTH, Confidence.MEDIUM)
    assert "5 GB/s of KV cross the link and no more" in diagnosis.summary
    assert "rose to 190 %" in diagnosis.summary
    assert "interconnect.bandwidth" in diagnosis.summary


@pytest.mark.parametrize(
    "changes",
    [
        {SignalId.TRANSFER_IN_FLIGHT_TREND: 1.24},
        {SignalId.TRANSFER_IN_FLIGHT_TREND: None},
        {SignalId.ACHIEVED_TREND: 1.11},
        {SignalId.ACHIEVED_TREND: 0.89},
        {SignalId.ACHIEVED_TREND: None},
        {SignalId.TRANSFER_TTFT_SHARE: 0.19},
        {SignalId.TRANSFER_IN_FLIGHT: 3.9},
        {SignalId.TTFT_P50: 2.0},
        {SignalId.MOVING_SHARE: derived(0.049)},
        {SignalId.POST_SHARE: 0.3},
    ],
    ids=["steady", "steady?", "rises", "falls", "rate?", "not late", "few", "TTFT kept", "a path", "posting"],
)
def test_what_is_no_plateau(changes: Changes) -> None:
    """Each of its conditions turned by itself."""
    assert finding(RULE, changed(GROWING, changes)).truth is Truth.FALSE


@pytest.mark.parametrize(("name", "value"), [("growth", 2.0), ("flat", 0.05), ("crawl", 0.2), ("post", 0.0001)])
def test_thresholds_of_a_plateau_are_configurable(name: str, value: float) -> None:
    """A stricter one silences the rule."""
    assert finding(RULE, GROWING).truth is Truth.TRUE
    assert finding(RULE, GROWING, thresholds={name: value}).truth is Truth.FALSE


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "by it the link carries 40 GB/s"),
        (NO_CAPACITY, "interconnect.bandwidth is not configured"),
        ({SignalId.TRANSFER_TTFT_SHARE: 0.4}, "40 % of TTFT"),
    ],
)
def test_a_crowd_that_nothing_explains_is_the_transfers(changes: Changes, words: str) -> None:
    """With confidence low: which part of the way it is, nobody can tell."""
    diagnosis = verdict_of(changed(CROWDED, changes)).diagnosis
    assert (diagnosis.verdict, diagnosis.confidence) == (Verdict.KV_TRANSFER_BANDWIDTH, Confidence.LOW)
    assert diagnosis.summary.startswith("5 transfers at a time take 5 s each")
    assert words in diagnosis.summary
    assert [f.rule for f in diagnosis.findings if f.truth is Truth.TRUE] == [RULE.id]


@pytest.mark.parametrize(
    "changes",
    [
        {SignalId.TRANSFER_TTFT_SHARE: 0.39},
        {SignalId.TRANSFER_IN_FLIGHT: 3.9},
        {SignalId.ACHIEVED_TREND: 0.8},
        {SignalId.ACHIEVED_TREND: None},
        {SignalId.KV_ACHIEVED: 0.0},
    ],
    ids=["a lesser part", "few", "not steady", "steady?", "nothing moves"],
)
def test_what_is_no_crowd(changes: Changes) -> None:
    """Then the transfers are told, and the verdict is left open."""
    diagnosis = verdict_of(changed(CROWDED, changes)).diagnosis
    assert diagnosis.verdict is Verdict.UNDETERMINED
    assert "transfers take 5 s" in diagnosis.summary


def test_a_crowd_hurts_nobody_whose_ttft_is_kept() -> None:
    """Nor where no objective on TTFT says what is good enough, or nothing is transferred."""
    assert list(crowded(Case(deployment(), signal_set(changed(CROWDED, {SignalId.TTFT_P50: 2.0}))))) == []
    assert list(crowded(Case(deployment(slo=Slo()), signal_set(CROWDED)))) == []
    assert list(crowded(Case(deployment(instance("u0", Role.UNIFIED)), signal_set(CROWDED)))) == []
