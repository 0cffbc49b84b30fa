"""One alert a verdict: on what replicas said for most of a window, never on the phase and never at confidence low."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pdscope.model.finding import Stage, Verdict
from pdscope.model.signal import SignalId
from pdscope.model.topology import Role
from pdscope.render.alerting import template
from pdscope.render.alerting.alert import Alert, Firing, Severity, alert_name
from pdscope.render.alerting.pages import Pages
from pdscope.render.alerting.promql import select
from pdscope.render.alerting.recording import ALLOWED_FAILED_SHARE, Recording
from pdscope.render.alerting.settings import Settings
from pdscope.render.metrics import worker_states
from pdscope.render.pages import MEANINGS

WINDOW_SECONDS = 300.0
"""Over which a verdict is averaged, so that a failed scrape or a restart of pdscope does not start the wait again."""

VERDICT_SHARE = 0.7
"""Of the window: a restart costs one window of pdscope (60 s) without a verdict, a fifth of it."""

BROKEN_SHARE = 0.5
"""Of the window, for an objective: latencies go to and fro around theirs."""

PAGE_FOR_SECONDS = 120.0
WARNING_FOR_SECONDS = 300.0
KEEP_SECONDS = 600.0

_ON_WORKERS = frozenset(verdict for role in Role for verdict in worker_states(role))


@dataclass(frozen=True, slots=True)
class _Text:
    """What a verdict's alert shows and what it does to users."""

    evidence: tuple[SignalId, ...]
    impact: str


_S = SignalId
_LINK = (_S.KV_DEMAND, _S.LINK_CAPACITY, _S.KV_ACHIEVED)
_DECODE = (_S.HEADROOM_SLOTS, _S.HEADROOM_KV, _S.GENERATION_TOKENS_PER_SECOND)
_PREFILL = (_S.PREFILL_COMPUTE_UTILIZATION, _S.PROMPT_TOKENS_PER_REQUEST, _S.REQUESTS_PER_SECOND)

_TEXTS: Mapping[Verdict, _Text] = {
    Verdict.PREFILL_COMPUTE: _Text(
        _PREFILL, "Users wait for the first token; every further request lengthens the wait."
    ),
    Verdict.PREFILL_QUEUE: _Text(_PREFILL, "Users wait for the first token though devices have time to spare."),
    Verdict.KV_TRANSFER_BANDWIDTH: _Text(
        _LINK, "Users wait for the first token; more prefill or decode makes it worse, since the link is full."
    ),
    Verdict.KV_TRANSFER_PATH: _Text(_LINK, "Every request waits many times longer for its KV than the link needs."),
    Verdict.KV_TRANSFER_FRAGMENTED: _Text(
        (*_LINK, _S.KV_BYTES_PER_REQUEST), "Every request waits for its KV, and the wait grows with the load."
    ),
    Verdict.KV_TRANSFER_SETUP: _Text(_LINK, "Every request waits for its connection before any byte moves."),
    Verdict.KV_TRANSFER_FAILING: _Text(
        (_S.FAILED_SHARE, _S.KV_ACHIEVED, _S.REQUESTS_PER_SECOND),
        "Requests fail, or their prompts are computed again on decode.",
    ),
    Verdict.KV_PINNED: _Text(
        (_S.KV_ACHIEVED, _S.HEADROOM_PREFILL), "Prefill accepts nothing new until decode fetches, so users wait."
    ),
    Verdict.DECODE_HBM_BANDWIDTH: _Text(
        (_S.DECODE_HBM_UTILIZATION, _S.GENERATION_TOKENS_PER_SECOND),
        "Each token takes longer; more requests in the batch make each of them slower.",
    ),
    Verdict.DECODE_KV_CAPACITY: _Text(
        _DECODE, "Requests are pushed out and computed again, or generation stands still."
    ),
    Verdict.DECODE_ADMISSION: _Text(
        _DECODE, "Users wait for the first token though their prompt is computed; prefill's memory fills up behind it."
    ),
    Verdict.ROUTER_IMBALANCE: _Text(
        (_S.ROLE_IMBALANCE, _S.REQUESTS_PER_SECOND), "Users on the hot instances wait while others have capacity idle."
    ),
    Verdict.FRONTEND_BOUND: _Text(
        (_S.REQUESTS_PER_SECOND, _S.GENERATION_TOKENS_PER_SECOND),
        "Users wait in front of the engines; more devices do not help.",
    ),
    Verdict.HOST_BOUND: _Text(
        (_S.DECODE_HBM_UTILIZATION, _S.PREFILL_COMPUTE_UTILIZATION),
        "Tokens come slowly while devices wait for the CPU.",
    ),
    Verdict.CUDA_GRAPH_MISS: _Text(
        (_S.GENERATION_TOKENS_PER_SECOND,), "Each step of decode takes longer than it has to, from one batch size on."
    ),
    Verdict.HARDWARE_DEGRADED: _Text(
        (_S.PREFILL_COMPUTE_UTILIZATION, _S.DECODE_HBM_UTILIZATION),
        "All ranks of the instance wait for the slow device, and so do its users.",
    ),
    Verdict.WORKLOAD_MISMATCH: _Text(
        (_S.PROMPT_TOKENS_PER_REQUEST, _S.KV_ACHIEVED), "Users pay for a hand-over that gains them nothing."
    ),
    Verdict.METRICS_UNTRUSTED: _Text(
        (), "No bottleneck can be named, and no alert on one will fire, until it is mended."
    ),
    Verdict.INSUFFICIENT_DATA: _Text((), "No bottleneck can be named, and no alert on one will fire, until data come."),
    Verdict.UNDETERMINED: _Text(
        (_S.REQUESTS_PER_SECOND, _S.HEADROOM_LINK, _S.HEADROOM_PREFILL, _S.HEADROOM_SLOTS, _S.HEADROOM_KV),
        "Users wait longer than promised, and nothing that is measured says why.",
    ),
}


def verdict_alerts(settings: Settings, recorded: Recording, pages: Pages) -> tuple[Alert, ...]:
    """An alert for every verdict but the two that ask for nothing."""
    return tuple(_alert(verdict, settings, recorded, pages) for verdict in Verdict if verdict in _TEXTS)


def broken(settings: Settings, recorded: Recording) -> str:
    """That users got less than was promised for a good part of the window."""
    return f"avg_over_time({select(recorded.broken)}[{settings.span(WINDOW_SECONDS)}]) > {BROKEN_SHARE:g}"


def _alert(verdict: Verdict, settings: Settings, recorded: Recording, pages: Pages) -> Alert:
    blames = verdict.stage is not Stage.NONE
    texts = _TEXTS[verdict]
    # A verdict that says that nothing can be said has no confidence to wait for.
    source = recorded.confident if blames else recorded.verdict
    window = settings.span(WINDOW_SECONDS)
    holds = f"avg_over_time({select(source, verdict=verdict)}[{window}]) > {VERDICT_SHARE:g}"
    warning = Firing(Severity.WARNING, holds, WARNING_FOR_SECONDS, KEEP_SECONDS)
    felt = f"{holds}\nand {settings.on()} {broken(settings, recorded)}"
    page = Firing(Severity.PAGE, felt, PAGE_FOR_SECONDS, KEEP_SECONDS)
    return Alert(
        name=alert_name(verdict),
        firings=(page, warning) if blames else (warning,),
        summary=MEANINGS[verdict],
        description=_description(verdict, texts, settings, recorded),
        runbook=pages.of_rule(verdict, _impact(texts, blames=blames), texts.evidence),
        labels=(("stage", str(verdict.stage)),),
    )


def _description(verdict: Verdict, texts: _Text, settings: Settings, recorded: Recording) -> str:
    said = MEANINGS[verdict]
    return (
        f"{template.preamble(settings)}Deployment {{{{ $labels.deployment }}}}: {said}"
        f"{template.broken(recorded.objectives[0], recorded.unserved)}{template.evidence(texts.evidence)}"
        f"{template.workers(verdict) if verdict in _ON_WORKERS else ''}"
    )


def _impact(texts: _Text, *, blames: bool) -> str:
    if not blames:
        return f"{texts.impact} It never pages: nothing is explained."
    return (
        f"{texts.impact}\n\n"
        f"`{Severity.PAGE}` while users feel it: an objective is broken as well, more than "
        f"{ALLOWED_FAILED_SHARE * 100:g} % of requests fail in the transfer, or nobody is served at all. "
        f"`{Severity.WARNING}` while they do not yet."
    )
