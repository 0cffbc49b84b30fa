"""`kv_pinned`: prefill is full of finished prompts while decode and the link have room."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.kv_pinned import RULE
from pdscope.model.finding import Confidence, Stage, Truth, Verdict
from pdscope.model.signal import Quality, SignalId
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
    on,
    verdict_of,
)

PINNED = STORIES["kv_pinned"]


def test_holds() -> None:
    """Full, still, waited for, and nobody elsewhere to blame."""
    found = finding(RULE, PINNED)
    assert (found.truth, found.culprits, found.decisive) == (Truth.TRUE, ("p0",), Quality.MEASURED)
    for words in ("p0 holds 100 %", "40 requests wait", "decode has room"):
        assert words in found.headline
    assert [r.id for r in found.remedies] == list(RULE.remedies)


@pytest.mark.parametrize(
    "changes",
    [
        on("p0", {SignalId.KV_USAGE: 0.94, SignalId.KV_FREE_REQUESTS: 2.1}),
        on("p0", {SignalId.KV_USAGE: 0.94, SignalId.KV_FREE_REQUESTS: None}),
        on("p0", {SignalId.PREFILL_QUEUE: 0.9}),
        on("p0", {SignalId.RUNNING: 4.1}),
        on("p0", {SignalId.TENSOR_UTILIZATION: 0.5}),
        on("p0", {SignalId.PREFILL_FLOP_UTILIZATION: estimated(0.5)}),
        on("d0", {SignalId.ADMISSION_QUEUE: 1.0}),
        on("d0", {SignalId.KV_USAGE: 0.9}),
        {SignalId.LINK_UTILIZATION: derived(0.9)},
        {SignalId.TRANSFER_IN_FLIGHT: 4.0},
        {SignalId.TRANSFER_TTFT_SHARE: 0.2},
    ],
    ids=[
        "room",
        "room, of a pool of unknown size",
        "nobody waits",
        "it computes",
        "one huge prompt",
        "one huge prompt by its FLOP",
        "decode's door",
        "decode's pool",
        "full link",
        "many transfers",
        "slow transfers",
    ],
)
def test_silent(changes: Changes) -> None:
    """Each condition counts; pinned prompts beside a limit elsewhere are its symptom."""
    found = finding(RULE, changed(PINNED, changes))
    assert (found.truth, found.headline, found.missing) == (Truth.FALSE, "", ())


@pytest.mark.parametrize(
    "changes",
    [
        on("p0", {SignalId.KV_USAGE: 0.95, SignalId.KV_FREE_REQUESTS: 3.0}),
        on("p0", {SignalId.KV_USAGE: 0.95, SignalId.KV_FREE_REQUESTS: None}),
        on("p0", {SignalId.KV_USAGE: 0.6, SignalId.KV_FREE_REQUESTS: 2.0}),
        on("p0", {SignalId.KV_USAGE: None}),
        on("p0", {SignalId.RUNNING: 4.0}),
        on("p0", {SignalId.PREFILL_QUEUE: 1.0}),
        on("p0", {SignalId.TENSOR_UTILIZATION: None, SignalId.COMPUTE_UTILIZATION: None}),
        on("d0", {SignalId.ADMISSION_QUEUE: 0.9, SignalId.KV_USAGE: 0.89}),
        {SignalId.LINK_UTILIZATION: None, SignalId.LINK_CAPACITY: None},
        {SignalId.LINK_UTILIZATION: derived(0.89), SignalId.TRANSFER_IN_FLIGHT: 3.9},
        {SignalId.TRANSFER_TTFT_SHARE: None},
        {SignalId.TRANSFER_IN_FLIGHT: None},
    ],
)
def test_at_its_thresholds(changes: Changes) -> None:
    """Neither telemetry nor the link's capacity is needed, nor both signs of a full pool or of quick transfers."""
    assert finding(RULE, changed(PINNED, changes)).truth is Truth.TRUE


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        (on("p0", {SignalId.KV_USAGE: None, SignalId.KV_FREE_REQUESTS: None}), {SignalId.KV_USAGE}),
        (on("p0", {SignalId.PREFILL_QUEUE: None}), {SignalId.PREFILL_QUEUE}),
        (on("p0", {SignalId.RUNNING: None}), {SignalId.RUNNING}),
        (on("d0", {SignalId.ADMISSION_QUEUE: None}), {SignalId.ADMISSION_QUEUE}),
        (on("d0", {SignalId.KV_USAGE: None}), {SignalId.KV_USAGE}),
        (
            {SignalId.TRANSFER_IN_FLIGHT: None, SignalId.TRANSFER_TTFT_SHARE: None},
            {SignalId.TRANSFER_IN_FLIGHT, SignalId.TRANSFER_TTFT_SHARE},
        ),
    ],
)
def test_unknown_names_what_is_missing(changes: Changes, missing: set[SignalId]) -> None:
    """Who cannot see that decode and the transfers are well does not accuse anybody."""
    found = finding(RULE, changed(PINNED, changes))
    assert found.truth is Truth.UNKNOWN
    assert set(found.missing) == missing


EXPIRING = changed(
    PINNED, on("p0", {SignalId.KV_USAGE: 0.8, SignalId.KV_FREE_REQUESTS: 20.0, SignalId.LEASES_EXPIRED: 0.2})
)
"""A pool that was full in between: leases of prompts run out, one in twenty-five."""


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({}, Truth.TRUE),
        (on("p0", {SignalId.LEASES_EXPIRED: 0.1}), Truth.TRUE),
        (on("p0", {SignalId.KV_USAGE: 0.75}), Truth.TRUE),
        (on("p0", {SignalId.LEASES_EXPIRED: 0.09}), Truth.FALSE),
        (on("p0", {SignalId.KV_USAGE: 0.74}), Truth.FALSE),
        (on("p0", {SignalId.LEASES_EXPIRED: None}), Truth.FALSE),
        ({SignalId.REQUESTS_PER_SECOND: None}, Truth.FALSE),
        ({SignalId.REQUESTS_PER_SECOND: 0.0}, Truth.FALSE),
    ],
)
def test_leases_that_run_out(changes: Changes, truth: Truth) -> None:
    """Prompts that nobody fetched were kept, although on average there is room by now."""
    assert finding(RULE, changed(EXPIRING, changes)).truth is truth


LATE = changed(PINNED, on("p0", {SignalId.PREFILL_QUEUE: 0.0, SignalId.PREFILL_WAIT_TTFT_SHARE: 0.6}))
"""The queue is empty now and then, and yet most of TTFT."""


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({}, Truth.TRUE),
        (on("p0", {SignalId.PREFILL_WAIT_TTFT_SHARE: 0.5}), Truth.TRUE),
        (on("p0", {SignalId.PREFILL_WAIT_TTFT_SHARE: 0.49}), Truth.FALSE),
        (on("p0", {SignalId.PREFILL_WAIT_TTFT_SHARE: None}), Truth.FALSE),
        ({SignalId.TTFT_P50: 2.0}, Truth.FALSE),
    ],
)
def test_a_queue_that_comes_and_goes(changes: Changes, truth: Truth) -> None:
    """It counts by the wait that it makes, where TTFT is over."""
    assert finding(RULE, changed(LATE, changes)).truth is truth


def test_every_decode_instance_must_have_room() -> None:
    """One that is full, or silent, may be the one for which the prompts are kept."""
    three = deployment(*(instance(name, Role.DECODE) for name in ("d0", "d1")), instance("p0", Role.PREFILL))
    well = {SignalId.ADMISSION_QUEUE: 0.0, SignalId.KV_USAGE: 0.2}
    assert finding(RULE, changed(PINNED, on("d1", well)), three).truth is Truth.TRUE
    assert finding(RULE, PINNED, three).truth is Truth.UNKNOWN
    full = changed(PINNED, on("d1", {**well, SignalId.ADMISSION_QUEUE: 9.0}))
    assert finding(RULE, full, three).truth is Truth.FALSE


def test_nothing_is_pinned_without_roles() -> None:
    """A unified engine keeps no prompt for another."""
    assert findings(RULE, PINNED, deployment(instance("u0", Role.UNIFIED))) == []


@pytest.mark.parametrize(
    ("name", "value", "changes"),
    [
        ("free", 0.01, on("p0", {SignalId.KV_USAGE: 0.97, SignalId.KV_FREE_REQUESTS: None})),
        ("fits", 1, on("p0", {SignalId.KV_USAGE: 0.9, SignalId.KV_FREE_REQUESTS: 1.5})),
        ("expired", 0.05, changed(EXPIRING)),
        ("usage_when_expired", 0.81, changed(EXPIRING)),
        ("most", 0.61, changed(LATE)),
        ("queue", 41, {}),
        ("running", 0.05, on("p0", {SignalId.RUNNING: 3.0})),
        ("compute", 0.02, {}),
        ("decode_queue", 0, {}),
        ("decode_usage", 0.3, {}),
        ("in_flight", 0.1, {}),
        ("ttft_share", 0.02, {}),
        ("link", 0.1, {}),
    ],
)
def test_thresholds_are_configurable(name: str, value: float, changes: Changes) -> None:
    """A stricter one silences the rule."""
    figures = changed(PINNED, changes)
    assert finding(RULE, figures).truth is Truth.TRUE
    assert finding(RULE, figures, thresholds={name: value}).truth is Truth.FALSE
    assert {t.name for t in RULE.thresholds} >= {name}


def test_verdict() -> None:
    """Of the hand-over, measured; the waits of a calm prefill are not it."""
    diagnosis = verdict_of(PINNED).diagnosis
    assert (diagnosis.verdict, diagnosis.stage) == (Verdict.KV_PINNED, Stage.KV_TRANSFER)
    assert (diagnosis.confidence, diagnosis.culprits) == (Confidence.HIGH, ("p0",))
    assert finding(RULE, changed(CALM, on("p0", {SignalId.RUNNING: 1.0}))).truth is Truth.FALSE
    joined = changed(PINNED, on("d0", {SignalId.ADMISSION_QUEUE: derived(0.0)}))
    assert verdict_of(joined).diagnosis.confidence is Confidence.MEDIUM


def test_words_fit_a_queue_and_a_pool_that_come_and_go() -> None:
    """Nobody reads that 0 requests wait, or that a pool with room is full."""
    passing = finding(RULE, LATE).headline
    assert "while requests, in a queue that comes and goes, wait there for 60 % of TTFT: the pool is full of" in passing
    assert "0 requests wait" not in passing
    assert "80 % of its KV pool" in finding(RULE, EXPIRING).headline
    assert "the pool fills up again and again with finished prompts" in finding(RULE, EXPIRING).headline
