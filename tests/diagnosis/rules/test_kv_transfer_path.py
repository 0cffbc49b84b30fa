"""`kv_transfer_path`: one transfer alone crawls, many get no further, or some ports carry all of it."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.kv_transfer_path import RULE
from pdscope.model.finding import Confidence, Stage, Truth, Verdict
from pdscope.model.signal import ScopeKind, SignalId
from pdscope.model.topology import Role
from support.signals import (
    CALM,
    STORIES,
    Changes,
    changed,
    deployment,
    derived,
    estimated,
    finding,
    findings,
    instance,
    verdict_of,
)

ALONE = STORIES["kv_transfer_path"]
FLAT = changed(
    ALONE,
    {
        SignalId.TRANSFER_IN_FLIGHT: 20.0,
        SignalId.KV_ACHIEVED: 0.8e9,
        SignalId.ACHIEVED_SHARE: derived(0.02),
        SignalId.ACHIEVED_TREND: 1.0,
    },
)
LOPSIDED = changed(
    ALONE,
    {
        SignalId.TRANSFER_IN_FLIGHT: 2.0,
        SignalId.TRANSFER_LINK_SHARE: derived(0.2),
        SignalId.ACHIEVED_SHARE: derived(0.3),
        SignalId.ACHIEVED_TREND: 1.0,
        SignalId.NIC_IMBALANCE: 4.0,
        SignalId.LINK_FOREIGN: derived(0.0),
    },
)


@pytest.mark.parametrize(
    "changes",
    [
        {SignalId.TRANSFER_TTFT_SHARE: 0.19},
        {SignalId.TRANSFER_IN_FLIGHT: 1.6},
        {SignalId.DESCRIPTOR_BYTES: 65_535.0},
        {SignalId.TRANSFER_LINK_SHARE: derived(0.05)},
        {SignalId.TRANSFER_FLOOR_STEPS: derived(0.99)},
    ],
    ids=["no share of TTFT", "not alone", "small pieces", "quick enough", "over within a step"],
)
def test_alone_silent(changes: Changes) -> None:
    """Each condition turned by itself."""
    found = finding(RULE, changed(ALONE, changes))
    assert found.truth is Truth.FALSE
    assert (found.headline, found.remedies, found.missing) == ("", (), ())


def test_silent_elsewhere() -> None:
    """In a calm deployment, and where nothing is transferred."""
    assert finding(RULE, CALM).truth is Truth.FALSE
    assert findings(RULE, ALONE, deployment(instance("u0", Role.UNIFIED))) == []


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {SignalId.TRANSFER_TTFT_SHARE: 0.2},
        {SignalId.TRANSFER_IN_FLIGHT: 1.5},
        {SignalId.DESCRIPTOR_BYTES: 65_536.0},
        {SignalId.TRANSFER_LINK_SHARE: derived(0.049)},
        {SignalId.TRANSFER_FLOOR_STEPS: derived(1.0)},
    ],
)
def test_alone_holds(changes: Changes) -> None:
    """From each limit on."""
    assert finding(RULE, changed(ALONE, changes)).truth is Truth.TRUE


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({}, Truth.TRUE),
        ({SignalId.TRANSFER_IN_FLIGHT: 4.0}, Truth.TRUE),
        ({SignalId.ACHIEVED_TREND: 0.85}, Truth.TRUE),
        ({SignalId.ACHIEVED_TREND: 1.15}, Truth.TRUE),
        ({SignalId.DESCRIPTOR_BYTES: 1152.0}, Truth.TRUE),
        ({SignalId.TRANSFER_IN_FLIGHT: 3.9}, Truth.FALSE),
        ({SignalId.ACHIEVED_SHARE: derived(0.05)}, Truth.FALSE),
        ({SignalId.ACHIEVED_TREND: 0.84}, Truth.FALSE),
        ({SignalId.ACHIEVED_TREND: 1.16}, Truth.FALSE),
        ({SignalId.TRANSFER_FLOOR_STEPS: derived(0.99)}, Truth.FALSE),
        ({SignalId.TRANSFER_TTFT_SHARE: 0.19}, Truth.FALSE),
    ],
)
def test_many_get_no_further(changes: Changes, truth: Truth) -> None:
    """A rate that falls or still rises is no ceiling."""
    assert finding(RULE, changed(FLAT, changes)).truth is truth


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({}, Truth.TRUE),
        ({SignalId.NIC_IMBALANCE: 1.8}, Truth.TRUE),
        ({SignalId.TRANSFER_LINK_SHARE: derived(0.25)}, Truth.TRUE),
        ({SignalId.TRANSFER_FLOOR_STEPS: derived(0.5)}, Truth.TRUE),
        ({SignalId.NIC_IMBALANCE: 1.79}, Truth.FALSE),
        ({SignalId.TRANSFER_LINK_SHARE: derived(0.26)}, Truth.FALSE),
        ({SignalId.LINK_FOREIGN: None}, Truth.FALSE),
        ({SignalId.NIC_IMBALANCE: None}, Truth.FALSE),
        ({SignalId.TRANSFER_TTFT_SHARE: 0.19}, Truth.FALSE),
        ({SignalId.TRANSFER_LINK_SHARE: None}, Truth.UNKNOWN),
    ],
)
def test_unequal_ports(changes: Changes, truth: Truth) -> None:
    """Only ports that carry KV, and only where a transfer is no faster than the busy ones."""
    assert finding(RULE, changed(LOPSIDED, changes)).truth is truth


@pytest.mark.parametrize(
    "signal",
    [
        SignalId.TRANSFER_TTFT_SHARE,
        SignalId.DESCRIPTOR_BYTES,
        SignalId.TRANSFER_LINK_SHARE,
        SignalId.TRANSFER_FLOOR_STEPS,
    ],
)
def test_unknown_names_what_is_missing(signal: SignalId) -> None:
    """One figure short, nobody can tell."""
    found = finding(RULE, changed(ALONE, {signal: None}))
    assert found.truth is Truth.UNKNOWN
    assert signal in found.missing


def test_without_the_number_in_flight_nobody_knows() -> None:
    """A slow transfer that shares its link says nothing of the path."""
    figures = changed(ALONE, {SignalId.TRANSFER_IN_FLIGHT: None, SignalId.ACHIEVED_SHARE: derived(0.001)})
    found = finding(RULE, figures)
    assert found.truth is Truth.UNKNOWN
    assert SignalId.TRANSFER_IN_FLIGHT in found.missing


@pytest.mark.parametrize(
    ("name", "value"),
    [("share", 0.01), ("few", 0.5), ("piece", 2e6), ("steps", 21.0), ("ttft_share", 0.9)],
)
def test_thresholds_are_configurable(name: str, value: float) -> None:
    """A stricter one silences the rule."""
    assert finding(RULE, ALONE, thresholds={name: value}).truth is Truth.FALSE


@pytest.mark.parametrize(("name", "value"), [("many", 21.0), ("share", 0.01)])
def test_thresholds_of_a_ceiling_are_configurable(name: str, value: float) -> None:
    """A stricter one silences the rule; a laxer `steady` takes in a rate that moves."""
    assert finding(RULE, FLAT, thresholds={name: value}).truth is Truth.FALSE
    moving = changed(FLAT, {SignalId.ACHIEVED_TREND: 1.5})
    assert finding(RULE, moving, thresholds={"drift": 1.0}).truth is Truth.TRUE
    assert finding(RULE, LOPSIDED, thresholds={"imbalance": 4.1}).truth is Truth.FALSE


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        (ALONE, ("takes 2 s, 80 % of TTFT", "about 0.9 is in flight", "1.2 % of the 40 GB/s")),
        (FLAT, ("with 20 in flight", "800 MB/s", "2 % of the link")),
        (LOPSIDED, ("one port carries 400 % of the mean",)),
    ],
)
def test_words(figures: Changes, words: tuple[str, ...]) -> None:
    """The numbers of the sign that holds; the scope is the link."""
    found = finding(RULE, changed({}, figures))
    assert found.scope == (ScopeKind.LINK, "prefill->decode")
    for part in words:
        assert part in found.headline


@pytest.mark.parametrize(
    ("changes", "confidence"),
    [
        ({}, Confidence.MEDIUM),
        ({SignalId.TRANSFER_LINK_SHARE: 0.012}, Confidence.HIGH),
        ({SignalId.TRANSFER_LINK_SHARE: estimated(0.012)}, Confidence.MEDIUM),
    ],
)
def test_verdict(changes: Changes, confidence: Confidence) -> None:
    """Of the transfer, as sure as its speed."""
    diagnosis = verdict_of(changed(ALONE, changes)).diagnosis
    assert (diagnosis.verdict, diagnosis.verdict.stage) == (Verdict.KV_TRANSFER_PATH, Stage.KV_TRANSFER)
    assert diagnosis.confidence is confidence


@pytest.mark.parametrize("figures", [FLAT, LOPSIDED])
def test_verdict_of_the_other_signs(figures: Changes) -> None:
    """Each is enough."""
    assert verdict_of(changed({}, figures)).diagnosis.verdict is Verdict.KV_TRANSFER_PATH
