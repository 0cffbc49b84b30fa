"""A target's scrapes over a stretch of time, as columns: what analysis works on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdscope.model.metric import Fact, Metric
from pdscope.model.scrape import Row, Schema, Scrape, SeriesKey


@dataclass(frozen=True, slots=True)
class HistogramWindow:
    """A histogram over time: bounds (b,), cumulative counts (n, b), sums (n,). NaN rows: absent in that scrape."""

    bounds: tuple[float, ...]
    cumulative: NDArray[np.float64]
    sums: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Window:
    """Good scrapes of one source of one target, oldest first.

    Attributes:
        times: (n,) unix seconds, strictly increasing.
        scalars: (n,) by key; NaN where a scrape lacked the series.
        lazy: metrics for which absence means "no event yet".
        refresh_seconds: how rarely the program measures anew; 0: whenever it is asked.
    """

    target: str
    source: str
    times: NDArray[np.float64]
    scalars: Mapping[SeriesKey, NDArray[np.float64]]
    histograms: Mapping[SeriesKey, HistogramWindow]
    facts: Mapping[Fact, str]
    lazy: frozenset[Metric]
    refresh_seconds: float = 0.0

    @property
    def span_seconds(self) -> float:
        """Time between the first and the last scrape; 0 for one scrape."""
        return float(self.times[-1] - self.times[0]) if len(self.times) else 0.0

    def ranks(self, metric: Metric) -> tuple[str, ...]:
        """Data-parallel ranks that report `metric` each on their own."""
        keys = [*self.scalars, *self.histograms]
        return tuple(sorted({key.rank for key in keys if key.metric is metric and key.rank}))


def build_window(scrapes: Iterable[Scrape]) -> Window | None:
    """Columns out of the good scrapes of one source; None when there is none.

    Scrapes that are not newer than the one before are dropped: a page with its own time stamps repeats them until its
    program measures again, and a repeated point is not a new one.
    """
    good: list[Scrape] = []
    for scrape in scrapes:
        if scrape.ok and (not good or scrape.at > good[-1].at):
            good.append(scrape)
    if not good:
        return None
    schema, rows = _aligned(good)
    last = good[-1]
    scalars = {key: rows[:, index] for key, index in schema.scalars.items()}
    histograms = {
        key: HistogramWindow(
            slot.bounds,
            rows[:, slot.start : slot.start + len(slot.bounds)],
            rows[:, slot.start + len(slot.bounds)],
        )
        for key, slot in schema.histograms.items()
    }
    times = np.array([s.at for s in good], dtype=np.float64)
    return Window(last.target, last.source, times, scalars, histograms, last.facts, schema.lazy, schema.refresh_seconds)


def _aligned(scrapes: list[Scrape]) -> tuple[Schema, NDArray[np.float64]]:
    """One schema for all, and the rows under it: (n, width). Series that come and go leave NaN."""
    pairs = [(s.schema, s.row) for s in scrapes if s.schema is not None and s.row is not None]
    first = pairs[0][0]
    if all(schema is first for schema, _ in pairs):
        return first, np.stack([row for _, row in pairs])
    union = _union([schema for schema, _ in pairs])
    return union, np.stack([_under(schema, row, union) for schema, row in pairs])


def _union(schemas: list[Schema]) -> Schema:
    scalars: dict[SeriesKey, None] = {}
    histograms: dict[SeriesKey, tuple[float, ...]] = {}
    lazy: frozenset[Metric] = frozenset()
    # the newest page wins where bounds changed: an engine restarted with other buckets starts a new history
    for schema in reversed(schemas):
        scalars.update(dict.fromkeys(schema.scalars))
        for key, slot in schema.histograms.items():
            histograms.setdefault(key, slot.bounds)
        lazy |= schema.lazy
    return Schema(tuple(scalars), histograms, lazy, max(schema.refresh_seconds for schema in schemas))


def _under(schema: Schema, row: Row, union: Schema) -> Row:
    if schema is union:
        return row
    out: Row = np.full(union.width, np.nan)
    for key, index in schema.scalars.items():
        out[union.scalars[key]] = row[index]
    for key, slot in schema.histograms.items():
        target = union.histograms[key]
        if target.bounds == slot.bounds:
            width = len(slot.bounds) + 1
            out[target.start : target.start + width] = row[slot.start : slot.start + width]
    return out
