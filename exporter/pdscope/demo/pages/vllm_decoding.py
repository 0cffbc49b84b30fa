"""The vLLM servers that have a decode batch: decode, which pulls the KV, and unified."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from math import isnan

from pdscope.demo.pages.hosts import Instance
from pdscope.demo.pages.vllm_server import VllmServer
from pdscope.demo.physics.decode_state import DecodeState
from pdscope.demo.physics.devices import Activity
from pdscope.demo.physics.observer import DecodeSteps
from pdscope.demo.physics.request import End, Request
from pdscope.demo.physics.simulation import Simulation


class VllmDecoding(VllmServer):
    """Answers for an instance that has a decode batch."""

    def __init__(self, simulation: Simulation, instance: Instance, unix_seconds: Callable[[], float]) -> None:
        super().__init__(simulation, instance, unix_seconds)
        self._decode = simulation.decodes[instance.number]
        self._fresh: set[Request] = set()

    def stamped(self, request: Request, stamp: str) -> None:
        """A leg goes on."""
        if request.decode != self.instance.number:
            return
        match stamp:
            case "decode_arrived_at":
                self._scheduled.enter(request)
            case "joined_at":
                self._joined(request)
            case "first_token_at":
                self._observe("time_to_first_token_seconds", request.first_token_at - self._came_at(request))
                self._add("generation_tokens_total", 1)
            case "finished_at":
                self._answer(request)
            case _:
                self._moved(request, stamp)

    def stepped(self, instance: int, steps: DecodeSteps) -> None:
        """A token for each request of the batch; the first one of a request has no gap before it."""
        if instance != self.instance.number:
            return
        count = len(steps.gap_seconds)
        self._observe("iteration_tokens_total", steps.requests + steps.prefill_tokens, times=count)
        fresh = len(self._fresh)
        self._fresh.clear()
        self._add("generation_tokens_total", steps.requests * count - fresh)
        for index, gap in enumerate(steps.gap_seconds.tolist()):
            tokens = steps.requests - (fresh if index == 0 else 0)
            if tokens:
                self._observe("inter_token_latency_seconds", gap, times=tokens)

    def preempted(self, request: Request) -> None:
        """Its blocks are gone; it will be computed again."""
        if request.decode == self.instance.number:
            self._fresh.discard(request)
            self._add("num_preemptions_total", 1)

    def resumed(self, request: Request, gap_seconds: float) -> None:
        """Computed again, which gives its next token: late by that much."""
        if request.decode == self.instance.number and not isnan(request.first_token_at):
            self._observe("inter_token_latency_seconds", gap_seconds)
            self._add("generation_tokens_total", 1)

    def ended(self, request: Request) -> None:
        """A leg that has not been answered by now gets an error."""
        if request.decode != self.instance.number or request.end is End.FINISHED or request not in self._open:
            return
        self._add("request_success_total", 1, "error")
        self._leave(request, request.ended_at - self._came_at(request), status="5xx")

    @abstractmethod
    def _came_at(self, request: Request) -> float:
        """When its HTTP request came in."""

    @abstractmethod
    def _scheduled_at(self, request: Request) -> float:
        """When the engine first ran it."""

    @abstractmethod
    def _joined(self, request: Request) -> None:
        """Its prompt is whole here and it is in the batch."""

    @abstractmethod
    def _moved(self, request: Request, stamp: str) -> None:
        """Another stamp was set."""

    @abstractmethod
    def _queues(self, state: DecodeState) -> None:
        """Sets the gauges of its queues."""

    def _answer(self, request: Request) -> None:
        came_at, scheduled_at = self._came_at(request), self._scheduled_at(request)
        seconds = request.finished_at - came_at
        if not self._leave(request, seconds):
            return
        times = {
            "e2e_request_latency_seconds": seconds,
            "request_queue_time_seconds": scheduled_at - request.decode_arrived_at,
            "request_inference_time_seconds": request.finished_at - scheduled_at,
            # vLLM takes these from the engine core's time stamps, which the detokenizer comes after.
            "request_prefill_time_seconds": request.first_computed_at - scheduled_at,
            "request_decode_time_seconds": request.finished_at - request.first_computed_at,
            "request_time_per_output_token_seconds": request.tpot_seconds if request.output_tokens > 1 else 0.0,
        }
        self._observe("request_prefill_kv_computed_tokens", request.prompt_tokens)
        self._finish(request, "stop", generated=request.output_tokens, limit=request.output_tokens, times=times)

    def _refresh(self) -> None:
        state = self._decode.state()
        self._put("num_requests_running", state.running + state.local)
        self._put("kv_cache_usage_perc", state.held_tokens / state.pool_tokens)
        self._queues(state)

    def _activity(self) -> Activity:
        return self._decode.stepper.activity

    def _written_tokens(self) -> int:
        return self._decode.stepper.tokens + self._decode.local_prefill.tokens


class VllmDecode(VllmDecoding):
    """Answers for a decode instance. Blocks are allocated before the pull, so its pool may be full of KV on the way."""

    def _came_at(self, request: Request) -> float:
        return request.prefill_ended_at

    def _scheduled_at(self, request: Request) -> float:
        return request.joined_at

    def _moved(self, request: Request, stamp: str) -> None:
        if stamp == "prefill_ended_at" and not request.is_orphan:
            self._enter(request)
        elif stamp == "transfer_seen_at":
            self._pulled(request)

    def _pulled(self, request: Request) -> None:
        """Each rank has a transfer of its own, timed to the poll that sees its end, once a step."""
        ranks = self.instance.machine.devices
        seconds = request.transfer_seen_at - request.transfer_posted_at
        self._observe("nixl_xfer_time_seconds", seconds, times=ranks)
        self._observe("nixl_post_time_seconds", request.post_seconds, times=ranks)
        self._observe("nixl_bytes_transferred", request.transfer_bytes / ranks, times=ranks)
        self._observe("nixl_num_descriptors", request.descriptors, times=ranks)

    def _joined(self, request: Request) -> None:
        if isnan(request.transferred_at):  # computed here, since its KV was lost
            self._prompt(request)
            return
        self._fresh.add(request)
        self._prompt(request, received=request.prompt_tokens)

    def ended(self, request: Request) -> None:
        """With an error, where its KV could not be read."""
        if request.decode == self.instance.number and request.end is End.LEASE_EXPIRED:
            self._add("nixl_num_failed_notifications_total", 1)
        super().ended(request)

    def _queues(self, state: DecodeState) -> None:
        deferred = state.transferring + state.ready
        self._put("num_requests_waiting", state.queued + deferred)
        self._put("num_requests_waiting_by_reason", state.queued, "capacity")
        self._put("num_requests_waiting_by_reason", deferred, "deferred")
        self._put("num_requests_kv_fetch_by_stage", state.queued, "waiting_to_start")
        self._put("num_requests_kv_fetch_by_stage", state.transferring, "in_progress")
        self._put("num_requests_kv_fetch_by_stage", state.ready, "completed_waiting")
        failures = self.simulation.transfers[self.instance.number].failures
        lost = self._page.value("vllm:nixl_num_failed_notifications_total")
        self._put("nixl_num_failed_transfers_total", failures + lost)


class VllmUnified(VllmDecoding):
    """Answers for a unified instance."""

    def _came_at(self, request: Request) -> float:
        return request.routed_at

    def _scheduled_at(self, request: Request) -> float:
        return request.allocated_at

    def _moved(self, request: Request, stamp: str) -> None:
        if stamp == "routed_at":
            self._enter(request)

    def _joined(self, request: Request) -> None:
        self._prompt(request, cached=request.cached_tokens)

    def _queues(self, state: DecodeState) -> None:
        self._put("num_requests_waiting", state.queued)
        self._put("num_requests_waiting_by_reason", state.queued, "capacity")
