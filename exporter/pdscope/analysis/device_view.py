"""The devices of an instance, each counted once, whichever of its pages names them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from pdscope.analysis.counters import increase
from pdscope.model.metric import Metric
from pdscope.model.scrape import SeriesKey
from pdscope.model.units import Unit, format_quantity
from pdscope.model.window import Window

_BARE = (Unit.RATIO, Unit.COUNT)
"""Units of figures that read well as bare numbers."""
_MISSED_REFRESHES = 3
_OF_HOSTS = frozenset(metric for metric in Metric if metric.name.startswith("NIC_"))
"""Figures of ports, whose names (`mlx5_0/1`) are those of one host: another host has the same."""


@dataclass(frozen=True, slots=True)
class Part:
    """One figure of one device or port over the window; `name` is what its page calls it."""

    name: str
    value: float
    at: float
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class DeviceView:
    """What the device sources of an instance say, the source that is configured first preferred.

    A device is known by what its page calls it (a UUID), so that one that two exporters of a host print counts once;
    a port by that and its target. A page that tells no devices apart counts as one device, named after its target.
    """

    windows: Sequence[Window]

    def means(self, metric: Metric) -> Mapping[str, Part]:
        """A gauge by device, its mean over the window; devices without a number are not in it."""
        return self._parts(metric, _mean)

    def lasts(self, metric: Metric) -> Mapping[str, Part]:
        """A gauge by device, its newest value."""
        return self._parts(metric, _last)

    def new(self, metric: Metric) -> Mapping[str, Part]:
        """The newest value of the devices that had another one earlier in the window."""
        return self._parts(metric, _new)

    def rates(self, gauge: Metric, counter: Metric) -> Mapping[str, Part]:
        """Bytes a second by device or port: the rate where it is printed, else that of the counter."""
        return {**self.per_second(counter), **self.means(gauge)}

    def per_second(self, counter: Metric) -> Mapping[str, Part]:
        """A counter's rate by device or port."""
        return self._parts(counter, _per_second)

    def _parts(self, metric: Metric, figure: Callable[[Window, SeriesKey], float | None]) -> Mapping[str, Part]:
        found: dict[str, Part] = {}
        for window in self.windows:
            for rank in window.ranks(metric) or ("",):
                device = f"{window.target}:{rank}" if metric in _OF_HOSTS else rank or window.target
                value = figure(window, SeriesKey(metric, rank)) if device not in found else None
                if value is not None:
                    found[device] = Part(rank, value, float(window.times[-1]), window.source, window.target)
        return found


def fresh(windows: Mapping[str, Sequence[Window]], now: float, max_age_seconds: float) -> dict[str, DeviceView]:
    """Views by instance, of the windows that are not too old.

    A program that measures rarely (Ascend's exporter: HBM and HCCS once in 60 s) may be three of its own refreshes old;
    beyond that it has stopped measuring.
    """
    views = {}
    for name, found in windows.items():
        kept = [w for w in found if now - w.times[-1] <= max(max_age_seconds, _MISSED_REFRESHES * w.refresh_seconds)]
        if kept:
            views[name] = DeviceView(kept)
    return views


def mean_of(parts: Mapping[str, Part]) -> float | None:
    """Mean over the devices; None of none."""
    return fmean(part.value for part in parts.values()) if parts else None


def total_of(parts: Mapping[str, Part]) -> float | None:
    """Sum over the devices; None of none."""
    return sum(part.value for part in parts.values()) if parts else None


def most_of(parts: Mapping[str, Part]) -> float | None:
    """The largest of the devices; None of none."""
    return max((part.value for part in parts.values()), default=None)


def source_of(parts: Mapping[str, Part], metric: Metric) -> str:
    """Where a figure over these devices comes from, with their spread where they differ."""
    targets = ", ".join(sorted({part.target for part in parts.values()})[:4])
    first = next(iter(parts.values()))
    text = f"{first.source} {metric.name.lower()} of {targets}"
    low, high = min(p.value for p in parts.values()), max(p.value for p in parts.values())
    if len(parts) > 1:
        text += f", {len(parts)} devices, {figure_text(low, metric)} to {figure_text(high, metric)}"
    return text


def figure_text(value: float, metric: Metric) -> str:
    """A figure of a device with its unit, where it has one."""
    unit = metric.spec.unit
    return f"{value:.3g}" if unit in _BARE else format_quantity(value, unit)


def spread_of(parts: Mapping[str, Part]) -> float:
    """Between the most and the least of the devices; 0 of none."""
    values = [part.value for part in parts.values()]
    return max(values) - min(values) if values else 0.0


def oldest(parts: Mapping[str, Part]) -> float:
    """Unix seconds of the oldest of the figures."""
    return min(part.at for part in parts.values())


def _known(window: Window, key: SeriesKey) -> NDArray[np.float64]:
    values = window.scalars.get(key)
    return values[np.isfinite(values)] if values is not None else np.empty(0)


def _mean(window: Window, key: SeriesKey) -> float | None:
    known = _known(window, key)
    return float(np.mean(known)) if len(known) else None


def _last(window: Window, key: SeriesKey) -> float | None:
    known = _known(window, key)
    return float(known[-1]) if len(known) else None


def _new(window: Window, key: SeriesKey) -> float | None:
    known = _known(window, key)
    return float(known[-1]) if len(known) and (known != known[-1]).any() else None


def _per_second(window: Window, key: SeriesKey) -> float | None:
    values = window.scalars.get(key)
    gained = increase(window.times, values, lazy=False) if values is not None else None
    return gained.per_second if gained is not None and gained.seconds > 0 else None
