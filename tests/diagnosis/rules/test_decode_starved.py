"""`decode_starved`: decode idles while KV is awaited."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.decode_starved import RULE
from pdscope.model.finding import Truth, Verdict
from pdscope.model.signal import SignalId
from support.signals import FINDINGS, changed, finding, on, verdict_of

STORY = FINDINGS["decode_starved"]


def test_holds_with_both_numbers() -> None:
    """What is awaited, and how little runs."""
    found = finding(RULE, STORY)
    assert (found.truth, found.culprits) == (Truth.TRUE, ("d0",))
    assert "0.4 requests while the KV of 5 requests" in found.headline


@pytest.mark.parametrize(
    "figures",
    [{SignalId.AWAITED_KV: 1.9}, {SignalId.RUNNING: 1.0}],
    ids=["one on its way", "something runs"],
)
def test_silent(figures: dict[SignalId, float]) -> None:
    """A transfer now and then, or a batch of one, is no starvation."""
    assert finding(RULE, changed(STORY, on("d0", figures))).truth is Truth.FALSE


@pytest.mark.parametrize(("name", "value"), [("awaited", 6.0), ("running", 0.4)])
def test_thresholds_are_configurable(name: str, value: float) -> None:
    """A stricter one turns the answer."""
    assert finding(RULE, STORY, thresholds={name: value}).truth is Truth.FALSE


def test_unknown_names_what_is_missing() -> None:
    """An engine that does not tell what it awaits."""
    found = finding(RULE, changed(STORY, {("d0", SignalId.AWAITED_KV): None}))
    assert (found.truth, found.missing) == (Truth.UNKNOWN, (SignalId.AWAITED_KV,))


@pytest.mark.parametrize(
    ("prefill", "link", "offered"),
    [
        (0.85, 0.1, ["add_prefill"]),
        (0.2, 0.9, ["use_more_nics"]),
        (0.9, 0.95, ["use_more_nics"]),
        (0.2, 0.1, []),
        (None, None, []),
    ],
)
def test_remedies_follow_what_is_loaded(prefill: float | None, link: float | None, offered: list[str]) -> None:
    """More of what is not the limit helps nobody."""
    loads = changed(STORY, {SignalId.PREFILL_LOAD: prefill, SignalId.LINK_UTILIZATION: link})
    assert [r.id for r in finding(RULE, loads).remedies] == offered


def test_it_is_no_verdict() -> None:
    """The deployment is as healthy as without it, and the finding stands beside."""
    diagnosis = verdict_of(STORY).diagnosis
    assert diagnosis.verdict is Verdict.HEALTHY
    held = [f for f in diagnosis.findings if f.rule == RULE.id]
    assert [(f.truth, f.verdict) for f in held] == [(Truth.TRUE, None)]
