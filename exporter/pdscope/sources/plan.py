"""Compiles adapters against the layout of a page, and applies the result to the pages of that layout."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pdscope.model.metric import Across, Fact, Kind, Metric
from pdscope.model.scrape import Schema, SeriesKey
from pdscope.sources._row import Plan
from pdscope.sources.adapter import Adapter, Series, spellings
from pdscope.sources.exposition import Layout, SampleId
from pdscope.sources.foreign import tame
from pdscope.sources.plausible import Range, plausible, plausible_sum
from pdscope.sources.selection import EVERYTHING, Selection

__all__ = ["Plan", "compile_plan", "recognises"]

_MISSING = -1  # index of the NaN that stands behind the values
_MASKS = (0.0, 2.0**53)  # bit masks that a float holds exactly; the blanks of drivers lie above


@dataclass(frozen=True, slots=True)
class _Cell:
    """One number of the row: which page values make it, and how.

    Attributes:
        valid: of the printed number: what the adapter takes for a measurement; None: all.
        possible: of the number in base units.
    """

    indices: tuple[int, ...]
    metric: Metric
    scale: float
    valid: Range | None
    possible: Range
    across: Across = Across.SUM
    ranks: int = 1
    bits: int = 0

    @property
    def printed_range(self) -> Range:
        """In which a printed number is a measurement."""
        low, high = self.possible[0] / self.scale, self.possible[1] / self.scale
        return (low, high) if self.valid is None else (max(low, self.valid[0]), min(high, self.valid[1]))


class _Compiler:
    def __init__(self, layout: Layout, indices: Iterable[int]) -> None:
        self._samples: dict[str, list[int]] = {}
        self._ids = layout.samples
        self._indices = tuple(indices)
        for index in self._indices:
            self._samples.setdefault(layout.samples[index].name, []).append(index)
        self.constants: list[float] = []
        self.scalars: dict[SeriesKey, _Cell] = {}
        self.histograms: dict[SeriesKey, tuple[tuple[float, ...], list[_Cell]]] = {}
        self.facts: dict[Fact, str] = {}
        self.lazy: set[Metric] = set()

    def add(self, adapter: Adapter) -> None:
        for metric, alternatives in adapter.series.items():
            if self._has(metric):
                continue  # an adapter that comes first knows better
            if any(series.lazy for series in alternatives):
                self.lazy.add(metric)
            for series in alternatives:
                if metric.spec.kind is Kind.HISTOGRAM:
                    added = self._histogram(adapter, metric, series)
                else:
                    added = self._scalar(adapter, metric, series)
                if added:
                    break
        self._infos(adapter)
        self._facts(adapter)

    def _has(self, metric: Metric) -> bool:
        return any(key.metric is metric for key in (*self.scalars, *self.histograms))

    def _scalar(self, adapter: Adapter, metric: Metric, series: Series) -> bool:
        ranks = self._by_rank(adapter, metric, series, series.name)
        for name in series.plus:
            more = self._by_rank(adapter, metric, series, name)
            if not more.keys() >= ranks.keys():
                return False
            ranks = {rank: [*indices, *more[rank]] for rank, indices in ranks.items()}
        if not ranks:
            return False
        valid, possible = (_MASKS, _MASKS) if series.bits else (series.valid, plausible(metric))
        cells = {
            rank: _Cell(tuple(i), metric, series.scale, valid, possible, bits=series.bits) for rank, i in ranks.items()
        }
        self.scalars.update(_with_total(metric, cells, apart=adapter.devices))
        return True

    def _histogram(self, adapter: Adapter, metric: Metric, series: Series) -> bool:
        buckets = self._by_rank(adapter, metric, series, f"{series.name}_bucket")
        if not buckets:
            return False
        sums = self._by_rank(adapter, metric, series, f"{series.name}_sum")
        counts = self._by_rank(adapter, metric, series, f"{series.name}_count")
        per_rank: dict[str, tuple[tuple[float, ...], list[_Cell]]] = {}
        for rank, indices in buckets.items():
            by_bound: dict[float, list[int]] = {}
            for index in indices:
                by_bound.setdefault(_bound(self._ids[index]) * series.scale, []).append(index)
            if math.inf not in by_bound and rank in counts:
                by_bound[math.inf] = counts[rank]
            if math.inf not in by_bound:
                continue
            bounds = tuple(sorted(b for b in by_bound if not math.isnan(b)))
            cells = [_Cell(tuple(by_bound[bound]), metric, 1.0, None, plausible(metric)) for bound in bounds]
            total = tuple(sums.get(rank, (_MISSING,)))
            cells.append(_Cell(total, metric, series.scale, None, plausible_sum(metric)))
            per_rank[rank] = (bounds, cells)
        if not per_rank:
            return False
        shapes = {bounds for bounds, _ in per_rank.values()}
        if len(per_rank) > 1:
            self.histograms.update({SeriesKey(metric, rank): part for rank, part in per_rank.items()})
        if len(shapes) == 1:
            columns = zip(*(cells for _, cells in per_rank.values()), strict=True)
            self.histograms[SeriesKey(metric)] = (shapes.pop(), [_joined(column, Across.SUM) for column in columns])
        return True

    def _by_rank(self, adapter: Adapter, metric: Metric, series: Series, name: str) -> dict[str, list[int]]:
        """Indices of the samples that make up the metric, by data-parallel rank."""
        found: dict[str, dict[tuple[int, ...], list[int]]] = {}
        for spelling in spellings(name):
            for index in self._samples.get(spelling, ()):
                labels = dict(self._ids[index].labels)
                if not _meant(adapter, metric, series, labels):
                    continue
                repetition = tuple(_number(labels.get(label, "")) or 0 for label in adapter.repeated)
                found.setdefault(_rank(adapter, labels), {}).setdefault(repetition, []).append(index)
            if found:
                break  # a page that prints both spellings says the same twice
        if metric in adapter.summed:
            return {rank: [i for group in reps.values() for i in group] for rank, reps in found.items()}
        return {rank: reps[min(reps)] for rank, reps in found.items()}

    def _infos(self, adapter: Adapter) -> None:
        for metric, infos in adapter.infos.items():
            if self._has(metric):
                continue
            for info in infos:
                ranks: dict[str, _Cell] = {}
                for spelling in spellings(info.name):
                    for index in self._samples.get(spelling, ()):
                        labels = dict(self._ids[index].labels)
                        value = _positive(labels.get(info.label, ""))
                        if value is not None:
                            ranks[_rank(adapter, labels)] = _Cell(
                                (self._constant(value),), metric, info.scale, None, plausible(metric)
                            )
                if ranks:
                    self.scalars.update(_with_total(metric, ranks, apart=adapter.devices))
                    break

    def _constant(self, value: float) -> int:
        self.constants.append(value)
        return len(self._ids) + len(self.constants) - 1

    def _facts(self, adapter: Adapter) -> None:
        for fact, label in adapter.facts.items():
            own = [self._ids[index] for index in self._indices if _belongs(adapter, self._ids[index])]
            for name in (label, *adapter.aliases.get(label, ())):
                values = {v for s in own for k, v in s.labels if k == name and v}
                if len(values) == 1:
                    self.facts.setdefault(fact, tame(values.pop()))
                if values:
                    break

    def plan(self, adapters: Sequence[Adapter]) -> Plan:
        cells = list(self.scalars.values())
        for _, parts in self.histograms.values():
            cells.extend(parts)
        gather = [index for cell in cells for index in cell.indices]
        sizes = [len(cell.indices) for cell in cells]
        spread = [cell for cell in cells for _ in cell.indices]
        return Plan(
            adapters=tuple(a.name for a in adapters),
            schema=Schema(
                tuple(self.scalars),
                {k: b for k, (b, _) in self.histograms.items()},
                frozenset(self.lazy),
                max((adapter.refresh_seconds for adapter in adapters), default=0.0),
            ),
            facts=self.facts,
            constants=np.array(self.constants, dtype=np.float64),
            gather=np.array(gather, dtype=np.intp),
            starts=np.array([0, *np.cumsum(sizes)[:-1]] if sizes else [], dtype=np.intp),
            scales=np.array([c.scale for c in spread], dtype=np.float64),
            low=np.array([c.printed_range[0] for c in spread], dtype=np.float64),
            high=np.array([c.printed_range[1] for c in spread], dtype=np.float64),
            metrics=tuple(c.metric for c in spread),
            sentinels=tuple(c.valid for c in spread),
            masked=np.array([i for i, c in enumerate(spread) if c.bits], dtype=np.intp),
            bits=np.array([c.bits for c in spread if c.bits], dtype=np.int64),
            maxima=np.array([i for i, c in enumerate(cells) if c.across is Across.MAX], dtype=np.intp),
            divisors=np.array([float(c.ranks) if c.across is Across.MEAN else 1.0 for c in cells]),
        )


def compile_plan(layout: Layout, adapters: Sequence[Adapter], selection: Selection = EVERYTHING) -> Plan:
    """The plan for all adapters whose probe the layout matches; earlier adapters win where two know a metric.

    Args:
        layout: of the page.
        adapters: candidates, in order of preference.
        selection: only these samples count (one exporter page that serves several instances).
    """
    matching = [a for a in adapters if recognises(a, layout)]
    compiler = _Compiler(layout, selection.indices(layout.samples, matching))
    for adapter in matching:
        compiler.add(adapter)
    return compiler.plan(matching)


def recognises(adapter: Adapter, layout: Layout) -> bool:
    """Whether a page of this layout is one that the adapter reads."""
    prefixes = tuple(spelling for probe in adapter.probe for spelling in spellings(probe))
    return any(s.name.startswith(prefixes) for s in layout.samples) or any(
        name.startswith(prefixes) for name in layout.types
    )


def _belongs(adapter: Adapter, sample: SampleId) -> bool:
    return sample.name.startswith(tuple(s for probe in adapter.probe for s in spellings(probe)))


def _with_total(metric: Metric, ranks: Mapping[str, _Cell], *, apart: bool) -> dict[SeriesKey, _Cell]:
    across = metric.spec.across
    total = _joined(tuple(ranks.values()), across)
    if len(ranks) == 1 and not apart:
        return {SeriesKey(metric): total}
    return {SeriesKey(metric): total, **{SeriesKey(metric, rank): cell for rank, cell in ranks.items()}}


def _joined(cells: Sequence[_Cell], across: Across) -> _Cell:
    indices = tuple(i for cell in cells for i in cell.indices)
    if len(cells) == 1:
        across = Across.SUM  # parts within a rank add up whatever joins the ranks
    return replace(cells[0], indices=indices, across=across, ranks=len(cells))


def _meant(adapter: Adapter, metric: Metric, series: Series, labels: Mapping[str, str]) -> bool:
    is_part = metric.spec.kind is Kind.GAUGE and any(labels.get(label) for label in adapter.totals)
    return (
        not is_part
        and all(labels.get(label, value) == value for label, value in series.where.items())
        and all(labels.get(label) != value for label, value in adapter.drop.items())
    )


def _rank(adapter: Adapter, labels: Mapping[str, str]) -> str:
    return "/".join(tame(text) for label in adapter.rank_labels if (text := labels.get(label)))


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def _positive(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def _bound(sample: SampleId) -> float:
    for name, value in sample.labels:
        if name == "le":
            try:
                return float(value)
            except ValueError:
                return math.nan
    return math.nan
