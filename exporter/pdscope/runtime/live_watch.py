"""A watch for the daemon: it remembers how scrapes went, and takes over from the watch of an older configuration."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable

from pdscope.collect.store import Store, Stream
from pdscope.config import Config, DeploymentConfig
from pdscope.model.scrape import FailureReason, Scrape
from pdscope.render.debug import DebugFacts, ScrapeNote
from pdscope.runtime.named_files import NamedFiles
from pdscope.runtime.plugins import Plugins
from pdscope.runtime.watch import Watch
from pdscope.sources.bundle import PageKind

_NOTES_PER_TARGET = 20
_NOTES_SHOWN = 100


class LiveWatch(Watch):
    """`Watch` with a scrape log and a way from one configuration to the next."""

    def __init__(self, config: Config, plugins: Plugins, *, files: NamedFiles | None = None) -> None:
        super().__init__(config, plugins, files=files)
        self._notes: dict[str, deque[ScrapeNote]] = {}

    def feed(
        self, target: str, kind: PageKind, body: bytes, at: float, duration_seconds: float | None = None
    ) -> list[Scrape]:
        """Take in a page, and note how it went."""
        scrapes = super().feed(target, kind, body, at, duration_seconds)
        reason = next((scrape.reason for scrape in scrapes if scrape.reason is not None), None)
        self._note(ScrapeNote(target, str(kind), at, reason, duration_seconds))
        return scrapes

    def fail(self, target: str, kind: PageKind, at: float, reason: FailureReason, detail: str) -> None:
        """Take in a scrape that failed, and note it."""
        super().fail(target, kind, at, reason, detail)
        self._note(ScrapeNote(target, str(kind), at, reason))

    def _note(self, note: ScrapeNote) -> None:
        self._notes.setdefault(note.target, deque(maxlen=_NOTES_PER_TARGET)).append(note)

    def take_over(self, previous: LiveWatch) -> None:
        """Go on where the watch of an older configuration stops.

        Targets that are what they were (name, address, engine or source, devices) keep their data and counts; what
        was scraped of the others is forgotten. `previous` gets an empty store: a scrape that still comes in through
        it is lost rather than mixed with those of a target that now has its name.
        """
        before, now = previous.identities(), self.identities()
        kept = {stream for stream, identity in now.items() if before.get(stream) == identity}
        store, previous._store = previous._store, Store(0.0)
        store.retention_seconds = self._store.retention_seconds
        for stream in store.streams():
            if stream not in kept:
                store.forget(stream)
        self._store = store
        for stream in kept:
            if stream in previous._failures:
                self._failures[stream] = previous._failures[stream]
            if stream in previous._last_success:
                self._last_success[stream] = previous._last_success[stream]
        names = {stream.target for stream in kept}
        self._said = {name: facts for name, facts in previous._said.items() if name in names}
        self._notes = {name: notes for name, notes in previous._notes.items() if name in names}
        self._rule_failures = {rule: previous._rule_failures.get(rule, 0) for rule in self._rule_failures}

    def identities(self) -> dict[Stream, Hashable]:
        """What makes the data of each stream those of one and the same thing."""
        found: dict[str, tuple[Hashable, ...]] = {}
        selects: dict[Stream, Hashable] = {}
        for deployment in self.config.deployments:
            for instance in deployment.instances:
                found[instance.name] = (instance.url, instance.engine, instance.role)
            for device in deployment.devices:
                found[device.name] = (device.url, device.source)
                for served in device.served:
                    stream = Stream(device.name, PageKind.METRICS, served.instance)
                    selects[stream] = tuple(sorted((label, str(values)) for label, values in served.select.items()))
        return {stream: (*found[stream.target], selects.get(stream)) for stream in self._readers}

    def debug(self, deployment: DeploymentConfig) -> DebugFacts:
        """What is behind the diagnosis of a deployment now."""
        targets = {*(i.name for i in deployment.instances), *(d.name for d in deployment.devices)}
        notes = [note for name in targets for note in self._notes.get(name, ())]
        notes.sort(key=lambda note: (note.at, note.target, note.page))
        return DebugFacts(
            instances={i.name: self._newest_values(i.name) for i in deployment.instances},
            thresholds={
                rule.id: {t.name: t.default for t in rule.thresholds} | dict(deployment.thresholds.get(rule.id, {}))
                for rule in self.plugins.rules
                if rule.thresholds
            },
            scrapes=tuple(notes[-_NOTES_SHOWN:]),
        )

    def _newest_values(self, instance: str) -> dict[str, float]:
        """Of all its pages and devices; where `/metrics` and `/v1/loads` say the same, the latter, which stays fresh.

        A metric of one rank is `metric[rank]`; of a histogram there are `metric_count` and `metric_sum`.
        """
        streams = [stream for stream in self._readers if stream.serves == instance]
        streams.sort(key=lambda stream: stream.kind == PageKind.LOADS)
        values: dict[str, float] = {}
        for stream in streams:
            scrape = self._store.newest(stream)
            if scrape is not None:
                values |= _values(scrape)
        return dict(sorted(values.items()))


def _values(scrape: Scrape) -> dict[str, float]:
    """The numbers of a scrape by name; nothing of one that failed, and no metric that the page lacks."""
    if scrape.schema is None or scrape.row is None:
        return {}
    places: dict[str, int] = {}
    for key, index in scrape.schema.scalars.items():
        places[key.metric.name.lower() + _mark(key.rank)] = index
    for key, slot in scrape.schema.histograms.items():
        end = slot.start + len(slot.bounds)
        places[f"{key.metric.name.lower()}_count{_mark(key.rank)}"] = end - 1
        places[f"{key.metric.name.lower()}_sum{_mark(key.rank)}"] = end
    numbers = {name: float(scrape.row[index]) for name, index in places.items()}
    return {name: number for name, number in numbers.items() if math.isfinite(number)}


def _mark(rank: str) -> str:
    return f"[{rank}]" if rank else ""
