"""The prefill server: batches of prompts, bootstrap, and the transfer of what it has computed."""

from __future__ import annotations

from pdscope.demo.scenario import Machines
from pdscope.demo.sglang_server import GIB, MIB, Load, SglangServer
from pdscope.demo.timeline import Batch, PrefillInstance, Request
from pdscope.model.topology import Role

_MAX_RUNNING_REQUESTS = 2048
_UTILIZATION = -1.0
"""What the engine says on prefill: nobody sets the value."""


class SglangPrefill(SglangServer):
    """Answers for a simulated prefill instance, from now on."""

    role = Role.PREFILL

    def __init__(self, instance: PrefillInstance, machines: Machines) -> None:
        super().__init__(machines)
        self._instance = instance
        self._uncached_tokens = 0
        self._busy_seconds = 0.0
        self._cache_hit_rate = 0.0
        self._speed_gib_per_second = 0.0
        self._latency_ms = 0.0
        instance.watch(self)

    def accepted(self, _request: Request, /) -> None:
        """The router's request for the prefill leg."""
        self._accept()

    def batch_started(self, batch: Batch) -> None:
        """The scheduler reports a batch when it launches it; the gauges keep these values until the next."""
        computed = sum(request.uncached_tokens for request in batch.requests)
        cached = sum(request.cached_tokens for request in batch.requests)
        self._uncached_tokens += computed
        self._cache_hit_rate = cached / (cached + computed)
        self._add("realtime_tokens_total", computed, "prefill_compute")
        self._add("realtime_tokens_total", cached, "prefill_cache")
        self._add("prefill_effective_tokens_total", computed, "input")
        self._add("prefill_effective_tokens_total", cached, "device_hit")
        self._add("cuda_graph_passes_total", 1, "prefill_none")
        for request in batch.requests:
            self._observe("queue_time_seconds", request.prefill_started_at - request.allocated_at)
            self._stage("prefill_bootstrap", request.allocated_at - request.arrived_at)
        state = self._instance.state()
        self._report(
            state.held_tokens,
            state.cached_tokens,
            num_running_reqs=state.running,
            num_queue_reqs=state.waiting,
            cache_hit_rate=self._cache_hit_rate,
            num_prefill_bootstrap_queue_reqs=state.bootstrapping,
            num_prefill_inflight_queue_reqs=state.inflight,
            utilization=_UTILIZATION,
        )

    def batch_finished(self, batch: Batch) -> None:
        """The batch's share of the busy time and of its requests' way."""
        self._busy_seconds += batch.seconds
        self._add("forward_execution_seconds_total", batch.seconds, "extend")
        for _ in batch.requests:
            self._stage("prefill_forward", batch.seconds)

    def transferred(self, request: Request) -> None:
        """Each rank counts its own share of the bytes; the leg ends with the transfer."""
        seconds = request.transferred_at - request.prefill_finished_at
        rank_bytes = request.kv_bytes / self._machines.tensor_parallel
        self._latency_ms = seconds * 1e3
        self._speed_gib_per_second = rank_bytes / GIB / seconds
        self._stage("prefill_transfer_kv_cache", seconds)
        self._observe("kv_transfer_latency_ms", self._latency_ms)
        self._observe("kv_transfer_speed_gb_s", self._speed_gib_per_second)
        self._observe("kv_transfer_total_mb", rank_bytes / MIB)
        self._observe("kv_transfer_bootstrap_ms", (request.allocated_at - request.arrived_at) * 1e3)
        self._observe("kv_transfer_alloc_ms", 0.0)
        self._answer(request, request.transferred_at - request.arrived_at, generated_tokens=1)

    def _stage(self, stage: str, seconds: float) -> None:
        self._observe("per_stage_req_latency_seconds", seconds, stage)

    def _idle_seconds(self) -> float:
        return self._instance.state().idle_seconds

    def _load(self) -> Load:
        state = self._instance.state()
        return Load(
            max_running_requests=_MAX_RUNNING_REQUESTS,
            running=0,  # a prefill batch is not a running batch to the engine
            waiting=state.bootstrapping + state.waiting + state.inflight,
            held_tokens=state.held_tokens,
            waiting_tokens=state.waiting_tokens,
            active_tokens=state.held_tokens + state.waiting_tokens,
            queued=state.waiting,
            waiting_uncached_tokens=state.waiting_uncached_tokens,
            cache_hit_rate=self._cache_hit_rate,
            utilization=_UTILIZATION,
            prefill_uncached_tokens=self._uncached_tokens,
            prefill_busy_seconds=self._busy_seconds,
            prefill_bootstrap_queue=state.bootstrapping,
            prefill_inflight_queue=state.inflight,
            transfer_speed_gib_per_second=self._speed_gib_per_second,
            transfer_latency_ms=self._latency_ms,
        )
