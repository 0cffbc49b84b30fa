"""Names that the configuration alone cannot judge, because each rule and each adapter brings its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from pdscope.config.problems import InvalidConfigError, Location, Problem, describe, shown, suggestion
from pdscope.config.root import Config
from pdscope.config.serving import HardwareConfig


def threshold_items(config: Config) -> Iterator[tuple[str, str, str, float]]:
    """Every threshold of the file where it stands: (path, rule, name, value), the most general places first."""
    for place, rules in config.given_thresholds:
        for rule, values in rules.items():
            for name, value in values.items():
                yield describe((*place, rule, name)), rule, name, value


def check_names(
    config: Config,
    *,
    engines: Collection[str],
    device_sources: Collection[str],
    hardware: Callable[[str, bool], str | None],
    thresholds: Mapping[str, Collection[str]],
) -> None:
    """Refuse names that no adapter, no device and no rule bears.

    Args:
        config: as loaded.
        engines: names of the engine adapters.
        device_sources: names of the device adapters; a mapping file needs none.
        hardware: what is wrong with the name of a device, and None when nothing is, by the name and whether figures
            stand beside it.
        thresholds: rule -> names of its thresholds.

    Raises:
        ConfigError: one line for each unknown name, with the nearest known one.
    """
    problems = [
        *_unknown_targets(config, engines, device_sources),
        *_unknown_hardware(config, hardware),
        *_unknown_thresholds(config, thresholds),
    ]
    if problems:
        raise InvalidConfigError(problems, config.origin)


def _unknown_targets(config: Config, engines: Collection[str], device_sources: Collection[str]) -> Iterator[Problem]:
    for i, deployment in enumerate(config.deployments):
        for j, instance in enumerate(deployment.instances):
            if instance.engine is not None and instance.engine not in engines:
                where = ("deployments", i, "instances", j, "engine")
                yield Problem(
                    where,
                    f"{shown(instance.engine)} is no known engine{suggestion(instance.engine, engines)}",
                )
        for j, device in enumerate(deployment.devices):
            if device.mapping_file is None and device.source not in device_sources:
                where = ("deployments", i, "devices", j, "source")
                near = suggestion(device.source, device_sources)
                yield Problem(where, f"{shown(device.source)} is no known source{near}")


def _unknown_hardware(config: Config, problem: Callable[[str, bool], str | None]) -> Iterator[Problem]:
    """An instance that inherits its devices repeats no problem of the deployment's."""
    for i, deployment in enumerate(config.deployments):
        given: list[tuple[Location, HardwareConfig | None]] = [(("deployments", i, "hardware"), deployment.hardware)]
        for j, instance in enumerate(deployment.instances):
            if instance.hardware != deployment.hardware:
                given.append((("deployments", i, "instances", j, "hardware"), instance.hardware))
        for where, hardware in given:
            if hardware is None or hardware.name is None:
                continue
            if (what := problem(hardware.name, bool(hardware.figures))) is not None:
                yield Problem(where, f"{shown(hardware.name)} {what}")


def _unknown_thresholds(config: Config, known: Mapping[str, Collection[str]]) -> Iterator[Problem]:
    for place, rules in config.given_thresholds:
        for rule, values in rules.items():
            if rule not in known:
                near = suggestion(rule, known, otherwise="")
                yield Problem((*place, rule), f"{shown(rule)} is no known rule{near}")
                continue
            for name in values:
                if name in known[rule]:
                    continue
                near = suggestion(name, known[rule])
                yield Problem((*place, rule, name), f"{shown(name)} is no threshold of {rule}{near}")
