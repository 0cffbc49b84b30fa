"""One instance over the window: looks a metric up in the sources that know it, the freshest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from pdscope.analysis.counters import increase
from pdscope.analysis.histograms import Distribution, merge, window_distribution
from pdscope.model.metric import Metric
from pdscope.model.scrape import SeriesKey
from pdscope.model.topology import Instance
from pdscope.model.window import Window

_MIN_SCRAPES = 2
_ASLEEP_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Level:
    """A gauge over the window.

    Attributes:
        mean: over the scrapes.
        low, high: least and greatest.
        first, last: at the ends.
        standing: the least of the second half: what was there all the time and not only in a burst.
        seconds: time between the first and the last scrape that had it.
    """

    mean: float
    low: float
    high: float
    first: float
    last: float
    standing: float
    seconds: float
    samples: int
    age_seconds: float
    source: str

    @property
    def growth_per_second(self) -> float | None:
        """Net growth; None from a single scrape."""
        return (self.last - self.first) / self.seconds if self.seconds > 0 else None


@dataclass(frozen=True, slots=True)
class Rate:
    """A counter over the window: gain and mean rate."""

    gain: float
    per_second: float
    age_seconds: float
    source: str


@dataclass(frozen=True, slots=True)
class Observed:
    """An instance with its windows, in order of preference (a source that stays fresh in a stall comes first)."""

    instance: Instance
    windows: Sequence[Window]
    now: float

    @property
    def usable(self) -> bool:
        """Whether a rate can be had: two scrapes of one source."""
        return any(len(w.times) >= _MIN_SCRAPES for w in self.windows)

    @property
    def age_seconds(self) -> float | None:
        """Age of the newest scrape."""
        newest = [float(w.times[-1]) for w in self.windows if len(w.times)]
        return self.now - max(newest) if newest else None

    @property
    def asleep(self) -> bool:
        """Whether counters say that the instance had nothing to do, whatever its gauges show.

        Gauges freeze at the last batch when an engine falls idle (SGLang refreshes them only after 30 s, and not while
        requests are parked). Its idle time and the open HTTP requests do not freeze: an engine that was idle for nearly
        the whole window, with no request open at its end, holds none.
        """
        idle, active = self.rate(Metric.IDLE), self.level(Metric.HTTP_ACTIVE)
        if idle is None or idle.per_second < _ASLEEP_SHARE:
            return False
        return active is None or active.last < 1

    def level(self, metric: Metric, rank: str = "") -> Level | None:
        """The gauge, or None when no source has it."""
        key = SeriesKey(metric, rank)
        for window in self.windows:
            values = window.scalars.get(key)
            if values is not None:
                level = self._level(window, metric, values)
                if level is not None:
                    return level
        return None

    def _level(self, window: Window, metric: Metric, values: NDArray[np.float64]) -> Level | None:
        known = np.isfinite(values)
        if not known.any():
            return None
        # a dozen numbers: plain floats are quicker than arrays, and the mean of a gauge that stands still is its value
        points, at = values[known].tolist(), window.times[known]
        return Level(
            mean=_mean(points),
            low=min(points),
            high=max(points),
            first=points[0],
            last=points[-1],
            standing=min(points[len(points) // 2 :]),
            seconds=float(at[-1] - at[0]),
            samples=len(points),
            age_seconds=self.now - float(at[-1]),
            source=self._source(window, metric),
        )

    def rate(self, metric: Metric) -> Rate | None:
        """The counter, or None when no source has it twice, or its page jumps between workers."""
        key = SeriesKey(metric)
        for window in self.windows:
            lazy = metric in window.lazy
            values = window.scalars.get(key)
            if values is None and lazy and len(window.times) >= _MIN_SCRAPES:
                return Rate(
                    0.0, 0.0, self.now - float(window.times[-1]), f"{self._source(window, metric)} (no event yet)"
                )
            if values is None:
                continue
            gained = increase(window.times, values, lazy=lazy)
            if gained is not None and gained.seconds > 0:
                age = self.now - float(window.times[-1])
                return Rate(gained.value, gained.per_second, age, f"rate of {self._source(window, metric)}")
        return None

    def distribution(self, metric: Metric) -> Distribution | None:
        """What a histogram gained in the window; None when no source has it twice. May be empty."""
        key = SeriesKey(metric)
        for window in self.windows:
            histogram = window.histograms.get(key)
            if histogram is None or len(window.times) < _MIN_SCRAPES:
                continue
            lazy = metric in window.lazy
            found = window_distribution(window.times, histogram.bounds, histogram.cumulative, histogram.sums, lazy=lazy)
            if found is not None:
                return found
        return None

    def source_of(self, metric: Metric) -> str:
        """How a figure made of this metric names its origin."""
        for window in self.windows:
            if SeriesKey(metric) in window.scalars or SeriesKey(metric) in window.histograms:
                return self._source(window, metric)
        return f"{self.instance.name}: {metric.name.lower()}"

    def _source(self, window: Window, metric: Metric) -> str:
        return f"{window.source} {metric.name.lower()} of {self.instance.name}"


def _mean(points: Sequence[float]) -> float:
    """The mean; numbers so large that their sum is none are scaled down first."""
    try:
        return fmean(points)
    except OverflowError:
        return fsum(point / len(points) for point in points)


def merged(observed: Sequence[Observed], metric: Metric) -> Distribution | None:
    """What a histogram gained on all these instances together; None when none of them has it."""
    return merge([d for o in observed if (d := o.distribution(metric)) is not None])
