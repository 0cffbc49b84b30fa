"""Evidence inside an alert: the numbers of this moment, asked of Prometheus when the description is written."""

from __future__ import annotations

from collections.abc import Sequence

from pdscope.model.finding import Verdict
from pdscope.model.signal import SignalId
from pdscope.render import catalogue
from pdscope.render.alerting.promql import Recorded
from pdscope.render.alerting.settings import Settings
from pdscope.render.catalogue import MetricDef

_FORMATS = (  # by the end of the name, the first that fits
    ("_bytes_per_second", "humanize }}B/s"),
    ("_bytes_per_request", "humanize }}B"),
    ("_imbalance_ratio", 'printf "%.3g" }}'),
    ("_ratio", "humanizePercentage }}"),
    ("_per_second", "humanize }}/s"),
    ("_seconds", "humanizeDuration }}"),
    ("", "humanize }}"),
)

EVIDENCE_NAMES: dict[SignalId, str] = {
    SignalId.REQUESTS_PER_SECOND: "Requests",
    SignalId.PROMPT_TOKENS_PER_REQUEST: "Mean prompt in tokens",
    SignalId.GENERATION_TOKENS_PER_SECOND: "Tokens generated",
    SignalId.KV_BYTES_PER_REQUEST: "KV of a request",
    SignalId.KV_DEMAND: "KV demand",
    SignalId.KV_ACHIEVED: "KV achieved",
    SignalId.LINK_CAPACITY: "Interconnect capacity",
    SignalId.LINK_UTILIZATION: "Demand by capacity",
    SignalId.FAILED_SHARE: "Requests that fail",
    SignalId.PREFILL_COMPUTE_UTILIZATION: "Prefill compute",
    SignalId.DECODE_HBM_UTILIZATION: "Decode HBM bandwidth",
    SignalId.ROLE_IMBALANCE: "Imbalance of a role",
    SignalId.HEADROOM_LINK: "Headroom of the link",
    SignalId.HEADROOM_PREFILL: "Headroom of prefill",
    SignalId.HEADROOM_SLOTS: "Headroom of decode's slots",
    SignalId.HEADROOM_KV: "Headroom of decode's KV pool",
}
"""What a description calls a signal."""


def preamble(settings: Settings) -> str:
    """Sets `$of`: the matchers of this deployment. A label that the alert lacks is matched as empty, thus as absent.

    And `$new`: the replicas that have lately judged it, since one that hangs exports its last answer for ever.
    Each part that follows stands on a line of the file, whose end `{{-` takes away again.
    """
    matchers = ",".join(f"{label}=%q" for label in settings.identity)
    values = " ".join(f"$labels.{label}" for label in settings.identity)
    judged = f"time() - {catalogue.DIAGNOSIS_TIMESTAMP.name}{{%s}} <= {settings.stale_after_seconds:g}"
    return f"{{{{- $of := printf `{matchers}` {values} -}}}}\n{{{{- $new := printf `({judged})` $of -}}}}\n"


def evidence(signals: Sequence[SignalId]) -> str:
    """The two medians with their objectives, then the given signals. What is unknown is left out. Needs `preamble`."""
    parts = [_latency("TTFT p50", SignalId.TTFT_P50), _latency("ITL p50", SignalId.ITL_P50)]
    for signal in signals:
        metric, value = metric_of(signal)
        parts.append(_ask(metric, f" {EVIDENCE_NAMES[signal]} {value}.", resource_matcher(signal)))
    return "".join(parts)


def broken(objectives: Recorded, unserved: Recorded) -> str:
    """The objectives that are broken, of whichever percentile, or that nobody is served. Needs `preamble`."""
    query = f"\n{{{{- range printf `{objectives.name}{{%s}} > 1` $of | query | sortByLabel `objective` }}}}"
    times = f'{query} {{{{ .Labels.objective }}}} is {{{{ .Value | printf "%.3g" }}}} times its objective.{{{{ end }}}}'
    nobody = f"\n{{{{- with printf `{unserved.name}{{%s}} == 1` $of | query }}}} Nobody is served.{{{{ end }}}}"
    return f"{times}{nobody}"


def workers(verdict: Verdict) -> str:
    """The instances that have the verdict themselves. Needs `preamble`."""
    said = _new(catalogue.WORKER_VERDICT, f',verdict="{verdict}"')
    query = f"\n{{{{- with printf `max by (worker) ({said}) == 1` $of $new | query | sortByLabel `worker` }}}}"
    return f"{query} Instances:{{{{ range . }}}} {{{{ .Labels.worker }}}}{{{{ end }}}}.{{{{ end }}}}"


def silent_targets() -> str:
    """The targets that bring no data. Needs `preamble`."""
    down = f"max by (target) ({_new(catalogue.SOURCE_UP)}) == 0"
    query = f"\n{{{{- with printf `{down}` $of $new | query | sortByLabel `target` }}}}"
    return f"{query} No data from:{{{{ range . }}}} {{{{ .Labels.target }}}}{{{{ end }}}}.{{{{ end }}}}"


def metric_of(signal: SignalId) -> tuple[MetricDef, str]:
    """The metric that exports a signal, and the template of its value."""
    metric = catalogue.HEADROOM if signal in catalogue.HEADROOM_RESOURCES else catalogue.DEPLOYMENT_SIGNALS[signal]
    return metric, _value(metric)


def resource_matcher(signal: SignalId) -> str:
    """What selects a signal within its metric, beside the deployment."""
    resource = catalogue.HEADROOM_RESOURCES.get(signal)
    return f',resource="{resource}"' if resource is not None else ""


def _latency(name: str, signal: SignalId) -> str:
    metric, value = metric_of(signal)
    objective = catalogue.SLO[signal.value]
    beside = _asked(objective, f" (objective {_value(objective)})")
    return _ask(metric, f" {name} {value}{beside}.")


def _ask(metric: MetricDef, text: str, matcher: str = "") -> str:
    return "\n" + _asked(metric, text, matcher).replace("{{ with", "{{- with", 1)


def _asked(metric: MetricDef, text: str, matcher: str = "") -> str:
    """The text where the metric has a value; replicas say the same, so the largest will do."""
    return f"{{{{ with printf `max({_new(metric, matcher)})` $of $new | query }}}}{text}{{{{ end }}}}"


def _new(metric: MetricDef, matcher: str = "") -> str:
    """What replicas have lately said; takes `$of` and `$new`."""
    own = ", ".join(label for label in metric.labels if label != "deployment")
    return f"{metric.name}{{%s{matcher}}} and {f'ignoring ({own}) ' if own else ''}%s"


def _value(metric: MetricDef) -> str:
    return "{{ . | first | value | " + next(text for suffix, text in _FORMATS if metric.name.endswith(suffix))
