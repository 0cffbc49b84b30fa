"""What the two verdicts on prefill share: when a queue there counts."""

from __future__ import annotations

import pytest

from pdscope.diagnosis import prefill
from pdscope.diagnosis.base import Rule
from pdscope.diagnosis.rules import prefill_compute, prefill_queue
from pdscope.model.finding import Truth
from pdscope.model.signal import SignalId
from pdscope.model.topology import Slo
from support.signals import STORIES, Changes, Figures, changed, deployment, finding, on

BOTH = [(rule, STORIES[rule.id]) for rule in (prefill_compute.RULE, prefill_queue.RULE)]
SHORT_WAIT = {("p0", SignalId.PREFILL_WAIT_TO_SERVICE): 8.9}
SMALL_SHARE = {("p0", SignalId.PREFILL_WAIT_TTFT_SHARE): 0.19}
WITHIN = {SignalId.TTFT_P50: 1.9}
either = pytest.mark.parametrize(("rule", "figures"), BOTH, ids=[rule.id for rule, _ in BOTH])


@either
@pytest.mark.parametrize(
    "changes",
    [
        {("p0", SignalId.PREFILL_QUEUE): 0.9, ("p0", SignalId.PREFILL_WAIT_TTFT_SHARE): 0.49},
        changed({("p0", SignalId.PREFILL_QUEUE): 0.9}, WITHIN),
        changed(SHORT_WAIT, SMALL_SHARE),
        changed(SHORT_WAIT, WITHIN),
        changed(SHORT_WAIT, {SignalId.TTFT_P50: 2.0}),
        {("p0", SignalId.KV_FREE_REQUESTS): 0.99},
        {("p0", SignalId.KV_FREE_REQUESTS): None, ("p0", SignalId.KV_USAGE_NET): 0.97},
    ],
    ids=[
        "no queue stands",
        "none, within",
        "other stages take longer",
        "short and within",
        "TTFT at limit",
        "pool full",
        "usage full",
    ],
)
def test_silent(rule: Rule, figures: Figures, changes: Changes) -> None:
    """A queue that passes, that hurts nobody, or that a full KV pool holds up."""
    assert finding(rule, changed(figures, changes)).truth is Truth.FALSE


@either
@pytest.mark.parametrize(
    "changes",
    [
        {("p0", SignalId.PREFILL_QUEUE): 1.0},
        {("p0", SignalId.PREFILL_QUEUE): 0.9, ("p0", SignalId.PREFILL_WAIT_TTFT_SHARE): 0.5},
        SHORT_WAIT,
        {**SHORT_WAIT, ("p0", SignalId.PREFILL_WAIT_TTFT_SHARE): 0.2},
        SMALL_SHARE,
        WITHIN,
        {**WITHIN, ("p0", SignalId.PREFILL_WAIT_TO_SERVICE): 9.0},
        {("p0", SignalId.PREFILL_WAIT_TO_SERVICE): None},
        {("p0", SignalId.PREFILL_WAIT_TTFT_SHARE): None},
        {("p0", SignalId.KV_FREE_REQUESTS): 1.0},
        {("p0", SignalId.KV_FREE_REQUESTS): None},
        {("p0", SignalId.KV_FREE_REQUESTS): None, ("p0", SignalId.KV_USAGE_NET): None},
    ],
    ids=[
        "one request",
        "comes and goes",
        "TTFT over",
        "TTFT over, a fifth of it",
        "saturated",
        "saturated within",
        "saturated at limit",
        "by share",
        "by load",
        "room for one more",
        "usage with room",
        "no usage exported",
    ],
)
def test_holds(rule: Rule, figures: Figures, changes: Changes) -> None:
    """TTFT over and waited for, or the wait of a queue near its capacity whatever was promised."""
    assert finding(rule, changed(figures, changes)).truth is Truth.TRUE


@either
@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        (
            {("p0", SignalId.PREFILL_WAIT_TO_SERVICE): None, ("p0", SignalId.PREFILL_WAIT_TTFT_SHARE): None},
            {SignalId.PREFILL_WAIT_TO_SERVICE, SignalId.PREFILL_WAIT_TTFT_SHARE},
        ),
        ({**SHORT_WAIT, SignalId.TTFT_P50: None}, {SignalId.TTFT_P50}),
        ({**WITHIN, ("p0", SignalId.PREFILL_WAIT_TO_SERVICE): None}, {SignalId.PREFILL_WAIT_TO_SERVICE}),
    ],
    ids=["no wait", "no TTFT", "no service time"],
)
def test_unknown_names_what_is_missing(rule: Rule, figures: Figures, changes: Changes, missing: set[SignalId]) -> None:
    """Whether it hurts is not known."""
    found = finding(rule, changed(figures, changes))
    assert found.truth is Truth.UNKNOWN
    assert set(found.missing) == missing


@either
def test_without_an_objective_only_saturation_counts(rule: Rule, figures: Figures) -> None:
    """Nobody has said what TTFT should be, so a short wait can be neither good nor bad."""
    none = deployment(slo=Slo())
    assert finding(rule, figures, none).truth is Truth.TRUE
    assert finding(rule, changed(figures, SHORT_WAIT), none).truth is Truth.UNKNOWN


@either
def test_any_percentile_may_be_over(rule: Rule, figures: Figures) -> None:
    """An objective on p95 alone is an objective."""
    p95 = deployment(slo=Slo(ttft_p95_seconds=3.0))
    over = {**SHORT_WAIT, SignalId.TTFT_P50: 1.0, SignalId.TTFT_P95: 3.1}
    assert finding(rule, changed(figures, over), p95).truth is Truth.TRUE
    assert finding(rule, changed(figures, {**over, SignalId.TTFT_P95: 3.0}), p95).truth is Truth.FALSE


@either
@pytest.mark.parametrize(
    ("threshold", "changes", "value"),
    [
        ("queue", {("p0", SignalId.PREFILL_WAIT_TTFT_SHARE): 0.4}, 32.0),
        ("most", {("p0", SignalId.PREFILL_QUEUE): 0.9}, 0.96),
        ("ttft_share", SHORT_WAIT, 0.9),
        ("wait_to_service", WITHIN, 21.0),
        ("free", {("p0", SignalId.KV_FREE_REQUESTS): None}, 0.95),
    ],
)
def test_thresholds_are_configurable(
    rule: Rule, figures: Figures, threshold: str, changes: Changes, value: float
) -> None:
    """Each configured value turns the answer."""
    told = changed(figures, changes)
    assert finding(rule, told).truth is Truth.TRUE
    assert finding(rule, told, thresholds={threshold: value}).truth is Truth.FALSE


@either
def test_objective_is_among_the_evidence(rule: Rule, figures: Figures) -> None:
    """The reader sees the TTFT that makes the wait count."""
    shown = {e.signal: e.threshold for e in finding(rule, figures).evidence}
    assert shown[SignalId.TTFT_P50] == 2.0


def test_both_rules_have_the_same_thresholds() -> None:
    """One queue, one set of numbers."""
    assert prefill_compute.RULE.thresholds == prefill_queue.RULE.thresholds == prefill.THRESHOLDS
    assert {t.name for t in prefill.THRESHOLDS} == {
        *("queue", "most", "ttft_share", "wait_to_service", "free"),
        *("sm", "tensor", "flop", "flop_idle"),
    }


def test_pool_of_decode_does_not_matter() -> None:
    """Each instance's own pool."""
    figures = changed(STORIES["prefill_queue"], on("d0", {SignalId.KV_FREE_REQUESTS: 0.1}))
    assert finding(prefill_queue.RULE, figures).truth is Truth.TRUE
