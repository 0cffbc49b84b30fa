"""`decode_admission`: no slot, or no memory for the next request; never KV that is only on its way."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.decode_admission import RULE
from pdscope.model.finding import Truth
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Role
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
    on,
)

SLOTS = STORIES["decode_admission"]
MEMORY = changed(
    SLOTS,
    on(
        "d0",
        {
            SignalId.RUNNING: 90.0,
            SignalId.RUNNING_TO_LIMIT: 0.4,
            SignalId.KV_USAGE: 0.99,
            SignalId.KV_USAGE_NET: 0.96,
            SignalId.KV_FREE_REQUESTS: 0.8,
        },
    ),
)
RESERVED = changed(SLOTS, on("d0", {SignalId.RUNNING: 128.0, SignalId.RUNNING_TO_LIMIT: 0.5, SignalId.KV_USAGE: 0.62}))
ARRIVING = on("d0", {SignalId.KV_USAGE: 0.9, SignalId.KV_USAGE_NET: 0.3, SignalId.RUNNING_TO_LIMIT: 0.02})
"""What fills the pool is KV that slow transfers are still bringing."""


def test_a_queue_that_comes_and_goes() -> None:
    """It counts where it is most of a TTFT that is over, and the sentence does not claim that it stands."""
    found = finding(RULE, changed(SLOTS, on("d0", {SignalId.ADMISSION_QUEUE: 0.0, SignalId.ADMISSION_TTFT_SHARE: 0.5})))
    assert found.truth is Truth.TRUE
    assert found.headline.startswith("requests, in a queue that comes and goes, wait in front of d0")


@pytest.mark.parametrize("held_up", [SLOTS, MEMORY, RESERVED], ids=["slots", "memory", "reserve"])
@pytest.mark.parametrize(
    "changes",
    [
        {SignalId.ADMISSION_QUEUE: 0.9, SignalId.ADMISSION_TTFT_SHARE: 0.49},
        {SignalId.ADMISSION_TTFT_SHARE: 0.19},
        {SignalId.KV_RECEIVED_SHARE: 0.0},
    ],
    ids=["no standing queue", "short wait", "nothing is handed over"],
)
def test_silent(held_up: Figures, changes: dict[SignalId, float | Figure | None]) -> None:
    """A full decode at which nobody waits is well used, not a bottleneck."""
    found = finding(RULE, changed(held_up, on("d0", changes)))
    assert found.truth is Truth.FALSE
    assert (found.culprits, found.remedies) == ((), ())


@pytest.mark.parametrize("queue", [Figure(33.0), estimated(33.0)], ids=["told apart", "not told apart"])
def test_kv_in_flight_is_the_fault_of_the_link(queue: Figure) -> None:
    """Gross usage leaves no room, net usage does: not admission, whether or not the engine tells its queues apart."""
    figures = changed(SLOTS, ARRIVING, on("d0", {SignalId.ADMISSION_QUEUE: queue}))
    assert finding(RULE, figures).truth is Truth.FALSE
    unlimited = changed(figures, on("d0", {SignalId.RUNNING_TO_LIMIT: None}))
    assert finding(RULE, unlimited).truth is not Truth.TRUE


def test_limits_of_kv_in_flight() -> None:
    """Exactly at both thresholds it is what fills the pool."""
    thresholds = {"crowded": 0.75, "in_flight": 0.25}
    for gross, net, truth in ((0.75, 0.5, Truth.FALSE), (0.74, 0.4, Truth.TRUE), (0.75, 0.51, Truth.TRUE)):
        figures = changed(RESERVED, on("d0", {SignalId.KV_USAGE: gross, SignalId.KV_USAGE_NET: net}))
        assert finding(RULE, figures, thresholds=thresholds).truth is truth


CRAWLING: Figures = {SignalId.MOVING_SHARE: derived(0.01), SignalId.TRANSFER_TTFT_SHARE: 0.9}
"""Transfers that hardly move and are most of TTFT."""


@pytest.mark.parametrize(
    ("changes", "truth"),
    [
        ({}, Truth.FALSE),
        ({SignalId.MOVING_SHARE: derived(0.049), SignalId.TRANSFER_TTFT_SHARE: 0.5}, Truth.FALSE),
        ({SignalId.MOVING_SHARE: derived(0.05)}, Truth.TRUE),
        ({SignalId.TRANSFER_TTFT_SHARE: 0.49}, Truth.TRUE),
        ({SignalId.MOVING_SHARE: None}, Truth.TRUE),
        ({SignalId.TRANSFER_TTFT_SHARE: None}, Truth.TRUE),
    ],
    ids=["story", "at the limits", "it moves", "a part of TTFT", "speed unknown", "time unknown"],
)
def test_transfers_that_crawl_hold_the_rest_up(changes: Changes, truth: Truth) -> None:
    """Memory that decode reserves for them is free again when they are over: a queue before it is their fault."""
    assert finding(RULE, changed(RESERVED, CRAWLING, changes)).truth is truth


@pytest.mark.parametrize("held_up", [SLOTS, MEMORY], ids=["slots", "memory"])
def test_a_limit_that_is_reached_counts_beside_a_crawl(held_up: Figures) -> None:
    """Slots and net usage hold no transfers."""
    assert finding(RULE, changed(held_up, CRAWLING)).truth is Truth.TRUE


def test_a_full_batch_holds_requests_whatever_fills_the_pool() -> None:
    """Slots are slots."""
    assert finding(RULE, changed(SLOTS, ARRIVING, on("d0", {SignalId.RUNNING_TO_LIMIT: 1.0}))).truth is Truth.TRUE


@pytest.mark.parametrize(
    "figures",
    [
        SLOTS,
        changed(SLOTS, on("d0", {SignalId.ADMISSION_QUEUE: 1.0, SignalId.ADMISSION_TTFT_SHARE: 0.2})),
        changed(SLOTS, on("d0", {SignalId.ADMISSION_QUEUE: estimated(9.0), SignalId.RUNNING_TO_LIMIT: 1.0})),
        MEMORY,
        changed(MEMORY, on("d0", {SignalId.ADMISSION_QUEUE: estimated(9.0)})),
        changed(
            MEMORY,
            on("d0", {SignalId.ADMISSION_QUEUE: estimated(9.0)}),
            on("d0", {SignalId.KV_FREE_REQUESTS: None, SignalId.KV_USAGE_NET: 0.97}),
        ),
        RESERVED,
        changed(RESERVED, on("d0", {SignalId.KV_USAGE: None})),
        changed(RESERVED, on("d0", {SignalId.KV_USAGE_NET: None})),
        changed(SLOTS, on("d0", {SignalId.KV_RECEIVED_SHARE: None})),
    ],
    ids=[
        "slots",
        "at thresholds",
        "slots, estimate",
        "memory",
        "memory, estimate",
        "usage only",
        "reserve",
        "reserve, gross usage unknown",
        "reserve, net usage unknown",
        "no share",
    ],
)
def test_holds(figures: Figures) -> None:
    """Slots, memory, or an allocation queue that neither explains."""
    found = finding(RULE, figures)
    assert found.truth is Truth.TRUE
    assert found.culprits == ("d0",)


@pytest.mark.parametrize("signal", [SignalId.ADMISSION_QUEUE, SignalId.ADMISSION_TTFT_SHARE])
def test_unknown_names_what_is_missing(signal: SignalId) -> None:
    """Queue and wait are both needed."""
    found = finding(RULE, changed(SLOTS, on("d0", {signal: None})))
    assert found.truth is Truth.UNKNOWN
    assert signal in found.missing


def test_an_untold_queue_needs_an_explanation() -> None:
    """All that wait, transfers perhaps among them, with room on decode: nobody can tell."""
    room_for_one = {SignalId.ADMISSION_QUEUE: estimated(33.0), SignalId.KV_FREE_REQUESTS: 1.0}
    assert finding(RULE, changed(RESERVED, on("d0", room_for_one))).truth is Truth.UNKNOWN
    unlimited = changed(
        RESERVED, on("d0", {SignalId.ADMISSION_QUEUE: estimated(33.0), SignalId.RUNNING_TO_LIMIT: None})
    )
    assert SignalId.RUNNING_TO_LIMIT in finding(RULE, unlimited).missing


@pytest.mark.parametrize(
    ("threshold", "figures", "value", "truth"),
    [
        ("queue", changed(SLOTS, on("d0", {SignalId.ADMISSION_TTFT_SHARE: 0.4})), 34.0, Truth.FALSE),
        ("most", changed(SLOTS, on("d0", {SignalId.ADMISSION_QUEUE: 0.9})), 0.99, Truth.FALSE),
        ("ttft_share", SLOTS, 0.95, Truth.FALSE),
        ("free", changed(RESERVED, ARRIVING), 0.75, Truth.TRUE),
        ("crowded", changed(RESERVED, ARRIVING), 0.95, Truth.TRUE),
        ("in_flight", changed(RESERVED, ARRIVING), 0.65, Truth.TRUE),
        ("crawl", changed(RESERVED, CRAWLING), 0.01, Truth.TRUE),
        ("transfer_share", changed(RESERVED, CRAWLING), 0.95, Truth.TRUE),
    ],
)
def test_thresholds_are_configurable(threshold: str, figures: Figures, value: float, truth: Truth) -> None:
    """Each configured value turns the answer."""
    assert finding(RULE, figures).truth is ~truth
    assert finding(RULE, figures, thresholds={threshold: value}).truth is truth


def test_words_name_the_resource() -> None:
    """Wait, share of TTFT and the limit, with their numbers."""
    assert "33 requests wait in front of d0 for 6.5 s (90 % of TTFT)" in finding(RULE, SLOTS).headline
    assert "slot limit (256 running of 256, KV usage 25 % net)" in finding(RULE, SLOTS).headline
    assert "no room for the next request (usage 96 % net, 90 running)" in finding(RULE, MEMORY).headline
    assert "neither its slots (128 running) nor its KV pool (25 % net)" in finding(RULE, RESERVED).headline
    assert finding(RULE, SLOTS).strength == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("running", "limit", "ratio", "words"),
    [
        (5.62, 6.0, 1.124, "slot limit (5.62 running of 6, reached from 5 on, KV usage 25 % net)"),
        (27.1, 6.0, 1.0, "slot limit (its limit is 6 now, KV usage 25 % net)"),
    ],
    ids=["a slot is empty at times", "lowered within the window"],
)
def test_words_put_together_what_belongs_together(running: float, limit: float, ratio: float, words: str) -> None:
    """Nobody runs 27 requests of 6, and a share over 1 is explained."""
    figures = {SignalId.RUNNING: running, SignalId.MAX_RUNNING: limit, SignalId.RUNNING_TO_LIMIT: ratio}
    assert words in finding(RULE, changed(SLOTS, on("d0", figures))).headline


@pytest.mark.parametrize(
    ("figures", "quality"),
    [
        (SLOTS, Quality.MEASURED),
        (changed(SLOTS, on("d0", {SignalId.ADMISSION_TTFT_SHARE: derived(0.9)})), Quality.DERIVED),
        (changed(SLOTS, on("d0", {SignalId.RUNNING_TO_LIMIT: derived(1.0)})), Quality.MEASURED),
        (changed(SLOTS, on("d0", {SignalId.ADMISSION_QUEUE: derived(9.0)})), Quality.DERIVED),
        (
            changed(
                SLOTS,
                on(
                    "d0",
                    {SignalId.ADMISSION_QUEUE: derived(9.0), SignalId.RUNNING_TO_LIMIT: Figure(1.0, Quality.ASSUMED)},
                ),
            ),
            Quality.ASSUMED,
        ),
        (
            changed(MEMORY, on("d0", {SignalId.ADMISSION_QUEUE: derived(9.0), SignalId.KV_USAGE_NET: estimated(0.96)})),
            Quality.ESTIMATED,
        ),
    ],
)
def test_quality_is_that_of_the_decisive_evidence(figures: Figures, quality: Quality) -> None:
    """A queue told apart by the engine decides; another one needs the limit as well."""
    assert finding(RULE, figures).decisive is quality


def test_remedies_fit_the_resource() -> None:
    """Slots: more of them, unless ITL is over already. Memory: more of it. Reserve: less of it."""
    slots, memory, reserve = ([r.id for r in finding(RULE, f).remedies] for f in (SLOTS, MEMORY, RESERVED))
    assert slots == ["raise_running_limit", "add_decode", "shed_load"]
    assert memory[0] == "free_decode_memory"
    assert "raise_running_limit" not in memory
    assert reserve[0] == "reserve_fewer_tokens"
    slow = finding(RULE, changed(SLOTS, {SignalId.ITL_P50: 0.06}))
    assert "raise_running_limit" not in [r.id for r in slow.remedies]
    for figures in (SLOTS, MEMORY, RESERVED):
        assert all(r.cost and r.precondition for r in finding(RULE, figures).remedies)


def test_setting_is_spelt_by_the_engine_at_fault() -> None:
    """The remedy names the flag."""
    settings = {r.id: r.setting for r in finding(RULE, SLOTS).remedies}
    assert settings["raise_running_limit"] == "--max-running"
    assert settings["add_decode"] is None


def test_only_decode_is_judged() -> None:
    """One finding for each decode instance, none for prefill or unified ones."""
    members = (("p0", Role.PREFILL), ("u0", Role.UNIFIED), ("d0", Role.DECODE), ("d1", Role.DECODE))
    found = findings(RULE, CALM, deployment(*(instance(n, r) for n, r in members)))
    assert [f.scope.name for f in found] == ["d0", "d1"]
