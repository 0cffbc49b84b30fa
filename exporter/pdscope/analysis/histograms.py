"""Histograms over a window: increase by bucket, quantiles with the bucket that hides them, shares, sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pdscope.analysis.counters import jumps_back_and_forth

_POINTS_A_BUCKET = 4
_MIN_POINTS = 2

_MARGIN = 0.1
"""Relative distance from what the buckets allow that a page read half-way explains: it has a sum without its count."""
_JUDGED = 5.0
"""Observations below which such a page may say anything of the mean."""
_MOST = 1e6
"""Of a quotient of two figures of which one may be nothing."""


@dataclass(frozen=True, slots=True)
class Quantile:
    """An interpolated quantile and the bucket in which the true one lies; `high` is +inf in the overflow bucket."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Distribution:
    """Observations of a window by bucket.

    Attributes:
        bounds: (b,) upper bounds, the last is +inf.
        counts: (b,) observations in each bucket (not cumulative).
        total: sum of the observed values; NaN when the page has no sum.
        seconds: length of the window.
        believed: whether sum and buckets can both be true; where they cannot, the buckets say nothing.
    """

    bounds: tuple[float, ...]
    counts: NDArray[np.float64]
    total: float
    seconds: float
    believed: bool = True

    @property
    def count(self) -> float:
        """Number of observations."""
        return float(self.counts.sum())

    @property
    def tells(self) -> bool:
        """Whether the buckets say anything about the values: a lone overflow bucket only counts them."""
        return self.believed and self.count > 0 and len(self.bounds) > 1

    @property
    def mean(self) -> float | None:
        """Sum by count, exact whatever the buckets; None without observations."""
        return self.total / self.count if self.count > 0 and math.isfinite(self.total) else None

    @property
    def mean_bounds(self) -> tuple[float, float]:
        """Between which the mean of these buckets must lie: all values at the lower, or all at the upper edges.

        NaN without observations.
        """
        filled = self.counts > 0
        lower = np.array([0.0 if self.bounds[0] >= 0 else -math.inf, *self.bounds[:-1]])[filled]
        shares = self.counts[filled] / self.count if filled.any() else np.array([math.nan])
        upper = np.array(self.bounds)[filled]
        return float((lower * shares).sum()), float((upper * shares).sum())

    @property
    def outside(self) -> float:
        """How many times the mean lies outside of what the buckets allow; 1 inside, and where there is no mean."""
        mean, (low, high) = self.mean, self.mean_bounds
        if mean is None or low <= mean <= high:
            return 1.0
        above, below = (mean, high) if mean > high else (low, mean)
        return min(_MOST, above / below) if below > 0 else _MOST

    def quantile(self, q: float) -> Quantile | None:
        """Linear inside its bucket, as PromQL's `histogram_quantile`; the last finite bound for the overflow bucket.

        Args:
            q: 0..1.

        Returns:
            None without observations, without a finite bound, or where the buckets are not believed.
        """
        if not self.tells:
            return None
        cumulative = np.cumsum(self.counts)
        rank = q * cumulative[-1]
        index = int(np.searchsorted(cumulative, rank, side="left"))
        index = min(index, len(self.bounds) - 1)
        while index < len(self.bounds) - 1 and self.counts[index] == 0:
            index += 1  # q = 0 lies in the first bucket that holds something
        low = self.bounds[index - 1] if index else min(0.0, self.bounds[0])
        high = self.bounds[index]
        if math.isinf(high):
            return Quantile(low, low, math.inf)
        before = cumulative[index - 1] if index else 0.0
        inside = self.counts[index]
        value = low + (high - low) * ((rank - before) / inside if inside else 1.0)
        return Quantile(float(value), low, high)

    def share_within(self, limit: float) -> float | None:
        """Share of the observations at or below `limit`, linear inside its bucket.

        Observations in the overflow bucket count as above any limit. None without observations or a finite bound.
        """
        if not self.tells:
            return None
        below = 0.0
        low = 0.0
        for bound, inside in zip(self.bounds, self.counts, strict=True):
            if bound <= limit:
                below += inside
            elif low < limit and math.isfinite(bound):
                below += inside * (limit - low) / (bound - low)
            low = bound
        return float(below / self.count)


def window_distribution(
    times: NDArray[np.float64],
    bounds: tuple[float, ...],
    cumulative: NDArray[np.float64],
    sums: NDArray[np.float64],
    *,
    lazy: bool,
) -> Distribution | None:
    """Observations that a histogram gained over its window, restarts corrected for.

    Args:
        times: (n,) unix seconds.
        bounds: (b,) upper bounds.
        cumulative: (n, b) counts at or below each bound; NaN rows where the series was absent. A row in which any
            number is not finite is left out.
        sums: (n,) sums of values.
        lazy: absence before the first event means empty.

    Returns:
        None with fewer than two points, or where the counts jump between workers. Not believed where the sum is none
        that these buckets can have.
    """
    present = ~np.isnan(cumulative[:, -1])
    if lazy and not present[0]:
        first = int(np.argmax(present)) if present.any() else len(present)
        cumulative, sums = cumulative.copy(), sums.copy()
        cumulative[:first], sums[:first] = 0.0, 0.0
    known = np.isfinite(cumulative).all(axis=1)
    if int(known.sum()) < _MIN_POINTS:
        return None
    rows, at = cumulative[known], times[known]
    values = np.where(np.isfinite(sums[known]), sums[known], np.nan)
    if jumps_back_and_forth(rows[:, -1]):
        return None
    restarted = np.diff(rows[:, -1]) < 0
    steps = np.where(restarted[:, None], rows[1:], np.diff(rows, axis=0))
    gained, sums_gained = steps.sum(axis=0), np.where(restarted, values[1:], np.diff(values))
    total = float(sums_gained.sum())
    # a torn page may show a bucket behind its neighbour: raised to it, as PromQL does, so that no observation is added
    counts = np.diff(np.maximum.accumulate(np.maximum(gained, 0.0)), prepend=0.0)
    found = Distribution(bounds, counts, total, float(at[-1] - at[0]))
    # where a bucket or the sum falls and the count does not, the page is torn or a restart is hidden: nothing is proven
    whole = bool((steps >= 0).all() and (sums_gained >= 0).all())
    lies = whole and found.count >= _JUDGED and found.outside > 1.0 + _MARGIN
    return replace(found, believed=False) if lies else found


def merge(parts: Sequence[Distribution]) -> Distribution | None:
    """One population out of the same quantity at several instances: bucket counts are added, never quantiles.

    Different bucket lists are reduced to the bounds that all share, which loses resolution but no truth. One part that
    is not believed makes the whole such: without its observations the population is another.
    """
    filled = [part for part in parts if part.count > 0] or list(parts[:1])
    if not filled:
        return None
    shared = set(filled[0].bounds).intersection(*(part.bounds for part in filled[1:]))
    bounds = tuple(sorted(shared))
    if len(bounds) < 2 and len(filled) > 1:  # only the overflow bucket is common: nothing is left
        return None
    cumulative = sum(np.cumsum(part.counts)[[part.bounds.index(b) for b in bounds]] for part in filled)
    counts = np.diff(np.asarray(cumulative), prepend=0.0)
    believed = all(part.believed for part in filled)
    return Distribution(bounds, counts, sum(p.total for p in filled), max(p.seconds for p in filled), believed)


@dataclass(frozen=True, slots=True)
class SummedWait:
    """Two waits in a row, as a weighted cloud of points (sorted), with clouds of the lower and upper bucket edges."""

    middle: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    weights: NDArray[np.float64]

    def quantile(self, q: float) -> Quantile:
        """Quantile of the sum, bounded by the sums of the bucket edges."""
        value, low, high = (_weighted(cloud, self.weights, q) for cloud in (self.middle, self.lower, self.upper))
        return Quantile(value, low, high)

    def share_within(self, limit: float) -> float:
        """Share of the sums at or below `limit`."""
        return float(self.weights[self.middle <= limit].sum() / self.weights.sum())


def sum_of_waits(first: Distribution, second: Distribution, share_of_first: float = 1.0) -> SummedWait | None:
    """The distribution of `first + second`, the two taken as independent (convolution).

    Args:
        first: wait of the first leg.
        second: wait of the second leg.
        share_of_first: share of the requests that pass the first leg at all; the others wait for the second alone.

    Returns:
        None when a leg that counts has no observation or no finite bound.
    """
    if not second.tells or (share_of_first > 0 and not first.tells):
        return None
    b_middle, b_low, b_high, b_weight = _points(second)
    clouds = [(b_middle, b_low, b_high, b_weight * (1.0 - share_of_first))] if share_of_first < 1 else []
    if share_of_first > 0:
        a_middle, a_low, a_high, a_weight = _points(first)
        clouds.append(
            (
                np.add.outer(a_middle, b_middle).ravel(),
                np.add.outer(a_low, b_low).ravel(),
                np.add.outer(a_high, b_high).ravel(),
                np.multiply.outer(a_weight, b_weight).ravel() * share_of_first,
            )
        )
    middle, lower, upper, weights = (np.concatenate(parts) for parts in zip(*clouds, strict=True))
    return SummedWait(middle, lower, upper, weights)


def _points(part: Distribution) -> tuple[NDArray[np.float64], ...]:
    """Equally weighted points inside each bucket that holds something, with its edges; weights add up to 1."""
    lows = np.array([0.0, *part.bounds[:-1]])
    highs = np.array(part.bounds)
    filled = part.counts > 0
    lows, highs, counts = lows[filled], highs[filled], part.counts[filled]
    inside = np.where(np.isinf(highs), lows, highs)
    steps = (np.arange(_POINTS_A_BUCKET) + 0.5) / _POINTS_A_BUCKET
    middle = (lows[:, None] + (inside - lows)[:, None] * steps).ravel()
    repeat = _POINTS_A_BUCKET
    weights = np.repeat(counts / counts.sum() / repeat, repeat)
    return middle, np.repeat(lows, repeat), np.repeat(highs, repeat), weights


def _weighted(values: NDArray[np.float64], weights: NDArray[np.float64], q: float) -> float:
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order])
    index = min(int(np.searchsorted(cumulative, q * cumulative[-1])), len(values) - 1)
    return float(values[order][index])
