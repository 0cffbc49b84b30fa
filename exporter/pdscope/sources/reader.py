"""Turns the bodies of one target into scrapes: parse, compile once a layout, apply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from pdscope.errors import PageError
from pdscope.model.metric import Fact
from pdscope.model.scrape import Dropped, FailureReason, PageQuality, Scrape
from pdscope.model.topology import Role
from pdscope.sources.adapter import Adapter
from pdscope.sources.exposition import Layout, Page, PageParser
from pdscope.sources.plan import Plan, compile_plan, recognises
from pdscope.sources.renamed import renamed
from pdscope.sources.selection import EVERYTHING, Selection

PlanKey = tuple[tuple[str, ...], Selection]


class PageReader:
    """Reads pages with a set of adapters. One for all targets: equal pages share their layout and its plan."""

    def __init__(self, adapters: Sequence[Adapter]) -> None:
        self._adapters = tuple(adapters)
        wanted = frozenset(name for adapter in adapters for name in adapter.sample_names())
        self._parser = PageParser(wanted)
        self._plans: WeakKeyDictionary[Layout, dict[PlanKey, Plan]] = WeakKeyDictionary()

    def parse(self, body: bytes, hint: Layout | None) -> Page:
        """The wanted samples of a page.

        Raises:
            PageError: the body is no exposition.
        """
        return self._parser.parse(body, hint)

    def plan(self, layout: Layout, adapters: Sequence[Adapter], selection: Selection) -> Plan:
        """The compiled plan, made once a layout; without adapters when the page is of no program that they read."""
        plans = self._plans.setdefault(layout, {})
        key = (tuple(a.name for a in adapters), selection)
        plan = plans.get(key)
        if plan is None:
            own = self.programs(layout)
            plan = plans[key] = compile_plan(layout, [a for a in adapters if a in own], selection)
        return plan

    def programs(self, layout: Layout) -> tuple[Adapter, ...]:
        """All adapters whose page it is, whatever its target is said to be.

        A router's page is its alone: it repeats what it has read from its workers, under names that look like theirs.
        """
        found = tuple(a for a in self._adapters if recognises(a, layout))
        return tuple(a for a in found if a.router) or found

    def why_unread(self, layout: Layout, body: bytes) -> str:
        """Why nobody reads a page, for the person who configured its target."""
        programs = self.programs(layout)
        if programs:
            names = ", ".join(a.name for a in programs)
            return f"the page is of {names}, which this target is not: does its role fit its url?"
        return renamed(self._adapters, body) or (
            "the page holds no series of a known program: are its metrics switched on?"
        )

    def candidates(self, *, engine: str | None, role: Role | None) -> tuple[Adapter, ...]:
        """Adapters for an instance, those of its engine first.

        A page is read by every adapter that recognises it: a Dynamo worker prints its engine's series too.
        """
        fitting = [
            a for a in self._adapters if a.flatten is None and (role is None or a.router is (role is Role.ROUTER))
        ]
        named = [a for a in fitting if a.profile is not None and a.profile.name == engine]
        return (*named, *(a for a in fitting if a not in named))

    def json_adapter(self, name: str) -> Adapter | None:
        """The adapter of a JSON page, by name."""
        return next((a for a in self._adapters if a.name == name and a.flatten is not None), None)


@dataclass(slots=True)
class TargetReader:
    """Reads the pages of one target; keeps the layout of the last one as a hint.

    Attributes:
        target: name of the instance or device.
        reader: shared by all targets.
        adapters: that may recognise its pages, in order of preference.
        selection: the samples that belong to whom the target is read for.
    """

    target: str
    reader: PageReader
    adapters: Sequence[Adapter]
    selection: Selection = EVERYTHING
    _hint: Layout | None = None

    def read(self, body: bytes, at: float, duration_seconds: float | None = None) -> Scrape:
        """One scrape; a body that cannot be read is a scrape with a reason.

        Args:
            body: as received.
            at: unix seconds when it had arrived. A page whose wanted samples carry time stamps is as old as they are.
            duration_seconds: how long the request took; None for a recorded page.
        """
        source = self.adapters[0].name if self.adapters else "none"
        flatten = self.adapters[0].flatten if self.adapters else None
        try:
            page = self.reader.parse(flatten(body) if flatten is not None else body, self._hint)
        except PageError as error:
            reason, detail = FailureReason.NOT_EXPOSITION, str(error)[:200]
            return Scrape(self.target, source, at, duration_seconds=duration_seconds, reason=reason, detail=detail)
        self._hint = page.layout
        plan = self.reader.plan(page.layout, self.adapters, self.selection)
        if not plan.adapters:
            reason, detail = FailureReason.METRICS_OFF, self.reader.why_unread(page.layout, body)
            return Scrape(self.target, source, at, duration_seconds=duration_seconds, reason=reason, detail=detail)
        dropped: list[Dropped] = []
        row = plan.row(page.values, dropped)
        defects = page.defects
        return Scrape(
            target=self.target,
            source=plan.adapters[0],
            at=_measured_at(page, at),
            schema=plan.schema,
            row=row,
            facts=plan.facts,
            quality=PageQuality(defects.bad_lines, defects.nan_samples, defects.duplicate_samples, tuple(dropped)),
            duration_seconds=duration_seconds,
        )


def _measured_at(page: Page, at: float) -> float:
    if page.timestamps is None or np.isnan(page.timestamps).all():
        return at
    return min(at, float(np.nanmax(page.timestamps)))


def role_of(facts: Mapping[Fact, str], adapters: Sequence[Adapter]) -> Role | None:
    """The role that a page states about its program; None where it states none."""
    said = facts.get(Fact.ROLE, "")
    for adapter in adapters:
        if said in adapter.roles:
            return adapter.roles[said]
    return None
