"""The metric families of the programs: names, kinds, help texts, labels and bucket bounds, as they print them.

Each `<program>.json` is a list of families in page order. What a family has beside the attributes of `Family` is
`start`: the series it has before anything has happened, each as its label values and its number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import Any

import orjson


class Ranks(Enum):
    """Which tensor-parallel ranks print a series."""

    NONE = "none"
    """It has no rank."""
    FIRST = "first"
    ALL = "all"
    SEEDED = "seeded"
    """Every rank has it from the start at zero, the first one counts."""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric family.

    Attributes:
        name: as after `# TYPE`.
        kind: `counter`, `gauge`, `histogram` or `summary`.
        help: text of `# HELP`.
        labels: names of its own labels, in the order in which values are given, without `le` of a histogram.
        common: names of the labels that it shares with others of the page.
        rank_labels: names of the labels that tell ranks apart.
        ranks: which ranks print it.
        first_only: series with one of these label values are printed by the first rank alone.
        buckets: upper bounds of a histogram, without infinity.
        start: series that are there before anything has happened: label values, and the number.
        roles: of instances that have it; empty for all.
        has_created: whether its library knows when its series came into being.
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    common: tuple[str, ...] = ()
    rank_labels: tuple[str, ...] = ()
    ranks: Ranks = Ranks.NONE
    first_only: frozenset[str] = frozenset()
    buckets: tuple[float, ...] = ()
    start: tuple[tuple[tuple[str, ...], float], ...] = field(default=(), repr=False)
    roles: frozenset[str] = frozenset()
    has_created: bool = True


@cache
def families(program: str) -> tuple[Family, ...]:
    """The families of `program`, in page order."""
    return tuple(map(_family, orjson.loads((files(__name__) / f"{program}.json").read_bytes())))


def of_role(known: Iterable[Family], role: str) -> tuple[Family, ...]:
    """Those that an instance of that role can have."""
    return tuple(family for family in known if not family.roles or role in family.roles)


def _family(entry: dict[str, Any]) -> Family:
    return Family(
        name=entry["name"],
        kind=entry["kind"],
        help=entry["help"],
        labels=tuple(entry.get("labels", ())),
        common=tuple(entry.get("common", ())),
        rank_labels=tuple(entry.get("rank_labels", ())),
        ranks=Ranks(entry.get("ranks", "none")),
        first_only=frozenset(entry.get("first_only", ())),
        buckets=tuple(map(float, entry.get("buckets", ()))),
        start=tuple((tuple(row[:-1]), float(row[-1])) for row in entry.get("start", ())),
        roles=frozenset(entry.get("roles", ())),
        has_created=entry.get("created", True),
    )
