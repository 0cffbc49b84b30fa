"""Which alert silences which: a cause its symptoms, a page the warnings of its deployment."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pdscope.diagnosis.base import Rule
from pdscope.model.finding import Verdict
from pdscope.render.alerting.alert import Severity, alert_name
from pdscope.render.alerting.settings import Settings

_OF_OURSELVES: Mapping[str, tuple[str, ...]] = {
    "instance_down": ("source_down",),
    "telemetry_lost": ("source_down", "low_confidence"),
    "schema_drift": ("insufficient_data", "undetermined", "metrics_untrusted", "low_confidence"),
    "replica_stale": ("replicas_disagree",),
}
"""What concerns alerts that no rule of the diagnosis stands behind: they are of pdscope and of its targets."""

EVERYTHING = {"PdscopeExporterDown": "PdscopeReplicaDown", "PdscopeDiagnosisStale": "PdscopeReplicaStale"}
"""Where nothing is known any more, that a part is not known is no news."""

_OF_VERDICTS = {alert_name(verdict) for verdict in Verdict}

_ABOVE = {
    Severity.CRITICAL: (Severity.CRITICAL, Severity.PAGE, Severity.WARNING, Severity.INFO),
    Severity.PAGE: (Severity.PAGE, Severity.WARNING, Severity.INFO),
    Severity.WARNING: (Severity.WARNING, Severity.INFO),
}
"""What an alert may silence: never one that wakes somebody by one that does not."""


def causes(rules: Iterable[Rule], alerts: Collection[str]) -> Mapping[str, tuple[str, ...]]:
    """Alert of a cause -> alerts of the symptoms that it makes, of the same deployment.

    By what the rules cover and not by the order of evidence: the order tells which of two causes to name first, and
    says of most pairs nothing of one making the other.

    Args:
        rules: of the diagnosis.
        alerts: names of all alerts; what a rule covers need not have one.
    """
    covered = {rule.id: sorted(rule.covers) for rule in rules}
    made: dict[str, tuple[str, ...]] = {}
    for cause in dict.fromkeys((*covered, *_OF_OURSELVES)):
        symptoms = [alert_name(rule) for rule in (*covered.get(cause, ()), *_OF_OURSELVES.get(cause, ()))]
        made[alert_name(cause)] = tuple(name for name in symptoms if name in alerts)
    return {cause: symptoms for cause, symptoms in made.items() if cause in alerts and symptoms}


def inhibit_rules(
    settings: Settings, severities: Mapping[str, tuple[Severity, ...]], rules: Iterable[Rule]
) -> list[dict[str, object]]:
    """For Alertmanager 0.25 or newer.

    Args:
        settings: whose labels make a deployment.
        severities: of each alert.
        rules: of the diagnosis: they know what each of them covers.
    """
    made = [_rule('severity="page"', 'severity="warning",verdict!=""', settings.identity)]
    made += [
        _rule(f'alertname="{name}",severity="page"', f'alertname="{name}",severity="warning"', settings.identity)
        for name, its in severities.items()
        if {Severity.PAGE, Severity.WARNING} <= set(its) and name not in _OF_VERDICTS
    ]
    for cause, symptoms in causes(rules, severities).items():
        for severity in severities[cause]:
            below = [name for name in symptoms if {*severities[name]} & {*_ABOVE[severity]}]
            if below:
                target = f'alertname=~"{"|".join(below)}",severity=~"{"|".join(_ABOVE[severity])}"'
                made.append(_rule(f'alertname="{cause}",severity="{severity}"', target, settings.identity))
    made += [
        _rule(f'alertname="{whole}"', f'alertname="{part}"', labels)
        for (whole, part), labels in zip(
            EVERYTHING.items(),
            (("cluster",) if "cluster" in settings.keep_labels else (), settings.identity),
            strict=True,
        )
    ]
    return made


def _rule(source: str, target: str, equal: Iterable[str]) -> dict[str, object]:
    return {"source_matchers": source.split(","), "target_matchers": target.split(","), "equal": list(equal)}
