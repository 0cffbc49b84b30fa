"""`pdscope doctor`: says of every target what it is, what it yields and what the rules miss of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pdscope.collect.poller import Clock
from pdscope.config import Config, DeploymentConfig, DeviceConfig, InstanceConfig
from pdscope.model.metric import Fact, Kind, Metric
from pdscope.model.report import DeploymentReport
from pdscope.model.scrape import FailureReason, Scrape
from pdscope.model.topology import Deployment, Instance, Role
from pdscope.runtime.contradictions import instance_contradictions, kv_contradictions
from pdscope.runtime.doctor_devices import device_pages, served_by, too_many
from pdscope.runtime.needs import Lack, Survey
from pdscope.runtime.plugins import Plugins
from pdscope.runtime.targets import Asked
from pdscope.runtime.visits import Pages, Recorder, visit
from pdscope.sources.adapter import Adapter
from pdscope.sources.bundle import PageKind
from pdscope.sources.http import quotable
from pdscope.sources.reader import role_of

_UNREACHED = (FailureReason.CONNECT, FailureReason.TIMEOUT)
_SAYABLE = (*_UNREACHED, FailureReason.HTTP_STATUS, FailureReason.TOO_LARGE, FailureReason.REDIRECT)
"""Reasons whose detail never quotes a page."""
_REFUSED = ("HTTP 401", "HTTP 403")
"""How the details of answers begin that are for others."""
_SWITCHED_OFF = ("metrics_off", "not_exposition", "http_status: HTTP 404")
"""How the reasons begin for which a switch of the engine may be the remedy."""


@dataclass(frozen=True, slots=True)
class TargetCheck:
    """What was found at one target.

    Attributes:
        name: of the instance or device; of the deployment where its targets cannot be found.
        kind: "instance", "device" or "deployment".
        reachable: something answers there.
        recognised: its page is of a program that is known.
        reason: why not, where one of them is not so.
        engine: what the page is of: an engine, or the source of a device.
        role_from: "configured", "stated" by the page, "shown" by its counters, or "assumed".
        yields: canonical metrics that it prints; for a device `instance: metric`.
        not_yet: metrics that it prints from their first event on.
        missing: what the rules need and do not get.
        contradictions: between the configuration and what was found.
        remarks: what else a person should know.
    """

    name: str
    kind: str
    reachable: bool = False
    recognised: bool = False
    reason: str = ""
    engine: str = ""
    engine_version: str = ""
    role: Role | None = None
    role_from: str = ""
    yields: tuple[str, ...] = ()
    not_yet: tuple[str, ...] = ()
    missing: tuple[Lack, ...] = ()
    contradictions: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeploymentCheck:
    """The targets of a deployment, and what concerns them all."""

    name: str
    targets: tuple[TargetCheck, ...]
    missing: tuple[Lack, ...]
    contradictions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Checkup:
    """The whole configuration. `ok`: every target is reachable and recognised."""

    ok: bool
    deployments: tuple[DeploymentCheck, ...]


async def examine(config: Config, plugins: Plugins, *, clock: Clock | None = None) -> Checkup:
    """Ask every target twice and judge what it yields.

    Args:
        config: checked.
        plugins: adapters and rules.
        clock: the time; tests bring their own.

    Raises:
        ConfigError: a `config.json` cannot be read.
    """
    time = clock or Clock()
    seen = await visit(config, plugins, time)
    report = seen.recorder.report(time.wall())
    why = {item.name: f"not asked: {item.why}" for item in seen.unreadable}
    examiner = _Examiner(seen.recorder, plugins, seen.versions, why)
    pairs = zip(config.deployments, report.deployments, strict=True)
    deployments = [examiner.deployment(written, told) for written, told in pairs]
    ok = all(t.reachable and t.recognised for d in deployments for t in d.targets)
    return Checkup(ok, tuple(deployments))


@dataclass(frozen=True, slots=True)
class _Examiner:
    """Makes checks of what was recorded. `versions` and `not_asked` (why) are by name."""

    recorder: Recorder
    plugins: Plugins
    versions: Mapping[str, str]
    not_asked: Mapping[str, str]

    def deployment(self, config: DeploymentConfig, report: DeploymentReport) -> DeploymentCheck:
        """All targets of a deployment."""
        deployment = report.deployment
        yields = {i.name: self._known(i.name, config) for i in config.instances}
        checks = []
        if config.name in self.not_asked:
            checks.append(TargetCheck(config.name, "deployment", reason=self.not_asked[config.name]))
        asked = list(zip(config.instances, deployment.instances, strict=True))
        found = [self._instance(written, instance, deployment) for written, instance in asked]
        recognised = [i for (_, i), check in zip(asked, found, strict=True) if check.recognised]
        survey = Survey(config, deployment, recognised, yields, self._adapters(config))
        checks += [
            replace(check, missing=survey.lacking(written, instance)) if check.recognised else check
            for (written, instance), check in zip(asked, found, strict=True)
        ]
        crowded = too_many(deployment.instances, device_pages(self.recorder, config))
        checks += [self._device(device, crowded) for device in config.devices]
        return DeploymentCheck(
            config.name, tuple(checks), survey.lacking_together(), tuple(kv_contradictions(report.signals))
        )

    def _adapters(self, config: DeploymentConfig) -> dict[str, list[tuple[str, Adapter]]]:
        """The device exporters of each instance that were read, with what reads them."""
        found: dict[str, list[tuple[str, Adapter]]] = {}
        by_name = {adapter.name: adapter for adapter in self.plugins.devices}
        for device in config.devices:
            adapter = by_name.get(device.source)
            if adapter is None or not all(s.ok for s in self.recorder.pages(device.name, PageKind.METRICS).last):
                continue
            for served in served_by(device):
                found.setdefault(served, []).append((device.name, adapter))
        return found

    def _known(self, instance: str, config: DeploymentConfig) -> frozenset[Metric]:
        """Metrics of an instance: on its own pages, from their first event on too, and on those of its devices."""
        found: set[Metric] = set()
        for kind in (PageKind.METRICS, PageKind.LOADS):
            for scrape in self.recorder.pages(instance, kind).last:
                printed, not_yet = metrics_of(scrape)
                found |= printed | not_yet
        for scrape in device_pages(self.recorder, config).get(instance, ()):
            found |= metrics_of(scrape)[0]
        return frozenset(found)

    def _instance(self, config: InstanceConfig, instance: Instance, deployment: Deployment) -> TargetCheck:
        pages = self.recorder.pages(config.name, PageKind.METRICS)
        loads = self.recorder.pages(config.name, PageKind.LOADS)
        check = self._reached(config, "instance", pages)
        if not check.recognised:
            return replace(check, missing=(), remarks=self._how_to_switch_on(config, check))
        scrapes = [s for s in (*pages.last, *loads.last) if s.ok]
        facts = {fact: text for scrape in reversed(scrapes) for fact, text in scrape.facts.items()}
        printed = set().union(*(metrics_of(s)[0] for s in scrapes))
        not_yet = set().union(*(metrics_of(s)[1] for s in scrapes)) - printed
        stated = role_of(facts, self.plugins.engines)
        reader = next(a for a in self.plugins.engines if a.name == scrapes[0].source)
        engine = reader.profile.name if reader.profile is not None else ""
        remarks = list(check.remarks)
        if loads.failure is not None:
            told = loads.failure.detail if quotable(config.url, config.auth) else "cannot be read"
            remarks.append(f"/v1/loads: {loads.failure.reason}: {told}")
        remarks += falling_counters(pages.readings)
        return replace(
            check,
            engine=engine,
            engine_version=facts.get(Fact.ENGINE_VERSION) or self.versions.get(config.name, ""),
            role=instance.role,
            role_from=_who_says(config, instance, stated_by_page=stated is not None or reader.router),
            yields=_names(printed),
            not_yet=_names(not_yet),
            contradictions=tuple(
                instance_contradictions(
                    config,
                    scrapes[0],
                    self.plugins,
                    stated=stated,
                    disaggregated=bool(deployment.of_role(Role.PREFILL)),
                )
            ),
            remarks=tuple(remarks),
        )

    def _device(self, config: DeviceConfig, crowded: Mapping[str, str]) -> TargetCheck:
        pages = self.recorder.pages(config.name, PageKind.METRICS)
        check = self._reached(config, "device", pages)
        if not check.recognised:
            return check
        yields: list[str] = []
        remarks = list(check.remarks)
        for served, scrape in zip(served_by(config), pages.last, strict=True):
            printed, _ = metrics_of(scrape)
            yields += [f"{served}: {name}" for name in _names(printed)]
            if served in crowded:
                remarks.append(crowded[served])
            if not printed:
                remarks.append(f"no utilisation of the devices of {served}: does its select match, are the fields on?")
        return replace(check, engine=config.source, yields=tuple(yields), remarks=tuple(remarks))

    def _reached(self, config: Asked, kind: str, pages: Pages) -> TargetCheck:
        """What the answers say, before anything is made of them."""
        if not pages.readings:
            return TargetCheck(config.name, kind, reason=self.not_asked.get(config.name, "not asked"))
        failure = pages.failure
        words = "" if failure is None else f"{failure.reason}: {failure.detail}"
        if failure is not None and not quotable(config.url or "", config.auth):
            words = f"{failure.reason}: {failure.detail if failure.reason in _SAYABLE else 'the page cannot be read'}"
        if all(scrape.ok for scrape in pages.last):
            remarks = () if failure is None else (f"one scrape of {len(pages.readings)} failed: {words}",)
            return TargetCheck(config.name, kind, reachable=True, recognised=True, remarks=remarks)
        reachable = any(s.reason not in _UNREACHED for reading in pages.readings for s in reading)
        return TargetCheck(config.name, kind, reachable=reachable, reason=words, remarks=_who_may(config, failure))

    def _how_to_switch_on(self, config: InstanceConfig, check: TargetCheck) -> tuple[str, ...]:
        """Whoever answers and prints nothing may have its metrics switched off."""
        if not check.reachable or not (check.reason or "").startswith(_SWITCHED_OFF):
            return check.remarks
        profiles = {a.profile.name: a.profile for a in self.plugins.engines if a.profile is not None}
        configured = self.plugins.profile(config.engine) if config.engine is not None else None
        asked = [configured] if configured is not None and "metrics" in configured.enable else profiles.values()
        return tuple(f"metrics of {p.name}: {p.enable['metrics']}" for p in asked if "metrics" in p.enable)


def metrics_of(scrape: Scrape) -> tuple[frozenset[Metric], frozenset[Metric]]:
    """The metrics that a page has a number for, and those that it prints from their first event on."""
    if scrape.schema is None or scrape.row is None:
        return frozenset(), frozenset()
    row = scrape.row
    printed = {key.metric for key, index in scrape.schema.scalars.items() if math.isfinite(row[index])}
    printed |= {key.metric for key in scrape.schema.histograms}
    return frozenset(printed), scrape.schema.lazy - printed


def falling_counters(readings: Sequence[Sequence[Scrape]]) -> list[str]:
    """A counter that fell between two scrapes, as a remark: one is enough, they fall together."""
    good = [reading[0] for reading in readings if reading and reading[0].ok]
    if len(good) < 2 or good[0].schema is None or good[-1].schema is None:
        return []
    first, last = good[0], good[-1]
    for key, index in good[0].schema.scalars.items():
        then = good[-1].schema.scalars.get(key)
        if (
            key.rank
            or key.metric.spec.kind is not Kind.COUNTER
            or then is None
            or first.row is None
            or last.row is None
        ):
            continue
        if last.row[then] < first.row[index]:
            fell = f"{key.metric.name.lower()} fell from {first.row[index]:g} to {last.row[then]:g} between two scrapes"
            return [f"{fell}: it was restarted, or several programs answer under this address"]
    return []


def _who_may(config: Asked, failure: Scrape | None) -> tuple[str, ...]:
    """What to look at where a target refuses whoever asks."""
    if failure is None or not failure.detail.startswith(_REFUSED):
        return ()
    if config.auth is None:
        return ("it asks who you are, and no auth is configured for it: bearer_token_file, or basic",)
    return ("it does not accept the configured auth: is the token or the password the right one, and still valid?",)


def _who_says(config: InstanceConfig, instance: Instance, *, stated_by_page: bool) -> str:
    """Where the role of an instance comes from."""
    if config.role is not None:
        return "configured"
    if stated_by_page:
        return "stated"
    return "assumed" if instance.role is Role.UNIFIED else "shown"


def _names(metrics: Iterable[Metric]) -> tuple[str, ...]:
    return tuple(sorted(metric.name.lower() for metric in metrics))
