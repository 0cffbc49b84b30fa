"""Asks every target of a configuration twice and keeps what each of them answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pdscope.collect.poller import MAX_IN_FLIGHT, Clock, Target
from pdscope.config import Config, DeviceConfig
from pdscope.model.scrape import FailureReason, Scrape
from pdscope.runtime.local_devices import LocalDevices
from pdscope.runtime.named_files import read_named_files
from pdscope.runtime.plugins import Plugins
from pdscope.runtime.targets import Asked, Unreadable, make_targets, sort_out
from pdscope.runtime.watch import Watch
from pdscope.sources.bundle import PageKind
from pdscope.sources.http import ACCEPT_JSON, Fetcher

PAUSE_SECONDS = 2.0
"""Between the two scrapes: counters need two, and gauges of engines are renewed about once a second."""
_VERSION_LENGTH = 64


@dataclass(slots=True)
class Pages:
    """What one page of one target brought: for each scrape the readings, one for each instance that it serves."""

    readings: list[list[Scrape]] = field(default_factory=list)

    @property
    def last(self) -> list[Scrape]:
        """The newest readings that brought data, or the newest of all."""
        good = [reading for reading in self.readings if all(scrape.ok for scrape in reading)]
        return (good or self.readings)[-1] if self.readings else []

    @property
    def failure(self) -> Scrape | None:
        """The newest failure."""
        return next((s for reading in reversed(self.readings) for s in reading if not s.ok), None)


class Recorder(Watch):
    """A watch that also keeps every reading, so that what was read can be told, not only what was made of it."""

    def __init__(self, config: Config, plugins: Plugins) -> None:
        super().__init__(config, plugins, files=read_named_files(config))
        self._pages: dict[tuple[str, PageKind], Pages] = {}

    def pages(self, target: str, kind: PageKind) -> Pages:
        """What a page of a target brought; empty where it was not asked for."""
        return self._pages.setdefault((target, kind), Pages())

    def feed(
        self, target: str, kind: PageKind, body: bytes, at: float, duration_seconds: float | None = None
    ) -> list[Scrape]:
        """Take in one page."""
        found = super().feed(target, kind, body, at, duration_seconds)
        self.pages(target, kind).readings.append(found)
        return found

    def fail(self, target: str, kind: PageKind, at: float, reason: FailureReason, detail: str) -> None:
        """Take in a failure."""
        super().fail(target, kind, at, reason, detail)
        failure = Scrape(target, str(kind), at, reason=reason, detail=detail)
        self.pages(target, kind).readings.append([failure])


@dataclass(frozen=True, slots=True)
class Visit:
    """What the targets answered.

    Attributes:
        recorder: has every reading, and makes the report.
        versions: by instance name, of engines that state theirs under `/version` only.
        unreadable: what is configured and was not asked.
    """

    recorder: Recorder
    versions: Mapping[str, str]
    unreadable: tuple[Unreadable, ...]


async def visit(config: Config, plugins: Plugins, clock: Clock, local: LocalDevices | None = None) -> Visit:
    """Ask every target twice, `PAUSE_SECONDS` apart.

    Args:
        config: checked.
        plugins: adapters and rules.
        clock: the time; tests bring their own.
        local: the devices of this host; tests bring their own.

    Raises:
        ConfigError: a file that the configuration names cannot be read.
    """
    polled, unreadable = sort_out(config, plugins)
    recorder = Recorder(config, plugins)
    async with Fetcher(monotonic=clock.monotonic) as fetcher:
        with (local or LocalDevices()).open() as devices:
            await _ask_twice(make_targets(polled, recorder, fetcher, clock, devices), clock)
        versions = await _versions(polled, recorder, fetcher)
    return Visit(recorder, versions, tuple(unreadable))


async def _ask_twice(targets: Sequence[Target], clock: Clock) -> None:
    lane = asyncio.Semaphore(MAX_IN_FLIGHT)
    for pause_seconds in (0.0, PAUSE_SECONDS):
        await clock.sleep(pause_seconds)
        async with asyncio.TaskGroup() as group:
            for target in targets:
                group.create_task(_in_lane(target.scrape, lane))


async def _in_lane(scrape: Callable[[], Awaitable[object]], lane: asyncio.Semaphore) -> None:
    async with lane:
        await scrape()


async def _versions(polled: Sequence[Asked], watch: Recorder, fetcher: Fetcher) -> dict[str, str]:
    """Versions by instance name, of engines whose pages do not state theirs but that answer `/version`."""
    versions: dict[str, str] = {}
    for asked in polled:
        page = watch.pages(asked.name, PageKind.METRICS).last
        if isinstance(asked, DeviceConfig) or not (page and page[0].ok):
            continue
        fetched = await fetcher.fetch(
            f"{asked.url}/version",
            timeout_seconds=asked.scrape.timeout_seconds,
            accept=ACCEPT_JSON,
            auth=asked.auth,
            tls=asked.tls,
        )
        version = _version(fetched.body or b"")
        if version is not None:
            versions[asked.name] = version
    return versions


def _version(body: bytes) -> str | None:
    try:
        document = json.loads(body)
    except ValueError:  # also of bytes that are no text
        return None
    version = document.get("version") if isinstance(document, dict) else None
    return version if isinstance(version, str) and version.isprintable() and len(version) <= _VERSION_LENGTH else None
