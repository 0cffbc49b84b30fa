"""A deployment with its servers, and pages reduced to what must be as in a recorded one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pdscope.demo.pages.servers import Server, servers
from pdscope.demo.physics.draw import Draw
from pdscope.demo.physics.simulation import Simulation

from .sglang_draws import HEALTHY, TROUBLED, UNIFIED

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_SUFFIXES = ("_bucket", "_sum", "_count")


@dataclass
class Family:
    """One family of a page: its kind, and each of its label sets with the values of its lines by `le` or suffix."""

    kind: str
    help: str
    series: dict[frozenset[tuple[str, str]], dict[str, float]] = field(default_factory=dict)

    @property
    def bounds(self) -> set[str]:
        """Of the buckets of all its series."""
        return {name for lines in self.series.values() for name in lines if not name.startswith("_")}


class Text:
    """A page, read line by line."""

    def __init__(self, body: bytes | str, hidden: frozenset[str] = frozenset()) -> None:
        text = body.decode() if isinstance(body, bytes) else body
        self.families: dict[str, Family] = {}
        helps: dict[str, str] = {}
        for line in text.splitlines():
            if line.startswith("# HELP "):
                name, _, words = line[7:].partition(" ")
                helps[name] = words
            elif line.startswith("# TYPE "):
                name, kind = line[7:].split(" ")
                assert name not in self.families
                self.families[name] = Family(kind, helps[name])
            elif line:
                self._sample(line, hidden)

    def _sample(self, line: str, hidden: frozenset[str]) -> None:
        series, _, value = line.rpartition(" ")
        name, _, inside = series.partition("{")
        labels = dict(_LABEL.findall(inside))
        cell = "_value"
        if name not in self.families:
            suffix = next(one for one in _SUFFIXES if name.endswith(one))
            name = name.removesuffix(suffix)
            cell = labels.pop("le") if suffix == "_bucket" else suffix
        key = frozenset((label, "*" if label in hidden else text) for label, text in labels.items())
        lines = self.families[name].series.setdefault(key, {})
        assert hidden or cell not in lines, f"{line} stands there twice"
        lines[cell] = float(value)

    def value(self, name: str, cell: str = "_value", **labels: str) -> float:
        """The only such value of the series of `name` that have these labels."""
        (value,) = self.values(name, cell, **labels)
        return value

    def values(self, name: str, cell: str = "_value", **labels: str) -> list[float]:
        """Of all series of `name` that have these labels; none where the family is absent."""
        family = self.families.get(name)
        if family is None:
            return []
        wanted = labels.items()
        return [lines[cell] for key, lines in family.series.items() if wanted <= set(key)]


class Rig:
    """A simulation with its servers, not run yet."""

    def __init__(self, draw: Draw) -> None:
        self.simulation = Simulation(draw)
        self.servers = {one.name: one for one in servers(self.simulation)}

    def run(self, seconds: float) -> Rig:
        """Goes on by that much."""
        self.simulation.run(self.simulation.now_seconds + seconds)
        return self

    def body(self, name: str, path: str = "/metrics") -> bytes:
        """What a server answers now."""
        return self.servers[name].pages[path].read()

    def text(self, name: str) -> Text:
        """Its `/metrics`, read."""
        return Text(self.body(name))

    def server(self, name: str) -> Server:
        """By name."""
        return self.servers[name]


@pytest.fixture(scope="session")
def rig() -> type[Rig]:
    """`rig(draw)`: a fresh deployment."""
    return Rig


@pytest.fixture(scope="session")
def recorded(fixtures_dir: Path) -> Callable[[str], str]:
    """`recorded(file name)`: a recorded page."""
    return lambda name: (fixtures_dir / "expositions" / name).read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def assert_same_shape() -> Callable[..., None]:
    """`assert_same_shape(page, recorded page, hidden=labels, absent=families, beyond=families)`.

    Families, kinds, help texts, label sets (values of `hidden` labels aside) and bucket bounds are those of the
    recorded page, in both directions; `absent` is what the page lacks because nothing has made it appear, and
    `beyond` what it has of its own. Families in `more` may have further series, in `longer` have bounds beyond
    those that were recorded.
    """

    def check(
        page: bytes,
        real: str,
        *,
        hidden: frozenset[str],
        absent: frozenset[str] = frozenset(),
        beyond: frozenset[str] = frozenset(),
        more: frozenset[str] = frozenset(),
        longer: frozenset[str] = frozenset(),
    ) -> None:
        ours, theirs = Text(page, hidden).families, Text(real, hidden).families
        assert set(theirs) - set(ours) == absent
        assert set(ours) - set(theirs) == beyond
        for name in set(ours) & set(theirs):
            assert ours[name].kind == theirs[name].kind, name
            assert ours[name].help == theirs[name].help, name
            lacking = set(theirs[name].series) - set(ours[name].series)
            surplus = set(ours[name].series) - set(theirs[name].series)
            assert not lacking, name
            assert not surplus or name in more, name
            if name in longer:
                assert ours[name].bounds > theirs[name].bounds, name
            else:
                assert ours[name].bounds == theirs[name].bounds, name

    return check


@pytest.fixture(scope="module")
def healthy(rig: type[Rig]) -> Rig:
    """Two minutes of one prefill and one decode instance, for looking at only."""
    return rig(HEALTHY).run(120.0)


@pytest.fixture(scope="module")
def troubled(rig: type[Rig]) -> Rig:
    """The same with transfers that fail, users who leave, and a decode pool that is too small."""
    return rig(TROUBLED).run(120.0)


@pytest.fixture(scope="module")
def unified(rig: type[Rig]) -> Rig:
    """The same with unified instances."""
    return rig(UNIFIED).run(120.0)
