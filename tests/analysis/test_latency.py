"""What the user waits, by who measured it and how the legs are driven."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from pdscope.analysis.board import Board
from pdscope.analysis.latency import put_latency
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, Signal, SignalId, SignalSet, instance_scope
from pdscope.model.topology import Deployment, EngineProfile, Instance, Role, Routing, Slo
from pdscope.model.window import HistogramWindow, Window
from support.windows import INF, NOW, SGLANG, VLLM, Column, deployment, histogram, instance, observed, window

FINE = (*(n / 20 for n in range(1, 201)), INF)
ITL_BOUNDS = (0.002, 0.01, 0.02, 0.04, 0.06, 0.1, INF)

SEQUENTIAL = (instance("p0", Role.PREFILL, VLLM), instance("d0", Role.DECODE, VLLM))
CONCURRENT = (instance("p0", Role.PREFILL, SGLANG), instance("d0", Role.DECODE, SGLANG))
ROUTER = instance("r0", Role.ROUTER)


def signals(of: Deployment, histograms: Mapping[str, Mapping[Metric, HistogramWindow]], end: float = NOW) -> SignalSet:
    board = Board(of.name)
    windows: dict[str, Window | Sequence[Window]] = {
        name: window(histograms=found, target=name, end=end) for name, found in histograms.items()
    }
    put_latency(board, of, observed(of, windows))
    return board.finish()


def ttft(*observations: float, bounds: Sequence[float] = FINE) -> dict[Metric, HistogramWindow]:
    return {Metric.TTFT: histogram(bounds, observations, history=[0.1, 9.0])}


def itl(*observations: float, bounds: Sequence[float] = ITL_BOUNDS) -> dict[Metric, HistogramWindow]:
    return {Metric.ITL: histogram(bounds, observations, history=[0.001] * 50)}


def known(found: SignalSet, signal: SignalId) -> Signal:
    one = found.get(signal)
    assert one is not None, signal
    return one


# TTFT


def test_the_router_saw_everything() -> None:
    """Whatever the engines say, and however the router drives them."""
    for engines in (SEQUENTIAL, CONCURRENT):
        found = signals(deployment(*engines, ROUTER), {"p0": ttft(0.5), "d0": ttft(0.7), "r0": ttft(*[3.01] * 8)})
        p50 = known(found, SignalId.TTFT_P50)
        assert p50.value == pytest.approx(3.025)
        assert (p50.quality, p50.samples) == (Quality.MEASURED, 8)
        assert "r0" in p50.source
        assert known(found, SignalId.TTFT_MEAN).value == pytest.approx(3.01)


def test_a_router_that_saw_nobody_is_not_asked() -> None:
    """Traffic may pass it by."""
    found = signals(deployment(*CONCURRENT, ROUTER), {"d0": ttft(0.71, 0.71), "r0": ttft()})
    assert known(found, SignalId.TTFT_P50).value == pytest.approx(0.725)


def test_asked_at_once_decode_contains_prefill() -> None:
    """Its TTFT is the user's; nothing is added."""
    found = signals(deployment(*CONCURRENT), {"p0": ttft(*[0.5] * 4), "d0": ttft(*[0.71] * 4)})
    p50 = known(found, SignalId.TTFT_P50)
    assert p50.value == pytest.approx(0.725)
    assert p50.quality is Quality.MEASURED
    assert known(found, SignalId.TTFT_MEAN).value == pytest.approx(0.71)


def test_asked_in_turn_both_legs_add_up() -> None:
    """As independent waits: an estimate, with the sum of the means beside it."""
    found = signals(deployment(*SEQUENTIAL), {"p0": ttft(*[0.51] * 4), "d0": ttft(*[0.71] * 4)})
    p50 = known(found, SignalId.TTFT_P50)
    assert p50.value == pytest.approx(1.22, abs=0.05)
    assert p50.quality is Quality.ESTIMATED
    assert "p0" in p50.source
    assert "d0" in p50.source
    mean = known(found, SignalId.TTFT_MEAN)
    assert mean.value == pytest.approx(1.22)
    assert mean.quality is Quality.DERIVED


def test_legs_in_turn_are_convolved() -> None:
    """Against every pair of raw observations."""
    source = np.random.default_rng(11)
    first, second = source.gamma(2.0, 0.4, 400), source.exponential(0.5, 400)
    found = signals(deployment(*SEQUENTIAL), {"p0": ttft(*first), "d0": ttft(*second)})
    sums = np.add.outer(first, second).ravel()
    for signal, q in ((SignalId.TTFT_P50, 0.5), (SignalId.TTFT_P95, 0.95), (SignalId.TTFT_P99, 0.99)):
        one = known(found, signal)
        truth = float(np.quantile(sums, q))
        assert one.value == pytest.approx(truth, abs=0.05)
        assert one.bounds is not None
        assert one.bounds[0] <= truth <= one.bounds[1]


def test_a_prefill_leg_that_only_some_pass() -> None:
    """A quarter went through prefill; the others waited for decode alone."""
    found = signals(deployment(*SEQUENTIAL), {"p0": ttft(*[3.01] * 5), "d0": ttft(*[0.51] * 20)})
    assert known(found, SignalId.TTFT_P50).value == pytest.approx(0.525, abs=0.05)
    assert known(found, SignalId.TTFT_P95).value == pytest.approx(3.55, abs=0.1)
    assert known(found, SignalId.TTFT_MEAN).value == pytest.approx(0.51 + 3.01 / 4)


def test_half_of_a_sum_is_not_an_estimate_of_it() -> None:
    """In turn, decode's half alone would look twice as good as it is."""
    found = signals(deployment(*SEQUENTIAL), {"d0": ttft(0.7)})
    assert found.get(SignalId.TTFT_P50) is None
    assert found.get(SignalId.TTFT_MEAN) is None


def test_a_leg_without_a_sum_leaves_the_mean_unknown() -> None:
    """The quantiles need no sum."""
    first = histogram(FINE, [0.51] * 4)
    blind = HistogramWindow(first.bounds, first.cumulative, np.full_like(first.sums, np.nan))
    found = signals(deployment(*SEQUENTIAL), {"p0": {Metric.TTFT: blind}, "d0": ttft(*[0.71] * 4)})
    assert found.get(SignalId.TTFT_MEAN) is None
    assert known(found, SignalId.TTFT_P50).value == pytest.approx(1.22, abs=0.05)


def test_prefill_alone_is_not_what_the_user_waits() -> None:
    """Without decode's histogram nothing is known."""
    for engines in (SEQUENTIAL, CONCURRENT):
        assert signals(deployment(*engines), {"p0": ttft(0.5)}).get(SignalId.TTFT_P50) is None


@pytest.mark.parametrize(
    ("routing", "engine", "expected"),
    [
        (Routing.SEQUENTIAL, SGLANG, 1.22),
        (Routing.CONCURRENT, VLLM, 0.72),
        (None, SGLANG, 0.72),
        (None, VLLM, 1.22),
    ],
)
def test_the_configured_routing_wins(routing: Routing | None, engine: EngineProfile, expected: float) -> None:
    """Over what the engine usually does."""
    both = (instance("p0", Role.PREFILL, engine), instance("d0", Role.DECODE, engine))
    found = signals(deployment(*both, routing=routing), {"p0": ttft(*[0.51] * 4), "d0": ttft(*[0.71] * 4)})
    assert known(found, SignalId.TTFT_P50).value == pytest.approx(expected, abs=0.05)


def test_a_routers_way_of_driving_wins_over_the_engines() -> None:
    """It is the router that drives."""
    at_once = deployment(*SEQUENTIAL, instance("r0", Role.ROUTER, SGLANG))
    found = signals(at_once, {"p0": ttft(*[0.51] * 4), "d0": ttft(*[0.71] * 4)})
    assert known(found, SignalId.TTFT_P50).value == pytest.approx(0.72, abs=0.05)


def test_a_unified_engine_waits_once() -> None:
    """There is no second leg."""
    found = signals(deployment(instance("u0", Role.UNIFIED, VLLM)), {"u0": ttft(*[0.71] * 4)})
    assert known(found, SignalId.TTFT_P50).value == pytest.approx(0.72, abs=0.05)


def test_several_instances_are_one_population() -> None:
    """The quick one with many requests outweighs the slow one with few."""
    both = deployment(*CONCURRENT, instance("d1", Role.DECODE))
    found = signals(both, {"d0": ttft(*[0.21] * 90), "d1": ttft(*[5.01] * 10)})
    assert known(found, SignalId.TTFT_P50).value == pytest.approx(0.22, abs=0.03)
    assert known(found, SignalId.TTFT_P95).value == pytest.approx(5.02, abs=0.03)
    assert known(found, SignalId.TTFT_P50).samples == 100


def test_nobody_was_served() -> None:
    """No latency, rather than the best one."""
    found = signals(deployment(*CONCURRENT, slo=Slo(ttft_p50_seconds=1.0)), {"d0": ttft() | itl()})
    assert len(found) == 0


def test_the_age_is_that_of_the_page() -> None:
    """How long ago the newest page came."""
    found = signals(deployment(*CONCURRENT), {"d0": ttft(0.7)}, end=NOW - 12)
    assert known(found, SignalId.TTFT_P50).age_seconds == 12.0


def test_more_passed_prefill_than_decode_has_answered() -> None:
    """At a moment: no more than all of decode's requests have passed it."""
    found = signals(deployment(*SEQUENTIAL), {"p0": ttft(*[0.51] * 8), "d0": ttft(*[0.71] * 4)})
    assert known(found, SignalId.TTFT_MEAN).value == pytest.approx(1.22)
    assert known(found, SignalId.TTFT_P50).value == pytest.approx(1.22, abs=0.05)


def test_a_prefill_that_nobody_passes() -> None:
    """Decode's own wait is all there is."""
    found = signals(deployment(*SEQUENTIAL), {"p0": ttft(), "d0": ttft(*[0.71] * 4)})
    assert known(found, SignalId.TTFT_MEAN).value == pytest.approx(0.71)
    assert known(found, SignalId.TTFT_P50).value == pytest.approx(0.72, abs=0.05)


@pytest.mark.parametrize(("members", "seconds"), [((*SEQUENTIAL, ROUTER), 3.01), (SEQUENTIAL, 1.22)])
def test_a_single_request_is_enough(members: tuple[Instance, ...], seconds: float) -> None:
    """Rules ask for more of them; the figure is what it is."""
    of = deployment(*members, slo=Slo(ttft_p50_seconds=2.0))
    one = {"p0": ttft(0.51), "d0": ttft(0.71)} | ({"r0": ttft(3.01)} if ROUTER in members else {})
    found = signals(of, one)
    assert known(found, SignalId.TTFT_MEAN).value == pytest.approx(seconds)
    assert known(found, SignalId.TTFT_P50).samples == 1
    assert known(found, SignalId.TTFT_ATTAINMENT).value == float(seconds < 2.0)


@pytest.mark.parametrize("older", ["p0", "d0", "d1"])
def test_as_old_as_the_oldest_page(older: str) -> None:
    """Of either leg, of any instance."""
    of = deployment(*SEQUENTIAL, instance("d1", Role.DECODE, VLLM))
    board = Board(of.name)
    pages = {name: window(histograms=ttft(0.5), end=NOW - 9 * (name == older)) for name in ("p0", "d0", "d1")}
    put_latency(board, of, observed(of, pages))
    assert known(board.finish(), SignalId.TTFT_P50).age_seconds == 9.0


@pytest.mark.parametrize(("count", "names"), [(4, "d0, d1, d2, d3 over"), (6, "d0, d1, d2, d3 ... over")])
def test_the_source_names_the_instances(count: int, names: str) -> None:
    """The first of many."""
    of = deployment(*(instance(f"d{number}", Role.DECODE) for number in range(count)))
    found = signals(of, {one.name: ttft(0.5) for one in of.instances})
    assert known(found, SignalId.TTFT_P50).source == f"TTFT histogram of {names} 60 s"


# ITL


def test_itl_is_decodes_alone() -> None:
    """Prefill's time per output token is full of zeros: it makes one token a request."""
    for engines in (SEQUENTIAL, CONCURRENT):
        zeros = itl(*[0.0] * 500)
        found = signals(deployment(*engines), {"p0": zeros, "d0": itl(*[0.05] * 20)})
        assert known(found, SignalId.ITL_P50).bounds == (0.04, 0.06)
        assert known(found, SignalId.ITL_P50).samples == 20
        assert known(found, SignalId.ITL_MEAN).value == pytest.approx(0.05)
        alone = signals(deployment(*engines), {"p0": zeros})
        assert alone.get(SignalId.ITL_P50) is None
        assert alone.get(SignalId.ITL_MEAN) is None


def test_tails_of_itl() -> None:
    """p95 and p99 of all tokens."""
    found = signals(deployment(*CONCURRENT), {"d0": itl(*[0.015] * 94, *[0.05] * 4, *[0.09] * 2)})
    bounds = [known(found, s).bounds for s in (SignalId.ITL_P50, SignalId.ITL_P95, SignalId.ITL_P99)]
    assert bounds == [(0.01, 0.02), (0.04, 0.06), (0.06, 0.1)]


def test_a_frontends_itl_stands_in() -> None:
    """Where the engines export none; it is not quite the same."""
    of = deployment(*CONCURRENT, ROUTER)
    found = signals(of, {"r0": itl(*[0.015] * 4)})
    assert known(found, SignalId.ITL_P50).quality is Quality.DERIVED
    both = signals(of, {"r0": itl(*[0.015] * 4), "d0": itl(*[0.05] * 4)})
    assert known(both, SignalId.ITL_P50).bounds == (0.04, 0.06)
    assert known(both, SignalId.ITL_P50).quality is Quality.MEASURED


def test_a_unified_engines_itl() -> None:
    """It decodes too."""
    found = signals(deployment(instance("u0", Role.UNIFIED)), {"u0": itl(*[0.05] * 4)})
    assert known(found, SignalId.ITL_P50).bounds == (0.04, 0.06)


# objectives


def test_an_objective_inside_a_bucket() -> None:
    """All observations lie between 40 and 60 ms: whether the median keeps 50 ms is hidden, and the bounds say so."""
    of = deployment(*CONCURRENT, slo=Slo(itl_p50_seconds=0.05))
    found = signals(of, {"d0": itl(*[0.041] * 40)})
    p50 = known(found, SignalId.ITL_P50)
    assert p50.value == pytest.approx(0.05)
    assert p50.bounds == (0.04, 0.06)
    assert known(found, SignalId.ITL_ATTAINMENT).value == pytest.approx(0.5)


def tpot(*observations: float) -> dict[Metric, HistogramWindow]:
    return {Metric.TPOT: histogram(ITL_BOUNDS, observations)}


def test_a_stream_interval_leaves_the_time_per_token() -> None:
    """Four tokens every 80 ms are one every 20; every figure of ITL says so."""
    of = deployment(*CONCURRENT, slo=Slo(itl_p50_seconds=0.04))
    found = signals(of, {"d0": ttft(0.5) | itl(*[0.08] * 400) | tpot(*([0.018] * 9 + [0.038]) * 10)})
    p50, mean = known(found, SignalId.ITL_P50), known(found, SignalId.ITL_MEAN)
    assert (p50.bounds, p50.samples) == ((0.01, 0.02), 100)
    assert known(found, SignalId.ITL_P95).bounds == (0.02, 0.04)
    assert mean.value == pytest.approx(0.02)
    assert p50.quality is mean.quality is Quality.DERIVED
    assert p50.source.startswith("stream interval of 4 on d0: TPOT histogram of d0")
    assert known(found, SignalId.ITL_ATTAINMENT).value == 1.0


def test_without_a_stream_interval_itl_stands() -> None:
    """A time per token that is no whole part of it is that of other requests."""
    found = signals(deployment(*CONCURRENT), {"d0": itl(*[0.05] * 400) | tpot(*[0.02] * 100)})
    assert known(found, SignalId.ITL_MEAN).value == pytest.approx(0.05)
    assert known(found, SignalId.ITL_P50).quality is Quality.MEASURED


def test_one_time_for_all_instances() -> None:
    """Events of one and tokens of the other are no population: time per token of both, or time between events."""
    two = (*CONCURRENT, instance("d1", Role.DECODE, SGLANG))
    events, tokens = itl(*[0.08] * 400) | tpot(*[0.02] * 100), itl(*[0.03] * 400)
    found = signals(deployment(*two), {"d0": events, "d1": tokens | tpot(*[0.03] * 100)})
    assert known(found, SignalId.ITL_MEAN).value == pytest.approx(0.025)
    assert "stream interval of 4 on d0" in known(found, SignalId.ITL_P50).source
    found = signals(deployment(*two), {"d0": events, "d1": tokens})
    assert known(found, SignalId.ITL_MEAN).value == pytest.approx(0.055)
    assert "stream interval" not in known(found, SignalId.ITL_P50).source


def test_the_share_within_the_objective() -> None:
    """Three of four requests within two seconds."""
    of = deployment(*CONCURRENT, slo=Slo(ttft_p50_seconds=2.0, itl_p50_seconds=0.02))
    found = signals(of, {"d0": ttft(0.5, 1.0, 1.5, 7.0) | itl(*[0.005] * 9, 0.05)})
    assert known(found, SignalId.TTFT_ATTAINMENT).value == 0.75
    assert known(found, SignalId.ITL_ATTAINMENT).value == 0.9


def test_the_share_of_two_legs_in_turn() -> None:
    """Of the sums: half a second and a second keep two, three seconds do not."""
    of = deployment(*SEQUENTIAL, slo=Slo(ttft_p50_seconds=2.0))
    found = signals(of, {"p0": ttft(*[0.51] * 8), "d0": ttft(*[1.01] * 6, *[3.01] * 2)})
    share = known(found, SignalId.TTFT_ATTAINMENT)
    assert share.value == pytest.approx(0.75)
    assert share.quality is Quality.ESTIMATED


def test_no_objective_no_share() -> None:
    """Nothing was promised."""
    found = signals(deployment(*CONCURRENT), {"d0": ttft(0.5) | itl(0.02)})
    assert found.get(SignalId.TTFT_ATTAINMENT) is None
    assert found.get(SignalId.ITL_ATTAINMENT) is None


def test_beyond_the_last_bucket() -> None:
    """The last bound, as a lower bound."""
    found = signals(deployment(*CONCURRENT), {"d0": ttft(*[99.0] * 4, bounds=(1.0, 5.0, INF))})
    p50 = known(found, SignalId.TTFT_P50)
    assert (p50.value, p50.bounds, p50.quality) == (5.0, None, Quality.ESTIMATED)
    assert known(found, SignalId.TTFT_MEAN).value == pytest.approx(99.0)


# what contradicts itself


def lying(metric: Metric, mean: float) -> dict[Metric, HistogramWindow]:
    """All of a thousand observations in the first bucket, and a sum that says otherwise."""
    honest = histogram(ITL_BOUNDS, [ITL_BOUNDS[0] / 2] * 1000)
    return {metric: HistogramWindow(honest.bounds, honest.cumulative, mean * honest.cumulative[:, -1])}


@pytest.mark.parametrize("metric", [Metric.TTFT, Metric.ITL])
def test_buckets_that_cannot_hold_their_sum_give_no_quantile(metric: Metric) -> None:
    """The mean is known, the instance is named, and its population has no quantile."""
    two = (*CONCURRENT, instance("d1", Role.DECODE, SGLANG))
    good = {metric: histogram(ITL_BOUNDS, [0.02] * 400)}
    found = signals(deployment(*two), {"d0": lying(metric, 0.4), "d1": good})
    for name in ("P50", "P95", "P99"):
        assert found.get(SignalId[f"{metric.name}_{name}"]) is None
    assert known(found, SignalId[f"{metric.name}_MEAN"]).value == pytest.approx((400 + 8) / 1400)
    outside = SignalId[f"{metric.name}_OUTSIDE"]
    told = found.get(outside, instance_scope("d0"))
    assert told is not None
    assert told.value == pytest.approx(0.4 / ITL_BOUNDS[0])
    assert "sum by count is 400 ms, and its buckets allow a mean of 0 ms to" in told.source
    assert found.get(outside, instance_scope("d1")) is None


@pytest.mark.parametrize(
    ("beside", "running", "untimed"),
    [
        (itl(*[0.02] * 40), 46.0, 46.0),
        (itl(*[0.02] * 40), [0.0, *[46.0] * 12], None),
        ({}, 46.0, None),
    ],
    ids=["runs all the time", "ran empty", "nobody is timed"],
)
def test_requests_whose_tokens_nobody_times(
    beside: dict[Metric, HistogramWindow], running: Column, untimed: float | None
) -> None:
    """An instance that runs requests and times none of their tokens is not spoken for by the others."""
    of = deployment(*CONCURRENT, instance("d1", Role.DECODE, SGLANG))
    board = Board(of.name)
    pages = {"d0": window(histograms=beside), "d1": window({Metric.RUNNING: running})}
    put_latency(board, of, observed(of, pages))
    assert board.value(SignalId.UNTIMED) == untimed
