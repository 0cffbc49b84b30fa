"""Alerts on the verdicts, never on the phase alone; their pages are the runbooks of the daemon's alerts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pdscope.model.finding import Verdict
from pdscope.render.alerting.alert import Severity, alert_name
from pdscope.render.alerting.settings import Settings
from pdscope.render.alerting.verdicts import (
    BROKEN_SHARE,
    KEEP_SECONDS,
    PAGE_FOR_SECONDS,
    VERDICT_SHARE,
    WARNING_FOR_SECONDS,
    WINDOW_SECONDS,
)
from pdscope.render.pages import MEANINGS
from pdscope.render.standalone.parameters import PREFIX
from pdscope.render.standalone.verdicts import VERDICTS

_SECONDS, _BYTES, _RATE = "humanizeDuration }}", "humanize }}B/s", "humanize }}/s"
_SHARE, _COUNT = "humanizePercentage }}", 'printf "%.3g" }}'


@dataclass(frozen=True, slots=True)
class _Number:
    """A number that a description shows: the series, what it is called, how it is written."""

    series: str
    name: str
    form: str


_LATENCIES = (
    _Number("ttft_p50_low_seconds", "TTFT p50 at least", _SECONDS),
    _Number("ttft_p50_high_seconds", "TTFT p50 at most", _SECONDS),
    _Number("itl_p50_seconds", "ITL p50", _SECONDS),
)
_EVIDENCE: Mapping[Verdict, tuple[_Number, ...]] = {
    Verdict.KV_TRANSFER_FAILING: (
        _Number("kv_transfer_failures_per_second", "Failures of the worst worker", _RATE),
        _Number("requests_per_second", "Requests that end", _RATE),
    ),
    Verdict.DECODE_KV_CAPACITY: (
        _Number("kv_usage_net_ratio", "Fullest pool", _SHARE),
        _Number("preemptions_per_second", "Preemptions of the worst worker", _RATE),
    ),
    Verdict.DECODE_ADMISSION: (
        _Number("admission_queue", "Longest queue before admission", _COUNT),
        _Number("admission_ttft_share", "Its wait by TTFT", _SHARE),
    ),
    Verdict.KV_TRANSFER_BANDWIDTH: (
        _Number("kv_transfer_demand_bytes_per_second", "KV demand", _BYTES),
        _Number("interconnect_capacity_bytes_per_second", "Interconnect capacity", _BYTES),
        _Number("kv_transfer_achieved_bytes_per_second", "KV achieved", _BYTES),
        _Number("kv_transfer_ttft_share", "A transfer by TTFT", _SHARE),
    ),
    Verdict.PREFILL_QUEUE: (
        _Number("prefill_queue", "Longest queue before prefill", _COUNT),
        _Number("prefill_wait_ttft_share", "Its wait by TTFT", _SHARE),
    ),
}
_SAID: Mapping[Verdict, str] = {
    **MEANINGS,
    Verdict.PREFILL_QUEUE: "Requests wait for prefill; without device telemetry nobody knows whether it computes at "
    "its limit.",
}
_BY_DEPLOYMENT = "interconnect_capacity_bytes_per_second"
"""A constant: it has no label but the deployment."""


def standalone_name(verdict: Verdict) -> str:
    """`decode_admission` -> `PdscopeStandaloneDecodeAdmission`."""
    return alert_name(f"standalone_{verdict}")


def runbook(verdict: Verdict) -> str:
    """File of the page that the alert shares with the daemon's."""
    return f"{alert_name(verdict)}.md"


def alert_rules(settings: Settings) -> Iterator[dict[str, object]]:
    """A page and a warning for each verdict, as the daemon's rules have them."""
    window = settings.span(WINDOW_SECONDS)
    broken = f"avg_over_time({PREFIX}slo_broken[{window}]) > {BROKEN_SHARE:g}"
    for verdict in VERDICTS:
        holds = f'avg_over_time({PREFIX}verdict{{verdict="{verdict}"}}[{window}]) > {VERDICT_SHARE:g}'
        paging = f"{holds}\nand {settings.on()} {broken}"
        for severity, expr, seconds in (
            (Severity.PAGE, paging, PAGE_FOR_SECONDS),
            (Severity.WARNING, holds, WARNING_FOR_SECONDS),
        ):
            yield {
                "alert": standalone_name(verdict),
                "expr": expr,
                "for": settings.span(seconds),
                "keep_firing_for": settings.span(KEEP_SECONDS),
                "labels": {"severity": str(severity), "stage": str(verdict.stage)},
                "annotations": {
                    "summary": _SAID[verdict],
                    "description": _description(verdict, settings),
                    "runbook_url": f"{settings.runbook_url.rstrip('/')}/{runbook(verdict)}",
                },
            }


def _description(verdict: Verdict, settings: Settings) -> str:
    """The numbers of the moment; what is not known is left out."""
    matchers = ",".join(f"{label}=%q" for label in settings.identity)
    values = " ".join(f"$labels.{label}" for label in settings.identity)
    parts = [
        f"{{{{- $of := printf `{matchers}` {values} -}}}}",
        "{{- $name := printf `deployment=%q` $labels.deployment -}}",
        f"Deployment {{{{ $labels.deployment }}}}: {_SAID[verdict]}",
    ]
    for number in (*_LATENCIES, *_EVIDENCE[verdict]):
        of = "$name" if number.series == _BY_DEPLOYMENT else "$of"
        parts.append(
            f"{{{{- with printf `max({PREFIX}{number.series}{{%s}})` {of} | query }}}} {number.name} "
            f"{{{{ . | first | value | {number.form}.{{{{ end }}}}"
        )
    return "\n".join(parts)
