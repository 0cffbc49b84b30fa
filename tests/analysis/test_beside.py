"""What stands beside the bottleneck: leases, recomputed prompts, awaited KV, pages, and how targets answer."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pdscope.analysis.beside import Reach, put_beside
from pdscope.analysis.board import Board
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, Signal, SignalId, SignalSet, instance_scope
from pdscope.model.topology import Deployment, Role
from pdscope.model.window import Window
from support.windows import SCRAPES, SPAN_SECONDS, Column, deployment, instance, observed, ramp, rising, window

ROUTED = deployment(*(instance(n, r) for n, r in (("p0", Role.PREFILL), ("d0", Role.DECODE), ("r0", Role.ROUTER))))


def signals(
    windows: Mapping[str, Window], of: Deployment = ROUTED, reach: Mapping[str, Reach] | None = None
) -> SignalSet:
    board = Board(of.name)
    put_beside(board, observed(of, windows), reach or {})
    return board.finish()


def one(name: str, signal: SignalId, columns: Mapping[Metric, Column], lazy: tuple[Metric, ...] = ()) -> Signal | None:
    """The signal of an instance whose page has these series."""
    return signals({name: window(columns, target=name, lazy=lazy)}).get(signal, instance_scope(name))


# How targets answer


@pytest.mark.parametrize("name", ["p0", "d0", "r0"])
def test_reach_of_every_role(name: str) -> None:
    """Failures in a row, whether anything answers, and what its page costs."""
    found = signals({}, reach={name: Reach(3, answers=True, cost_ratio=0.05)})
    where = instance_scope(name)
    assert found.value(SignalId.SILENT_SCRAPES, where) == 3.0
    assert found.value(SignalId.ANSWERS, where) == 1.0
    assert found.value(SignalId.SCRAPE_COST, where) == 0.05
    assert {s.scope for s in found} == {where}


@pytest.mark.parametrize(
    ("reach", "words"),
    [
        (Reach(1, answers=False), "nothing answers"),
        (Reach(1, answers=True), "something answers, but not with metrics"),
        (Reach(0, answers=True), "it answers with metrics"),
    ],
)
def test_the_source_says_what_the_last_answer_was(reach: Reach, words: str) -> None:
    """Nothing at all, something without metrics, or metrics; an unknown cost is absent."""
    found = signals({}, reach={"d0": reach})
    told = found.get(SignalId.ANSWERS, instance_scope("d0"))
    assert told is not None
    assert (told.value, told.source) == (float(bool(reach.answers)), f"last scrape of d0: {words}")
    assert told.quality is Quality.MEASURED
    assert found.get(SignalId.SCRAPE_COST, instance_scope("d0")) is None


def test_a_recording_knows_the_silence_and_not_its_manner() -> None:
    """Derived from pages that are not there."""
    found = signals({}, reach={"d0": Reach(8, answers=None)})
    (silent,) = found
    assert (silent.id, silent.value, silent.quality) == (SignalId.SILENT_SCRAPES, 8.0, Quality.DERIVED)
    assert "recording" in silent.source


def test_what_is_not_asked_has_no_reach() -> None:
    """A recording, or a target that was not tried yet."""
    assert len(signals({})) == 0


# Leases


@pytest.mark.parametrize(
    ("signal", "metric"),
    [(SignalId.LEASES_EXPIRED, Metric.KV_EXPIRED), (SignalId.LATE_KV_READS, Metric.LATE_KV_READS)],
)
def test_lease_counters_become_rates(signal: SignalId, metric: Metric) -> None:
    """On either role; a counter that stands still is 0, one that is absent is unknown."""
    for name in ("p0", "d0"):
        found = one(name, signal, {metric: rising(0.2)})
        assert found is not None
        assert found.value == pytest.approx(0.2)
        assert found.quality is Quality.MEASURED
    still = one("p0", signal, {metric: 7.0})
    assert still is not None
    assert still.value == 0.0
    assert one("p0", signal, {}) is None
    assert one("r0", signal, {metric: rising(0.2)}) is None


# Pages


def test_page_as_the_engine_states_it() -> None:
    """It wins over the configuration."""
    of = deployment(instance("p0", Role.PREFILL), instance("d0", Role.DECODE, page_tokens=32))
    for name in ("p0", "d0"):
        found = signals({name: window({Metric.PAGE_TOKENS: 64.0}, target=name)}, of)
        page = found.get(SignalId.PAGE_TOKENS, instance_scope(name))
        assert page is not None
        assert (page.value, page.quality) == (64.0, Quality.MEASURED)


def test_page_as_configured_stands_in() -> None:
    """Assumed, and with its origin; where nobody says it is unknown."""
    found = signals({}, deployment(instance("p0", Role.PREFILL), instance("d0", Role.DECODE, page_tokens=32)))
    page = found.get(SignalId.PAGE_TOKENS, instance_scope("d0"))
    assert page is not None
    assert (page.value, page.quality) == (32.0, Quality.ASSUMED)
    assert "configuration" in page.source
    assert found.get(SignalId.PAGE_TOKENS, instance_scope("p0")) is None


# Recomputed prompts


@pytest.mark.parametrize(("computed", "prompts", "share"), [(30.0, 100.0, 0.3), (0.0, 100.0, 0.0), (150.0, 100.0, 1.0)])
def test_recomputed_share_of_prompt_tokens(computed: float, prompts: float, share: float) -> None:
    """Counters that are read at different moments make no more than the whole."""
    columns = {Metric.PREFILL_COMPUTED_TOKENS: rising(computed), Metric.PROMPT_TOKENS: rising(prompts)}
    found = one("d0", SignalId.RECOMPUTED_SHARE, columns)
    assert found is not None
    assert found.value == pytest.approx(share)


def test_a_counter_that_has_not_begun_is_none_recomputed() -> None:
    """A lazy series before its first event."""
    found = one(
        "d0",
        SignalId.RECOMPUTED_SHARE,
        {Metric.PROMPT_TOKENS: rising(100.0)},
        lazy=(Metric.PREFILL_COMPUTED_TOKENS,),
    )
    assert found is not None
    assert found.value == 0.0


@pytest.mark.parametrize(
    "columns",
    [
        {Metric.PROMPT_TOKENS: rising(100.0)},
        {Metric.PREFILL_COMPUTED_TOKENS: rising(30.0)},
        {Metric.PREFILL_COMPUTED_TOKENS: 5.0, Metric.PROMPT_TOKENS: 9.0},
    ],
    ids=["source unknown", "prompts unknown", "no prompt"],
)
def test_without_prompt_tokens_there_is_no_share(columns: Mapping[Metric, Column]) -> None:
    """Of nothing nothing was recomputed."""
    assert one("d0", SignalId.RECOMPUTED_SHARE, columns) is None


def test_prefill_recomputes_nothing() -> None:
    """It is there to compute."""
    columns = {Metric.PREFILL_COMPUTED_TOKENS: rising(30.0), Metric.PROMPT_TOKENS: rising(100.0)}
    assert one("p0", SignalId.RECOMPUTED_SHARE, columns) is None


# Awaited KV


@pytest.mark.parametrize("metric", [Metric.DECODE_TRANSFER_QUEUE, Metric.KV_FETCH_ACTIVE])
def test_awaited_kv_is_what_stands_through_the_newer_half(metric: Metric) -> None:
    """A burst in the older half does not count, and one at the end not either."""
    found = one("d0", SignalId.AWAITED_KV, {metric: ramp(1.0)})
    assert found is not None
    assert found.value == SCRAPES // 2
    burst = one("d0", SignalId.AWAITED_KV, {metric: [0.0] * (SCRAPES - 1) + [9.0]})
    assert burst is not None
    assert burst.value == 0.0


def test_a_sleeping_engine_awaits_nothing_that_is_known() -> None:
    """Its gauges froze at the last batch."""
    frozen: dict[Metric, Column] = {Metric.DECODE_TRANSFER_QUEUE: 5.0, Metric.IDLE: rising(1.0)}
    assert one("d0", SignalId.AWAITED_KV, frozen) is None
    assert one("d0", SignalId.AWAITED_KV, frozen | {Metric.IDLE: rising(0.5)}) is not None


def test_prefill_awaits_no_kv() -> None:
    """Its page has the gauge all the same."""
    assert one("p0", SignalId.AWAITED_KV, {Metric.DECODE_TRANSFER_QUEUE: 5.0}) is None


def test_the_window_of_these_tests_is_a_minute() -> None:
    """Rates above are per second of it."""
    assert SPAN_SECONDS == 60.0
