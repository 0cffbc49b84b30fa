"""Queries over pdscope's own metrics that cannot name a metric or a label that does not exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pdscope.render.alerting.settings import Settings
from pdscope.render.catalogue import MetricDef

RATE_WINDOW = "$__rate_interval"
"""Grafana's: at least four scrapes, so that a rate never lacks its two points."""

_SETTINGS = Settings()
IDENTITY = _SETTINGS.identity
"""Labels that make one deployment: those of the alerts."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel.

    Attributes:
        expr: PromQL with Grafana's variables.
        legend: template of a series' name; `{{label}}` is filled in.
        is_instant: asked at the end of the range only.
        name: of the column, in a table.
    """

    expr: str
    legend: str = ""
    is_instant: bool = False
    name: str = ""


def pick(metric: MetricDef, matchers: Mapping[str, str] | None = None, *, of_deployment: bool = True) -> str:
    """A selector of the chosen clusters, namespaces and deployments.

    Args:
        metric: of the catalogue.
        matchers: label -> what it must be; a value with `$` or `|` in it is a pattern, one that begins with `!` is one
            that must not match.
        of_deployment: False for what pdscope says of itself.

    Raises:
        ValueError: the metric has no such label.
    """
    wanted = dict(matchers or {})
    unknown = sorted(set(wanted) - set(metric.labels))
    if unknown:
        raise ValueError(f"{metric.name} has no label {', '.join(unknown)}; it has {', '.join(metric.labels)}")
    scope = {label: f"${label}" for label in _SETTINGS.keep_labels}
    if of_deployment:
        if "deployment" not in metric.labels:
            raise ValueError(f"{metric.name} is not of a deployment")
        scope["deployment"] = "$deployment"
    return f"{metric.name}{{{','.join(_matcher(label, value) for label, value in (scope | wanted).items())}}}"


def _matcher(label: str, value: str) -> str:
    if value.startswith("!"):
        return f'{label}!~"{value[1:]}"'
    return f'{label}{"=~" if "$" in value or "|" in value else "="}"{value}"'


def fold(
    metric: MetricDef,
    *labels: str,
    matchers: Mapping[str, str] | None = None,
    of_deployment: bool = True,
    over: str = "{}",
) -> str:
    """What the replicas of pdscope say, as one series a deployment (and `labels`): the largest of their answers.

    Args:
        metric: of the catalogue.
        labels: to keep.
        matchers: as for `pick`.
        of_deployment: as for `pick`.
        over: what is done to the selector, which stands for `{}`, before that: `changes({}[1h])`.
    """
    of = IDENTITY if of_deployment else _SETTINGS.keep_labels
    selector = pick(metric, matchers, of_deployment=of_deployment)
    return f"max by ({', '.join((*of, *labels))}) ({over.replace('{}', selector)})"


def code(metric: MetricDef, states: Mapping[str, int], *labels: str, matchers: Mapping[str, str] | None = None) -> str:
    """A one-hot family as one series: the number of the state that holds, so that it is one line of a timeline.

    Args:
        metric: one-hot, by its last label.
        states: state -> number.
        labels: beside those of the deployment, e.g. `worker`.
        matchers: as for `pick`.
    """
    state = metric.labels[-1]
    terms = [f"({pick(metric, {**(matchers or {}), state: name})} == 1) * {number}" for name, number in states.items()]
    return f"max by ({', '.join((*IDENTITY, *labels))}) (\n  " + "\n  or ".join(terms) + "\n)"


@dataclass(frozen=True, slots=True)
class Variable:
    """One choice at the top of a board.

    Attributes:
        name: of the variable.
        label: as shown.
        selector: whose label values are offered.
        of: that label.
        is_multi: several may be chosen, or all.
        all_value: pattern of all; `.*` where the label may be absent.
    """

    name: str
    label: str
    selector: str
    of: str
    is_multi: bool = True
    all_value: str = ".+"


@dataclass(frozen=True, slots=True)
class Annotation:
    """Marks in all time series of a board where a query has a result."""

    name: str
    expr: str
    title: str
    colour: str
