"""Signals: the derived figures that rules read and people see. A signal with no value does not exist."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from pdscope.model.units import Unit


class Quality(StrEnum):
    """How a figure came about, best first."""

    MEASURED = "measured"
    """Read from the program that knows."""
    DERIVED = "derived"
    """Exact arithmetic on measured figures that measure something a little different."""
    ESTIMATED = "estimated"
    """A model or an assumption stands between the figure and what was measured."""
    ASSUMED = "assumed"
    """Taken from the configuration or a data sheet."""


_ORDER = tuple(Quality)


def worst(*qualities: Quality) -> Quality:
    """The least trustworthy of the given ones: what a figure made of them is worth."""
    return max(qualities, key=_ORDER.index)


class ScopeKind(StrEnum):
    """What a figure or a finding is about."""

    DEPLOYMENT = "deployment"
    ROLE = "role"
    INSTANCE = "instance"
    LINK = "link"


class Scope(NamedTuple):
    """`name` is the deployment's, role's or instance's name; a link is named `prefill->decode`."""

    kind: ScopeKind
    name: str


class SignalId(StrEnum):
    """Names of all signals. Those of the contract keep their names; the unit is in the name."""

    # of the deployment, fixed by the contract
    TTFT_P50 = "ttft_p50_seconds"
    TTFT_P95 = "ttft_p95_seconds"
    TTFT_P99 = "ttft_p99_seconds"
    ITL_P50 = "itl_p50_seconds"
    ITL_P95 = "itl_p95_seconds"
    ITL_P99 = "itl_p99_seconds"
    REQUESTS_PER_SECOND = "requests_per_second"
    PROMPT_TOKENS_PER_REQUEST = "prompt_tokens_per_request"
    GENERATION_TOKENS_PER_SECOND = "generation_tokens_per_second"
    KV_BYTES_PER_TOKEN = "kv_bytes_per_token"
    KV_BYTES_PER_REQUEST = "kv_bytes_per_request"
    KV_DEMAND = "kv_transfer_demand_bytes_per_second"
    KV_ACHIEVED = "kv_transfer_achieved_bytes_per_second"
    LINK_CAPACITY = "interconnect_capacity_bytes_per_second"
    LINK_UTILIZATION = "kv_transfer_utilization_ratio"
    PREFILL_COMPUTE_UTILIZATION = "prefill_compute_utilization_ratio"
    DECODE_HBM_UTILIZATION = "decode_hbm_bandwidth_utilization_ratio"
    TTFT_ATTAINMENT = "ttft_slo_attainment_ratio"
    ITL_ATTAINMENT = "itl_slo_attainment_ratio"
    ROLE_IMBALANCE = "role_imbalance_ratio"
    STABILITY_WINDOW = "stability_window_seconds"
    # of the deployment, beside them
    KV_BYTES_PER_TOKEN_ENGINE = "engine_kv_bytes_per_token"
    TTFT_MEAN = "ttft_mean_seconds"
    ITL_MEAN = "itl_mean_seconds"
    REQUESTS_FINISHED = "requests_finished"
    ARRIVALS_PER_SECOND = "arrivals_per_second"
    FAILED_SHARE = "kv_transfer_failed_ratio"
    ROLES_ANSWERING = "roles_answering_ratio"
    TRANSFER_TIME = "kv_transfer_seconds"
    TRANSFER_IN_FLIGHT = "kv_transfers_in_flight"
    TRANSFER_IN_FLIGHT_TREND = "kv_transfers_in_flight_trend_ratio"
    TRANSFER_TTFT_SHARE = "kv_transfer_ttft_share_ratio"
    TRANSFER_SPEED = "kv_transfer_speed_bytes_per_second"
    PAIR_CAPACITY = "interconnect_pair_bytes_per_second"
    TRANSFER_LINK_SHARE = "kv_transfer_link_share_ratio"
    TRANSFER_FLOOR_STEPS = "kv_transfer_floor_steps"
    ACHIEVED_SHARE = "kv_transfer_achieved_ratio"
    MOVING_SHARE = "kv_transfer_moving_ratio"
    LINK_FLOOR_SHARE = "kv_transfer_link_floor_ttft_ratio"
    DESCRIPTOR_TIME = "kv_descriptor_seconds"
    ACHIEVED_TREND = "kv_transfer_achieved_trend_ratio"
    SPEED_TO_LINE = "kv_transfer_speed_line_ratio"
    DESCRIPTOR_BYTES = "kv_descriptor_bytes"
    POST_SHARE = "kv_transfer_post_ratio"
    POST_BUSY = "kv_transfer_post_busy_ratio"
    SETUP_TIME = "kv_transfer_setup_seconds"
    SETUP_SHARE = "kv_transfer_setup_ratio"
    SETUP_TTFT_SHARE = "kv_transfer_setup_ttft_share_ratio"
    HANDOVER_TO_PREFILL = "handover_to_prefill_ratio"
    PREFILL_LOAD = "prefill_load_ratio"
    DECODE_LOAD = "decode_load_ratio"
    HEADROOM_LINK = "headroom_ratio{link}"
    HEADROOM_PREFILL = "headroom_ratio{prefill}"
    HEADROOM_SLOTS = "headroom_ratio{decode_slots}"
    HEADROOM_KV = "headroom_ratio{decode_kv}"
    SATURATION_RATE = "saturation_requests_per_second"
    ENGINE_TTFT_MEAN = "engine_ttft_mean_seconds"
    FRONTEND_TTFT_SHARE = "frontend_ttft_share_ratio"
    LINK_FOREIGN = "interconnect_foreign_bytes_per_second"
    NIC_TRANSMIT = "prefill_nic_transmit_bytes_per_second"
    NIC_RECEIVE = "decode_nic_receive_bytes_per_second"
    NIC_CAPACITY = "nic_line_bytes_per_second"
    NIC_UTILIZATION = "nic_utilization_ratio"
    NIC_IMBALANCE = "nic_port_imbalance_ratio"
    NIC_CONGESTION = "nic_congestion_per_second"
    QUEUED = "queued_requests"
    OBSERVED = "observed_seconds"
    # of an instance
    SCRAPES = "scrapes_in_window"
    DATA_AGE = "data_age_seconds"
    RUNNING = "running_requests"
    WORK_IN_FLIGHT = "work_in_flight_requests"
    SILENT_SCRAPES = "failed_scrapes_in_a_row"
    ANSWERS = "answers_ratio"
    SCRAPE_COST = "scrape_cost_ratio"
    LEASES_EXPIRED = "kv_leases_expired_per_second"
    LATE_KV_READS = "late_kv_reads_per_second"
    CONTRADICTIONS = "configuration_contradictions"
    PAGE_TOKENS = "page_size_tokens"
    RECOMPUTED_SHARE = "decode_recomputed_ratio"
    AWAITED_KV = "kv_awaited_requests"
    WORK_LEAST = "work_in_flight_least_requests"
    WORK_MOST = "work_in_flight_most_requests"
    RANK_IMBALANCE = "rank_imbalance_ratio"
    RANK_EXCESS = "rank_excess_requests"
    ITL_TO_STEP = "itl_to_step_ratio"
    UNSTAGED_TTFT = "ttft_unstaged_seconds"
    UNSTAGED_TTFT_SHARE = "ttft_unstaged_ratio"
    FRONTEND_CPU = "frontend_cpu_ratio"
    GRAPH_MISS = "cuda_graph_miss_ratio"
    DECODE_BUSY = "decode_busy_ratio"
    MAX_RUNNING = "max_running_requests"
    RUNNING_TO_LIMIT = "running_to_limit_ratio"
    PREFILL_QUEUE = "prefill_queue_requests"
    PREFILL_QUEUE_GROWTH = "prefill_queue_growth_per_second"
    PREFILL_WAIT = "prefill_wait_seconds"
    PREFILL_WAIT_TTFT_SHARE = "prefill_wait_ttft_share_ratio"
    PREFILL_WAIT_TO_SERVICE = "prefill_wait_to_service_ratio"
    PREFILL_BUSY = "prefill_busy_ratio"
    COMPUTE_UTILIZATION = "compute_utilization_ratio"
    TENSOR_UTILIZATION = "tensor_utilization_ratio"
    HBM_UTILIZATION = "hbm_bandwidth_utilization_ratio"
    DEVICE_BUSY = "device_busy_ratio"
    DEVICE_SLOWDOWN = "device_slowdown_ratio"
    DEVICE_CLOCK_LOWEST = "device_clock_lowest_ratio"
    DEVICE_POWER_LOWEST = "device_power_lowest_ratio"
    DEVICE_FAULT = "device_fault_code"
    HARDWARE_FAULTS = "device_hardware_faults"
    FOREIGN_DEVICES = "foreign_devices"
    COMPUTE_MOST = "compute_utilization_most_ratio"
    HBM_MOST = "hbm_bandwidth_utilization_most_ratio"
    CLOCK_TO_PEERS = "instance_clock_to_peers_ratio"
    POWER_TO_PEERS = "instance_power_to_peers_ratio"
    TOKEN_TIME_TO_PEERS = "instance_token_time_to_peers_ratio"
    OUTPUT_TO_PEERS = "instance_output_to_peers_ratio"
    FABRIC_TRANSMIT = "fabric_transmit_bytes_per_second"
    FABRIC_RECEIVE = "fabric_receive_bytes_per_second"
    PCIE_TRANSMIT = "pcie_transmit_bytes_per_second"
    PCIE_RECEIVE = "pcie_receive_bytes_per_second"
    CONTEXT_TOKENS = "decode_context_tokens"
    STEP_TIME = "decode_step_seconds"
    STEP_BYTES = "decode_step_bytes"
    STEP_PREDICTED = "decode_step_roofline_seconds"
    STEP_EXPLAINED = "decode_step_roofline_itl_ratio"
    PREFILL_FLOP_UTILIZATION = "prefill_achievable_flop_ratio"
    ADMISSION_QUEUE = "decode_admission_queue_requests"
    DISTRUSTED_QUEUE = "distrusted_admission_queue_requests"
    DISTRUSTED_HBM = "distrusted_hbm_bandwidth_utilization_ratio"
    DISTRUSTED_COMPUTE = "distrusted_compute_utilization_ratio"
    DISTRUSTED_TENSOR = "distrusted_tensor_utilization_ratio"
    DISTRUSTED_BUSY = "distrusted_device_busy_ratio"
    HBM_FLOOR = "hbm_bandwidth_floor_ratio"
    COMPUTE_FLOOR = "compute_floor_ratio"
    TTFT_OUTSIDE = "ttft_mean_outside_buckets_ratio"
    ITL_OUTSIDE = "itl_mean_outside_buckets_ratio"
    COUNTERS_JUMP = "counters_back_and_forth"
    UNTIMED = "untimed_running_requests"
    ADMISSION_WAIT = "decode_admission_wait_seconds"
    ADMISSION_TTFT_SHARE = "decode_admission_ttft_share_ratio"
    KV_USAGE = "kv_usage_ratio"
    KV_USAGE_NET = "kv_usage_net_ratio"
    KV_FREE_REQUESTS = "kv_free_request_equivalents"
    PREEMPTIONS_PER_SECOND = "preemptions_per_second"
    GENERATION_RATE = "instance_generation_tokens_per_second"
    FAILURES_PER_SECOND = "transfer_failures_per_second"
    KV_RECEIVED_SHARE = "kv_received_share_ratio"

    @property
    def is_distrusted(self) -> bool:
        """Whether it is a figure that was taken back: kept to be told, and worth nothing."""
        return self.value.startswith("distrusted_")

    @property
    def unit(self) -> Unit:
        """Base unit, from the ending of the name."""
        return _UNITS[self]


_UNIT_BY_ENDING: tuple[tuple[str, Unit], ...] = (
    ("bytes_per_second", Unit.BYTES_PER_SECOND),
    ("tokens_per_second", Unit.TOKENS_PER_SECOND),
    ("requests_per_second", Unit.REQUESTS_PER_SECOND),
    ("arrivals_per_second", Unit.REQUESTS_PER_SECOND),
    ("per_second", Unit.PER_SECOND),
    ("_seconds", Unit.SECONDS),
    ("_ratio", Unit.RATIO),
    ("bytes_per_token", Unit.BYTES_PER_TOKEN),
    ("bytes_per_request", Unit.BYTES),
    ("_bytes", Unit.BYTES),
    ("_tokens", Unit.TOKENS),
    ("tokens_per_request", Unit.TOKENS),
    ("_requests", Unit.REQUESTS),
    ("requests_finished", Unit.REQUESTS),
    ("in_flight", Unit.REQUESTS),
)


# each unit is asked for many times a cycle, so the endings are looked at once
_UNITS = {
    signal: next((u for ending, u in _UNIT_BY_ENDING if signal.value.partition("{")[0].endswith(ending)), Unit.COUNT)
    for signal in SignalId
}


@dataclass(frozen=True, slots=True)
class Signal:
    """One figure.

    Attributes:
        value: finite, in `id.unit`.
        source: how it was measured, as shown to the reader.
        age_seconds: of the newest datum in it.
        samples: observations or scrapes behind it.
        bounds: the interval in which the true value lies, where buckets hide it.
    """

    id: SignalId
    scope: Scope
    value: float
    quality: Quality
    source: str
    age_seconds: float = 0.0
    samples: int = 0
    bounds: tuple[float, float] | None = None


class SignalSet:
    """Signals by id and scope. Absent means unknown."""

    __slots__ = ("_by_key", "deployment")

    def __init__(self, deployment: str, signals: list[Signal]) -> None:
        self.deployment = Scope(ScopeKind.DEPLOYMENT, deployment)
        self._by_key = {(s.id, s.scope): s for s in signals}

    def get(self, signal: SignalId, scope: Scope | None = None) -> Signal | None:
        """The signal of `scope` (default: of the deployment), or None when it is unknown."""
        return self._by_key.get((signal, scope or self.deployment))

    def extended(self, signals: list[Signal]) -> SignalSet:
        """The same with more signals."""
        return SignalSet(self.deployment.name, [*self._by_key.values(), *signals])

    def value(self, signal: SignalId, scope: Scope | None = None) -> float | None:
        """Its value, or None when it is unknown."""
        found = self.get(signal, scope)
        return None if found is None else found.value

    def of(self, scope: Scope) -> Iterator[Signal]:
        """All signals of one scope."""
        return (s for s in self._by_key.values() if s.scope == scope)

    def __iter__(self) -> Iterator[Signal]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)


def instance_scope(name: str) -> Scope:
    """The scope of one instance."""
    return Scope(ScopeKind.INSTANCE, name)
