"""What is polled: the instances and device exporters of a configuration, and how each is asked."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from pdscope.collect.poller import Clock, Failure, Target
from pdscope.config import Config, DeviceConfig, InstanceConfig
from pdscope.errors import PageError
from pdscope.model.metric import Fact
from pdscope.model.scrape import FailureReason
from pdscope.runtime.local_devices import LOCAL_SOURCE, LocalDevices, LocalTarget
from pdscope.runtime.plugins import ENGINE_ALIASES, Plugins
from pdscope.runtime.watch import Watch
from pdscope.sources.bundle import PageKind
from pdscope.sources.http import ACCEPT_JSON, ACCEPT_TEXT, Fetcher, quotable
from pdscope.sources.introduction import INTRODUCTIONS
from pdscope.sources.reader import PageReader

_LOADS_ENGINE = "sglang"
_LOADS_PATH = "/v1/loads?include=all"
_INTRODUCTION_SECONDS = 300.0

Asked = InstanceConfig | DeviceConfig

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A deployment, instance or device of the configuration that this version cannot read, and why."""

    name: str
    why: str


def sort_out(config: Config, plugins: Plugins) -> tuple[list[Asked], list[Unreadable]]:
    """What can be polled, and what this version cannot read, in the order of the configuration."""
    reader = PageReader(plugins.engines)
    polled: list[Asked] = []
    unreadable: list[Unreadable] = []
    for deployment in config.deployments:
        if deployment.discovery is not None:
            unreadable.append(Unreadable(deployment.name, "this version finds no instances by itself"))
        if deployment.prometheus is not None:  # asked instead of the instances
            unreadable.append(Unreadable(deployment.name, "this version asks no Prometheus server"))
            continue
        listed: tuple[Asked, ...] = (*deployment.instances, *deployment.devices)
        for asked in listed:
            why = _why_not(asked, reader, plugins)
            if why is None:
                polled.append(asked)
            else:
                unreadable.append(Unreadable(asked.name, why))
    return polled, unreadable


def _why_not(asked: Asked, reader: PageReader, plugins: Plugins) -> str | None:
    if isinstance(asked, InstanceConfig):
        adapters = reader.candidates(engine=_engine(asked), role=asked.role)
        return None if adapters else f"this version reads no {asked.engine or asked.role or 'engine'}"
    if asked.mapping_file is None and not any(adapter.name == asked.source for adapter in plugins.devices):
        return f"this version reads no device source {asked.source}"
    return None  # the configuration sees to it that it has a url, or is read on this host


def _engine(instance: InstanceConfig) -> str | None:
    return ENGINE_ALIASES.get(instance.engine or "", instance.engine)


def make_targets(
    polled: Sequence[Asked], watch: Watch, fetcher: Fetcher, clock: Clock, local: LocalDevices
) -> list[Target]:
    """What the poller needs to know of each: those that are asked over HTTP, and the devices of this host."""
    targets = []
    for asked in polled:
        if isinstance(asked, DeviceConfig) and asked.source == LOCAL_SOURCE and asked.url is None:
            targets.append(LocalTarget(asked, watch, local, clock).target())
        else:
            targets.append(PolledTarget(asked, watch, fetcher, clock).target())
    return targets


class PolledTarget:
    """One instance or device exporter: asks for its pages, one after the other, and feeds the watch with them."""

    def __init__(self, config: Asked, watch: Watch, fetcher: Fetcher, clock: Clock) -> None:
        self._config = config
        self._watch = watch
        self._fetcher = fetcher
        self._clock = clock
        self._page = PageKind.METRICS
        self._lacks_loads = False
        self._cost_seconds: float | None = None
        self._recognised = ""
        self._introduced_at = -_INTRODUCTION_SECONDS
        if isinstance(config, InstanceConfig):
            engine = _engine(config)
            self._urls = {PageKind.METRICS: f"{config.url}/metrics", PageKind.LOADS: f"{config.url}{_LOADS_PATH}"}
            self._has_loads = engine == _LOADS_ENGINE
            self._finds_loads = engine is None
        else:
            self._urls = {PageKind.METRICS: config.url or ""}
            self._has_loads = self._finds_loads = False

    def target(self) -> Target:
        """What the poller needs to know of it."""
        interval_seconds = self._config.scrape.interval_seconds
        return Target(self._config.name, interval_seconds, self._scrape, self._fail, lambda: self._cost_seconds)

    async def _scrape(self) -> Failure | None:
        """All pages within one deadline, so that there is one request at a time and no place in line is held longer."""
        ends = self._clock.timer() + self._config.scrape.timeout_seconds
        self._cost_seconds = None
        metrics = await self._read(PageKind.METRICS, ACCEPT_TEXT, ends)
        if metrics is None:
            await self._introduce(ends)
        if not self._has_loads:
            return metrics
        if metrics is not None and metrics.reason in (FailureReason.CONNECT, FailureReason.TIMEOUT):
            self._page = PageKind.LOADS
            self._fail(metrics)
            return metrics
        loads = await self._read(PageKind.LOADS, ACCEPT_JSON, ends)
        if metrics is not None and loads is not None:
            return metrics
        failure = metrics or loads
        return None if failure is None else failure._replace(partial=True)

    async def _read(self, page: PageKind, accept: str, ends: float) -> Failure | None:
        """One page; `ends` is by the clock's timer."""
        self._page = page
        fetched = await self._fetcher.fetch(
            self._urls[page],
            timeout_seconds=max(0.0, ends - self._clock.timer()),
            accept=accept,
            auth=self._config.auth,
            tls=self._config.tls,
        )
        if page is PageKind.LOADS and fetched.status == 404:
            self._note_missing_loads()
            return None
        if fetched.reason is not None:
            failure = Failure(fetched.reason, fetched.detail)
            self._fail(failure)
            return failure
        self._cost_seconds = (self._cost_seconds or 0.0) + fetched.duration_seconds
        at = self._clock.wall()
        scrapes = self._watch.feed(self._config.name, page, fetched.body or b"", at, fetched.duration_seconds)
        if page is PageKind.METRICS and self._finds_loads and all(scrape.ok for scrape in scrapes):
            self._has_loads = any(scrape.source == _LOADS_ENGINE for scrape in scrapes)
        if page is PageKind.METRICS and isinstance(self._config, InstanceConfig):
            self._recognised = next((scrape.source for scrape in scrapes if scrape.ok), "")
        told = quotable(self._config.url or "", self._config.auth)
        for scrape in scrapes:
            if scrape.reason is not None:
                return Failure(scrape.reason, scrape.detail if told else "the page cannot be read")
        return None

    async def _introduce(self, ends: float) -> None:
        """What the engine says of itself, at the start and every few minutes. An engine need not answer."""
        now = self._clock.monotonic()
        if self._recognised not in INTRODUCTIONS or now - self._introduced_at < _INTRODUCTION_SECONDS:
            return
        self._introduced_at = now
        facts: dict[Fact, str] = {}
        for path, read in INTRODUCTIONS[self._recognised]:
            fetched = await self._fetcher.fetch(
                f"{self._config.url}{path}",
                timeout_seconds=max(0.0, ends - self._clock.timer()),
                accept=ACCEPT_JSON,
                auth=self._config.auth,
                tls=self._config.tls,
            )
            try:
                facts.update(read(fetched.body) if fetched.body is not None else {})
            except PageError as error:
                _log.debug("target %s: %s: %s", self._config.name, path, error)
        if facts:
            self._watch.learn(self._config.name, facts)

    def _fail(self, failure: Failure) -> None:
        """Keep that the page which was asked for last brought nothing."""
        self._watch.fail(self._config.name, self._page, self._clock.wall(), failure.reason, failure.detail)

    def _note_missing_loads(self) -> None:
        """An engine that is older than the page has not failed; `/metrics` has most of it."""
        if not self._lacks_loads:
            self._lacks_loads = True
            _log.info("target %s: this version of the engine has no %s", self._config.name, _LOADS_PATH)
