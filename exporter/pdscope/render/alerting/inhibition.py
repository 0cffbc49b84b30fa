"""Which alert silences which: a cause its symptoms, a page the warnings of its deployment."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pdscope.diagnosis.base import Rule
from pdscope.diagnosis.engine import ORDER
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

    A rule that covers another does not silence it where the order of evidence would name the other first: then it is
    no symptom but another trouble, and may have begun after this one.

    Args:
        rules: of the diagnosis.
        alerts: names of all alerts; a rule need not have one, and neither does what it covers.
    """
    by_id = {rule.id: rule for rule in rules}
    made: dict[str, tuple[str, ...]] = {}
    for cause in dict.fromkeys((*by_id, *_OF_OURSELVES)):
        alerted = cause in by_id and alert_name(cause) in alerts
        covered = _silenced_by(by_id[cause], by_id) if alerted else ()
        symptoms = [name for rule in covered if (name := alert_name(rule)) in alerts]
        symptoms += [alert_name(name) for name in _OF_OURSELVES.get(cause, ())]
        if symptoms:
            made[alert_name(cause)] = tuple(symptoms)
    return made


def _silenced_by(cause: Rule, rules: Mapping[str, Rule]) -> Iterable[str]:
    """What a rule covers and the order of evidence does not name before it."""
    for symptom in sorted(cause.covers):
        verdict = rules[symptom].verdict
        both = verdict is not None and cause.verdict is not None
        first = both and ORDER.index(verdict) < ORDER.index(cause.verdict)
        if not first or verdict in cause.outranks:
            yield symptom


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
