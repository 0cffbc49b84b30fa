"""The SGLang server of an instance that computes prompts and answers; chunks of prompts run along with the batch."""

from __future__ import annotations

from pdscope.demo.pages.hosts import Instance
from pdscope.demo.pages.sglang_decoding import GRAPH_GIB, SglangDecoding
from pdscope.demo.pages.sglang_loads import Load
from pdscope.demo.physics.decode_state import DecodeState
from pdscope.demo.physics.observer import DecodeSteps
from pdscope.demo.physics.request import Request
from pdscope.demo.physics.simulation import Simulation


class SglangUnified(SglangDecoding):
    """Answers for a unified instance."""

    def __init__(self, simulation: Simulation, instance: Instance) -> None:
        super().__init__(simulation, instance)
        self._busy_seconds = 0.0
        self._computed_tokens = 0
        self._cached_tokens = 0
        self._cache_hit_rate = 0.0

    def stamped(self, request: Request, stamp: str) -> None:
        """A request goes on."""
        if request.decode != self.instance.number:
            return
        match stamp:
            case "routed_at":
                self._enter(request)
            case "decode_arrived_at":
                self._scheduled.enter(request)
                self._stage("request_process", request.decode_arrived_at - request.routed_at)
            case "allocated_at":
                self._observe("queue_time_seconds", request.allocated_at - request.decode_arrived_at)
            case "joined_at":
                self._computed(request)
            case "first_token_at":
                self._first_token(request)
            case "finished_at":
                self._answer(request)

    def resumed(self, request: Request, gap_seconds: float) -> None:
        """It was retracted and has been computed again, which gives a token: it is late by that much."""
        if request.decode == self.instance.number:
            self._observe("inter_token_latency_seconds", gap_seconds)

    def ended(self, request: Request) -> None:
        """One that has not been answered by now never will be."""
        if request.decode == self.instance.number:
            self._fail(request)

    def _computed(self, request: Request) -> None:
        """Its prompt is whole. The chunks before the last one are taken to have been as long as that."""
        chunks = -(-(request.prompt_tokens - request.cached_tokens) // self.simulation.draw.prefill.batch_tokens)
        seconds = (request.joined_at - request.allocated_at) / chunks
        for _ in range(chunks - 1):
            self._stage("chunked_prefill", seconds)
        self._stage("prefill_forward", seconds)

    def _mixed(self, steps: DecodeSteps, seconds: float) -> None:
        busy = max(0.0, seconds - self.simulation.draw.prefill.pass_seconds)
        cached = self._decode.local_prefill.cached_tokens - self._cached_tokens
        self._cached_tokens += cached
        self._busy_seconds += seconds
        self._kernel_seconds += busy
        self._computed_tokens += steps.prefill_tokens
        self._cache_hit_rate = cached / (cached + steps.prefill_tokens)
        self._add("realtime_tokens_total", steps.prefill_tokens, "prefill_compute")
        self._add("prefill_effective_tokens_total", steps.prefill_tokens, "input")
        self._add("realtime_tokens_total", cached, "prefill_cache")
        self._add("prefill_effective_tokens_total", cached, "device_hit")
        self._add("forward_execution_seconds_total", busy, "extend")
        self._add("cuda_graph_passes_total", 1, "prefill_none")
        self._estimate(steps.prefill_tokens)
        state = self._decode.state()
        self._report(
            state.held_tokens,
            0,
            num_running_reqs=state.running,
            cache_hit_rate=self._cache_hit_rate,
            **self._queues(state),
        )

    def _queues(self, state: DecodeState) -> dict[str, float]:
        return {"num_queue_reqs": state.queued}

    def _load(self) -> Load:
        state = self._decode.state()
        return Load(
            max_running_requests=state.slots,
            running=state.running,
            waiting=state.queued,
            held_tokens=state.held_tokens,
            waiting_tokens=0,
            active_tokens=state.context_tokens,
            queued=state.queued,
            graph_gib=GRAPH_GIB,
            generated_per_second=self.generated_per_second,
            cache_hit_rate=self._cache_hit_rate,
            prefill_uncached_tokens=self._computed_tokens,
            prefill_busy_seconds=self._busy_seconds,
            decode_moments=list(self._moments) if self._moments[0] else None,
        )
