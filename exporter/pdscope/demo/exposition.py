"""A store of series and its text form 0.0.4, as `prometheus_client` in multiprocess mode prints them.

That mode has no `_created` series, prints `_sum` before the buckets of a histogram and `_count` after them,
sorts labels by name and shows a labelled family only once it has a series. The processes of a tensor-parallel
engine write into one page, so a series may stand there once a rank; it is kept once here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate
from math import inf

from prometheus_client.utils import floatToGoString


class Ranks(Enum):
    """Which tensor-parallel ranks print a series."""

    NONE = "none"
    """It comes from the HTTP process and has no rank."""
    FIRST = "first"
    ALL = "all"
    SEEDED = "seeded"
    """Every rank has it from the start at zero, the first one counts."""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric family.

    Attributes:
        name: as after `# TYPE`.
        kind: `counter`, `gauge` or `histogram`.
        help: text of `# HELP`.
        labels: names of its own labels, in the order in which values are given, without common ones and `le`.
        ranks: which ranks print it.
        buckets: upper bounds of a histogram, without infinity.
        common: whether it carries the labels that all families of the page share.
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    ranks: Ranks = Ranks.NONE
    buckets: tuple[float, ...] = ()
    common: bool = True


@dataclass(slots=True)
class _Series:
    """One label set. `cells` is the value, or a histogram's counts by bucket, infinity last; `total` its sum."""

    cells: list[float]
    prefixes: list[list[str]]
    """per rank, the text before each value: one for a value; sum, buckets and count for a histogram"""
    total: float = 0.0


@dataclass(slots=True)
class _Shelf:
    family: Family
    series: dict[tuple[str, ...], _Series] = field(default_factory=dict)


class Exposition:
    """The series of one instance.

    Args:
        families: everything that may be exported, in page order.
        common: labels of every family that has `common` set.
        rank_labels: label sets of the ranks, first rank first, added to families that are printed by rank.
    """

    def __init__(
        self,
        families: Iterable[Family],
        common: Mapping[str, str],
        rank_labels: tuple[Mapping[str, str], ...],
    ) -> None:
        self._shelves = {family.name: _Shelf(family) for family in families}
        self._common = common
        self._rank_labels = rank_labels

    def add(self, name: str, amount: float, *labels: str) -> None:
        """Adds `amount` to a counter or a gauge; adding 0 makes it appear."""
        self._series(name, labels).cells[0] += amount

    def put(self, name: str, value: float, *labels: str) -> None:
        """Sets a gauge, or a counter that is kept elsewhere."""
        self._series(name, labels).cells[0] = value

    def observe(self, name: str, value: float, *labels: str, times: int = 1) -> None:
        """Adds `times` observations of `value` to a histogram."""
        series = self._series(name, labels)
        series.cells[bisect_left(self._shelves[name].family.buckets, value)] += times
        series.total += value * times

    def render(self) -> str:
        """The page."""
        lines: list[str] = []
        for shelf in self._shelves.values():
            if not shelf.series:
                continue
            family = shelf.family
            lines.append(f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n")
            for series in shelf.series.values():
                values = _printed(family, series)
                for rank, prefixes in enumerate(series.prefixes):
                    shown = ["0.0\n"] if rank and family.ranks is Ranks.SEEDED else values
                    lines += [prefix + value for prefix, value in zip(prefixes, shown, strict=True)]
        return "".join(lines)

    def _series(self, name: str, labels: tuple[str, ...]) -> _Series:
        shelf = self._shelves[name]
        series = shelf.series.get(labels)
        if series is None:
            family = shelf.family
            size = len(family.buckets) + 1 if family.kind == "histogram" else 1
            series = _Series([0.0] * size, [_prefixes(family, rank) for rank in self._label_sets(family, labels)])
            shelf.series[labels] = series
        return series

    def _label_sets(self, family: Family, values: tuple[str, ...]) -> list[dict[str, str]]:
        own = dict(zip(family.labels, values, strict=True))
        if family.common:
            own |= self._common
        match family.ranks:
            case Ranks.NONE:
                return [own]
            case Ranks.FIRST:
                return [{**own, **self._rank_labels[0]}]
            case Ranks.ALL | Ranks.SEEDED:
                return [{**own, **rank} for rank in self._rank_labels]


def _printed(family: Family, series: _Series) -> list[str]:
    if family.kind != "histogram":
        numbers = series.cells
    else:
        cumulative = list(accumulate(series.cells))
        numbers = [series.total, *cumulative, cumulative[-1]]
    return [_go(number) + "\n" for number in numbers]


def _go(number: float) -> str:
    return str(floatToGoString(number))  # type: ignore[no-untyped-call]


def _prefixes(family: Family, labels: Mapping[str, str]) -> list[str]:
    if family.kind != "histogram":
        return [_prefix(family.name, labels)]
    bounds = [_prefix(f"{family.name}_bucket", {**labels, "le": _go(bound)}) for bound in (*family.buckets, inf)]
    return [_prefix(f"{family.name}_sum", labels), *bounds, _prefix(f"{family.name}_count", labels)]


def _prefix(name: str, labels: Mapping[str, str]) -> str:
    text = ",".join(f'{key}="{_escape(value)}"' for key, value in sorted(labels.items()))
    return f"{name}{{{text}}} " if text else f"{name} "


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
