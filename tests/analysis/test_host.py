"""What the host adds: waits in front of the engines, gaps behind them, steps outside graphs, idle devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from pdscope.analysis.board import Board
from pdscope.analysis.host import put_host
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, Signal, SignalId, SignalSet, instance_scope
from pdscope.model.topology import Deployment, Role, Routing
from pdscope.model.window import HistogramWindow, Window
from support.windows import (
    GATEWAY,
    INF,
    SCRAPES,
    SPAN_SECONDS,
    VLLM,
    Column,
    deployment,
    histogram,
    instance,
    observed,
    rising,
    window,
)

SECONDS = (0.01, 0.1, 1.0, 10.0, INF)
ROUTER = instance("r0", Role.ROUTER)
P0, D0, U0 = instance("p0", Role.PREFILL), instance("d0", Role.DECODE), instance("u0", Role.UNIFIED)
ROUTED = deployment(P0, D0, ROUTER)


def signals(of: Deployment, windows: Mapping[str, Window | Sequence[Window]]) -> SignalSet:
    board = Board(of.name)
    put_host(board, of, observed(of, windows))
    return board.finish()


def known(found: SignalSet, signal: SignalId, name: str | None = None) -> Signal:
    one = found.get(signal, None if name is None else instance_scope(name))
    assert one is not None, signal
    return one


def waits(mean: float, count: int = 100, metric: Metric = Metric.TTFT) -> dict[Metric, HistogramWindow]:
    return {metric: histogram(SECONDS, [mean] * count)}


def timed(**means: float | dict[Metric, HistogramWindow]) -> dict[str, Window]:
    """By instance: a mean TTFT, or whole histograms."""
    return {
        name: window({}, waits(mean) if isinstance(mean, float) else mean, target=name) for name, mean in means.items()
    }


# in front of the engines


def test_what_the_engines_do_not_explain() -> None:
    """Of 0.6 s at the router decode, which was asked at once with prefill, knows 0.36."""
    found = signals(ROUTED, timed(r0=0.6, d0=0.36))
    share = known(found, SignalId.FRONTEND_TTFT_SHARE)
    assert share.value == pytest.approx(0.4)
    assert share.quality is Quality.MEASURED
    assert known(found, SignalId.ENGINE_TTFT_MEAN).value == pytest.approx(0.36)
    assert "r0" in share.source
    assert "d0" in share.source


def test_engines_that_saw_longer_waits_leave_nothing() -> None:
    """Clocks of two programs: a share is not negative."""
    assert known(signals(ROUTED, timed(r0=0.5, d0=0.6)), SignalId.FRONTEND_TTFT_SHARE).value == 0.0


def test_legs_that_are_asked_in_turn_add_up() -> None:
    """Prefill's 0.5 s are no frontend's; the sum of two legs is an estimate."""
    of = deployment(instance("p0", Role.PREFILL, VLLM), instance("d0", Role.DECODE, VLLM), ROUTER)
    share = known(signals(of, timed(r0=1.0, p0=0.5, d0=0.2)), SignalId.FRONTEND_TTFT_SHARE)
    assert share.value == pytest.approx(0.3)
    assert share.quality is Quality.ESTIMATED
    assert signals(of, timed(r0=1.0, d0=0.2)).get(SignalId.FRONTEND_TTFT_SHARE) is None


def test_legs_that_nobody_knows_how_they_are_asked() -> None:
    """Decode's TTFT may or may not contain prefill: what is left may be prefill."""
    legs = (instance("p0", Role.PREFILL, GATEWAY), instance("d0", Role.DECODE, GATEWAY), ROUTER)
    found = signals(deployment(*legs), timed(r0=1.0, d0=0.2))
    assert found.get(SignalId.FRONTEND_TTFT_SHARE) is None
    assert found.get(SignalId.ENGINE_TTFT_MEAN) is None
    told = signals(deployment(*legs, routing=Routing.CONCURRENT), timed(r0=1.0, d0=0.2))
    assert known(told, SignalId.FRONTEND_TTFT_SHARE).value == pytest.approx(0.8)
    whole = deployment(instance("u0", Role.UNIFIED, GATEWAY), ROUTER)
    assert known(signals(whole, timed(r0=1.0, u0=0.2)), SignalId.FRONTEND_TTFT_SHARE).value == pytest.approx(0.8)


def test_a_frontend_that_knows_prefills_answer() -> None:
    """It asks prefill first, so that is taken off as well; a slow prefill is no slow frontend."""
    slow = {**waits(2.1), **waits(1.9, metric=Metric.PREFILL_STAGE_TIME)}
    share = known(signals(ROUTED, timed(r0=slow, d0=0.18)), SignalId.FRONTEND_TTFT_SHARE)
    assert share.value == pytest.approx(0.02 / 2.1)
    assert "answer of prefill" in share.source
    own = {**waits(2.1), **waits(0.2, metric=Metric.PREFILL_STAGE_TIME)}
    assert known(signals(ROUTED, timed(r0=own, d0=0.18)), SignalId.FRONTEND_TTFT_SHARE).value == pytest.approx(
        1 - 0.38 / 2.1
    )


@pytest.mark.parametrize(
    ("at_router", "at_engine", "same"),
    [(100, 100, True), (100, 75, True), (75, 100, True), (100, 71, False), (71, 100, False), (3, 1, True)],
)
def test_only_the_same_requests_are_compared(at_router: int, at_engine: int, same: bool) -> None:
    """A router may serve other engines too, and an engine have other clients; counts tell, but for a few."""
    found = signals(ROUTED, timed(r0=waits(0.6, at_router), d0=waits(0.3, at_engine)))
    assert (found.get(SignalId.FRONTEND_TTFT_SHARE) is not None) is same


@pytest.mark.parametrize(
    "windows", [{}, timed(d0=0.3), timed(r0=0.3), timed(r0=waits(0.3, 0), d0=0.2)], ids=["", "d0", "r0", "no request"]
)
def test_one_view_is_no_difference(windows: dict[str, Window]) -> None:
    """Without a router, without engines, or with traffic that passes the router by."""
    assert signals(ROUTED, windows).get(SignalId.FRONTEND_TTFT_SHARE) is None


# inside of an instance, outside of its scheduler

STAGES = (
    Metric.DECODE_PREPARE_TIME,
    Metric.DECODE_BOOTSTRAP_TIME,
    Metric.DECODE_TRANSFERRED_TIME,
    Metric.DECODE_WAITING_TIME,
)


def unstaged(
    of: Deployment, name: str, means: Mapping[Metric, float], user_ttft: float | None = 2.0
) -> tuple[float | None, float | None]:
    """Seconds of an instance's TTFT that its stages leave, and their share of what users wait."""
    filled = {metric: histogram(SECONDS, [mean] * 100) for metric, mean in means.items()}
    board = Board(of.name)
    board.put(SignalId.TTFT_MEAN, user_ttft, Quality.MEASURED, "test")
    put_host(board, of, observed(of, {name: window({}, filled, target=name)}))
    found, scope = board.finish(), instance_scope(name)
    return found.value(SignalId.UNSTAGED_TTFT, scope), found.value(SignalId.UNSTAGED_TTFT_SHARE, scope)


def test_what_decodes_stages_leave() -> None:
    """SGLang: of 1.6 s the four stages know 1.1; its queue time is one of them and does not count again."""
    means = dict(zip(STAGES, (0.01, 0.09, 0.8, 0.2), strict=True))
    others = {Metric.TTFT: 1.6, Metric.QUEUE_TIME: 0.2, Metric.PREFILL_TIME: 9.0}
    seconds, share = unstaged(ROUTED, "d0", {**others, **means})
    assert seconds == pytest.approx(0.5)
    assert share == pytest.approx(0.25)


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage is not Metric.DECODE_TRANSFERRED_TIME])
def test_a_stage_that_never_was_took_no_time(stage: Metric) -> None:
    """The one in which KV comes is what tells that there are stages."""
    means = {one: 0.2 for one in STAGES if one is not stage}
    assert unstaged(ROUTED, "d0", {Metric.TTFT: 1.6, **means})[0] == pytest.approx(1.0)


@pytest.mark.parametrize(("name", "role"), [("p0", Role.PREFILL), ("d0", Role.DECODE), ("u0", Role.UNIFIED)])
def test_what_queue_and_prefill_leave(name: str, role: Role) -> None:
    """An engine that times its queue and its prefill has no other stages before the first token."""
    of = deployment(instance(name, role, VLLM))
    seconds, share = unstaged(of, name, {Metric.TTFT: 1.6, Metric.QUEUE_TIME: 0.3, Metric.PREFILL_TIME: 0.5})
    assert seconds == pytest.approx(0.8)
    assert share == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ({Metric.TTFT: 0.7, Metric.QUEUE_TIME: 0.3, Metric.PREFILL_TIME: 0.5}, (0.0, 0.0)),
        ({Metric.TTFT: 9.0, Metric.QUEUE_TIME: 0.3, Metric.PREFILL_TIME: 0.5}, (8.2, 1.0)),
    ],
    ids=["means that cross", "a longer wait than users have"],
)
def test_limits_of_what_is_left(means: dict[Metric, float], expected: tuple[float, float]) -> None:
    """Neither negative nor more than all."""
    assert unstaged(deployment(U0), "u0", means) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("means", "user_ttft"),
    [
        ({Metric.QUEUE_TIME: 0.3, Metric.PREFILL_TIME: 0.5}, 2.0),
        ({Metric.TTFT: 1.6, Metric.PREFILL_TIME: 0.5}, 2.0),
        ({Metric.TTFT: 1.6, Metric.QUEUE_TIME: 0.3}, 2.0),
        ({Metric.TTFT: 1.6}, 2.0),
        ({Metric.TTFT: 1.6, Metric.QUEUE_TIME: 0.3, Metric.PREFILL_TIME: 0.5}, None),
        ({}, 2.0),
    ],
    ids=["no TTFT", "no queue", "no prefill", "no stage", "nobody knows what users wait", "nothing"],
)
def test_nothing_is_left_of_what_is_not_timed(means: dict[Metric, float], user_ttft: float | None) -> None:
    """Time of a stage that nobody measures is not outside of the stages."""
    assert unstaged(deployment(U0), "u0", means, user_ttft) == (None, None)


def test_a_router_has_no_stages() -> None:
    """What it leaves is said by its TTFT against that of the engines."""
    means = {Metric.TTFT: 1.6, Metric.QUEUE_TIME: 0.3, Metric.PREFILL_TIME: 0.5}
    assert unstaged(ROUTED, "r0", means) == (None, None)


def test_what_is_left_is_derived_and_says_of_what() -> None:
    """A difference of means, with both of them in its source."""
    board = Board("pd")
    board.put(SignalId.TTFT_MEAN, 2.0, Quality.MEASURED, "test")
    means = {Metric.TTFT: 1.6, Metric.QUEUE_TIME: 0.3, Metric.PREFILL_TIME: 0.5}
    filled = {metric: histogram(SECONDS, [mean] * 100) for metric, mean in means.items()}
    of = deployment(U0)
    put_host(board, of, observed(of, {"u0": window({}, filled, target="u0")}))
    for signal in (SignalId.UNSTAGED_TTFT, SignalId.UNSTAGED_TTFT_SHARE):
        one = known(board.finish(), signal, "u0")
        assert one.quality is Quality.DERIVED
        assert "mean TTFT of u0, 1.6 s, less its 2 stages, 0.8 s" in one.source


# behind the engines


def decoding(
    gap: float, count: int, running: Column = 10.0, *, target: str = "d0", **more: Column
) -> dict[str, Window]:
    """`count` observations of a gap in 60 s, ten running requests; further metrics by name."""
    columns = {Metric.RUNNING: running, **{Metric[name]: column for name, column in more.items()}}
    return {target: window(columns, waits(gap, count, Metric.ITL), target=target)}


DEPLOYED = deployment()
# ten requests for a minute are 600 s; a step of 50 ms makes 12,000 tokens of them


def quotient(windows: dict[str, Window]) -> float | None:
    return signals(DEPLOYED, windows).value(SignalId.ITL_TO_STEP, instance_scope("d0"))


def test_users_see_what_the_engine_makes() -> None:
    """12,000 tokens 50 ms apart are all the time of ten requests."""
    found = known(signals(DEPLOYED, decoding(0.05, 12_000)), SignalId.ITL_TO_STEP, "d0")
    assert found.value == pytest.approx(1.0)
    assert found.quality is Quality.DERIVED


def test_a_slow_detokenizer_stretches_the_gaps() -> None:
    """The same tokens 230 ms apart."""
    assert quotient(decoding(0.23, 12_000)) == pytest.approx(4.6)


@pytest.mark.parametrize("tokens", [2, 3, 8])
def test_events_of_several_tokens_do_not(tokens: int) -> None:
    """With speculation, or a stream interval, there are fewer and longer gaps, and as much time."""
    assert quotient(decoding(0.05 * tokens, 12_000 // tokens)) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("gap", "cpu", "there"),
    [
        (0.20, {}, False),
        (0.1975, {}, False),  # 3.95
        (0.194, {}, True),  # 3.88
        (0.05, {}, True),  # one is no interval
        (0.20, {"DETOKENIZER_CPU": rising(0.4), "TOKENIZER_CPU": rising(0.89)}, False),
        (0.20, {"DETOKENIZER_CPU": rising(0.4), "TOKENIZER_CPU": rising(0.9)}, True),
    ],
)
def test_a_whole_number_is_a_stream_interval(gap: float, cpu: dict[str, Column], there: bool) -> None:
    """Events that count once for each of their tokens, unless a process is at its limit."""
    assert (quotient(decoding(gap, 12_000, **cpu)) is not None) is there


def test_a_whole_number_that_does_not_last_is_none() -> None:
    """6 in the older half and 2 in the newer are 4 by accident."""
    batch = np.where(
        np.arange(SCRAPES) < SCRAPES // 2, 20 / 3, np.where(np.arange(SCRAPES) > SCRAPES // 2, 20.0, 40 / 3)
    )
    windows = decoding(0.2, round(4 * float(batch.mean()) * SPAN_SECONDS / 0.2), batch)
    assert quotient(windows) == pytest.approx(4.0, rel=0.01)


def test_a_stream_interval_that_the_engine_shows_is_no_frontend() -> None:
    """Its time between events is 4 times its time per token, while running requests were counted 12 % too low."""
    windows = decoding(0.2, 12_000, running=45.0)
    assert quotient(windows) is not None
    events = waits(0.2, 12_000, Metric.ITL)
    shown, slow = (
        {"d0": window({Metric.RUNNING: 45.0}, events | waits(token, 60, Metric.TPOT))} for token in (0.05, 0.2)
    )
    assert quotient(shown) is None
    assert quotient(slow) == quotient(windows)


@pytest.mark.parametrize("running", [3.9, 0.0])
def test_few_requests_are_not_counted_well_enough(running: float) -> None:
    """Between two scrapes there may have been twice as many."""
    assert quotient(decoding(0.23, 12_000, running)) is None


@pytest.mark.parametrize(
    "windows",
    [
        {},
        decoding(0.23, 0),
        {"d0": window({}, waits(0.23, 9, Metric.ITL))},
        {"d0": window({Metric.RUNNING: 9.0})},
        decoding(0.23, 12_000, IDLE=rising(0.96)),
    ],
    ids=["nothing", "no token", "no batch", "no histogram", "asleep with frozen gauges"],
)
def test_no_quotient_without_both(windows: dict[str, Window]) -> None:
    """Unknown, never 1."""
    assert quotient(windows) is None


def test_the_busiest_process() -> None:
    """Each is one thread, so the larger share counts; one of them is enough, and prefill has them too."""
    cpu = {Metric.TOKENIZER_CPU: rising(0.2), Metric.DETOKENIZER_CPU: rising(0.95)}
    found = signals(DEPLOYED, {"d0": window(cpu), "p0": window({Metric.TOKENIZER_CPU: rising(0.3)}, target="p0")})
    assert known(found, SignalId.FRONTEND_CPU, "d0").value == pytest.approx(0.95)
    assert "detokenizer" in known(found, SignalId.FRONTEND_CPU, "d0").source
    assert known(found, SignalId.FRONTEND_CPU, "p0").value == pytest.approx(0.3)
    assert signals(DEPLOYED, {"d0": window({})}).get(SignalId.FRONTEND_CPU, instance_scope("d0")) is None


# graphs


@pytest.mark.parametrize(
    ("inside", "outside", "missed"),
    [(30.0, 0.0, 0.0), (0.0, 30.0, 1.0), (15.0, 5.0, 0.25), (0.5, 0.34, 0.34 / 0.84), (0.5, 0.33, None), (0, 0, None)],
)
def test_steps_outside_graphs(inside: float, outside: float, missed: float | None) -> None:
    """By all decode steps, of which it takes some: fifty in the window."""
    windows = {"d0": window({Metric.GRAPH_STEPS: rising(inside), Metric.EAGER_STEPS: rising(outside)})}
    value = signals(DEPLOYED, windows).value(SignalId.GRAPH_MISS, instance_scope("d0"))
    assert value == (None if missed is None else pytest.approx(missed))


def test_a_mode_that_never_was_counts_zero() -> None:
    """Its series appears with the first step; without that promise it is unknown."""
    columns = {Metric.GRAPH_STEPS: rising(30.0)}
    lazy = {"d0": window(columns, lazy=[Metric.GRAPH_STEPS, Metric.EAGER_STEPS])}
    assert known(signals(DEPLOYED, lazy), SignalId.GRAPH_MISS, "d0").value == 0.0
    assert signals(DEPLOYED, {"d0": window(columns)}).get(SignalId.GRAPH_MISS, instance_scope("d0")) is None


def test_prefill_has_no_decode_steps() -> None:
    """Whatever its page holds."""
    columns = {Metric.GRAPH_STEPS: rising(9), Metric.EAGER_STEPS: rising(9), Metric.DECODE_BUSY: rising(0.5)}
    found = signals(DEPLOYED, {"p0": window({**columns, Metric.RUNNING: 9.0}, waits(0.2, 900, Metric.ITL))})
    assert not list(found)


# devices


def busy(**columns: Column) -> float | None:
    windows = {"u0": window({Metric[name]: column for name, column in columns.items()}, target="u0")}
    return signals(deployment(U0), windows).value(SignalId.DECODE_BUSY, instance_scope("u0"))


def test_time_in_decode_steps() -> None:
    """A share of the time in which there was work, where the engine tells."""
    assert busy(DECODE_BUSY=rising(0.55)) == pytest.approx(0.55)
    assert busy(DECODE_BUSY=rising(0.45), IDLE=rising(0.5)) == pytest.approx(0.9)


def test_time_in_decode_steps_that_says_nothing() -> None:
    """None without the timer or asleep; nor with speculation, whose steps count as something else."""
    assert busy() is None
    assert busy(DECODE_BUSY=rising(0.03), IDLE=rising(0.96)) is None
    assert busy(DECODE_BUSY=rising(0.0)) is None
    assert busy(DECODE_BUSY=rising(0.09)) is None
    assert busy(DECODE_BUSY=rising(0.11)) == pytest.approx(0.11)
