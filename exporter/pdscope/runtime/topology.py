"""From the configuration and from what the pages state to the deployment that is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pdscope.config import DeploymentConfig, InstanceConfig
from pdscope.hardware import find_hardware
from pdscope.model.hardware import Hardware
from pdscope.model.metric import Fact
from pdscope.model.topology import Deployment, Instance, Role
from pdscope.model.window import Window
from pdscope.runtime.plugins import Plugins
from pdscope.sources.hf_config import HfModel
from pdscope.sources.reader import role_of


def build_deployment(
    config: DeploymentConfig,
    windows: Mapping[str, Sequence[Window]],
    plugins: Plugins,
    said: Mapping[str, Mapping[Fact, str]],
    hf_model: HfModel | None = None,
    devices: Mapping[str, Sequence[Window]] | None = None,
    behaves: Mapping[str, Role] | None = None,
) -> Deployment:
    """The deployment as configured, completed with what pages and engines state: role, engine, model, parallelism.

    Args:
        config: of the deployment.
        windows: by instance name.
        plugins: adapters, which know engines and their roles.
        said: by instance name, what the engine said of itself beside its pages.
        hf_model: from the model's `config.json`.
        devices: windows of their devices by instance name; they say which hardware it is.
        behaves: by instance name, the role that the counters of an engine show which states none.
    """
    model = config.model.to_model()
    if hf_model is not None:
        model = replace(model, file_kv=hf_model.kv, compute=hf_model.compute)
    if not model.name:
        names = {w.facts[Fact.MODEL] for ws in windows.values() for w in ws if Fact.MODEL in w.facts}
        model = replace(model, name=names.pop() if len(names) == 1 else "")
    roles = _roles(config, windows, plugins, said, behaves or {})
    return Deployment(
        name=config.name,
        model=model,
        instances=tuple(
            replace(
                _instance(i, roles[i.name], windows.get(i.name, ()), plugins, said.get(i.name, {})),
                hardware=_hardware(i, (devices or {}).get(i.name, ())),
            )
            for i in config.instances
        ),
        slo=config.slo.to_model(),
        interconnect=config.interconnect.to_model() if config.interconnect is not None else None,
        routing=config.routing,
        labels=dict(config.labels),
        thresholds={
            f"{rule}.{name}": value for rule, names in config.thresholds.items() for name, value in names.items()
        },
    )


def _roles(
    config: DeploymentConfig,
    windows: Mapping[str, Sequence[Window]],
    plugins: Plugins,
    said: Mapping[str, Mapping[Fact, str]],
    behaves: Mapping[str, Role],
) -> dict[str, Role]:
    """Of all instances: as configured, else as stated, else as they behave.

    What counters show counts only where both sides of a hand-over are there: an engine alone that gets its prompts from
    a cache elsewhere looks like a decode instance, and one that is asked for a single token like prefill.
    """
    told = {i.name: _told_role(i, windows.get(i.name, ()), plugins, said.get(i.name, {})) for i in config.instances}
    shown = {name: behaves[name] for name, role in told.items() if role is None and name in behaves}
    split = {Role.PREFILL, Role.DECODE} <= {*told.values(), *shown.values()}
    return {name: role or (shown.get(name) if split else None) or Role.UNIFIED for name, role in told.items()}


def _told_role(
    config: InstanceConfig, windows: Sequence[Window], plugins: Plugins, said: Mapping[Fact, str]
) -> Role | None:
    role = config.role
    for window in windows:
        role = role or role_of(window.facts, plugins.engines)
    role = role or role_of(said, plugins.engines)
    routers = {a.name for a in plugins.engines if a.router}
    return Role.ROUTER if role is None and any(w.source in routers for w in windows) else role


def _instance(
    config: InstanceConfig, role: Role, windows: Sequence[Window], plugins: Plugins, said: Mapping[Fact, str]
) -> Instance:
    by_name = {a.name: a for a in plugins.engines}
    read_by = [by_name[w.source] for w in windows if w.source in by_name]
    profiles = [a.profile for a in read_by if a.profile is not None]
    engine = config.engine or (profiles[0].name if profiles else "")
    return Instance(
        name=config.name,
        role=role,
        engine=engine,
        url=str(config.url),
        profile=plugins.profile(engine),
        tp=config.tp or _size(said, Fact.TP),
        pp=config.pp or _size(said, Fact.PP),
        dp=config.dp or _size(said, Fact.DP),
        max_running=config.max_running,
        page_tokens=config.page_size,
        max_batched_tokens=config.max_batched_tokens,
        kv_dtype=said.get(Fact.KV_CACHE_DTYPE),
    )


def _hardware(config: InstanceConfig, devices: Sequence[Window]) -> Hardware | None:
    """The configured figures over those of the table; without configuration, what the devices call themselves."""
    if config.hardware is not None:
        return config.hardware.to_model()
    names = {w.facts[Fact.DEVICE_MODEL] for w in devices if Fact.DEVICE_MODEL in w.facts}
    return find_hardware(names.pop()) if len(names) == 1 else None


def _size(said: Mapping[Fact, str], fact: Fact) -> int:
    """A size that the engine said; 1 where it said none."""
    text = said.get(fact, "")
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else 1
