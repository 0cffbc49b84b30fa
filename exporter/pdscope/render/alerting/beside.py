"""Alerts on findings that stand beside the verdict and that somebody has to hear of."""

from __future__ import annotations

from dataclasses import dataclass

from pdscope.model.signal import SignalId
from pdscope.render.alerting import template
from pdscope.render.alerting.alert import Alert, Firing, Severity, alert_name
from pdscope.render.alerting.pages import Pages
from pdscope.render.alerting.promql import select
from pdscope.render.alerting.recording import Recording
from pdscope.render.alerting.settings import Settings
from pdscope.render.alerting.verdicts import KEEP_SECONDS, PAGE_FOR_SECONDS, VERDICT_SHARE, WINDOW_SECONDS, broken


@dataclass(frozen=True, slots=True)
class _Finding:
    """One alert.

    Attributes:
        rule: id of the finding.
        severity: its own.
        pages: it also pages where users feel it (an objective is broken): then it explains that.
        rare: a single time is enough; otherwise it must hold for most of the window.
        for_seconds: how long the condition holds before it fires.
        keep_seconds: how long it goes on firing.
        silent: its description names the targets that bring no data.
    """

    rule: str
    summary: str
    impact: str
    severity: Severity = Severity.WARNING
    pages: bool = False
    rare: bool = False
    for_seconds: float = 120.0
    keep_seconds: float = KEEP_SECONDS
    evidence: tuple[SignalId, ...] = ()
    silent: bool = False


_FINDINGS = (
    _Finding(
        "late_kv_read",
        "Decode has read KV after its lease had ended, so answers may be wrong.",
        "Users may have got wrong answers with HTTP 200. Nothing need be slow for it, and no error is counted.",
        Severity.CRITICAL,
        rare=True,
        for_seconds=30.0,
        keep_seconds=1800.0,
        evidence=(SignalId.REQUESTS_PER_SECOND,),
    ),
    _Finding(
        "kv_lease_expired",
        "Prefill has dropped KV that decode had not fetched.",
        "The requests fail, or are computed again, or answer from blocks that hold something else by then: wrong, with "
        "HTTP 200. Which of them, the engine's policy says.",
        Severity.CRITICAL,
        rare=True,
        for_seconds=30.0,
        keep_seconds=1800.0,
        evidence=(SignalId.HEADROOM_SLOTS, SignalId.HEADROOM_KV),
    ),
    _Finding(
        "instance_down",
        "An instance does not answer.",
        "The others of its role carry its load, if there are any. What is said of the deployment is of the rest.\n\n"
        f"`{Severity.PAGE}` while users feel it: an objective is broken as well, requests fail in the transfer, or "
        f"nobody is served at all. `{Severity.WARNING}` while the others make up for it.",
        pages=True,
        silent=True,
    ),
    _Finding(
        "telemetry_lost",
        "An instance answers but gives no metrics.",
        "It may serve well or badly; what is said about the deployment leaves it out.",
        silent=True,
    ),
    _Finding(
        "pd_ratio",
        "Prefill and decode are sized wrongly for each other.",
        "One role limits the deployment while devices of the other idle. Nothing is broken by it.",
        Severity.INFO,
        for_seconds=1800.0,
        evidence=(SignalId.HEADROOM_PREFILL, SignalId.HEADROOM_SLOTS, SignalId.HEADROOM_KV),
    ),
)


def finding_alerts(settings: Settings, recorded: Recording, pages: Pages) -> tuple[Alert, ...]:
    """An alert for each of the findings."""
    return tuple(_alert(finding, settings, recorded, pages) for finding in _FINDINGS)


def _alert(finding: _Finding, settings: Settings, recorded: Recording, pages: Pages) -> Alert:
    series = f"{select(recorded.finding, rule=finding.rule)}[{settings.span(WINDOW_SECONDS)}]"
    expr = f"max_over_time({series}) > 0" if finding.rare else f"avg_over_time({series}) > {VERDICT_SHARE:g}"
    own = Firing(finding.severity, expr, finding.for_seconds, finding.keep_seconds)
    felt = f"{expr}\nand {settings.on()} {broken(settings, recorded)}"
    page = Firing(Severity.PAGE, felt, PAGE_FOR_SECONDS, finding.keep_seconds)
    return Alert(
        name=alert_name(finding.rule),
        firings=(page, own) if finding.pages else (own,),
        summary=finding.summary,
        description=(
            f"{template.preamble(settings)}Deployment {{{{ $labels.deployment }}}}: {finding.summary}"
            f"{template.silent_targets() if finding.silent else ''}"
            f"{template.broken(recorded.objectives[0], recorded.unserved) if finding.pages else ''}"
            f"{template.evidence(finding.evidence)}"
        ),
        runbook=pages.of_rule(finding.rule, finding.impact, finding.evidence),
    )
