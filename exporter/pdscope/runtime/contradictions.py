"""Where the configuration says one thing and the program another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pdscope.collect.store import Store, Stream
from pdscope.config import DeploymentConfig, DeviceConfig, InstanceConfig
from pdscope.model.metric import Fact
from pdscope.model.scrape import FailureReason, Scrape
from pdscope.model.signal import Quality, Signal, SignalId, SignalSet, instance_scope
from pdscope.model.topology import Deployment, Role
from pdscope.runtime.behaviour import behaves_as, newest_good, requests_finished
from pdscope.runtime.plugins import ENGINE_ALIASES, Plugins
from pdscope.sources.bundle import PageKind
from pdscope.sources.reader import role_of

_TOLERATED = 0.10
"""By how much the configured KV shape may miss what the engines say: blocks are rounded up."""
_ENOUGH_REQUESTS = 20.0
"""Finished requests, from which what a program does is no accident of its first ones and of health checks."""


def contradictions(
    config: DeploymentConfig,
    deployment: Deployment,
    store: Store,
    plugins: Plugins,
    facts: Mapping[str, Mapping[Fact, str]],
    now: float,
) -> list[Signal]:
    """What the rules see: how many there are of each instance that has any and, as the source of that figure, which.

    Args:
        config: as written.
        deployment: with roles resolved.
        store: what was read of its targets.
        plugins: the adapters.
        facts: by instance name, what engines and their pages state.
        now: unix seconds.
    """
    told: dict[str, list[str]] = {}
    ages_seconds: dict[str, float] = {}
    split = bool(deployment.of_role(Role.PREFILL))
    for instance in config.instances:
        name = instance.name
        page = newest_good(store, name) or store.newest(Stream(name, PageKind.METRICS, name))
        if page is not None:
            ages_seconds[name] = max(0.0, now - page.at)
            stated = role_of({**page.facts, **facts.get(name, {})}, plugins.engines)
            found = instance_contradictions(instance, page, plugins, stated=stated, disaggregated=split)
            told[name] = [*_unread(page), *found]
    for device in config.devices:
        for served in device.served:
            newest = store.newest(Stream(device.name, PageKind.METRICS, served.instance))
            told.setdefault(served.instance, []).extend(device_contradictions(device, served.select, newest))
    return [_signal(name, texts, ages_seconds.get(name, 0.0)) for name, texts in told.items() if texts]


def _signal(name: str, texts: Sequence[str], age_seconds: float) -> Signal:
    scope = instance_scope(name)
    source = "; ".join(texts)
    return Signal(SignalId.CONTRADICTIONS, scope, float(len(texts)), Quality.MEASURED, source, age_seconds)


def instance_contradictions(
    config: InstanceConfig, scrape: Scrape, plugins: Plugins, *, stated: Role | None, disaggregated: bool
) -> Iterator[str]:
    """Of one instance.

    Args:
        config: as written.
        scrape: its newest page that was read.
        plugins: the adapters, which know engines. A name that could not have been recognised on such a page contradicts
            nothing (the engines behind llm-d's picker print vLLM's page).
        stated: role that its pages and its engine state.
        disaggregated: whether the deployment has prefill instances.
    """
    reader = next((a for a in plugins.engines if a.name == scrape.source), None)
    if reader is None:
        return
    known = {a.profile.name for a in plugins.engines if a.profile is not None and a.router is reader.router}
    configured = ENGINE_ALIASES.get(config.engine or "", config.engine)
    if configured in known and reader.profile is not None and configured != reader.profile.name:
        yield f"engine: configured is {config.engine}, the page is of {reader.profile.name}"
    if config.role is None or config.role is Role.ROUTER:
        return
    # a program that is asked for everything may still call itself a decoder: nobody prefills for it
    alone = config.role is Role.UNIFIED and stated is Role.DECODE and not disaggregated
    if stated is not None and stated is not config.role and not alone:
        yield f"role: configured is {config.role}, the page says {stated}"
    behaves = behaves_as(scrape) if requests_finished(scrape) >= _ENOUGH_REQUESTS else None
    if stated is None and behaves not in (None, config.role):
        yield f"role: configured is {config.role}, but its counters since its start are of {behaves}"


def _unread(page: Scrape) -> Iterator[str]:
    """Of an instance that answers with a page of no program that it is configured to be."""
    if page.reason is FailureReason.METRICS_OFF:
        yield page.detail


def device_contradictions(config: DeviceConfig, select: Mapping[str, str], scrape: Scrape | None) -> Iterator[str]:
    """Of a device exporter, in what it is read for one instance.

    Args:
        config: as written.
        select: what of its page belongs to the instance.
        scrape: the newest reading of it.
    """
    if scrape is None:
        return
    if scrape.reason is FailureReason.METRICS_OFF:
        yield f"device {config.name}: configured is source {config.source}, its page holds no series of that"
    elif scrape.ok and scrape.schema is not None and not scrape.schema.scalars and select:
        written = ", ".join(f"{label}: {pattern}" for label, pattern in sorted(select.items()))
        yield f"device {config.name}: its select ({written}) fits nothing on its page"


def kv_contradictions(signals: SignalSet) -> Iterator[str]:
    """Of a deployment: the KV shape that is used against what the engines say."""
    used, said = signals.get(SignalId.KV_BYTES_PER_TOKEN), signals.get(SignalId.KV_BYTES_PER_TOKEN_ENGINE)
    if used is None or said is None or abs(used.value - said.value) <= _TOLERATED * said.value:
        return
    yield (
        f"model.kv: {used.source} makes {used.value:,.0f} B/token, the engine {said.value:,.0f} B/token "
        f"({said.source}): a quantised KV type, replicated heads or another model"
    )
