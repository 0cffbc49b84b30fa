"""What an alert is made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pdscope.render.alerting.settings import Settings

_NAMES = {"kv": "KV", "hbm": "HBM", "cuda": "CUDA", "pd": "PD"}


class Severity(StrEnum):
    """Who has to act, and when."""

    CRITICAL = "critical"
    """At once: answers may be wrong."""

    PAGE = "page"
    """At once: an objective is broken, and the diagnosis explains it."""

    WARNING = "warning"
    """In working hours."""

    INFO = "info"
    """Worth knowing; nobody is told."""


@dataclass(frozen=True, slots=True)
class Firing:
    """One rule of an alert.

    Attributes:
        severity: its label.
        expr: PromQL; fires where it has a result.
        for_seconds: how long it must hold.
        keep_seconds: how long it goes on firing after that, so that a flapping condition is one alert.
    """

    severity: Severity
    expr: str
    for_seconds: float
    keep_seconds: float


@dataclass(frozen=True, slots=True)
class Runbook:
    """What the page of an alert says.

    Attributes:
        meaning: Markdown.
        impact: Markdown.
        diagnosis: Markdown, after the call of /diagnose.
        mitigation: Markdown.
    """

    meaning: str
    impact: str
    diagnosis: str
    mitigation: str


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. The first firing is the most severe.

    Attributes:
        name: begins with `Pdscope`.
        firings: one a severity.
        summary: a fixed sentence.
        description: a template, with the evidence.
        runbook: its page.
        labels: beside the severity and those of the expression.
        of_deployment: its expression has the label `deployment`.
    """

    name: str
    firings: tuple[Firing, ...]
    summary: str
    description: str
    runbook: Runbook
    labels: tuple[tuple[str, str], ...] = ()
    of_deployment: bool = True


def alert_name(words: str) -> str:
    """`kv_transfer_path` -> `PdscopeKVTransferPath`."""
    return "Pdscope" + "".join(_NAMES.get(word, word.capitalize()) for word in words.split("_"))


def diagnose_url(settings: Settings, *, of_deployment: bool) -> str:
    """Template of the address that explains an alert."""
    base = f"{{{{ with $externalLabels.pdscope_url }}}}{{{{ . }}}}{{{{ else }}}}{settings.diagnose_url}{{{{ end }}}}"
    query = "?deployment={{ $labels.deployment | urlquery }}" if of_deployment else ""
    return f"{base}/diagnose{query}"


def rules_of(alert: Alert, settings: Settings) -> Iterable[dict[str, object]]:
    """The alert as Prometheus' rules."""
    for firing in alert.firings:
        yield {
            "alert": alert.name,
            "expr": firing.expr,
            "for": settings.span(firing.for_seconds),
            "keep_firing_for": settings.span(firing.keep_seconds),
            "labels": {"severity": str(firing.severity), **dict(alert.labels)},
            "annotations": {
                "summary": alert.summary,
                "description": alert.description,
                "runbook_url": f"{settings.runbook_url.rstrip('/')}/{alert.name}.md",
                "diagnose_url": diagnose_url(settings, of_deployment=alert.of_deployment),
            },
        }
