"""Deployments and signals made by hand, for tests of the diagnosis: no window, no page, no engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pdscope.diagnosis.base import Case, Rule
from pdscope.diagnosis.engine import Judgement, discover, judge
from pdscope.model.finding import Finding
from pdscope.model.signal import Quality, Signal, SignalId, SignalSet, instance_scope
from pdscope.model.topology import Deployment, EngineProfile, Instance, ModelFacts, Role, Slo

NAME = "pd"
SLO = Slo(ttft_p50_seconds=2.0, itl_p50_seconds=0.05)
ENGINE = EngineProfile(
    name="engine",
    settings={"raise_running_limit": "--max-running", "quantise_kv": "--kv-dtype fp8"},
    enable={"max_running_requests": "--export-limit"},
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A value that is not simply measured, or whose bucket is known."""

    value: float
    quality: Quality = Quality.MEASURED
    bounds: tuple[float, float] | None = None


Place = SignalId | tuple[str, SignalId]
"""A signal of the deployment, or (instance, signal)."""
Figures = Mapping[Place, float | Figure]
Changes = Mapping[Place, float | Figure | None]
"""None removes the signal: it is unknown then."""
_Value = TypeVar("_Value")


def derived(value: float) -> Figure:
    return Figure(value, Quality.DERIVED)


def estimated(value: float) -> Figure:
    return Figure(value, Quality.ESTIMATED)


def on(instance: str, figures: Mapping[SignalId, _Value]) -> dict[Place, _Value]:
    """The figures as those of one instance."""
    return {(instance, signal): value for signal, value in figures.items()}


def changed(figures: Figures, *changes: Changes) -> Figures:
    """The figures with some replaced, and those set to None removed."""
    merged: dict[Place, float | Figure | None] = {**figures}
    for change in changes:
        merged.update(change)
    return {place: value for place, value in merged.items() if value is not None}


def signal_set(figures: Figures) -> SignalSet:
    """Signals with these values, each named after itself as its source."""
    signals = []
    empty = SignalSet(NAME, [])
    for place, value in figures.items():
        name, signal = place if isinstance(place, tuple) else (None, place)
        figure = value if isinstance(value, Figure) else Figure(value)
        scope = empty.deployment if name is None else instance_scope(name)
        signals.append(Signal(signal, scope, figure.value, figure.quality, f"test {signal}", 1.0, 9, figure.bounds))
    return SignalSet(NAME, signals)


def instance(name: str, role: Role, **fields: Any) -> Instance:
    """An instance of an engine without peculiarities."""
    return Instance(**{"name": name, "role": role, "engine": "engine", "url": "", "profile": ENGINE} | fields)


def deployment(*instances: Instance, **fields: Any) -> Deployment:
    """By default one prefill instance p0 and one decode instance d0, objectives TTFT p50 2 s and ITL p50 50 ms."""
    members = instances or (instance("p0", Role.PREFILL), instance("d0", Role.DECODE))
    return Deployment(**{"name": NAME, "model": ModelFacts("m"), "instances": members, "slo": SLO} | fields)


def findings(
    rule: Rule, figures: Figures, of: Deployment | None = None, thresholds: Mapping[str, float] | None = None
) -> list[Finding]:
    """All that a rule says; `thresholds` by their names in the rule."""
    configured = {f"{rule.id}.{name}": value for name, value in (thresholds or {}).items()}
    return list(rule.evaluate(Case(of or deployment(), signal_set(figures), configured)))


def finding(
    rule: Rule,
    figures: Figures,
    of: Deployment | None = None,
    thresholds: Mapping[str, float] | None = None,
    *,
    about: str | None = None,
) -> Finding:
    """What a rule says about one scope, or the only thing that it says."""
    found = [f for f in findings(rule, figures, of, thresholds) if about in (None, f.scope.name)]
    assert len(found) == 1, found
    return found[0]


def verdict_of(figures: Figures, of: Deployment | None = None, rules: tuple[Rule, ...] | None = None) -> Judgement:
    """The answer of the engine, by all rules that there are."""
    return judge(of or deployment(), signal_set(figures), rules or discover(), at=1000.0, window_seconds=60.0)


CALM: Figures = {
    SignalId.REQUESTS_FINISHED: 300.0,
    SignalId.REQUESTS_PER_SECOND: 5.0,
    SignalId.TTFT_P50: 0.8,
    SignalId.TTFT_MEAN: 0.9,
    SignalId.ITL_P50: 0.02,
    SignalId.QUEUED: 0.0,
    SignalId.OBSERVED: 60.0,
    SignalId.KV_DEMAND: derived(5e9),
    SignalId.KV_ACHIEVED: 5e9,
    SignalId.LINK_CAPACITY: Figure(40e9, Quality.ASSUMED),
    SignalId.LINK_UTILIZATION: derived(0.125),
    SignalId.TRANSFER_TIME: 0.02,
    SignalId.TRANSFER_IN_FLIGHT: 0.1,
    SignalId.TRANSFER_TTFT_SHARE: 0.02,
    **on(
        "p0",
        {
            SignalId.SCRAPES: 13.0,
            SignalId.WORK_IN_FLIGHT: 2.0,
            SignalId.PREFILL_QUEUE: 0.0,
            SignalId.PREFILL_WAIT: 0.01,
            SignalId.PREFILL_WAIT_TTFT_SHARE: 0.01,
            SignalId.PREFILL_WAIT_TO_SERVICE: 0.05,
            SignalId.COMPUTE_UTILIZATION: 0.4,
            SignalId.TENSOR_UTILIZATION: 0.3,
            SignalId.KV_USAGE: 0.1,
            SignalId.KV_USAGE_NET: 0.1,
            SignalId.KV_FREE_REQUESTS: 90.0,
            SignalId.FAILURES_PER_SECOND: 0.0,
        },
    ),
    **on(
        "d0",
        {
            SignalId.SCRAPES: 13.0,
            SignalId.WORK_IN_FLIGHT: 40.0,
            SignalId.RUNNING: 40.0,
            SignalId.MAX_RUNNING: 256.0,
            SignalId.RUNNING_TO_LIMIT: 0.16,
            SignalId.KV_USAGE: 0.3,
            SignalId.KV_USAGE_NET: 0.25,
            SignalId.KV_FREE_REQUESTS: 70.0,
            SignalId.GENERATION_RATE: 1800.0,
            SignalId.PREEMPTIONS_PER_SECOND: 0.0,
            SignalId.ADMISSION_QUEUE: 0.0,
            SignalId.ADMISSION_WAIT: 0.002,
            SignalId.ADMISSION_TTFT_SHARE: 0.003,
            SignalId.KV_RECEIVED_SHARE: 1.0,
            SignalId.FAILURES_PER_SECOND: 0.0,
        },
    ),
}
"""One prefill and one decode instance with nothing near a limit, all signals known."""

_SLOW_START: Figures = {SignalId.TTFT_P50: 7.0, SignalId.TTFT_MEAN: 7.2}

FINDINGS: Mapping[str, Figures] = {
    "link_shared": changed(CALM, {SignalId.NIC_CAPACITY: 50e9, SignalId.LINK_FOREIGN: derived(12e9)}),
    "kv_lease_expired": changed(CALM, on("p0", {SignalId.LEASES_EXPIRED: 0.05})),
    "late_kv_read": changed(CALM, on("p0", {SignalId.LATE_KV_READS: 0.02})),
    "decode_recompute": changed(CALM, on("d0", {SignalId.RECOMPUTED_SHARE: 0.3, SignalId.KV_RECEIVED_SHARE: 0.7})),
    "decode_starved": changed(CALM, on("d0", {SignalId.AWAITED_KV: 5.0, SignalId.RUNNING: 0.4})),
    "itl_unstable": changed(CALM, {SignalId.ITL_P95: 0.15}),
    "instance_down": changed(CALM, on("d0", {SignalId.SILENT_SCRAPES: 3.0, SignalId.ANSWERS: 0.0})),
    "telemetry_lost": changed(CALM, on("d0", {SignalId.SILENT_SCRAPES: 3.0, SignalId.ANSWERS: 1.0})),
    "scrape_cost": changed(CALM, on("d0", {SignalId.SCRAPE_COST: 0.05})),
    "engine_setting": changed(CALM, on("p0", {SignalId.PAGE_TOKENS: 64.0}), on("d0", {SignalId.PAGE_TOKENS: 16.0})),
    "pd_ratio": changed(CALM, {SignalId.PREFILL_LOAD: 0.95, SignalId.DECODE_LOAD: derived(0.2)}),
}
"""Signals with which each finding that stands beside the verdict holds."""

STORIES: Mapping[str, Figures] = {
    "healthy": CALM,
    "idle": changed(CALM, {SignalId.REQUESTS_FINISHED: 2.0, SignalId.REQUESTS_PER_SECOND: 0.03}),
    "insufficient_data": changed(CALM, {("d0", SignalId.SCRAPES): 1.0}),
    "undetermined": changed(CALM, {SignalId.ITL_P50: 0.08}),
    "kv_transfer_bandwidth": changed(
        CALM,
        _SLOW_START,
        {
            SignalId.KV_DEMAND: derived(60e9),
            SignalId.KV_ACHIEVED: 38e9,
            SignalId.LINK_UTILIZATION: derived(1.5),
            SignalId.TRANSFER_TIME: 6.0,
            SignalId.TRANSFER_IN_FLIGHT: 14.0,
            SignalId.TRANSFER_TTFT_SHARE: 0.83,
        },
    ),
    "decode_hbm_bandwidth": changed(
        CALM, {SignalId.ITL_P50: 0.08, SignalId.ITL_MEAN: 0.08}, on("d0", {SignalId.HBM_UTILIZATION: 0.78})
    ),
    "hardware_degraded": changed(
        CALM, {SignalId.ITL_P50: 0.08, SignalId.ITL_MEAN: 0.08}, on("d0", {SignalId.DEVICE_POWER_LOWEST: 0.61})
    ),
    "kv_pinned": changed(
        CALM,
        _SLOW_START,
        on(
            "p0",
            {
                SignalId.KV_USAGE: 1.0,
                SignalId.KV_USAGE_NET: 1.0,
                SignalId.KV_FREE_REQUESTS: 0.0,
                SignalId.RUNNING: 1.0,
                SignalId.PREFILL_QUEUE: 40.0,
                SignalId.COMPUTE_UTILIZATION: 0.05,
                SignalId.TENSOR_UTILIZATION: 0.02,
            },
        ),
    ),
    "router_imbalance": changed(
        CALM,
        {SignalId.ITL_P50: 0.08, SignalId.ITL_MEAN: 0.08},
        on("d0", {SignalId.RANK_IMBALANCE: 6.0, SignalId.RANK_EXCESS: 25.0}),
    ),
    "workload_mismatch": changed(
        CALM,
        {
            SignalId.TTFT_P50: 2.2,
            SignalId.TTFT_MEAN: 2.3,
            SignalId.PROMPT_TOKENS_PER_REQUEST: 61.0,
            SignalId.TRANSFER_TIME: 1.4,
            SignalId.TRANSFER_TTFT_SHARE: 0.6,
            SignalId.HANDOVER_TO_PREFILL: derived(9.0),
        },
    ),
    "kv_transfer_failing": changed(CALM, on("p0", {SignalId.FAILURES_PER_SECOND: 1.0})),
    "decode_admission": changed(
        CALM,
        _SLOW_START,
        on(
            "d0",
            {
                SignalId.ADMISSION_QUEUE: 33.0,
                SignalId.ADMISSION_WAIT: 6.5,
                SignalId.ADMISSION_TTFT_SHARE: 0.9,
                SignalId.RUNNING: 256.0,
                SignalId.RUNNING_TO_LIMIT: 1.05,
            },
        ),
    ),
    "decode_kv_capacity": changed(
        CALM,
        _SLOW_START,
        on(
            "d0",
            {
                SignalId.KV_USAGE: 0.99,
                SignalId.KV_USAGE_NET: 0.98,
                SignalId.KV_FREE_REQUESTS: 0.3,
                SignalId.PREEMPTIONS_PER_SECOND: 0.5,
            },
        ),
    ),
    "prefill_compute": changed(
        CALM,
        _SLOW_START,
        on(
            "p0",
            {
                SignalId.PREFILL_QUEUE: 31.0,
                SignalId.PREFILL_WAIT: 6.2,
                SignalId.PREFILL_WAIT_TTFT_SHARE: 0.86,
                SignalId.PREFILL_WAIT_TO_SERVICE: 20.0,
                SignalId.COMPUTE_UTILIZATION: 0.93,
                SignalId.TENSOR_UTILIZATION: 0.62,
            },
        ),
    ),
    "prefill_queue": changed(
        CALM,
        _SLOW_START,
        on(
            "p0",
            {
                SignalId.PREFILL_QUEUE: 31.0,
                SignalId.PREFILL_WAIT: 6.2,
                SignalId.PREFILL_WAIT_TTFT_SHARE: 0.86,
                SignalId.PREFILL_WAIT_TO_SERVICE: 20.0,
            },
        ),
    ),
    "metrics_untrusted": changed(
        CALM,
        {
            SignalId.TTFT_P50: 3.3,
            SignalId.TTFT_MEAN: 3.3,
            SignalId.REQUESTS_PER_SECOND: 1.0,
            SignalId.TRANSFER_IN_FLIGHT: 3.0,
            SignalId.TRANSFER_TIME: 0.0026,
            SignalId.TRANSFER_TTFT_SHARE: 0.001,
            SignalId.SPEED_TO_LINE: derived(2.5),
        },
    ),
    "kv_transfer_path": changed(
        CALM,
        {
            SignalId.TTFT_P50: 2.5,
            SignalId.TTFT_MEAN: 2.5,
            SignalId.TRANSFER_TIME: 2.0,
            SignalId.TRANSFER_TTFT_SHARE: 0.8,
            SignalId.TRANSFER_IN_FLIGHT: 0.9,
            SignalId.DESCRIPTOR_BYTES: 1e6,
            SignalId.DESCRIPTOR_TIME: derived(0.002),
            SignalId.PAIR_CAPACITY: Figure(40e9, Quality.ASSUMED),
            SignalId.MOVING_SHARE: derived(0.012),
            SignalId.TRANSFER_FLOOR_STEPS: derived(20.0),
        },
    ),
    "kv_transfer_fragmented": changed(
        CALM,
        {
            SignalId.TTFT_P50: 2.5,
            SignalId.TTFT_MEAN: 2.5,
            SignalId.TRANSFER_TIME: 1.2,
            SignalId.TRANSFER_TTFT_SHARE: 0.48,
            SignalId.DESCRIPTOR_BYTES: 44_000.0,
            SignalId.POST_SHARE: 0.57,
        },
    ),
    "kv_transfer_setup": changed(
        CALM,
        {
            SignalId.TTFT_P50: 2.5,
            SignalId.TTFT_MEAN: 2.5,
            SignalId.SETUP_TIME: 1.4,
            SignalId.SETUP_SHARE: 0.98,
            SignalId.SETUP_TTFT_SHARE: 0.56,
        },
    ),
    "frontend_bound": changed(
        CALM,
        {SignalId.ITL_P50: 0.18, SignalId.ITL_MEAN: 0.18},
        on("d0", {SignalId.ITL_TO_STEP: derived(4.6), SignalId.FRONTEND_CPU: 0.98}),
    ),
    "cuda_graph_miss": changed(
        CALM,
        {SignalId.ITL_P50: 0.08, SignalId.ITL_MEAN: 0.08},
        on("d0", {SignalId.GRAPH_MISS: 0.97, SignalId.HBM_UTILIZATION: 0.2, SignalId.GENERATION_RATE: 500.0}),
    ),
    "host_bound": changed(
        CALM,
        {SignalId.ITL_P50: 0.08, SignalId.ITL_MEAN: 0.08},
        on(
            "d0",
            {
                SignalId.WORK_LEAST: 38.0,
                SignalId.HBM_UTILIZATION: 0.28,
                SignalId.COMPUTE_UTILIZATION: 0.4,
                SignalId.TENSOR_UTILIZATION: 0.03,
                SignalId.GENERATION_RATE: 500.0,
            },
        ),
    ),
}
"""By verdict: a plain state in which it is the answer."""
