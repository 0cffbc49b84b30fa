"""`kv_transfer_failing`: failures rise, and decode's limit does not explain them."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.kv_transfer_failing import RULE
from pdscope.model.finding import Finding, Truth, Verdict
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Role
from support.signals import (
    CALM,
    STORIES,
    Changes,
    Figures,
    Place,
    changed,
    deployment,
    finding,
    findings,
    instance,
    on,
    verdict_of,
)

FAILING = STORIES["kv_transfer_failing"]
SLOTS_FULL = on("d0", {SignalId.RUNNING_TO_LIMIT: 1.0, SignalId.ADMISSION_QUEUE: 1.0})
POOL_FULL = on("d0", {SignalId.KV_FREE_REQUESTS: 0.9, SignalId.ADMISSION_QUEUE: 5.0})


@pytest.mark.parametrize(
    "figures",
    [
        CALM,
        changed(CALM, {SignalId.REQUESTS_PER_SECOND: 0.0}),
        changed(FAILING, on("p0", {SignalId.FAILURES_PER_SECOND: 0.05})),
        changed(FAILING, SLOTS_FULL),
        changed(FAILING, POOL_FULL),
    ],
    ids=[
        "no failure",
        "nothing ends",
        "one in a hundred",
        "deadlines before full slots",
        "deadlines before a full pool",
    ],
)
def test_silent(figures: Figures) -> None:
    """A few failures are no bottleneck, and deadlines that a full decode makes fail are decode's fault."""
    found = finding(RULE, figures, about="p0")
    assert found.truth is Truth.FALSE
    assert (found.culprits, found.remedies) == ((), ())


def test_silent_where_nothing_is_transferred() -> None:
    """A unified deployment has no transfer that could fail."""
    assert findings(RULE, FAILING, deployment(instance("p0", Role.UNIFIED))) == []


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {("p0", SignalId.FAILURES_PER_SECOND): 0.051},
        {("d0", SignalId.RUNNING_TO_LIMIT): 1.2},
        {("d0", SignalId.KV_FREE_REQUESTS): 0.0},
        {("d0", SignalId.ADMISSION_QUEUE): 50.0, ("d0", SignalId.KV_FREE_REQUESTS): 1.0},
        {SignalId.REQUESTS_PER_SECOND: 0.0},
        {SignalId.REQUESTS_PER_SECOND: None},
        {("d0", SignalId.RUNNING_TO_LIMIT): None, ("d0", SignalId.KV_FREE_REQUESTS): None},
        {("d0", SignalId.ADMISSION_QUEUE): None, ("d0", SignalId.RUNNING_TO_LIMIT): 1.2},
    ],
    ids=[
        "plain",
        "just enough",
        "full batch, nobody waits",
        "full pool, nobody waits",
        "queue, nothing full",
        "nothing finishes",
        "finishes unknown",
        "limits unknown",
        "queue unknown",
    ],
)
def test_holds(changes: Changes) -> None:
    """What would excuse the failures has to be seen: unknown limits do not."""
    assert finding(RULE, changed(FAILING, changes), about="p0").truth is Truth.TRUE


def test_one_decode_at_its_limit_excuses() -> None:
    """Any decode instance may be the one before which the requests ran out of time."""
    both = deployment(*(instance(n, r) for n, r in (("p0", Role.PREFILL), ("d0", Role.DECODE), ("d1", Role.DECODE))))
    assert finding(RULE, FAILING, both, about="p0").truth is Truth.TRUE
    second = on("d1", {SignalId.RUNNING_TO_LIMIT: 1.1, SignalId.ADMISSION_QUEUE: 9.0})
    assert finding(RULE, changed(FAILING, second), both, about="p0").truth is Truth.FALSE


def test_instances_are_judged_apart() -> None:
    """The culprit is the one that counts failures, on either side."""
    by_name = {f.scope.name: f.truth for f in findings(RULE, FAILING)}
    assert by_name == {"p0": Truth.TRUE, "d0": Truth.FALSE}
    other = changed(CALM, on("d0", {SignalId.FAILURES_PER_SECOND: 2.0}))
    assert [f.culprits for f in findings(RULE, other) if f.truth is Truth.TRUE] == [("d0",)]


def test_unknown_names_what_is_missing() -> None:
    """No failure counter, no answer."""
    found = finding(RULE, changed(FAILING, {("p0", SignalId.FAILURES_PER_SECOND): None}), about="p0")
    assert found.truth is Truth.UNKNOWN
    assert SignalId.FAILURES_PER_SECOND in found.missing


def test_threshold_is_configurable() -> None:
    """The share of failures among all that ends."""
    assert finding(RULE, FAILING, about="p0", thresholds={"share": 1 / 6}).truth is Truth.TRUE
    assert finding(RULE, FAILING, about="p0", thresholds={"share": 0.17}).truth is Truth.FALSE


def test_evidence_and_words() -> None:
    """The rate of failures beside the rate of finishes; counters are measured."""
    found = finding(RULE, FAILING, about="p0")
    assert "p0: 1/s beside 5 requests/s that finish" in found.headline
    assert found.decisive is Quality.MEASURED
    assert found.strength == pytest.approx(0.2)
    for served in (0.0, 0.9):
        assert finding(RULE, changed(FAILING, {SignalId.REQUESTS_PER_SECOND: served}), about="p0").strength == 1.0
    assert [r.id for r in found.remedies] == list(RULE.remedies)
    assert all(r.cost and r.precondition for r in found.remedies)


LATE = changed(
    STORIES["prefill_queue"],
    on("p0", {SignalId.PREFILL_WAIT: 290.0, SignalId.PREFILL_QUEUE: 1450.0}),
    on("d0", {SignalId.FAILURES_PER_SECOND: 0.5}),
)
"""Requests wait for prefill about as long as decode waits for them."""


def test_deadlines_before_prefill_stand_beside_its_queue() -> None:
    """The queue is the verdict; the failures are told, with their reason, and hold by themselves where it does not."""
    diagnosis = verdict_of(LATE).diagnosis
    assert diagnosis.verdict is Verdict.PREFILL_QUEUE
    told = next(f for f in diagnosis.findings if f.rule == RULE.id)
    assert told.truth is Truth.TRUE
    assert "they wait for prefill on p0 for 290 s, about as long as deadlines allow" in told.headline
    alone = verdict_of(changed(LATE, on("p0", {SignalId.KV_FREE_REQUESTS: 0.5}))).diagnosis
    assert alone.verdict is Verdict.KV_TRANSFER_FAILING


@pytest.mark.parametrize(
    "changes",
    [
        {SignalId.PREFILL_WAIT: 149.0},
        {SignalId.PREFILL_QUEUE: 0.9},
        {SignalId.PREFILL_WAIT: None},
        {SignalId.PREFILL_QUEUE: None},
    ],
    ids=["far from a deadline", "no queue", "wait unknown", "queue unknown"],
)
def test_what_is_no_excuse_of_prefill(changes: dict[SignalId, float | None]) -> None:
    """The wait has to be seen, and to be of the order of a deadline."""
    assert verdict_of(changed(LATE, on("p0", changes))).diagnosis.verdict is Verdict.KV_TRANSFER_FAILING


def test_the_order_of_a_deadline_is_configurable() -> None:
    """For engines with shorter ones."""
    failing = [f for f in findings(RULE, LATE) if f.truth is Truth.TRUE]
    assert [f.before for f in failing] == [Verdict.DECODE_HBM_BANDWIDTH]
    strict = [f for f in findings(RULE, LATE, thresholds={"deadline": 291.0}) if f.truth is Truth.TRUE]
    assert [f.before for f in strict] == [None]


# A stall without a counter of failures

STALLED: Figures = changed(
    CALM,
    {SignalId.TRANSFER_IN_FLIGHT: 6.0, SignalId.KV_ACHIEVED: 0.0},
    on("d0", {SignalId.GENERATION_RATE: 0.0, SignalId.AWAITED_KV: 6.0}),
)


def stall(figures: Figures, thresholds: dict[str, float] | None = None) -> Finding:
    """What the rule says of decode beside its counters."""
    counters, stalled = (f for f in findings(RULE, figures, thresholds=thresholds) if f.scope.name == "d0")
    assert counters.truth is not Truth.TRUE
    return stalled


def test_a_stall_needs_no_counter() -> None:
    """No token and no byte for a whole window while computed prompts wait and memory is free."""
    found = stall(STALLED)
    assert (found.truth, found.culprits, found.strength) == (Truth.TRUE, ("d0",), 1.0)
    assert "nothing for 60 s while the KV of 6 requests is awaited" in found.headline
    assert found.decisive is Quality.MEASURED


@pytest.mark.parametrize(
    "changes",
    [
        {("d0", SignalId.GENERATION_RATE): 0.1},
        {SignalId.KV_ACHIEVED: 1.0},
        {("d0", SignalId.AWAITED_KV): 0.9},
        {SignalId.TRANSFER_IN_FLIGHT: 0.9},
        {SignalId.OBSERVED: 19.9},
        {("d0", SignalId.KV_FREE_REQUESTS): 0.9},
    ],
    ids=["a token", "a byte", "nobody waits", "still computed", "a moment", "pool full"],
)
def test_what_is_no_stall(changes: Changes) -> None:
    """Each of its signs is needed."""
    assert stall(changed(STALLED, changes)).truth is Truth.FALSE


@pytest.mark.parametrize("finished", [0.0, None])
def test_few_requests_never_silence_a_stall(finished: float | None) -> None:
    """Nothing ends in a stall, so it is the verdict and not `idle`."""
    quiet = changed(STALLED, {SignalId.REQUESTS_FINISHED: finished, SignalId.REQUESTS_PER_SECOND: finished})
    assert verdict_of(quiet).diagnosis.verdict is Verdict.KV_TRANSFER_FAILING


def test_memory_that_nobody_tells_excuses_no_stall() -> None:
    """It has to be seen to be full."""
    assert stall(changed(STALLED, {("d0", SignalId.KV_FREE_REQUESTS): None})).truth is Truth.TRUE


@pytest.mark.parametrize("lacking", [("d0", SignalId.AWAITED_KV), SignalId.KV_ACHIEVED, SignalId.TRANSFER_IN_FLIGHT])
def test_without_one_of_its_signs_the_counters_decide(lacking: Place) -> None:
    """Not everything that is silent has stalled."""
    assert stall(changed(STALLED, {lacking: None})).truth is Truth.FALSE


def test_how_long_is_configurable() -> None:
    """For links on which one transfer takes long."""
    assert stall(STALLED, {"stall": 61.0}).truth is Truth.FALSE
