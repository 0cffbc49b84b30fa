"""The report as the JSON of `/diagnose` and `diagnose --format json`: schema version 1 of the contract."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson

from pdscope.model.finding import Evidence, Finding, Remedy
from pdscope.model.report import DeploymentReport, InstanceState, Report
from pdscope.model.signal import Signal, instance_scope
from pdscope.render.silent import Silent, silent_sources

SCHEMA_VERSION = 1


def report_json(report: Report, *, deployment: str | None = None) -> bytes:
    """UTF-8 JSON, indented: people read it at night.

    Args:
        report: of one cycle.
        deployment: only this one.
    """
    return orjson.dumps(report_document(report, deployment=deployment), option=orjson.OPT_INDENT_2)


def report_document(report: Report, *, deployment: str | None = None) -> dict[str, Any]:
    """The document before it becomes text. An unknown signal is absent, never null."""
    return {
        "schema_version": SCHEMA_VERSION,
        "generated_at": timestamp(report.generated_at),
        "window_seconds": report.window_seconds,
        "deployments": [
            _deployment(d, report) for d in report.deployments if deployment is None or d.deployment.name == deployment
        ],
    }


def timestamp(unix_seconds: float) -> str:
    """RFC 3339 in UTC."""
    return datetime.fromtimestamp(unix_seconds, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _deployment(report: DeploymentReport, whole: Report) -> dict[str, Any]:
    diagnosis = report.diagnosis
    pending = diagnosis.pending
    return {
        "name": diagnosis.deployment,
        "model": report.deployment.model.name,
        "phase": diagnosis.phase,
        "verdict": diagnosis.verdict,
        "stage": diagnosis.stage,
        "confidence": diagnosis.confidence,
        "since": timestamp(diagnosis.since),
        "pending": None if pending is None else {"verdict": pending.verdict, "windows": pending.windows},
        "summary": diagnosis.summary,
        "culprits": list(diagnosis.culprits),
        "findings": [_finding(f) for f in diagnosis.findings],
        "signals": {s.id.value: _signal(s) for s in report.signals.of(report.signals.deployment)},
        "instances": [_instance(report, state) for state in report.instances.values()],
        "silent_sources": [_silent(s) for s in silent_sources(whole, report)],
        "next_steps": list(diagnosis.next_steps),
    }


def _silent(silent: Silent) -> dict[str, str]:
    document = {"target": silent.target, "source": silent.source, "lost": silent.lost}
    return document if silent.last_success is None else document | {"last_success": timestamp(silent.last_success)}


def _instance(report: DeploymentReport, state: InstanceState) -> dict[str, Any]:
    instance = next(i for i in report.deployment.instances if i.name == state.name)
    document: dict[str, Any] = {"name": state.name, "role": instance.role, "engine": instance.engine}
    if state.engine_version is not None:
        document["engine_version"] = state.engine_version
    document["up"] = state.up
    if state.reason is not None:
        document["reason"] = state.reason
    document["verdict"] = report.diagnosis.worker_verdicts[state.name]
    document["signals"] = {s.id.value: _signal(s) for s in report.signals.of(instance_scope(state.name))}
    return document


def _finding(finding: Finding) -> dict[str, Any]:
    document: dict[str, Any] = {"rule": finding.rule}
    if finding.verdict is not None:
        document["verdict"] = finding.verdict
    if finding.headline:
        document["headline"] = finding.headline
    return document | {
        "truth": finding.truth,
        "strength": round(finding.strength, 3),
        "scope": {"kind": finding.scope.kind, "name": finding.scope.name},
        "evidence": [_evidence(e) for e in finding.evidence],
        "missing": list(finding.missing),
        "remedies": [_remedy(r) for r in finding.remedies],
    }


def _evidence(evidence: Evidence) -> dict[str, Any]:
    document: dict[str, Any] = {
        "signal": evidence.signal,
        "value": evidence.value,
        "unit": evidence.unit,
        "op": evidence.op,
        "threshold": evidence.threshold,
        "truth": evidence.truth,
        "scope": {"kind": evidence.scope.kind, "name": evidence.scope.name},
        "source": evidence.source,
        "quality": evidence.quality,
        "age_seconds": evidence.age_seconds,
    }
    if evidence.bounds is not None:
        document["bounds"] = list(evidence.bounds)
    return document


def _remedy(remedy: Remedy) -> dict[str, str]:
    document = {
        "id": remedy.id,
        "action": remedy.action,
        "cost": remedy.cost,
        "precondition": remedy.precondition,
    }
    return document | ({"setting": remedy.setting} if remedy.setting is not None else {})


def _signal(signal: Signal) -> dict[str, Any]:
    document: dict[str, Any] = {
        "value": signal.value,
        "unit": signal.id.unit,
        "quality": signal.quality,
        "source": signal.source,
        "age_seconds": signal.age_seconds,
    }
    if signal.bounds is not None:
        document["bounds"] = list(signal.bounds)
    return document
