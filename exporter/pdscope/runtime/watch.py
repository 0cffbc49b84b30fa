"""Targets of a configuration with what was scraped of them, and the diagnosis over it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from pdscope.analysis.beside import Reach
from pdscope.analysis.signals import compute_signals
from pdscope.collect.store import Store, Stream
from pdscope.config import Config, DeploymentConfig, InstanceConfig
from pdscope.diagnosis.engine import RuleFailure, judge
from pdscope.model.metric import Fact
from pdscope.model.report import DeploymentReport, InstanceState, Report, TargetState
from pdscope.model.scrape import FailureReason, Scrape
from pdscope.model.topology import Role
from pdscope.model.window import Window
from pdscope.runtime.behaviour import shown_roles
from pdscope.runtime.contradictions import contradictions
from pdscope.runtime.impossible import Impossible
from pdscope.runtime.missing import Missing
from pdscope.runtime.named_files import NamedFiles
from pdscope.runtime.plugins import ENGINE_ALIASES, Plugins
from pdscope.runtime.topology import build_deployment
from pdscope.runtime.unjudged import JUDGING, unjudged
from pdscope.sources.bundle import PageKind
from pdscope.sources.reader import PageReader, TargetReader, role_of
from pdscope.sources.selection import Selection

_LOADS = "sglang_loads"
_SILENT_FAILURES = 2
_ANSWERS = 3
"""Good scrapes in a row that tell what a page costs."""


class Watch:
    """Targets of a configuration with what was scraped of them, and the diagnosis over it.

    It does no I/O and has no clock: scrapes come in, reports go out. A bundle feeds it files, the daemon HTTP answers.
    """

    def __init__(
        self,
        config: Config,
        plugins: Plugins,
        *,
        files: NamedFiles | None = None,
        retention_seconds: float | None = None,
    ) -> None:
        """Set up readers for every target.

        Args:
            config: checked.
            plugins: adapters and rules.
            files: what the files say that the configuration names.
            retention_seconds: how long scrapes are kept; None: some windows.
        """
        self.config = config
        self._files = files or NamedFiles()
        self._said: dict[str, Mapping[Fact, str]] = {}
        self.plugins = plugins
        self._engine_reader = PageReader(plugins.engines)
        self._device_reader = PageReader((*plugins.devices, *self._files.mappings.values()))
        self._readers: dict[Stream, TargetReader] = {}
        self._store = Store(retention_seconds or config.window_seconds * 4 + 120)
        self._failures: dict[Stream, dict[FailureReason, int]] = {}
        self._last_success: dict[Stream, float] = {}
        self._missing = Missing.of((*plugins.engines, *plugins.devices, *self._files.mappings.values()))
        self._impossible = Impossible()
        self._missed: dict[Stream, int] = {}
        self._rule_failures: dict[str, int] = {JUDGING: 0, **{rule.id: 0 for rule in plugins.rules}}
        self.rule_errors: list[RuleFailure] = []
        self.faults: dict[str, Exception] = {}
        self._sources: dict[Stream, str] = {}
        self._asked = False
        self._behaves: dict[str, Role] = {}
        for deployment in config.deployments:
            self._add_targets(deployment)

    def _add_targets(self, deployment: DeploymentConfig) -> None:
        for instance in deployment.instances:
            engine = ENGINE_ALIASES.get(instance.engine or "", instance.engine)
            stream = Stream(instance.name, PageKind.METRICS, instance.name)
            adapters = self._engine_reader.candidates(engine=engine, role=instance.role)
            self._readers[stream] = TargetReader(instance.name, self._engine_reader, adapters)
            if engine is not None:
                self._sources[stream] = engine
            loads = self._engine_reader.json_adapter(_LOADS)
            if loads is not None and engine in ("sglang", None):
                key = Stream(instance.name, PageKind.LOADS, instance.name)
                self._readers[key] = TargetReader(instance.name, self._engine_reader, (loads,))
        ports = {instance.name: _port(instance.url) for instance in deployment.instances}
        for device in deployment.devices:
            mapping = self._files.mappings.get(device.source)
            adapters = (mapping,) if mapping else tuple(a for a in self.plugins.devices if a.name == device.source)
            for served in device.served:
                stream = Stream(device.name, PageKind.METRICS, served.instance)
                selection = Selection.of(served.select, name=served.instance, port=ports.get(served.instance, ""))
                self._readers[stream] = TargetReader(device.name, self._device_reader, adapters, selection)
                self._sources[stream] = mapping.name if mapping else device.source

    def feed(
        self, target: str, kind: PageKind, body: bytes, at: float, duration_seconds: float | None = None
    ) -> list[Scrape]:
        """Take in one page of a target; a device page is read once for each instance that it serves."""
        scrapes = []
        for stream, reader in self._readers.items():
            if stream.target == target and stream.kind == kind:
                scrape = reader.read(body, at, duration_seconds)
                self._keep(stream, scrape)
                scrapes.append(scrape)
        return scrapes

    def learn(self, instance: str, facts: Mapping[Fact, str]) -> None:
        """Keep what an engine said of itself beside its pages, until it says something else."""
        self._said[instance] = dict(facts)

    def fail(self, target: str, kind: PageKind, at: float, reason: FailureReason, detail: str) -> None:
        """Take in a scrape that failed."""
        for stream in self._readers:
            if stream.target == target and stream.kind == kind:
                self._keep(stream, Scrape(target, str(kind), at, reason=reason, detail=detail))

    def miss(self, target: str, kind: PageKind, count: int) -> None:
        """Take in that a recording ends with so many scrapes of which it has no page."""
        for stream in self._readers:
            if stream.target == target and stream.kind == kind:
                self._missed[stream] = count

    def _keep(self, stream: Stream, scrape: Scrape) -> None:
        self._store.add(stream, scrape)
        self._impossible.note(scrape)
        self._asked = self._asked or scrape.duration_seconds is not None
        if scrape.ok:
            self._last_success[stream] = scrape.at
            self._sources.setdefault(stream, scrape.source)
            self._missing.note(stream, scrape)
        elif scrape.reason is not None:
            self._asked = True
            counts = self._failures.setdefault(stream, {})
            counts[scrape.reason] = counts.get(scrape.reason, 0) + 1

    def report(self, now: float, *, max_age_seconds: float | None = None) -> Report:
        """The diagnosis of every deployment at `now` (unix seconds), over the configured window.

        A fault of ours in one of them costs its answer alone; `faults` and `rule_errors` have what was raised.
        """
        started = time.perf_counter()
        self.rule_errors, self.faults = [], {}
        seconds = self.config.window_seconds
        age = max_age_seconds if max_age_seconds is not None else seconds
        reports = tuple(self._judged(d, now, seconds, age) for d in self.config.deployments)
        return Report(
            generated_at=now,
            window_seconds=seconds,
            deployments=reports,
            targets=tuple(self._target_states()),
            duration_seconds=time.perf_counter() - started,
            rule_failures=dict(self._rule_failures),
        )

    def _judged(self, config: DeploymentConfig, now: float, seconds: float, age: float) -> DeploymentReport:
        try:
            return self._deployment(config, now, seconds, age)
        except Exception as error:  # noqa: BLE001 - the one place: a fault in one deployment must not silence the others
            self.faults[config.name] = error
            self._rule_failures[JUDGING] += 1
            states = {i.name: self._state(i.name, (), now, age) for i in config.instances}
            return unjudged(config, self.plugins, states, error, at=now, window_seconds=seconds)

    def _deployment(self, config: DeploymentConfig, now: float, seconds: float, age: float) -> DeploymentReport:
        windows = {i.name: self._windows(i.name, now, seconds) for i in config.instances}
        devices: dict[str, list[Window]] = {}
        for device in config.devices:
            for served in device.served:
                window = self._store.window(Stream(device.name, PageKind.METRICS, served.instance), now, seconds)
                if window is not None:
                    devices.setdefault(served.instance, []).append(window)
        model = self._files.models.get(config.name)
        self._behaves |= shown_roles(config, self._store)
        deployment = build_deployment(config, windows, self.plugins, self._said, model, devices, self._behaves)
        reach = {i.name: found for i in config.instances if (found := self._reach(i)) is not None}
        signals = compute_signals(deployment, windows, devices, now, age, reach)
        facts = {i.name: self._facts(i.name) for i in config.instances}
        signals = signals.extended(contradictions(config, deployment, self._store, self.plugins, facts, now))
        judgement = judge(deployment, signals, self.plugins.rules, at=now, window_seconds=seconds)
        self.rule_errors += judgement.failures
        for failure in judgement.failures:
            self._rule_failures[failure.rule] += 1
        states = {i.name: self._state(i.name, windows[i.name], now, age) for i in config.instances}
        return DeploymentReport(deployment, judgement.diagnosis, signals, states)

    def _reach(self, config: InstanceConfig) -> Reach | None:
        """How an instance answered lately; None: nothing is missing in a recording, not tried yet, or a fault of ours.

        The least of the last answers is what its page costs, since one slow answer tells of a busy moment.
        """
        stream = Stream(config.name, PageKind.METRICS, config.name)
        newest, missed = self._store.newest(stream), self._missed.get(stream, 0)
        if missed:
            return Reach(self._silent_scrapes(stream), answers=None)
        if not self._asked or newest is None or newest.reason is FailureReason.INTERNAL:
            return None
        durations = [s.duration_seconds for s in self._store.recent(stream, _ANSWERS) if s.ok]
        known = [spent for spent in durations if spent is not None]
        cost = min(known) / config.scrape.interval_seconds if len(known) == _ANSWERS else None
        answers = newest.reason not in (FailureReason.CONNECT, FailureReason.TIMEOUT)
        return Reach(self._store.failed_in_a_row(stream), answers, cost)

    def _windows(self, name: str, now: float, seconds: float) -> list[Window]:
        """Windows of an instance; `/v1/loads` first, since it stays fresh where the gauges freeze."""
        kinds = (PageKind.LOADS, PageKind.METRICS)
        streams = [Stream(name, kind, name) for kind in kinds]
        found = [self._store.window(stream, now, seconds) for stream in streams if not self._silent(stream)]
        return [window for window in found if window is not None]

    def _silent(self, stream: Stream) -> bool:
        """Whether a source has failed again and again: what it said before is the past, no window on the present.

        One failed scrape is a gap. A source that is merely asked less often has not failed.
        """
        return self._silent_scrapes(stream) >= _SILENT_FAILURES

    def _silent_scrapes(self, stream: Stream) -> int:
        return self._store.failed_in_a_row(stream) + self._missed.get(stream, 0)

    def _state(self, name: str, windows: Sequence[Window], now: float, age: float) -> InstanceState:
        stream = Stream(name, PageKind.METRICS, name)
        newest = self._store.newest(stream)
        facts = dict(self._said.get(name, {}))
        for window in reversed(windows):
            facts.update(window.facts)
        up = newest is not None and newest.ok and now - newest.at <= age and not self._silent(stream)
        reason = newest.reason if newest is not None else None
        return InstanceState(name, up, facts.get(Fact.ENGINE_VERSION), facts.get(Fact.MODEL), reason)

    def _facts(self, name: str) -> dict[Fact, str]:
        """What a target said of itself and its newest pages state; `/v1/loads`, with version and live role, wins."""
        facts = dict(self._said.get(name, {}))
        for kind in (PageKind.METRICS, PageKind.LOADS):
            newest = self._store.newest(Stream(name, kind, name))
            if newest is not None:
                facts.update(newest.facts)
        return facts

    def _source(self, stream: Stream) -> str:
        """What is read there, whether or not it answers: a label that moved with the state would break its series."""
        if stream.kind != PageKind.METRICS:
            return str(stream.kind)
        return self._sources.get(stream, "unknown")

    def _target_states(self) -> list[TargetState]:
        states: dict[tuple[str, str, str], TargetState] = {}
        for deployment in self.config.deployments:
            names = {*(i.name for i in deployment.instances), *(d.name for d in deployment.devices)}
            roles = {i.name: i.role for i in deployment.instances}
            for stream in self._readers:
                newest = self._store.newest(stream)
                # a recording holds nothing of a scrape that failed: a page that it lacks is one that never came
                lost = newest is None and not self._asked and stream.kind == PageKind.METRICS
                if stream.target in names and (newest is not None or lost):
                    facts = self._facts(stream.target)
                    role = roles.get(stream.target) or role_of(facts, self.plugins.engines)
                    version = facts.get(Fact.ENGINE_VERSION)
                    missing = () if newest is None else self._missing.metrics(stream, newest, version, role)
                    state = TargetState(
                        deployment=deployment.name,
                        target=stream.target,
                        source=self._source(stream),
                        up=newest is not None and newest.ok and not self._silent(stream),
                        duration_seconds=None if newest is None else newest.duration_seconds,
                        last_success=self._last_success.get(stream),
                        missing_metrics=len(missing),
                        failures=dict(self._failures.get(stream, {})),
                    )
                    key = (state.deployment, state.target, state.source)
                    states[key] = _same_page(states[key], state) if key in states else state
        return list(states.values())


def _same_page(one: TargetState, other: TargetState) -> TargetState:
    """A page of devices is read once for each instance that it serves, but asked for once: the worse of the two."""
    successes = [t for t in (one.last_success, other.last_success) if t is not None]
    reasons = {*one.failures, *other.failures}
    return replace(
        one,
        up=one.up and other.up,
        last_success=min(successes, default=None),
        missing_metrics=max(one.missing_metrics, other.missing_metrics),
        failures={reason: max(one.failures.get(reason, 0), other.failures.get(reason, 0)) for reason in reasons},
    )


def _port(url: str) -> str:
    """The port of an address, also where it is the one of its scheme."""
    parts = urlsplit(url)
    return str(parts.port or (443 if parts.scheme.lower() == "https" else 80))
