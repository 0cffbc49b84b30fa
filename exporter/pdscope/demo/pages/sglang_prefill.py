"""The SGLang prefill server: bootstrap, passes, and the transfer of what they have computed."""

from __future__ import annotations

from pdscope.demo.pages.hosts import Instance
from pdscope.demo.pages.sglang_loads import GIB, MIB, PREFILL_RUNNING_LIMIT, Load
from pdscope.demo.pages.sglang_server import SglangServer
from pdscope.demo.physics.observer import PrefillPass
from pdscope.demo.physics.request import Request
from pdscope.demo.physics.simulation import Simulation

_UTILIZATION = -1.0
"""What the engine says on prefill: nobody sets the value."""


class SglangPrefill(SglangServer):
    """Answers for a prefill instance."""

    def __init__(self, simulation: Simulation, instance: Instance) -> None:
        super().__init__(simulation, instance)
        self._prefill = simulation.prefills[instance.number]
        self._cache_hit_rate = 0.0
        self._speed_gib_per_second = 0.0
        self._latency_ms = 0.0
        self._kernel_seconds = 0.0
        self._occupancy = 0.0
        self._launched_at = 0.0
        self._add("generation_tokens_total", 1, "false")
        self._observe("e2e_request_latency_seconds", 0.17, "false")
        self._observe("generation_tokens_histogram", 1)
        self._put("utilization", _UTILIZATION)

    def stamped(self, request: Request, stamp: str) -> None:
        """A leg goes on."""
        if request.prefill != self.instance.number:
            return
        match stamp:
            case "routed_at":
                self._enter(request)
            case "prefill_arrived_at":
                self._scheduled.enter(request)
            case "prefill_queued_at":
                self._stage("prefill_bootstrap", request.prefill_queued_at - request.prefill_arrived_at)
            case "prefill_started_at":
                self._observe("queue_time_seconds", request.prefill_started_at - request.prefill_queued_at)
                self._launched()
            case "prefill_released_at":
                self._released(request)

    def prefill_passed(self, instance: int, done: PrefillPass) -> None:
        """A batch is over: its tokens, and its share of the way of its requests."""
        if instance != self.instance.number:
            return
        self._has_run = True
        computed = sum(chunk.tokens for _, chunk, _ in done.parts)
        cached = sum(one.cached_tokens for one, _, _ in done.parts if len(one.chunks) == 1)
        self._cache_hit_rate = cached / (cached + computed)
        self._add("realtime_tokens_total", computed, "prefill_compute")
        self._add("prefill_effective_tokens_total", computed, "input")
        self._add("realtime_tokens_total", cached, "prefill_cache")
        self._add("prefill_effective_tokens_total", cached, "device_hit")
        self._add("cuda_graph_passes_total", 1, "prefill_none")
        self._add("forward_execution_seconds_total", done.kernel_seconds, "extend")
        self._estimate(computed)
        self._kernel_seconds = done.kernel_seconds
        for _, chunk, is_last in done.parts:
            self._stage("prefill_forward" if is_last else "chunked_prefill", chunk.ended_at - chunk.started_at)
        if not all(is_last for _, _, is_last in done.parts):
            self._launched()  # the next chunk's batch begins at once

    def ended(self, request: Request) -> None:
        """A leg that has not been answered by now never will be."""
        if request.prefill == self.instance.number and request.transferred_at != request.transferred_at:
            self._fail(request)

    def _launched(self) -> None:
        """The scheduler reports a batch when it launches it; the gauges keep these values until the next."""
        state = self._prefill.state()
        now = self.simulation.now_seconds
        elapsed = now - self._launched_at
        if elapsed > 0.0:  # several requests may begin in one batch
            self._occupancy = 100.0 * min(1.0, self._kernel_seconds / elapsed)
        self._launched_at = now
        self._report(
            state.held_tokens,
            state.cached_tokens,
            num_running_reqs=state.running,
            num_queue_reqs=state.waiting,
            cache_hit_rate=self._cache_hit_rate,
            num_prefill_bootstrap_queue_reqs=state.bootstrapping,
            num_prefill_inflight_queue_reqs=state.inflight,
            fwd_occupancy=self._occupancy,
            new_token_ratio=0.7,
        )

    def _report_idle(self) -> None:
        state = self._prefill.state()
        self._report(
            0,
            state.cached_tokens,
            num_running_reqs=0,
            num_queue_reqs=0,
            num_prefill_bootstrap_queue_reqs=0,
            num_prefill_inflight_queue_reqs=0,
            fwd_occupancy=float("nan"),
        )

    def _released(self, request: Request) -> None:
        """The transfer has been noticed; each rank counts its own share of the bytes, and the leg is over.

        The time is that of the last chunk alone, while the bytes are those of the whole prompt: the speed is too high
        for a prompt that was sent in parts.
        """
        if request.transferred_at != request.transferred_at or request not in self._open:
            return
        seconds = request.prefill_released_at - request.prefill_ended_at
        rank_bytes = request.transfer_bytes / self.instance.machine.devices
        self._latency_ms = seconds * 1e3
        self._speed_gib_per_second = rank_bytes / GIB / max(seconds, 1e-6)
        self._stage("prefill_transfer_kv_cache", seconds)
        self._observe("kv_transfer_latency_ms", self._latency_ms)
        self._observe("kv_transfer_speed_gb_s", self._speed_gib_per_second)
        self._observe("kv_transfer_total_mb", rank_bytes / MIB)
        self._observe("kv_transfer_bootstrap_ms", (request.prefill_queued_at - request.prefill_arrived_at) * 1e3)
        self._observe("kv_transfer_alloc_ms", 0.0)
        self._finish(request, request.prefill_released_at - request.routed_at, generated_tokens=1)

    def _load(self) -> Load:
        state = self._prefill.state()
        return Load(
            max_running_requests=PREFILL_RUNNING_LIMIT,
            running=0,  # a prefill batch is not a running batch to the engine
            waiting=state.bootstrapping + state.waiting + state.inflight,
            held_tokens=state.held_tokens,
            waiting_tokens=state.waiting_tokens,
            active_tokens=state.held_tokens + state.waiting_tokens,
            queued=state.waiting,
            waiting_uncached_tokens=state.waiting_tokens,
            cache_hit_rate=self._cache_hit_rate,
            utilization=_UTILIZATION,
            prefill_uncached_tokens=self._prefill.computed_tokens,
            prefill_busy_seconds=self._prefill.busy_seconds,
            prefill_bootstrap_queue=state.bootstrapping,
            prefill_inflight_queue=state.inflight,
            transfer_speed_gib_per_second=self._speed_gib_per_second,
            transfer_latency_ms=self._latency_ms,
        )
