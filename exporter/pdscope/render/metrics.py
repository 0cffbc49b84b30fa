"""The report as `/metrics`: fresh families from an immutable report, no time stamps, nothing unknown."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry
from prometheus_client import exposition as text_format
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics import exposition as openmetrics_format
from prometheus_client.registry import Collector

from pdscope.model.finding import Confidence, Phase, Truth, Verdict
from pdscope.model.report import DeploymentReport, Report
from pdscope.model.signal import SignalId, instance_scope
from pdscope.model.topology import Role
from pdscope.render import catalogue
from pdscope.render.catalogue import MetricDef, MetricKind

CONTENT_TYPE_TEXT = "text/plain; version=0.0.4; charset=utf-8"
CONTENT_TYPE_OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_BY_ROLE = {
    Role.PREFILL: (
        Verdict.PREFILL_COMPUTE,
        Verdict.PREFILL_QUEUE,
        Verdict.KV_PINNED,
        Verdict.KV_TRANSFER_FAILING,
        Verdict.HOST_BOUND,
        Verdict.HARDWARE_DEGRADED,
    ),
    Role.DECODE: (
        Verdict.KV_TRANSFER_FAILING,
        Verdict.DECODE_HBM_BANDWIDTH,
        Verdict.DECODE_KV_CAPACITY,
        Verdict.DECODE_ADMISSION,
        Verdict.HOST_BOUND,
        Verdict.CUDA_GRAPH_MISS,
        Verdict.HARDWARE_DEGRADED,
    ),
    Role.UNIFIED: (
        Verdict.PREFILL_COMPUTE,
        Verdict.PREFILL_QUEUE,
        Verdict.DECODE_HBM_BANDWIDTH,
        Verdict.DECODE_KV_CAPACITY,
        Verdict.HOST_BOUND,
        Verdict.CUDA_GRAPH_MISS,
        Verdict.HARDWARE_DEGRADED,
    ),
    Role.ROUTER: (Verdict.FRONTEND_BOUND,),
}
_ANY_WORKER = (Verdict.HEALTHY, Verdict.IDLE, Verdict.INSUFFICIENT_DATA, Verdict.METRICS_UNTRUSTED)


def worker_states(role: Role) -> tuple[Verdict, ...]:
    """The verdicts that one instance of a role can have."""
    return (*_ANY_WORKER, *_BY_ROLE[role])


def render_metrics(report: Report, *, version: str, openmetrics: bool = False, reload_ok: bool = True) -> bytes:
    """The page for one report.

    Args:
        report: of one cycle.
        version: of pdscope.
        openmetrics: OpenMetrics 1.0 instead of text 0.0.4.
        reload_ok: whether the configuration was last read without an error.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_ReportCollector(list(families(report, version=version, reload_ok=reload_ok))))
    if openmetrics:
        page: bytes = openmetrics_format.generate_latest(registry)  # type: ignore[no-untyped-call]  # as it is shipped
        return page
    return text_format.generate_latest(registry)


class _ReportCollector(Collector):
    def __init__(self, ready: list[Metric]) -> None:
        self._ready = ready

    def collect(self) -> Iterable[Metric]:
        return self._ready


def families(report: Report, *, version: str, reload_ok: bool) -> Iterator[Metric]:
    """All families that have a sample, in the order of the catalogue."""
    made = _Families()
    made.add(catalogue.BUILD_INFO, (version, platform.python_version()), 1.0)
    made.add(catalogue.CONFIG_RELOAD, (), float(reload_ok))
    made.add(catalogue.DIAGNOSIS_DURATION, (), report.duration_seconds)
    for rule, count in report.rule_failures.items():
        made.add(catalogue.RULE_FAILURES, (rule,), float(count))
    for deployment in report.deployments:
        _deployment(made, deployment)
        _workers(made, deployment)
    for target in report.targets:
        labels = (target.deployment, target.target, target.source)
        made.add(catalogue.SOURCE_UP, labels, float(target.up))
        made.add(catalogue.SOURCE_DURATION, labels, target.duration_seconds)
        made.add(catalogue.SOURCE_LAST_SUCCESS, labels, target.last_success)
        if target.up:  # of a page that did not come nothing is known
            made.add(catalogue.SOURCE_MISSING, labels, float(target.missing_metrics))
        for reason, count in target.failures.items():
            made.add(catalogue.SOURCE_FAILURES, (*labels, reason), float(count))
    return made.ordered()


class _Families:
    def __init__(self) -> None:
        self._by_name: dict[str, Metric] = {}

    def add(self, definition: MetricDef, labels: tuple[str, ...], value: float | None) -> None:
        """Add a sample; an unknown value is left out."""
        if value is not None:
            self.add_labelled(definition, dict(zip(definition.labels, labels, strict=True)), value)

    def add_labelled(self, definition: MetricDef, labels: dict[str, str], value: float) -> None:
        family = self._by_name.get(definition.name)
        if family is None:
            make = CounterMetricFamily if definition.kind is MetricKind.COUNTER else GaugeMetricFamily
            family = self._by_name[definition.name] = make(definition.name.removesuffix("_total"), definition.help)
        family.add_sample(definition.name, labels, value)

    def ordered(self) -> Iterator[Metric]:
        return (self._by_name[d.name] for d in catalogue.ALL if d.name in self._by_name)


def _deployment(made: _Families, report: DeploymentReport) -> None:
    diagnosis, name = report.diagnosis, report.diagnosis.deployment
    info = {"deployment": name, "model": report.deployment.model.name, **report.deployment.labels}
    made.add_labelled(catalogue.DEPLOYMENT_INFO, info, 1.0)
    for verdict in Verdict:
        made.add(catalogue.VERDICT, (name, verdict), float(verdict is diagnosis.verdict))
    for phase in Phase:
        made.add(catalogue.PHASE, (name, phase), float(phase is diagnosis.phase))
    for confidence in Confidence:
        made.add(catalogue.CONFIDENCE, (name, confidence), float(confidence is diagnosis.confidence))
    made.add(catalogue.VERDICT_SINCE, (name,), diagnosis.since)
    made.add(catalogue.DIAGNOSIS_TIMESTAMP, (name,), diagnosis.at)
    for rule in sorted({f.rule for f in diagnosis.findings}):
        truths = [f.truth for f in diagnosis.findings if f.rule == rule]
        if Truth.TRUE in truths or Truth.UNKNOWN not in truths:
            made.add(catalogue.FINDING_ACTIVE, (name, rule), float(Truth.TRUE in truths))
    for signal, definition in catalogue.DEPLOYMENT_SIGNALS.items():
        made.add(definition, (name,), report.signals.value(signal))
    for signal, resource in catalogue.HEADROOM_RESOURCES.items():
        made.add(catalogue.HEADROOM, (name, resource), report.signals.value(signal))
    for attribute, definition in catalogue.SLO.items():
        made.add(definition, (name,), getattr(report.deployment.slo, attribute))


def _workers(made: _Families, report: DeploymentReport) -> None:
    name = report.diagnosis.deployment
    for instance in report.deployment.instances:
        state = report.instances[instance.name]
        address = urlsplit(instance.url).netloc.rpartition("@")[2]
        info = (
            name,
            instance.name,
            instance.role,
            instance.engine,
            state.engine_version or "",
            state.model or "",
            address,
            "",
            "",
            "",
        )
        made.add(catalogue.WORKER_INFO, info, 1.0)
        current = report.diagnosis.worker_verdicts[instance.name]
        for verdict in dict.fromkeys((*worker_states(instance.role), current)):
            made.add(catalogue.WORKER_VERDICT, (name, instance.name, verdict), float(verdict is current))
        for signal, definition in (
            (SignalId.COMPUTE_UTILIZATION, catalogue.WORKER_COMPUTE),
            (SignalId.HBM_UTILIZATION, catalogue.WORKER_HBM),
        ):
            found = report.signals.get(signal, instance_scope(instance.name))
            if found is not None:
                made.add(definition, (name, instance.name, instance.role, found.quality), found.value)
