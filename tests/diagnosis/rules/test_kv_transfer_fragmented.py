"""`kv_transfer_fragmented`: posting takes the time, or small pieces make transfers slow for their bytes."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.kv_transfer_fragmented import RULE
from pdscope.model.finding import Confidence, Finding, Stage, Truth, Verdict
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
    on,
    verdict_of,
)

POSTING = STORIES["kv_transfer_fragmented"]
SLOW: Figures = {
    SignalId.POST_SHARE: 0.01,
    SignalId.DESCRIPTOR_BYTES: estimated(1152.0),
    SignalId.DESCRIPTOR_TIME: estimated(5e-5),
    SignalId.MOVING_SHARE: derived(0.07),
    SignalId.TRANSFER_IN_FLIGHT: 20.0,
    SignalId.ACHIEVED_TREND: 1.0,
}
SCATTERED = changed(POSTING, SLOW, {SignalId.POST_SHARE: None, SignalId.ACHIEVED_TREND: 0.6})
CUT = changed(POSTING, SLOW)
PACED = changed(
    POSTING,
    SLOW,
    {
        SignalId.POST_SHARE: None,
        SignalId.DESCRIPTOR_TIME: estimated(5e-6),
        SignalId.MOVING_SHARE: derived(0.02),
        SignalId.TRANSFER_FLOOR_STEPS: derived(20.0),
    },
)
"""Nobody times the posting; small pieces follow each other about as fast as they can be posted."""
GQA = KvShape(Attention.GQA, layers=80, bytes_per_element=2, kv_heads=8, head_dim=128)
MLA = KvShape(Attention.MLA, layers=61, bytes_per_element=2, latent_dim=576)


def unequal(kv: KvShape | None = GQA, decode_tp: int = 8) -> Deployment:
    """Prefill of four ranks."""
    members = (instance("p0", Role.PREFILL, tp=4), instance("d0", Role.DECODE, tp=decode_tp))
    return deployment(*members, model=ModelFacts("m", kv=kv))


def cut(changes: Changes, of: Deployment | None = None, thresholds: dict[str, float] | None = None) -> Finding:
    """What is said of the story with unequal parallelism."""
    return finding(RULE, changed(CUT, changes), of or unequal(), thresholds)


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({}, Truth.TRUE),
        ({SignalId.POST_SHARE: 0.3}, Truth.TRUE),
        ({SignalId.TRANSFER_TTFT_SHARE: 0.2}, Truth.TRUE),
        ({SignalId.DESCRIPTOR_BYTES: None}, Truth.TRUE),
        ({SignalId.LINK_UTILIZATION: None}, Truth.TRUE),
        ({SignalId.POST_SHARE: 0.29, SignalId.ACHIEVED_TREND: 1.0}, Truth.FALSE),
        ({SignalId.TRANSFER_TTFT_SHARE: 0.19}, Truth.FALSE),
        ({SignalId.TTFT_P50: 2.0}, Truth.FALSE),
        ({SignalId.TTFT_P50: None}, Truth.TRUE),
        ({SignalId.TRANSFER_TTFT_SHARE: None}, Truth.UNKNOWN),
    ],
)
def test_posting(changes: Changes, truth: Truth) -> None:
    """Its share decides, whatever is known of pieces and link."""
    assert finding(RULE, changed(POSTING, changes)).truth is truth


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({}, Truth.TRUE),
        ({SignalId.DESCRIPTOR_TIME: estimated(2e-5)}, Truth.TRUE),
        ({SignalId.MOVING_SHARE: derived(0.099)}, Truth.TRUE),
        ({SignalId.ACHIEVED_TREND: None, SignalId.TRANSFER_IN_FLIGHT: None}, Truth.TRUE),
        ({SignalId.DESCRIPTOR_TIME: estimated(2.1e-5)}, Truth.FALSE),
        ({SignalId.DESCRIPTOR_BYTES: estimated(65_536.0)}, Truth.FALSE),
        ({SignalId.MOVING_SHARE: derived(0.1)}, Truth.FALSE),
        ({SignalId.LINK_UTILIZATION: derived(0.5)}, Truth.FALSE),
        ({SignalId.TRANSFER_TTFT_SHARE: 0.19}, Truth.FALSE),
        ({SignalId.TTFT_P50: 2.0}, Truth.FALSE),
        ({SignalId.DESCRIPTOR_TIME: None}, Truth.UNKNOWN),
    ],
)
def test_paced(changes: Changes, truth: Truth) -> None:
    """The pace of small pieces over a link with room: each condition turned by itself."""
    assert finding(RULE, changed(PACED, changes)).truth is truth


BUSY = changed(
    POSTING,
    {SignalId.POST_SHARE: 0.05, SignalId.POST_BUSY: derived(0.8)},
    on("d0", {SignalId.KV_FREE_REQUESTS: 0.3, SignalId.KV_USAGE_NET: 0.98, SignalId.PREEMPTIONS_PER_SECOND: 0.5}),
)
"""Posting is a small part of transfers that wait among others, and most of the time of the thread that runs decode."""


@pytest.mark.parametrize(("busy", "truth"), [(0.8, Truth.TRUE), (0.5, Truth.TRUE), (0.49, Truth.FALSE)])
def test_decode_that_posts_all_the_time(busy: float, truth: Truth) -> None:
    """Then its steps wait for it, and so does what queues for them."""
    found = finding(RULE, changed(BUSY, {SignalId.POST_BUSY: derived(busy)}))
    assert found.truth is truth
    if truth is Truth.TRUE:
        assert found.culprits == ("d0",)
        assert "posts pieces of 44 kB for" in found.headline


def test_no_rank_posts_for_more_than_all_of_the_time() -> None:
    """Several transfers at once are said as such."""
    words = finding(RULE, changed(BUSY, {SignalId.POST_BUSY: derived(2.51)})).headline
    assert "posts pieces of 44 kB all the time, 2.51 transfers at once on each rank" in words
    assert "251 %" not in words
    assert "for 100 % of the time" in finding(RULE, changed(BUSY, {SignalId.POST_BUSY: derived(1.0)})).headline


def test_what_piles_up_behind_posting_is_its_symptom() -> None:
    """A full pool on decode is the verdict only where decode is not busy posting."""
    assert verdict_of(BUSY).diagnosis.verdict is Verdict.KV_TRANSFER_FRAGMENTED
    idle = changed(BUSY, {SignalId.POST_BUSY: derived(0.2), SignalId.POST_SHARE: 0.5})
    assert finding(RULE, idle).culprits == ()
    assert verdict_of(idle).diagnosis.verdict is Verdict.DECODE_KV_CAPACITY


def test_a_time_to_post_that_is_measured_outweighs_the_pace() -> None:
    """Pieces may follow each other quickly because they are quickly moved."""
    assert finding(RULE, changed(PACED, {SignalId.POST_SHARE: 0.01})).truth is Truth.FALSE
    assert finding(RULE, changed(PACED, {SignalId.POST_SHARE: 0.3})).truth is Truth.TRUE


def test_without_objectives_it_may_hurt() -> None:
    """Nobody said what TTFT is good enough."""
    assert finding(RULE, POSTING, deployment(slo=Slo())).truth is Truth.TRUE


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({}, Truth.TRUE),
        ({SignalId.TRANSFER_IN_FLIGHT: 4.0}, Truth.TRUE),
        ({SignalId.ACHIEVED_TREND: 0.84}, Truth.TRUE),
        ({SignalId.TRANSFER_IN_FLIGHT: 3.9}, Truth.FALSE),
        ({SignalId.ACHIEVED_TREND: 0.85}, Truth.FALSE),
        ({SignalId.DESCRIPTOR_BYTES: 65_536.0}, Truth.FALSE),
        ({SignalId.MOVING_SHARE: derived(0.1)}, Truth.FALSE),
        ({SignalId.LINK_UTILIZATION: derived(0.5)}, Truth.FALSE),
        ({SignalId.TRANSFER_TTFT_SHARE: 0.19}, Truth.FALSE),
    ],
    ids=["story", "in flight", "falling", "few", "steady", "large", "quick for its bytes", "full link", "not late"],
)
def test_scattered(changes: Changes, truth: Truth) -> None:
    """A rate that falls with many in flight: each condition turned by itself."""
    assert finding(RULE, changed(SCATTERED, changes)).truth is truth


def test_silent_elsewhere() -> None:
    """Calm, pages of one token that ebb with their traffic, and where nothing is transferred."""
    assert finding(RULE, CALM).truth is Truth.FALSE
    ebbing: Figures = {SignalId.MOVING_SHARE: derived(0.7), SignalId.TRANSFER_TTFT_SHARE: 0.3}
    assert finding(RULE, changed(SCATTERED, ebbing)).truth is Truth.FALSE
    assert findings(RULE, POSTING, deployment(instance("u0", Role.UNIFIED))) == []


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({}, Truth.TRUE),
        ({SignalId.DESCRIPTOR_BYTES: 65_535.0}, Truth.TRUE),
        ({SignalId.MOVING_SHARE: derived(0.099)}, Truth.TRUE),
        ({SignalId.LINK_UTILIZATION: derived(0.49)}, Truth.TRUE),
        ({SignalId.DESCRIPTOR_BYTES: 65_536.0}, Truth.FALSE),
        ({SignalId.MOVING_SHARE: derived(0.1)}, Truth.FALSE),
        ({SignalId.LINK_UTILIZATION: derived(0.5)}, Truth.FALSE),
        ({SignalId.TRANSFER_TTFT_SHARE: 0.19}, Truth.FALSE),
    ],
)
def test_cut_heads(changes: Changes, truth: Truth) -> None:
    """Unequal parallelism alone is healthy."""
    assert cut(changes).truth is truth


@pytest.mark.parametrize(
    "of",
    [unequal(MLA), unequal(None), unequal(decode_tp=4)],
    ids=["a latent has no heads", "no shape", "equal"],
)
def test_nothing_is_cut(of: Deployment) -> None:
    """Without heads, or where nobody knows of any, or at equal parallelism."""
    assert cut({}, of).truth is Truth.FALSE


@pytest.mark.parametrize(
    ("figures", "signal"),
    [
        (SCATTERED, SignalId.DESCRIPTOR_BYTES),
        (SCATTERED, SignalId.ACHIEVED_TREND),
        (SCATTERED, SignalId.TRANSFER_IN_FLIGHT),
        (SCATTERED, SignalId.MOVING_SHARE),
        (SCATTERED, SignalId.LINK_UTILIZATION),
        (SCATTERED, SignalId.TRANSFER_TTFT_SHARE),
    ],
)
def test_unknown_names_what_is_missing(figures: Figures, signal: SignalId) -> None:
    """One figure short, nobody can tell."""
    found = finding(RULE, changed(figures, {signal: None}))
    assert (found.truth, found.missing) == (Truth.UNKNOWN, (signal,))


@pytest.mark.parametrize(
    ("figures", "name", "value"),
    [
        (POSTING, "post", 0.6),
        (POSTING, "ttft_share", 0.5),
        (SCATTERED, "piece", 1000.0),
        (SCATTERED, "loss", 0.5),
        (SCATTERED, "many", 21.0),
        (SCATTERED, "slow", 0.01),
        (SCATTERED, "room", 0.1),
        (PACED, "piece_time", 1e-6),
        (BUSY, "busy", 0.81),
    ],
)
def test_thresholds_are_configurable(figures: Figures, name: str, value: float) -> None:
    """A stricter one silences the rule."""
    assert finding(RULE, figures).truth is Truth.TRUE
    assert finding(RULE, figures, thresholds={name: value}).truth is Truth.FALSE


def test_words() -> None:
    """The numbers of the sign that holds; the scope is the link."""
    found = finding(RULE, POSTING)
    assert found.scope == (ScopeKind.LINK, "prefill->decode")
    assert "takes 1.2 s, 48 % of TTFT, 57 % of it to post pieces of 44 kB" in found.headline
    headline = finding(RULE, SCATTERED).headline
    assert "the rate fell to 60 % within the window with 20 in flight, while the link is 12.5 % full" in headline
    paced = finding(RULE, PACED).headline
    assert "in pieces of 1.15 kB, one every 5 us on a rank: as fast as they can be posted" in paced
    assert "unequal tensor parallelism cuts the cache into pieces" in cut({}).headline


@pytest.mark.parametrize(
    ("figures", "of", "confidence"),
    [
        (POSTING, None, Confidence.HIGH),
        (PACED, None, Confidence.MEDIUM),
        (SCATTERED, None, Confidence.MEDIUM),
        (CUT, unequal(), Confidence.MEDIUM),
    ],
    ids=["posting", "paced", "scattered", "cut"],
)
def test_verdict(figures: Figures, of: Deployment | None, confidence: Confidence) -> None:
    """Of the transfer; a size that is worked out is worth less than one that is counted."""
    diagnosis = verdict_of(figures, of).diagnosis
    assert (diagnosis.verdict, diagnosis.verdict.stage) == (Verdict.KV_TRANSFER_FRAGMENTED, Stage.KV_TRANSFER)
    assert diagnosis.confidence is confidence
