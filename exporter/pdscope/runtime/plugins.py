"""Everything that is found by discovery: adapters and rules."""

from __future__ import annotations

from dataclasses import dataclass

from pdscope.config import Config, Names, check_names, doubts
from pdscope.diagnosis.base import Rule
from pdscope.diagnosis.engine import discover as discover_rules
from pdscope.hardware import name_problem
from pdscope.model.topology import EngineProfile
from pdscope.model.units import Unit
from pdscope.sources import devices as devices_package
from pdscope.sources import engines as engines_package
from pdscope.sources.adapter import Adapter, discover

ENGINES = ("sglang", "vllm", "dynamo", "llm_d", "smg", "sglang_router", "vllm_router")
"""Names that a configuration may use. One without an adapter in this version is read by whoever recognises its page."""
DEVICE_SOURCES = tuple(adapter.name for adapter in discover(devices_package))
"""Likewise for device sources: one adapter is one source."""
ENGINE_ALIASES = {"sglang_router": "smg"}


@dataclass(frozen=True, slots=True)
class Plugins:
    """Everything that was found by discovery."""

    engines: tuple[Adapter, ...]
    devices: tuple[Adapter, ...]
    rules: tuple[Rule, ...]

    def profile(self, engine: str) -> EngineProfile:
        """The profile of an engine; an unknown one has a name and no properties."""
        name = ENGINE_ALIASES.get(engine, engine)
        for adapter in self.engines:
            if adapter.profile is not None and adapter.profile.name == name:
                return adapter.profile
        return EngineProfile(name=engine)


def load_plugins() -> Plugins:
    """Discover adapters and rules."""
    return Plugins(discover(engines_package), discover(devices_package), discover_rules())


def known_names(plugins: Plugins) -> Names:
    """What a configuration may name and does not know by itself: engines, device sources, devices, thresholds."""
    return Names(
        engines=ENGINES,
        device_sources=DEVICE_SOURCES,
        hardware=name_problem,
        thresholds={rule.id: [t.name for t in rule.thresholds] for rule in plugins.rules},
    )


def check(config: Config, plugins: Plugins) -> None:
    """Refuse what a configuration names and nothing bears.

    Raises:
        ConfigError: with the path of each wrong name.
    """
    check_names(config, known_names(plugins))


def doubts_of(config: Config, plugins: Plugins) -> tuple[str, ...]:
    """What may be meant but is more often a slip, one line each."""
    shares = {
        rule.id: {t.name: t.default for t in rule.thresholds if t.unit is Unit.RATIO and t.default <= 1.0}
        for rule in plugins.rules
    }
    return doubts(config, shares)
