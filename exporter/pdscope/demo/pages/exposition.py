"""A store of series and its text form 0.0.4, in the dialect of the library that a program prints its page with.

The processes of a tensor-parallel engine write into one page, so a series may stand there once a rank; it is kept once
here. The text of a series is made when it has changed, so a page costs what has happened since the last one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from math import inf

from pdscope.demo.pages.dialect import Dialect
from pdscope.demo.pages.families import Family, Ranks


@dataclass(slots=True)
class _Series:
    """One label set.

    Attributes:
        cells: the value, or a histogram's counts by bucket, infinity last; empty for a summary.
        prefixes: per rank, the text before each line's value.
        created: the lines of its `_created` series, empty where there is none.
        total: sum of a histogram or summary; `count` of a summary.
        text: its lines as printed last, None when something has changed since.
    """

    cells: list[float]
    prefixes: list[list[str]]
    created: str
    total: float = 0.0
    count: float = 0.0
    text: str | None = None


class Exposition:
    """The series of one page.

    Args:
        families: everything that may be printed, in page order.
        dialect: of the library.
        common: values of the labels that many families carry.
        rank_labels: label sets of the ranks, first rank first, for families that are printed by rank.
        unix_seconds: the moment at which a series comes into being, where the dialect prints it.
    """

    def __init__(
        self,
        families: Iterable[Family],
        dialect: Dialect,
        *,
        common: Mapping[str, str],
        rank_labels: tuple[Mapping[str, str], ...] = ({},),
        unix_seconds: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._families = {family.name: family for family in families}
        self._dialect = dialect
        self._common = common
        self._rank_labels = rank_labels
        self._unix_seconds = unix_seconds
        self._series: dict[str, dict[tuple[str, ...], _Series]] = {name: {} for name in self._families}

    def add(self, name: str, amount: float, *labels: str) -> None:
        """Adds `amount` to a counter or a gauge; adding 0 makes it appear."""
        self._touch(name, labels).cells[0] += amount

    def put(self, name: str, value: float, *labels: str) -> None:
        """Sets a gauge, or a counter that is kept elsewhere."""
        self._touch(name, labels).cells[0] = value

    def observe(self, name: str, value: float, *labels: str, times: float = 1) -> None:
        """Adds `times` observations of `value` to a histogram or summary."""
        series = self._touch(name, labels)
        if series.cells:
            series.cells[bisect_left(self._families[name].buckets, value)] += times
        series.count += times
        series.total += value * times

    def show(self, name: str, *labels: str) -> None:
        """Makes a series appear at zero, if it is not there."""
        self._find(name, labels)

    def value(self, name: str, *labels: str) -> float:
        """Of a counter or gauge; 0 where it is not there."""
        series = self._series[name].get(labels)
        return series.cells[0] if series else 0.0

    def render(self) -> bytes:
        """The page."""
        dialect = self._dialect
        parts: list[str] = []
        for name, known in self._series.items():
            if not known and not dialect.shows_empty:
                continue
            family = self._families[name]
            parts.append(f"# HELP {name} {family.help}\n# TYPE {name} {family.kind}\n")
            parts += [series.text or self._print(family, series) for series in known.values()]
            created = [series.created for series in known.values() if series.created]
            if created:
                base = dialect.created_name(family)
                parts += [f"# HELP {base} {family.help}\n# TYPE {base} gauge\n", *created]
            if dialect.separator:
                parts.append(dialect.separator)
        return "".join(parts).encode()

    def _touch(self, name: str, labels: tuple[str, ...]) -> _Series:
        series = self._find(name, labels)
        series.text = None
        return series

    def _find(self, name: str, labels: tuple[str, ...]) -> _Series:
        series = self._series[name].get(labels)
        if series is None:
            series = self._series[name][labels] = self._new(self._families[name], labels)
        return series

    def _new(self, family: Family, values: tuple[str, ...]) -> _Series:
        sets = self._label_sets(family, values)
        cells = {"histogram": len(family.buckets) + 1, "summary": 0}.get(family.kind, 1)
        created = ""
        if self._dialect.has_created and family.has_created and family.kind != "gauge":
            moment = self._dialect.number(self._unix_seconds())
            created = f"{self._dialect.prefix(self._dialect.created_name(family), sets[0])}{moment}\n"
        return _Series([0.0] * cells, [self._prefixes(family, one) for one in sets], created)

    def _label_sets(self, family: Family, values: tuple[str, ...]) -> list[dict[str, str]]:
        own = dict(zip(family.labels, values, strict=True)) | {name: self._common[name] for name in family.common}
        if family.ranks is Ranks.NONE:
            return [own]
        only_first = family.ranks is Ranks.FIRST or not family.first_only.isdisjoint(values)
        ranks = self._rank_labels[:1] if only_first else self._rank_labels
        return [own | {name: rank[name] for name in family.rank_labels} for rank in ranks]

    def _prefixes(self, family: Family, labels: Mapping[str, str]) -> list[str]:
        prefix, number = self._dialect.prefix, self._dialect.number
        if family.kind not in {"histogram", "summary"}:
            return [prefix(family.name, labels)]
        lines = {
            "sum": [prefix(f"{family.name}_sum", labels)],
            "count": [prefix(f"{family.name}_count", labels)],
            "bucket": [
                prefix(f"{family.name}_bucket", {**labels, "le": number(bound)}) for bound in (*family.buckets, inf)
            ],
        }
        return [line for part in self._parts(family) for line in lines[part]]

    def _parts(self, family: Family) -> tuple[str, ...]:
        parts = self._dialect.parts
        return parts if family.kind == "histogram" else tuple(part for part in parts if part != "bucket")

    def _print(self, family: Family, series: _Series) -> str:
        values = self._values(family, series)
        lines: list[str] = []
        for rank, prefixes in enumerate(series.prefixes):
            shown = ["0.0\n"] if rank and family.ranks is Ranks.SEEDED else values
            lines += [prefix + value for prefix, value in zip(prefixes, shown, strict=True)]
        series.text = "".join(lines)
        return series.text

    def _values(self, family: Family, series: _Series) -> list[str]:
        number = self._dialect.number
        if family.kind not in {"histogram", "summary"}:
            return [number(series.cells[0]) + "\n"]
        numbers = {"sum": [series.total], "count": [series.count], "bucket": list(accumulate(series.cells))}
        return [number(value) + "\n" for part in self._parts(family) for value in numbers[part]]
