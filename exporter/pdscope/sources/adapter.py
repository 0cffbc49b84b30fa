"""Adapters are data: which series of which program is which canonical metric, and how its ranks repeat.

An adapter never runs code on a page; `plan.py` compiles it against the layout of a page once, and the plan turns every
later page of that layout into a row of numbers with three array operations.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import ModuleType
from typing import NamedTuple

from pdscope.model.metric import Fact, Kind, Metric
from pdscope.model.topology import EngineProfile, Role
from pdscope.sources.promises import Promise


@dataclass(frozen=True, slots=True)
class Series:
    """One spelling of a metric on a page.

    Attributes:
        name: sample name; for a histogram without `_bucket`, `_sum`, `_count`.
        where: a sample counts when each label is absent or equal: labels came with later versions.
        scale: factor to the metric's base unit.
        lazy: the engine prints the series only after its first event, so absence on its page means zero so far.
        valid: values outside are not measurements (sentinels of a driver) and count as missing.
        bits: for a series that is a bit mask: 1 where any of these bits is set, else 0.
        plus: names of series that are added, where all of them are on the page for the same devices.
    """

    name: str
    where: Mapping[str, str] = field(default_factory=dict)
    scale: float = 1.0
    lazy: bool = False
    valid: tuple[float, float] | None = None
    bits: int = 0
    plus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InfoLabel:
    """A number or a fact that a program exports as a label of an info series."""

    name: str
    label: str
    scale: float = 1.0


class Ownership(StrEnum):
    """What the value of an owner's label is compared with."""

    NAME = "name"
    """The instance's name: in Kubernetes a pod's."""
    PORT = "port"
    """The port of the instance's URL; the label holds ports with `;` between them."""


class Owner(NamedTuple):
    """A label by which a device says whose it is.

    `strict`: a page that says so of any device says it of all, so that a device without the label is nobody's. Else a
    page without a fitting device leaves all of them to the instance.
    """

    label: str
    by: Ownership
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Adapter:
    """How to read one kind of page.

    Attributes:
        name: names the source of every figure: `sglang`, `sglang_loads`, `dcgm`.
        probe: prefixes of series by which a page is recognised.
        prefix_setting: what gives all series of the program another prefix, so that its page is not recognised.
        series: spellings of each metric, the preferred one first; the first that is on the page is taken.
        router: reads pages of routers and frontends; such a page is never read as an engine.
        rank_labels: labels that together tell data-parallel ranks (devices, for a device source) apart; the values of
            ranks combine by the metric's own rule.
        devices: its ranks are devices or ports, which keep columns of their own even where there is but one, so that
            the same device on two pages can be told.
        aliases: label -> other spellings of it, for `select`, `owners` and `facts`.
        owners: labels that say whose a device is, for a target that serves an instance without a `select`.
        refresh_seconds: how rarely the program measures anew, where that is rarer than it may be asked.
        enable: metric -> the flag, variable or line of a file that makes the program print it.
        repeated: labels over which a series is repeated with the same meaning (tensor-parallel ranks): the smallest
            counts, except for `summed` metrics, where each rank reports its own part.
        totals: labels whose empty value is, for a gauge, the total of the others (SGLang's `priority`). A counter or
            histogram counts each event under one value, so there all values add up.
        drop: label -> value of samples that are not meant.
        infos: metrics found in labels of info series.
        facts: facts found in labels of the adapter's samples.
        labelled: series that are read for their labels only.
        roles: value of the fact `role` -> role.
        flatten: turns a JSON page into text exposition samples; None for exposition pages.
        profile: what diagnosis must know of the engine; None for devices.
        promised: what its page must have once the program has served requests.
    """

    name: str
    probe: tuple[str, ...]
    series: Mapping[Metric, tuple[Series, ...]]
    prefix_setting: str = ""
    router: bool = False
    rank_labels: tuple[str, ...] = ()
    devices: bool = False
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    owners: tuple[Owner, ...] = ()
    refresh_seconds: float = 0.0
    enable: Mapping[Metric, str] = field(default_factory=dict)
    repeated: tuple[str, ...] = ()
    summed: frozenset[Metric] = frozenset()
    totals: tuple[str, ...] = ()
    drop: Mapping[str, str] = field(default_factory=dict)
    infos: Mapping[Metric, tuple[InfoLabel, ...]] = field(default_factory=dict)
    facts: Mapping[Fact, str] = field(default_factory=dict)
    labelled: tuple[str, ...] = ()
    roles: Mapping[str, Role] = field(default_factory=dict)
    flatten: Callable[[bytes], bytes] | None = None
    profile: EngineProfile | None = None
    promised: tuple[Promise, ...] = ()

    def sample_names(self) -> frozenset[str]:
        """Every sample name that the adapter can use, in both spellings of the prefix."""
        names: set[str] = set(self.labelled)
        for metric, alternatives in self.series.items():
            for series in alternatives:
                names.update(_sample_names(series.name, metric.spec.kind), series.plus)
        for infos in self.infos.values():
            names.update(info.name for info in infos)
        return frozenset(spelling for name in names for spelling in spellings(name))


def spellings(name: str) -> tuple[str, ...]:
    """A name as printed, and as OpenMetrics escaping and several gateways print it (colon to underscore)."""
    return (name, name.replace(":", "_", 1)) if ":" in name else (name,)


def _sample_names(name: str, kind: Kind) -> Iterable[str]:
    if kind is Kind.HISTOGRAM:
        return (f"{name}_bucket", f"{name}_sum", f"{name}_count")
    return (name,)


def discover(package: ModuleType) -> tuple[Adapter, ...]:
    """All adapters of a package, in the order of module names; a new file is enough to add one.

    Raises:
        TypeError: a module defines no `ADAPTERS`: a mistake of ours, found by the first test that runs.
    """
    found: list[Adapter] = []
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        adapters = getattr(importlib.import_module(f"{package.__name__}.{module.name}"), "ADAPTERS", None)
        if not isinstance(adapters, tuple):
            message = f"{package.__name__}.{module.name} defines no ADAPTERS"
            raise TypeError(message)
        found.extend(adapters)
    return tuple(found)
