"""Every default as YAML: what `pdscope check-config --defaults` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

from pdscope.config.access import ScrapeConfig
from pdscope.config.base import Model, model_in
from pdscope.config.root import Config, DeploymentConfig
from pdscope.config.serving import InterconnectConfig
from pdscope.config.units import duration_text

ThresholdSpec = tuple[str, str, float, str, str]
"""rule, name, default, unit of the default, where the default comes from"""

_INHERITING = (ScrapeConfig, InterconnectConfig)
"""Inside a deployment these have no defaults of their own."""


def dump_defaults(threshold_specs: Sequence[ThresholdSpec]) -> str:
    """YAML of every setting that has a default; once deployments are added, a configuration that changes nothing.

    Args:
        threshold_specs: (rule, name, default, unit, source) of every threshold of every rule.
    """
    lines = [
        "# Every setting of pdscope that has a default. Copy what you want to change.",
        "scrape:",
        *(f"  {line}" for line in _lines(ScrapeConfig)),
        *_lines(Config),
        *_thresholds(threshold_specs),
        "defaults:",
        "  interconnect:",
        *(f"    {line}" for line in _lines(InterconnectConfig)),
        "# Keys inside a deployment that have a default.",
        *(f"# {line}" for line in _below(DeploymentConfig, "deployments[].")),
    ]
    return "\n".join(lines) + "\n"


def _thresholds(specs: Sequence[ThresholdSpec]) -> Iterator[str]:
    rules: dict[str, list[str]] = {}
    for rule, name, default, unit, source in specs:
        comment = " ".join(f"{unit}; {source}".split())
        rules.setdefault(rule, []).append(f"    {name}: {_number(default)}  # {comment}")
    yield "thresholds:" if rules else "thresholds: {}"
    for rule, lines in rules.items():
        yield f"  {rule}:"
        yield from lines


def _lines(model: type[Model]) -> Iterator[str]:
    """The model's own keys that have a default, as `key: default  # meaning`."""
    for name, field in model.model_fields.items():
        key = field.alias or name
        text = model.default_texts.get(key) or default_text(field.default, seconds=name.endswith("_seconds"))
        if text is not None:
            yield f"{key}: {text}  # {field.description}"


def _below(model: type[Model], path: str) -> Iterator[str]:
    """The same with the keys of the models inside it, each with its path."""
    yield from (path + line for line in _lines(model))
    for key, field in model.fields_by_key().items():
        below = model_in(field.annotation)
        if below is not None and below not in _INHERITING:
            many = "[]" if isinstance(field.default, tuple) else ""
            yield from _below(below, f"{path}{key}{many}.")


def default_text(value: object, *, seconds: bool) -> str | None:
    """A plain default as the user would write it; None where there is none."""
    if isinstance(value, StrEnum | str):
        return str(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return duration_text(value) if seconds else _number(value)
    return None


def _number(value: float) -> str:
    """A number that every YAML reader takes for one: YAML 1.1 wants a point before the exponent."""
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    mantissa, exponent, power = repr(value).partition("e")
    return mantissa + (".0" if exponent and "." not in mantissa else "") + exponent + power
