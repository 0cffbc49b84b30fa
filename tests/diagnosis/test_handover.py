"""What the verdicts on the hand-over share: whether it hurts, and whether posting explains its pace."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.base import Bench, Case, Rule
from pdscope.diagnosis.handover import POSTING, hurts, posting_explains
from pdscope.diagnosis.rules import kv_transfer_fragmented, kv_transfer_path
from pdscope.model.finding import Truth
from pdscope.model.signal import Scope, ScopeKind, SignalId
from pdscope.model.topology import Slo
from support.signals import Figures, deployment, derived, estimated, signal_set

LINK = Scope(ScopeKind.LINK, "prefill->decode")
BOTH = (kv_transfer_path.RULE, kv_transfer_fragmented.RULE)
SMALL, QUICK = 65_535.0, 2e-5
either = pytest.mark.parametrize("rule", BOTH, ids=[rule.id for rule in BOTH])


@pytest.mark.parametrize(
    ("slo", "figures", "truth"),
    [
        (Slo(ttft_p50_seconds=2.0), {SignalId.TTFT_P50: 2.01}, Truth.TRUE),
        (Slo(ttft_p50_seconds=2.0), {SignalId.TTFT_P50: 2.0}, Truth.FALSE),
        (Slo(ttft_p50_seconds=2.0, ttft_p99_seconds=9.0), {SignalId.TTFT_P50: 1.0, SignalId.TTFT_P99: 9.1}, Truth.TRUE),
        (Slo(ttft_p50_seconds=2.0, ttft_p99_seconds=9.0), {SignalId.TTFT_P50: 1.0}, Truth.TRUE),
        (Slo(ttft_p50_seconds=2.0), {}, Truth.TRUE),
        (Slo(itl_p50_seconds=0.05), {SignalId.TTFT_P50: 0.1, SignalId.ITL_P50: 0.01}, Truth.TRUE),
    ],
    ids=["over", "kept", "one of two over", "one of two unknown", "no TTFT", "no objective on it"],
)
def test_whether_it_hurts(slo: Slo, figures: Figures, truth: Truth) -> None:
    """Only a TTFT that is known to keep all of its objectives clears the hand-over."""
    assert hurts(Case(deployment(slo=slo), signal_set(figures))) is truth


@either
@pytest.mark.parametrize(
    ("figures", "truth"),
    [
        ({SignalId.POST_SHARE: 0.3}, Truth.TRUE),
        ({SignalId.POST_SHARE: 0.29, SignalId.DESCRIPTOR_BYTES: SMALL, SignalId.DESCRIPTOR_TIME: QUICK}, Truth.FALSE),
        ({SignalId.POST_SHARE: 0.3, SignalId.DESCRIPTOR_BYTES: 1e9, SignalId.DESCRIPTOR_TIME: 1.0}, Truth.TRUE),
        ({SignalId.POST_SHARE: 0.01, SignalId.POST_BUSY: derived(0.5)}, Truth.TRUE),
        ({SignalId.POST_SHARE: 0.01, SignalId.POST_BUSY: derived(0.49)}, Truth.FALSE),
        ({SignalId.POST_SHARE: 0.3, SignalId.POST_BUSY: derived(0.0)}, Truth.TRUE),
        ({SignalId.DESCRIPTOR_BYTES: SMALL, SignalId.DESCRIPTOR_TIME: QUICK}, Truth.TRUE),
        ({SignalId.DESCRIPTOR_BYTES: 65_536.0, SignalId.DESCRIPTOR_TIME: QUICK}, Truth.FALSE),
        ({SignalId.DESCRIPTOR_BYTES: SMALL, SignalId.DESCRIPTOR_TIME: 2.01e-5}, Truth.FALSE),
        ({SignalId.DESCRIPTOR_BYTES: 65_536.0}, Truth.FALSE),
        ({SignalId.DESCRIPTOR_BYTES: SMALL}, Truth.UNKNOWN),
        ({SignalId.DESCRIPTOR_TIME: QUICK}, Truth.UNKNOWN),
        ({}, Truth.UNKNOWN),
    ],
)
def test_whether_posting_explains_it(rule: Rule, figures: Figures, truth: Truth) -> None:
    """Measured shares of a transfer or of a rank's time decide; else small pieces, as fast as posting lets them go."""
    assert posting_explains(Bench(rule, Case(deployment(), signal_set(figures)), LINK)) is truth


@either
def test_what_was_compared_is_shown(rule: Rule) -> None:
    """A measured share alone, or size and pace of the pieces; what is missing is named."""
    posted: Figures = {SignalId.POST_SHARE: 0.4, SignalId.DESCRIPTOR_BYTES: SMALL}
    paced: Figures = {SignalId.DESCRIPTOR_BYTES: estimated(SMALL), SignalId.DESCRIPTOR_TIME: derived(QUICK)}
    busy: Figures = {SignalId.POST_SHARE: 0.1, SignalId.POST_BUSY: derived(0.6)}
    for figures, weighed in ((posted, [SignalId.POST_SHARE]), (busy, [*busy]), (paced, [*paced]), ({}, [])):
        board = Bench(rule, Case(deployment(), signal_set(figures)), LINK)
        posting_explains(board)
        assert [e.signal for e in board.evidence] == weighed
        assert board.missing == ([] if weighed else [*paced])


@either
def test_both_rules_have_the_thresholds(rule: Rule) -> None:
    """By one set of numbers, so that one of the two explains what the other does not."""
    assert {*POSTING} <= {*rule.thresholds}
