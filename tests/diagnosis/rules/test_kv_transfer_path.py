"""`kv_transfer_path`: what is in flight crawls and its pieces do not explain it, or some ports carry all of it."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.kv_transfer_path import RULE
from pdscope.model.finding import Confidence, Stage, Truth, Verdict
from pdscope.model.signal import ScopeKind, SignalId
from pdscope.model.topology import Attention, Deployment, KvShape, ModelFacts, Role, Slo
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
    verdict_of,
)

CRAWLING = STORIES["kv_transfer_path"]
CROWD = changed(CRAWLING, {SignalId.TRANSFER_IN_FLIGHT: 20.0, SignalId.MOVING_SHARE: derived(0.02)})
LOPSIDED = changed(
    CRAWLING,
    {
        SignalId.TRANSFER_IN_FLIGHT: 2.0,
        SignalId.TRANSFER_LINK_SHARE: derived(0.2),
        SignalId.MOVING_SHARE: derived(0.3),
        SignalId.NIC_IMBALANCE: 4.0,
        SignalId.LINK_FOREIGN: derived(0.0),
    },
)
SMALL: Figures = {SignalId.DESCRIPTOR_BYTES: estimated(1152.0), SignalId.DESCRIPTOR_TIME: estimated(5e-6)}
"""Pieces that follow each other as fast as they can be posted."""


@pytest.mark.parametrize(
    "changes",
    [
        {SignalId.TRANSFER_TTFT_SHARE: 0.19},
        {SignalId.TTFT_P50: 2.0},
        SMALL,
        {SignalId.POST_SHARE: 0.3},
        {SignalId.MOVING_SHARE: derived(0.05)},
        {SignalId.TRANSFER_FLOOR_STEPS: derived(0.99)},
    ],
    ids=["no share of TTFT", "TTFT kept", "small pieces", "posting", "quick enough", "over within a step"],
)
def test_silent(changes: Changes) -> None:
    """Each condition turned by itself."""
    found = finding(RULE, changed(CRAWLING, changes))
    assert found.truth is Truth.FALSE
    assert (found.headline, found.remedies, found.missing) == ("", (), ())


def test_silent_elsewhere() -> None:
    """In a calm deployment, and where nothing is transferred."""
    assert finding(RULE, CALM).truth is Truth.FALSE
    assert findings(RULE, CRAWLING, deployment(instance("u0", Role.UNIFIED))) == []


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {SignalId.TRANSFER_TTFT_SHARE: 0.2},
        {SignalId.TTFT_P50: 2.01},
        {SignalId.TTFT_P50: None},
        {SignalId.MOVING_SHARE: derived(0.049)},
        {SignalId.TRANSFER_FLOOR_STEPS: derived(1.0)},
        {SignalId.TRANSFER_IN_FLIGHT: 20.0},
        {SignalId.TRANSFER_IN_FLIGHT: None},
        {SignalId.ACHIEVED_TREND: 0.3},
    ],
)
def test_holds(changes: Changes) -> None:
    """From each limit on, with one in flight or with many, whatever the rate does and whether or not TTFT is known."""
    assert finding(RULE, changed(CRAWLING, changes)).truth is Truth.TRUE


def test_without_objectives_it_may_hurt() -> None:
    """Nobody said what TTFT is good enough."""
    assert finding(RULE, CRAWLING, deployment(slo=Slo())).truth is Truth.TRUE


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({SignalId.DESCRIPTOR_BYTES: estimated(65_536.0)}, Truth.TRUE),
        ({SignalId.DESCRIPTOR_BYTES: estimated(65_535.0)}, Truth.FALSE),
        ({SignalId.DESCRIPTOR_TIME: estimated(2e-5)}, Truth.FALSE),
        ({SignalId.DESCRIPTOR_TIME: estimated(2.1e-5)}, Truth.TRUE),
        ({SignalId.POST_SHARE: 0.29}, Truth.TRUE),
        ({SignalId.POST_SHARE: 0.3, SignalId.DESCRIPTOR_TIME: estimated(1.0)}, Truth.FALSE),
        ({SignalId.DESCRIPTOR_TIME: None}, Truth.UNKNOWN),
        ({SignalId.DESCRIPTOR_BYTES: None}, Truth.UNKNOWN),
        ({SignalId.DESCRIPTOR_BYTES: None, SignalId.DESCRIPTOR_TIME: estimated(1.0)}, Truth.TRUE),
    ],
)
def test_small_pieces(changes: Changes, truth: Truth) -> None:
    """They are the reason only where they go as fast as they can be posted; a time that was measured decides."""
    assert finding(RULE, changed(CRAWLING, SMALL, changes)).truth is truth


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


@pytest.mark.parametrize("signal", [SignalId.TRANSFER_TTFT_SHARE, SignalId.MOVING_SHARE, SignalId.TRANSFER_FLOOR_STEPS])
def test_unknown_names_what_is_missing(signal: SignalId) -> None:
    """One figure short, nobody can tell."""
    found = finding(RULE, changed(CRAWLING, {signal: None}))
    assert (found.truth, found.missing) == (Truth.UNKNOWN, (signal,))


@pytest.mark.parametrize(
    ("figures", "name", "value"),
    [
        (CRAWLING, "share", 0.01),
        (CRAWLING, "steps", 21.0),
        (CRAWLING, "ttft_share", 0.9),
        (changed(CRAWLING, {SignalId.DESCRIPTOR_TIME: derived(1e-5)}), "piece", 2e6),
        (changed(CRAWLING, {SignalId.DESCRIPTOR_BYTES: 1152.0}), "piece_time", 0.002),
        (changed(CRAWLING, {SignalId.POST_SHARE: 0.2}), "post", 0.2),
        (LOPSIDED, "imbalance", 4.1),
    ],
)
def test_thresholds_are_configurable(figures: Figures, name: str, value: float) -> None:
    """A stricter one silences the rule."""
    assert finding(RULE, figures).truth is Truth.TRUE
    assert finding(RULE, figures, thresholds={name: value}).truth is Truth.FALSE


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        (CRAWLING, ("takes 2 s, 80 % of TTFT", "with 0.9 in flight", "1.2 % of what", "40 GB/s a pair")),
        (CROWD, ("with 20 in flight", "2 % of what")),
        (LOPSIDED, ("one port carries 400 % of the mean",)),
    ],
)
def test_words(figures: Figures, words: tuple[str, ...]) -> None:
    """The numbers of the sign that holds; the scope is the link."""
    found = finding(RULE, figures)
    assert found.scope == (ScopeKind.LINK, "prefill->decode")
    for part in words:
        assert part in found.headline


@pytest.mark.parametrize(
    ("changes", "confidence"),
    [
        ({}, Confidence.MEDIUM),
        ({SignalId.MOVING_SHARE: 0.012}, Confidence.HIGH),
        ({SignalId.MOVING_SHARE: estimated(0.012)}, Confidence.MEDIUM),
    ],
)
def test_verdict(changes: Changes, confidence: Confidence) -> None:
    """Of the transfer, as sure as the speed at which KV moves."""
    diagnosis = verdict_of(changed(CRAWLING, changes)).diagnosis
    assert (diagnosis.verdict, diagnosis.verdict.stage) == (Verdict.KV_TRANSFER_PATH, Stage.KV_TRANSFER)
    assert diagnosis.confidence is confidence


@pytest.mark.parametrize("figures", [CROWD, LOPSIDED])
def test_verdict_of_the_other_signs(figures: Figures) -> None:
    """Each is enough."""
    assert verdict_of(figures).diagnosis.verdict is Verdict.KV_TRANSFER_PATH


def test_as_slow_as_its_pieces_are_many_is_another_verdict() -> None:
    """The same speed, in pieces that posting explains."""
    assert verdict_of(changed(CRAWLING, SMALL)).diagnosis.verdict is Verdict.KV_TRANSFER_FRAGMENTED


GQA = ModelFacts("m", kv=KvShape(Attention.GQA, layers=80, kv_heads=8, head_dim=128, bytes_per_element=2))
UNEQUAL = deployment(instance("p0", Role.PREFILL, tp=8), instance("d0", Role.DECODE, tp=4), model=GQA)
EQUAL = deployment(instance("p0", Role.PREFILL, tp=8), instance("d0", Role.DECODE, tp=8), model=GQA)
SLICED: Figures = {SignalId.DESCRIPTOR_BYTES: estimated(32_768.0), SignalId.DESCRIPTOR_TIME: estimated(7e-5)}


@pytest.mark.parametrize(
    ("of", "changes", "verdict"),
    [
        (UNEQUAL, {}, Verdict.KV_TRANSFER_FRAGMENTED),
        (EQUAL, {}, Verdict.KV_TRANSFER_PATH),
        (UNEQUAL, {SignalId.POST_SHARE: 0.01}, Verdict.KV_TRANSFER_PATH),
        (UNEQUAL, {SignalId.DESCRIPTOR_BYTES: estimated(70_000.0)}, Verdict.KV_TRANSFER_PATH),
    ],
    ids=["sliced", "equal", "posting is timed, and short", "large even so"],
)
def test_sliced_heads_are_nearer_than_a_wrong_path(of: Deployment, changes: Changes, verdict: Verdict) -> None:
    """A page is then no piece; the path stands beside."""
    diagnosis = verdict_of(changed(CRAWLING, SLICED, changes), of).diagnosis
    assert diagnosis.verdict is verdict
    assert next(f.truth for f in diagnosis.findings if f.rule == RULE.id) is Truth.TRUE
