"""Histograms over a window: increase, quantiles, shares, merging, sums of two waits."""

from __future__ import annotations

import math
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import assume, example, given
from hypothesis import strategies as st

from pdscope.analysis.histograms import Distribution, Quantile, merge, sum_of_waits, window_distribution
from support.windows import INF, NAN, SPAN_SECONDS, counts, distribution, histogram, times

BOUNDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, INF)
QUANTILES = (0.0, 0.01, 0.5, 0.9, 0.95, 0.99, 1.0)

bucket_bounds = st.lists(st.integers(1, 400), min_size=1, max_size=12, unique=True).map(
    lambda ends: (*(end / 8 for end in sorted(ends)), INF)
)
quantiles = st.sampled_from(QUANTILES) | st.floats(0.001, 1.0)
waits = st.lists(st.floats(0.0, 60.0), min_size=1, max_size=60)


def of_counts(bounds: Sequence[float], held: Sequence[float]) -> Distribution:
    """A distribution whose sum of values does not matter."""
    return Distribution(tuple(bounds), np.array(held, dtype=np.float64), NAN, SPAN_SECONDS)


@st.composite
def distributions(draw: st.DrawFn) -> Distribution:
    bounds = draw(bucket_bounds)
    held = draw(st.lists(st.integers(0, 50), min_size=len(bounds), max_size=len(bounds)).filter(any))
    return of_counts(bounds, held)


def promql_quantile(q: float, bounds: Sequence[float], held: Sequence[float]) -> float:
    """`histogram_quantile` as Prometheus computes it (promql/quantile.go, bucketQuantile), for 0 < q <= 1."""
    cumulative = np.cumsum(held)
    rank = q * cumulative[-1]
    bucket = next((i for i in range(len(bounds) - 1) if cumulative[i] >= rank), len(bounds) - 1)
    if bucket == len(bounds) - 1:
        return bounds[-2]
    if bucket == 0:
        return float(bounds[0] * (rank / cumulative[0]))
    start, before = bounds[bucket - 1], cumulative[bucket - 1]
    return float(start + (bounds[bucket] - start) * ((rank - before) / (cumulative[bucket] - before)))


def true_quantile(values: Sequence[float], q: float) -> float:
    """The value of which a share `q` is not larger: no interpolation between observations."""
    return sorted(values)[max(0, math.ceil(q * len(values)) - 1)]


# increase


def gained(
    rows: Sequence[Sequence[float]], sums: Sequence[float] | None = None, *, lazy: bool = False
) -> Distribution | None:
    bounds = (1.0, 2.0, INF)
    values = np.array(rows, dtype=np.float64).reshape(len(rows), 3)
    totals = np.array(sums if sums is not None else [NAN] * len(rows), dtype=np.float64)
    return window_distribution(times(len(rows)), bounds, values, totals, lazy=lazy)


def held(found: Distribution | None) -> list[float]:
    assert found is not None
    return [float(count) for count in found.counts]


def test_buckets_hold_what_the_window_brought() -> None:
    """Not what was there before it."""
    found = gained([(10, 20, 30), (11, 24, 36)], [100.0, 113.0])
    assert held(found) == [1, 3, 2]
    assert found is not None
    assert (found.total, found.count, found.seconds) == (13.0, 6.0, 5.0)
    assert found.mean == pytest.approx(13 / 6)


@pytest.mark.parametrize("rows", [[(1, 2, 3)], [(NAN, NAN, NAN), (1, 2, 3)], [(NAN, NAN, NAN)] * 2])
def test_one_point_is_no_increase(rows: list[tuple[float, float, float]]) -> None:
    """Unless absence is known to mean empty."""
    assert gained(rows) is None


def test_a_restart_begins_empty() -> None:
    """What the buckets hold after it was observed since; so with the sum."""
    found = gained([(10, 20, 30), (10, 20, 31), (1, 1, 2), (2, 3, 5)], [50.0, 53.0, 4.0, 9.0])
    assert held(found) == [2, 1, 3]
    assert found is not None
    assert found.total == 3.0 + 4.0 + 5.0


def test_a_restart_shows_in_the_count_alone() -> None:
    """Buckets that were empty before it have nothing to fall from."""
    assert held(gained([(0, 0, 30), (0, 4, 5)])) == [0, 4, 1]


def test_a_lazy_histogram_is_empty_before_its_first_observation() -> None:
    """The series appears with the first request, which must not be lost."""
    nothing = (NAN, NAN, NAN)
    found = gained([nothing, nothing, (1, 1, 2), (1, 2, 3)], [NAN, NAN, 5.0, 6.0], lazy=True)
    assert held(found) == [1, 1, 1]
    assert found is not None
    assert (found.total, found.seconds) == (6.0, 15.0)
    assert held(gained([nothing, nothing], lazy=True)) == [0, 0, 0]


def test_gaps_are_bridged() -> None:
    """Buckets keep what was observed while nobody looked."""
    assert held(gained([(1, 2, 3), (NAN, NAN, NAN), (2, 4, 7)])) == [1, 1, 2]


def test_workers_behind_one_address() -> None:
    """No distribution can be had from several processes in turn."""
    assert gained([(400, 500, 600), (10, 20, 30), (401, 502, 604), (11, 22, 33)]) is None


def test_a_bucket_that_is_no_number_leaves_its_row_out() -> None:
    """Half a row is no observation."""
    assert held(gained([(1, 2, 3), (1, NAN, 9), (1, INF, 9), (2, 4, 7)])) == [1, 1, 2]


@pytest.mark.parametrize("broken", [NAN, INF, -INF])
def test_a_sum_that_is_no_number_costs_the_mean_only(broken: float) -> None:
    """The buckets are good."""
    found = gained([(1, 2, 3), (2, 4, 7)], [broken, 9.0])
    assert held(found) == [1, 1, 2]
    assert found is not None
    assert found.mean is None


def test_a_torn_page_adds_no_observations() -> None:
    """A bucket that was rendered before its neighbour moved is raised to it, as PromQL does."""
    assert held(gained([(0, 0, 0), (5, 4, 10)])) == [5, 0, 5]
    assert held(gained([(5, 5, 5), (4, 6, 8)])) == [0, 1, 2]


def test_the_window_itself_is_left_alone() -> None:
    """Windows are shared."""
    rows = np.array([[NAN, NAN], [1.0, 2.0]])
    window_distribution(times(2), (1.0, INF), rows, np.array([NAN, 3.0]), lazy=True)
    np.testing.assert_array_equal(rows, [[NAN, NAN], [1.0, 2.0]])


@given(waits, waits)
def test_history_does_not_matter(history: list[float], observations: list[float]) -> None:
    """A window's distribution is that of its own observations."""
    h = histogram(BOUNDS, observations, history=history)
    found = window_distribution(times(), h.bounds, h.cumulative, h.sums, lazy=False)
    assert found is not None
    assert found.counts.tolist() == counts(BOUNDS, observations).tolist()
    assert found.total == pytest.approx(sum(observations), abs=1e-9)


@given(st.lists(waits, min_size=2, max_size=6), st.lists(st.booleans(), min_size=6, max_size=6))
def test_restarts_lose_nothing_that_a_scrape_saw(batches: list[list[float]], restarts: list[bool]) -> None:
    """Observations between a restart and the next scrape count, once; or the page is not believed at all."""
    rows, sums = [counts(BOUNDS, [1.0] * 500).cumsum()], [500.0]
    expected = np.zeros(len(BOUNDS))
    for batch, restart in zip(batches, restarts, strict=False):
        new = counts(BOUNDS, batch)
        assume(not restart or len(batch) < rows[-1][-1])
        rows.append(new.cumsum() + (0.0 if restart else rows[-1]))
        sums.append(sum(batch) + (0.0 if restart else sums[-1]))
        expected += new
    found = window_distribution(times(len(rows)), BOUNDS, np.array(rows), np.array(sums), lazy=False)
    assert found is None or found.counts.tolist() == expected.tolist()


# quantiles


def test_linear_inside_the_bucket() -> None:
    """Half of the way to the observation wanted is half of the way through the bucket."""
    assert of_counts((1.0, 2.0, INF), [0, 10, 0]).quantile(0.5) == Quantile(1.5, 1.0, 2.0)
    assert of_counts((1.0, 2.0, 4.0, INF), [5, 0, 5, 0]).quantile(0.75) == Quantile(3.0, 2.0, 4.0)


def test_the_first_bucket_begins_at_zero() -> None:
    """Times and lengths are not negative."""
    assert of_counts((4.0, INF), [10, 0]).quantile(0.25) == Quantile(1.0, 0.0, 4.0)


def test_a_first_bucket_of_zero() -> None:
    """Observations of zero lie at zero."""
    assert of_counts((0.0, 1.0, INF), [10, 0, 0]).quantile(0.5) == Quantile(0.0, 0.0, 0.0)


def test_the_overflow_bucket_has_no_upper_bound() -> None:
    """The last finite bound, as PromQL; the bounds say that it may be any more."""
    assert of_counts((1.0, 5.0, INF), [1, 1, 8]).quantile(0.5) == Quantile(5.0, 5.0, INF)


def test_no_observation_no_quantile() -> None:
    """None, not zero and not the first bound."""
    empty = of_counts(BOUNDS, [0] * len(BOUNDS))
    assert empty.quantile(0.5) is None
    assert empty.share_within(1.0) is None
    assert empty.mean is None


def test_a_lone_overflow_bucket_tells_nothing() -> None:
    """A histogram without finite bounds counts; zero seconds would be a lie. Its mean is known all the same."""
    blind = Distribution((INF,), np.array([8.0]), 16.0, SPAN_SECONDS)
    assert blind.quantile(0.5) is None
    assert blind.share_within(1.0) is None
    assert blind.mean == 2.0


@given(distributions(), quantiles.filter(lambda q: q > 0))
def test_equals_promql(part: Distribution, q: float) -> None:
    """Bucket for bucket."""
    found = part.quantile(q)
    assert found is not None
    assert found.value == pytest.approx(promql_quantile(q, part.bounds, part.counts.tolist()), rel=1e-12, abs=1e-12)


@pytest.mark.promtool
def test_equals_what_prometheus_says(promtool: str, tmp_path: Path) -> None:
    """Its own rule tester evaluates `histogram_quantile` over the same buckets."""
    source = random.Random(20)
    series, checks = [], []
    for case in range(30):
        bounds = (*sorted(source.sample([n / 8 for n in range(1, 60)], source.randint(1, 8))), INF)
        part = of_counts(bounds, [source.choice([0, 0, 1, 7, 40]) for _ in bounds[:-1]] + [source.choice([0, 1, 9])])
        for bound, count in zip(bounds, np.cumsum(part.counts), strict=True):
            le = "+Inf" if math.isinf(bound) else str(bound)
            series.append({"series": f'h_bucket{{case="{case}",le="{le}"}}', "values": str(int(count))})
        for q in (0.01, 0.5, 0.95, 1.0):
            found = part.quantile(q)
            difference = f'abs(histogram_quantile({q}, h_bucket{{case="{case}"}})'
            # without observations Prometheus says NaN, which differs from everything
            expression = f"{difference} - {found.value!r}) < bool 1e-9" if found else f"{difference}) >= bool 0"
            expected = {"labels": f'{{case="{case}"}}', "value": 1 if found else 0}
            checks.append({"expr": expression, "eval_time": "0m", "exp_samples": [expected]})
    tests = {"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": checks}]}
    file = tmp_path / "quantiles.yml"
    file.write_text(yaml.safe_dump(tests), encoding="utf-8")
    run = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


@given(distributions(), quantiles)
def test_bounds_contain_the_value(part: Distribution, q: float) -> None:
    """They are edges of one bucket."""
    found = part.quantile(q)
    assert found is not None
    assert found.low <= found.value <= found.high
    assert found.high in part.bounds


@given(waits, bucket_bounds, quantiles.filter(lambda q: q > 0))
def test_bounds_contain_the_truth(observations: list[float], bounds: tuple[float, ...], q: float) -> None:
    """The observation at that rank lies in the bucket, whatever interpolation makes of it."""
    found = distribution(bounds, observations).quantile(q)
    assert found is not None
    truth = true_quantile(observations, q)
    # rounding of q * n may choose the neighbour of a rank that falls on a bucket's edge
    assume(not math.isclose(q * len(observations) % 1.0, 0.0, abs_tol=1e-9) or q in (0.5, 1.0))
    assert found.low <= truth <= found.high


@given(distributions(), quantiles, quantiles)
def test_higher_quantiles_are_not_smaller(part: Distribution, one: float, other: float) -> None:
    """p95 is at least p50."""
    low, high = (part.quantile(q) for q in sorted((one, other)))
    assert low is not None
    assert high is not None
    assert low.value <= high.value


# shares


def test_share_within_a_limit() -> None:
    """Whole buckets below it, and a part of the one that it cuts."""
    part = of_counts((1.0, 2.0, INF), [4, 4, 2])
    assert part.share_within(0.0) == 0.0
    assert part.share_within(0.5) == 0.2
    assert part.share_within(1.0) == 0.4
    assert part.share_within(1.25) == 0.5
    assert part.share_within(2.0) == 0.8


def test_the_overflow_bucket_is_above_any_limit() -> None:
    """Nobody knows how far."""
    assert of_counts((1.0, 2.0, INF), [4, 4, 2]).share_within(1e9) == 0.8


@given(distributions(), st.floats(0.01, 1.0))
def test_share_and_quantile_say_the_same(part: Distribution, q: float) -> None:
    """The share within a quantile is its rank, outside the overflow bucket."""
    found = part.quantile(q)
    assert found is not None
    assume(math.isfinite(found.high))
    assert part.share_within(found.value) == pytest.approx(q, abs=1e-9)


@given(waits, bucket_bounds, st.floats(0.0, 80.0))
def test_a_share_is_between_those_of_the_buckets_edges(
    observations: list[float], bounds: tuple[float, ...], limit: float
) -> None:
    """The true share is known to within one bucket."""
    part = distribution(bounds, observations)
    found = part.share_within(limit)
    assert found is not None
    below = max((b for b in bounds if b <= limit), default=0.0)
    above = min((b for b in bounds if b > limit), default=INF)
    low = sum(o <= below for o in observations if below) / len(observations)
    high = sum(o <= above for o in observations) / len(observations)
    assert low - 1e-12 <= found <= high + 1e-12


# merging


@given(st.lists(waits, min_size=1, max_size=4), bucket_bounds, quantiles)
def test_merging_is_pooling(populations: list[list[float]], bounds: tuple[float, ...], q: float) -> None:
    """As if one instance had observed everything."""
    merged = merge([distribution(bounds, observations) for observations in populations])
    pooled = distribution(bounds, [value for observations in populations for value in observations])
    assert merged is not None
    assert merged.bounds == pooled.bounds
    assert merged.counts.tolist() == pooled.counts.tolist()
    assert merged.total == pytest.approx(pooled.total)
    assert merged.quantile(q) == pooled.quantile(q)


@given(waits, waits, bucket_bounds, bucket_bounds, st.sampled_from([0.5, 1.0]))
def test_different_buckets_lose_resolution_but_no_truth(
    first: list[float], second: list[float], some: tuple[float, ...], others: tuple[float, ...], q: float
) -> None:
    """What is left are the bounds that both have, and the pooled observation lies between them."""
    merged = merge([distribution(some, first), distribution(others, second)])
    shared = tuple(sorted(set(some) & set(others)))
    if len(shared) == 1:
        assert merged is None
        return
    assert merged is not None
    assert merged.bounds == shared
    assert merged.counts.tolist() == counts(shared, [*first, *second]).tolist()
    found = merged.quantile(q)
    assert found is not None
    assert found.low <= true_quantile([*first, *second], q) <= found.high


def test_percentiles_are_not_averaged() -> None:
    """Nine quick requests here and one slow there have a p50 that is quick and a p95 that is slow."""
    merged = merge([distribution(BOUNDS, [0.015] * 9), distribution(BOUNDS, [4.0])])
    assert merged is not None
    usual, slow = merged.quantile(0.5), merged.quantile(0.95)
    assert usual is not None
    assert slow is not None
    assert (usual.low, usual.high) == (0.01, 0.02)
    assert (slow.low, slow.high) == (2.0, 5.0)


def test_empty_parts_do_not_take_bounds_away() -> None:
    """An instance that served nobody says nothing about anybody's buckets."""
    merged = merge([distribution((7.0, INF), []), distribution(BOUNDS, [0.3])])
    assert merged is not None
    assert merged.bounds == BOUNDS


def test_what_a_lone_overflow_bucket_knows_survives() -> None:
    """Count and mean need no buckets."""
    alone = merge([Distribution((INF,), np.array([1.0]), 2.5, SPAN_SECONDS)])
    assert alone is not None
    assert (alone.count, alone.mean) == (1.0, 2.5)


def test_merging_nothing() -> None:
    """No instance is unknown; instances that served nobody are known to be empty."""
    assert merge([]) is None
    empty = merge([distribution(BOUNDS, []), distribution(BOUNDS, [])])
    assert empty is not None
    assert empty.count == 0


def test_a_window_that_is_shorter() -> None:
    """The merged population belongs to the longest."""
    merged = merge([distribution(BOUNDS, [0.3], seconds=20.0), distribution(BOUNDS, [0.3], seconds=60.0)])
    assert merged is not None
    assert merged.seconds == 60.0


# two waits in a row


FINE = (*(n / 50 for n in range(1, 201)), INF)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.85, 1.0])
@pytest.mark.parametrize("q", [0.5, 0.95, 0.99])
def test_two_waits_against_brute_force(share: float, q: float) -> None:
    """Raw observations drawn and added up one by one have the same quantile, to within a bucket of each leg."""
    source = np.random.default_rng(7)
    first = source.gamma(3.0, 0.12, 4000)
    second = source.exponential(0.3, 4000)
    drawn = source.choice(second, 200_000) + np.where(
        source.random(200_000) < share, source.choice(first, 200_000), 0.0
    )
    cloud = sum_of_waits(distribution(FINE, first.tolist()), distribution(FINE, second.tolist()), share)
    assert cloud is not None
    truth = float(np.quantile(drawn, q))
    found = cloud.quantile(q)
    assert found.value == pytest.approx(truth, abs=0.02)
    assert found.low <= truth <= found.high
    assert cloud.share_within(truth) == pytest.approx(q, abs=0.01)


def test_two_waits_in_coarse_buckets() -> None:
    """Bounds tell how little is known: one to two seconds and again is two to four."""
    leg = of_counts((1.0, 2.0, INF), [0, 5, 0])
    cloud = sum_of_waits(leg, leg)
    assert cloud is not None
    assert (cloud.quantile(0.5).low, cloud.quantile(0.5).high) == (2.0, 4.0)
    assert 2.0 < cloud.quantile(0.5).value < 4.0


def test_percentiles_of_legs_do_not_add_up() -> None:
    """The p95 of the sum of two independent waits is less than the sum of their p95."""
    leg = distribution(FINE, np.random.default_rng(3).exponential(0.3, 5000).tolist())
    cloud, alone = sum_of_waits(leg, leg), leg.quantile(0.95)
    assert cloud is not None
    assert alone is not None
    assert cloud.quantile(0.95).value < 0.9 * 2 * alone.value


def test_those_who_pass_no_first_leg() -> None:
    """Half wait three seconds before, half do not: two humps."""
    first, second = of_counts((3.0, 3.02, INF), [0, 8, 0]), of_counts((1.0, 1.02, INF), [0, 4, 0])
    cloud = sum_of_waits(first, second, 0.5)
    assert cloud is not None
    assert cloud.quantile(0.45).value == pytest.approx(1.01, abs=0.01)
    assert cloud.quantile(0.55).value == pytest.approx(4.02, abs=0.02)
    assert cloud.share_within(2.0) == pytest.approx(0.5)


def test_a_leg_beyond_its_last_bucket_has_no_upper_bound() -> None:
    """So has the sum, as far as it comes from there."""
    cloud = sum_of_waits(of_counts((1.0, INF), [0, 4]), of_counts((1.0, INF), [4, 0]))
    assert cloud is not None
    assert cloud.quantile(0.5).high == INF
    assert cloud.quantile(0.5).low == 1.0


def test_a_leg_without_observations() -> None:
    """Half of a sum is no estimate of it, unless nobody passes the leg."""
    nothing, something = distribution(BOUNDS, []), distribution(BOUNDS, [0.3, 0.4])
    assert sum_of_waits(nothing, something) is None
    assert sum_of_waits(something, nothing) is None
    assert sum_of_waits(something, of_counts((INF,), [3])) is None
    alone = sum_of_waits(nothing, something, 0.0)
    assert alone is not None
    assert alone.quantile(0.5).high == 0.5


@given(waits, waits, st.sampled_from([0.25, 0.5, 1.0]), st.sampled_from(QUANTILES[1:]))
@example([0.3], [0.3], 1.0, 0.5)
def test_bounds_of_a_sum_contain_its_value(first: list[float], second: list[float], share: float, q: float) -> None:
    """And lie where the edges of the legs' buckets add up."""
    cloud = sum_of_waits(distribution(BOUNDS, first), distribution(BOUNDS, second), share)
    assert cloud is not None
    found = cloud.quantile(q)
    assert found.low <= found.value <= found.high
    assert cloud.weights.sum() == pytest.approx(1.0)


@given(st.lists(st.floats(0.0, 4.9), min_size=1, max_size=9), st.lists(st.floats(0.0, 4.9), min_size=1, max_size=9))
def test_bounds_of_a_sum_contain_the_truth(first: list[float], second: list[float]) -> None:
    """All pairs of raw observations, which is what independence means."""
    cloud = sum_of_waits(distribution(BOUNDS, first), distribution(BOUNDS, second))
    assert cloud is not None
    sums = [a + b for a in first for b in second]
    for q in (0.37, 0.51, 0.93):
        found = cloud.quantile(q)
        assert found.low - 1e-9 <= true_quantile(sums, q) <= found.high + 1e-9


# sums that no bucket can hold

EDGES = (0.002, 0.5, 1.0, INF)


def of_sum(held: Sequence[float], mean: float, *rows: Sequence[float]) -> Distribution:
    """What a window brought: `held` by bucket, whose values have this mean."""
    cumulative = np.array([[0.0] * len(held), *rows, np.cumsum(held)])
    sums = np.linspace(0.0, mean * float(np.sum(held)), len(cumulative))
    found = window_distribution(times(len(cumulative)), EDGES, cumulative, sums, lazy=False)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("held", "mean", "outside"),
    [
        ([540, 0, 0, 0], 0.05, 25.0),
        ([0, 0, 0, 540], 0.05, 20.0),
        ([0, 0, 100, 0], 0.4, 1.25),
        ([0, 50, 50, 0], 0.9, 1.2),
        ([100, 0, 0, 100], 0.01, 50.0),
        ([0, 0, 0, 100], 0.0, 1e6),
    ],
    ids=["all equal", "overflow alone", "below its bucket", "above them", "half beyond", "no time at all"],
)
def test_a_sum_that_no_bucket_can_hold(held: list[float], mean: float, outside: float) -> None:
    """The buckets say nothing then; what they count, and the sum, is still known."""
    found = of_sum(held, mean)
    assert not found.believed
    assert found.outside == pytest.approx(outside)
    assert (found.quantile(0.5), found.share_within(0.4), found.tells) == (None, None, False)
    assert found.count == sum(held)
    assert found.mean == pytest.approx(mean)


@pytest.mark.parametrize(
    ("held", "mean"),
    [
        ([540, 0, 0, 0], 0.001),
        ([540, 0, 0, 0], 0.0021),
        ([0, 0, 0, 540], 400.0),
        ([0, 0, 100, 0], 0.46),
        ([100, 0, 0, 100], 0.5),
        ([4, 0, 0, 0], 0.05),
        ([0, 0, 0, 0], 0.0),
    ],
    ids=["inside", "read half-way", "far beyond", "a little below", "at the edge", "four observations", "none"],
)
def test_a_sum_that_its_buckets_can_hold(held: list[float], mean: float) -> None:
    """Beyond the last bound anything goes, and a page that was read half-way is no liar."""
    assert of_sum(held, mean).believed


def test_what_falls_proves_nothing() -> None:
    """A bucket or a sum that falls while the count does not: a hidden restart, or a page that was read half-way."""
    assert of_sum([540, 0, 0, 0], 0.05, [9, 9, 9, 9], [8, 9, 9, 20]).believed
    fallen = window_distribution(
        times(3), EDGES, np.array([[0.0] * 4, [90.0] * 4, [180.0] * 4]), np.array([900.0, 990.0, 950.0]), lazy=False
    )
    assert fallen is not None
    assert fallen.believed
    assert fallen.outside > 100.0


def test_one_liar_spoils_the_population() -> None:
    """Without its observations the quantile is that of other requests."""
    good, liar = of_sum([0, 100, 0, 0], 0.3), of_sum([100, 0, 0, 0], 0.05)
    merged = merge([good, liar])
    assert merged is not None
    assert (merged.believed, merged.count, merged.quantile(0.5)) == (False, 200.0, None)
    assert sum_of_waits(good, liar) is None


@given(waits, st.sampled_from([BOUNDS, EDGES, (INF,), (60.0, INF)]))
def test_no_true_histogram_is_doubted(observations: list[float], bounds: tuple[float, ...]) -> None:
    """Whatever the observations and the buckets."""
    whole = histogram(bounds, observations)
    found = window_distribution(times(), whole.bounds, whole.cumulative, whole.sums, lazy=False)
    assert found is not None
    assert found.believed
    if observations:
        low, high = found.mean_bounds
        assert found.mean is not None
        assert low - 1e-9 <= found.mean <= high + 1e-9
