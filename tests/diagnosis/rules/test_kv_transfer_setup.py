"""`kv_transfer_setup`: more time before a transfer than in it, and nothing is full."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.kv_transfer_setup import RULE
from pdscope.model.finding import Confidence, Stage, Truth, Verdict
from pdscope.model.signal import ScopeKind, SignalId
from pdscope.model.topology import Role, Slo
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

SETUP = STORIES["kv_transfer_setup"]


@pytest.mark.parametrize(
    "changes",
    [
        {SignalId.SETUP_SHARE: 0.49},
        {SignalId.SETUP_TTFT_SHARE: 0.19},
        {SignalId.LINK_UTILIZATION: derived(0.5)},
        {SignalId.TTFT_P50: 2.0},
        {("d0", SignalId.ADMISSION_QUEUE): 8.0},
        {("d0", SignalId.KV_FREE_REQUESTS): 0.9},
        {("d0", SignalId.RUNNING_TO_LIMIT): 1.0},
    ],
    ids=["the transfer is longer", "no share of TTFT", "the link", "TTFT kept", "a queue", "no memory", "no slot"],
)
def test_silent(changes: Changes) -> None:
    """Each condition turned by itself: a handshake waits for link, slots and memory as well."""
    found = finding(RULE, changed(SETUP, changes))
    assert found.truth is Truth.FALSE
    assert (found.headline, found.remedies, found.missing) == ("", (), ())


def test_silent_elsewhere() -> None:
    """Where set-up is quick, and where nothing is transferred."""
    quick: Figures = {SignalId.SETUP_TIME: 0.01, SignalId.SETUP_SHARE: 0.3, SignalId.SETUP_TTFT_SHARE: 0.01}
    assert finding(RULE, changed(CALM, quick)).truth is Truth.FALSE
    assert findings(RULE, SETUP, deployment(instance("u0", Role.UNIFIED))) == []


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {SignalId.SETUP_SHARE: 0.5},
        {SignalId.SETUP_TTFT_SHARE: 0.2},
        {SignalId.LINK_UTILIZATION: derived(0.49)},
        {SignalId.TTFT_P50: None},
        {("d0", SignalId.ADMISSION_QUEUE): 7.9},
        {("d0", SignalId.KV_FREE_REQUESTS): 1.0},
        {("d0", SignalId.RUNNING_TO_LIMIT): 0.99},
        {("d0", SignalId.RUNNING_TO_LIMIT): None},
        {("d0", SignalId.ADMISSION_QUEUE): None},
        {("d0", SignalId.KV_FREE_REQUESTS): None},
    ],
)
def test_holds(changes: Changes) -> None:
    """From each limit on. Five requests a second in a handshake of 1.4 s are seven in the queue."""
    assert finding(RULE, changed(SETUP, changes)).truth is Truth.TRUE


@pytest.mark.parametrize("signal", [SignalId.SETUP_TIME, SignalId.REQUESTS_PER_SECOND])
def test_without_handshakes_a_queue_is_a_queue(signal: SignalId) -> None:
    """Where nothing tells how many of it are in a handshake."""
    for queue, truth in ((0.9, Truth.TRUE), (1.0, Truth.FALSE)):
        figures = changed(SETUP, {signal: None}, on("d0", {SignalId.ADMISSION_QUEUE: queue}))
        assert finding(RULE, figures).truth is truth


def test_without_objectives_it_may_hurt() -> None:
    """Nobody said what TTFT is good enough."""
    assert finding(RULE, SETUP, deployment(slo=Slo())).truth is Truth.TRUE


def test_one_decode_without_room() -> None:
    """Any instance that keeps requests waiting explains it."""
    of = deployment(instance("p0", Role.PREFILL), instance("d0", Role.DECODE), instance("d1", Role.DECODE))
    for free, truth in ((5.0, Truth.TRUE), (0.5, Truth.FALSE)):
        assert finding(RULE, changed(SETUP, on("d1", {SignalId.KV_FREE_REQUESTS: free})), of).truth is truth
    found = finding(RULE, SETUP, of)
    assert found.truth is Truth.UNKNOWN
    assert set(found.missing) == {SignalId.ADMISSION_QUEUE, SignalId.KV_FREE_REQUESTS}


@pytest.mark.parametrize("signal", [SignalId.SETUP_SHARE, SignalId.SETUP_TTFT_SHARE, SignalId.LINK_UTILIZATION])
def test_unknown_names_what_is_missing(signal: SignalId) -> None:
    """One figure short, nobody can tell."""
    found = finding(RULE, changed(SETUP, {signal: None}))
    assert (found.truth, found.missing) == (Truth.UNKNOWN, (signal,))


@pytest.mark.parametrize(("name", "value"), [("share", 0.99), ("ttft_share", 0.6), ("room", 0.1), ("queue", -7.0)])
def test_thresholds_are_configurable(name: str, value: float) -> None:
    """A stricter one silences the rule."""
    assert finding(RULE, SETUP, thresholds={name: value}).truth is Truth.FALSE


def test_words() -> None:
    """Set-up, transfer and link stand in the headline; the scope is the link."""
    found = finding(RULE, SETUP)
    assert found.scope == (ScopeKind.LINK, "prefill->decode")
    for words in ("1.4 s", "20 ms", "56 % of TTFT", "12.5 % full"):
        assert words in found.headline


@pytest.mark.parametrize(
    ("changes", "confidence"),
    [({}, Confidence.HIGH), ({SignalId.SETUP_SHARE: estimated(0.98)}, Confidence.MEDIUM)],
)
def test_verdict(changes: Changes, confidence: Confidence) -> None:
    """Of the transfer, as sure as the set-up time."""
    diagnosis = verdict_of(changed(SETUP, changes)).diagnosis
    assert (diagnosis.verdict, diagnosis.verdict.stage) == (Verdict.KV_TRANSFER_SETUP, Stage.KV_TRANSFER)
    assert diagnosis.confidence is confidence
