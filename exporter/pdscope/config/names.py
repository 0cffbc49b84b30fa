"""Names that the configuration alone cannot judge, because each rule and each adapter brings its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pdscope.config.places import is_mapping_file
from pdscope.config.problems import InvalidConfigError, Location, Problem, describe, shown, suggestion
from pdscope.config.reading import items, mapping
from pdscope.config.root import Config


@dataclass(frozen=True, slots=True)
class Names:
    """All that there are.

    Attributes:
        engines: names of the engine adapters.
        device_sources: names of the device adapters; a mapping file needs none.
        hardware: what is wrong with the name of a device, and None when nothing is, by the name and whether figures
            stand beside it.
        thresholds: rule -> names of its thresholds.
    """

    engines: Collection[str]
    device_sources: Collection[str]
    hardware: Callable[[str, bool], str | None]
    thresholds: Mapping[str, Collection[str]]


def threshold_items(config: Config) -> Iterator[tuple[str, str, str, float]]:
    """Every threshold of the file where it stands: (path, rule, name, value), the most general places first."""
    for place, rules in config.given_thresholds:
        for rule, values in rules.items():
            for name, value in values.items():
                yield describe((*place, rule, name)), rule, name, value


def check_names(config: Config, known: Names) -> None:
    """Refuse names that no adapter, no device and no rule bears.

    Args:
        config: as loaded.
        known: all names that there are.

    Raises:
        ConfigError: one line for each unknown name, with the nearest known one.
    """
    problems = [*name_problems(config.origin.document, known)]
    if problems:
        raise InvalidConfigError(problems, config.origin)


def name_problems(data: Mapping[str, Any], known: Names) -> Iterator[Problem]:
    """Unknown names of the document as it was written, whether or not its values are right."""
    yield from _unknown_targets(data, known)
    yield from _unknown_hardware(data, known)
    yield from _unknown_thresholds(data, known)


def _unknown_targets(data: Mapping[str, Any], known: Names) -> Iterator[Problem]:
    for where, deployment in items(data, "deployments", ()):
        for place, instance in items(deployment, "instances", where):
            engine = instance.get("engine")
            if isinstance(engine, str) and engine not in known.engines:
                near = suggestion(engine, known.engines)
                yield Problem((*place, "engine"), f"{shown(engine)} is no known engine{near}")
        for place, device in items(deployment, "devices", where):
            source = device.get("source")
            if isinstance(source, str) and not is_mapping_file(source) and source not in known.device_sources:
                near = suggestion(source, known.device_sources)
                yield Problem((*place, "source"), f"{shown(source)} is no known source{near}")


def _unknown_hardware(data: Mapping[str, Any], known: Names) -> Iterator[Problem]:
    """An instance that inherits its devices repeats no problem of the deployment's."""
    for where, deployment in items(data, "deployments", ()):
        for place, holder in [(where, deployment), *items(deployment, "instances", where)]:
            written = holder.get("hardware")
            figures = {key for key, value in mapping(written).items() if value is not None} - {"name"}
            name = mapping(written).get("name") if isinstance(written, dict) else written
            if isinstance(name, str) and (what := known.hardware(name, bool(figures))) is not None:
                yield Problem((*place, "hardware"), f"{shown(name)} {what}")


def _unknown_thresholds(data: Mapping[str, Any], known: Names) -> Iterator[Problem]:
    places: list[tuple[Location, Any]] = [
        (("thresholds",), data.get("thresholds")),
        (("defaults", "thresholds"), mapping(data.get("defaults")).get("thresholds")),
    ]
    places += [((*where, "thresholds"), one.get("thresholds")) for where, one in items(data, "deployments", ())]
    for place, rules in places:
        for rule, values in mapping(rules).items():
            if rule not in known.thresholds:
                near = suggestion(rule, known.thresholds, otherwise="")
                yield Problem((*place, rule), f"{shown(rule)} is no known rule{near}")
                continue
            for name in mapping(values):
                if name in known.thresholds[rule]:
                    continue
                near = suggestion(name, known.thresholds[rule])
                yield Problem((*place, rule, name), f"{shown(name)} is no threshold of {rule}{near}")
