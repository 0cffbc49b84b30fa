"""Selectors that cannot name a metric or a label that does not exist."""

from __future__ import annotations

from dataclasses import dataclass

from pdscope.render.catalogue import MetricDef

TARGET_LABELS = ("cluster", "namespace", "job", "instance", "pod", "container", "endpoint")
"""Labels that Prometheus or its operator puts on every series of a target."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recording rule.

    Attributes:
        name: `level:metric:operations`.
        labels: of its series, beside those that a target keeps.
        expr: PromQL.
        why: what it is for.
        static: labels that the rule adds.
    """

    name: str
    labels: tuple[str, ...]
    expr: str
    why: str
    static: tuple[tuple[str, str], ...] = ()


def select(metric: MetricDef | Recorded, **equal: str) -> str:
    """An instant selector.

    Args:
        metric: of the catalogue, or recorded.
        equal: label -> value that it must have.

    Raises:
        ValueError: the metric has no such label.
    """
    unknown = sorted(set(equal) - set(metric.labels))
    if unknown:
        raise ValueError(f"{metric.name} has no label {', '.join(unknown)}; it has {', '.join(metric.labels)}")
    matchers = ",".join(f'{label}="{value}"' for label, value in equal.items())
    return f"{metric.name}{{{matchers}}}" if matchers else metric.name
