"""Which alert silences which: a cause its symptoms, a page the warnings of its deployment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pdscope.model.finding import Verdict
from pdscope.render.alerting.alert import Severity, alert_name
from pdscope.render.alerting.settings import Settings

_V = Verdict

_SLOW_TRANSFER = (_V.PREFILL_QUEUE, _V.KV_PINNED)
_FULL_DECODE = (_V.KV_TRANSFER_SETUP, _V.KV_PINNED, _V.PREFILL_QUEUE)
_BLIND = (_V.INSUFFICIENT_DATA, _V.UNDETERMINED)

_BY_RULE: Mapping[str, tuple[str, ...]] = {
    _V.DECODE_KV_CAPACITY: _FULL_DECODE,
    _V.DECODE_ADMISSION: _FULL_DECODE,
    _V.KV_TRANSFER_FAILING: _SLOW_TRANSFER,
    _V.KV_TRANSFER_BANDWIDTH: _SLOW_TRANSFER,
    _V.KV_TRANSFER_PATH: _SLOW_TRANSFER,
    _V.KV_TRANSFER_FRAGMENTED: _SLOW_TRANSFER,
    _V.KV_TRANSFER_SETUP: _SLOW_TRANSFER,
    _V.ROUTER_IMBALANCE: (
        _V.DECODE_ADMISSION,
        _V.DECODE_KV_CAPACITY,
        _V.DECODE_HBM_BANDWIDTH,
        _V.PREFILL_COMPUTE,
        _V.PREFILL_QUEUE,
    ),
    _V.HARDWARE_DEGRADED: (_V.HOST_BOUND, _V.DECODE_HBM_BANDWIDTH, _V.PREFILL_COMPUTE, _V.PREFILL_QUEUE),
    "late_kv_read": ("kv_lease_expired",),
    "instance_down": (*_BLIND, "telemetry_lost", _V.ROUTER_IMBALANCE, "source_down"),
    "telemetry_lost": (*_BLIND, "source_down", "low_confidence"),
    "schema_drift": (*_BLIND, _V.METRICS_UNTRUSTED, "low_confidence"),
    "replica_stale": ("replicas_disagree",),
}

CAUSES: Mapping[str, tuple[str, ...]] = {
    alert_name(cause): tuple(alert_name(symptom) for symptom in symptoms) for cause, symptoms in _BY_RULE.items()
}
"""Alert of a cause -> alerts of the symptoms that it makes, of the same deployment.

A table of its own and not the order of evidence: the order tells which of two causes to name first, and says of most
pairs nothing of one making the other.
"""

EVERYTHING = {"PdscopeExporterDown": "PdscopeReplicaDown", "PdscopeDiagnosisStale": "PdscopeReplicaStale"}
"""Where nothing is known any more, that a part is not known is no news."""

_OF_VERDICTS = {alert_name(verdict) for verdict in Verdict}

_ABOVE = {
    Severity.CRITICAL: (Severity.CRITICAL, Severity.PAGE, Severity.WARNING, Severity.INFO),
    Severity.PAGE: (Severity.PAGE, Severity.WARNING, Severity.INFO),
    Severity.WARNING: (Severity.WARNING, Severity.INFO),
}
"""What an alert may silence: never one that wakes somebody by one that does not."""


def inhibit_rules(settings: Settings, severities: Mapping[str, tuple[Severity, ...]]) -> list[dict[str, object]]:
    """For Alertmanager 0.25 or newer.

    Args:
        settings: whose labels make a deployment.
        severities: of each alert.
    """
    rules = [_rule('severity="page"', 'severity="warning",verdict!=""', settings.identity)]
    rules += [
        _rule(f'alertname="{name}",severity="page"', f'alertname="{name}",severity="warning"', settings.identity)
        for name, its in severities.items()
        if {Severity.PAGE, Severity.WARNING} <= set(its) and name not in _OF_VERDICTS
    ]
    for cause, symptoms in CAUSES.items():
        rules += [
            _rule(
                f'alertname="{cause}",severity="{severity}"',
                f'alertname=~"{"|".join(symptoms)}",severity=~"{"|".join(_ABOVE[severity])}"',
                settings.identity,
            )
            for severity in severities[cause]
        ]
    rules += [
        _rule(f'alertname="{whole}"', f'alertname="{part}"', labels)
        for (whole, part), labels in zip(
            EVERYTHING.items(),
            (("cluster",) if "cluster" in settings.keep_labels else (), settings.identity),
            strict=True,
        )
    ]
    return rules


def _rule(source: str, target: str, equal: Iterable[str]) -> dict[str, object]:
    return {"source_matchers": source.split(","), "target_matchers": target.split(","), "equal": list(equal)}
