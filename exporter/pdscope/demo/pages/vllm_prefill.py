"""The vLLM prefill server: computes prompts, answers with one token that is thrown away, and keeps the KV.

The engine reports with each of its steps and does nothing without requests: its gauges, blocks that decode has read
since among them, and the leases that have run out then stay as they were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from pdscope.demo.pages.hosts import Instance
from pdscope.demo.pages.vllm_server import VllmServer
from pdscope.demo.physics.devices import Activity
from pdscope.demo.physics.observer import PrefillPass
from pdscope.demo.physics.request import Request
from pdscope.demo.physics.simulation import Simulation

_ANSWER_BYTES = 552
_EXPIRED = "nixl_num_kv_expired_reqs_total"
_LATE = "nixl_num_notifications_after_expiry_total"


class VllmPrefill(VllmServer):
    """Answers for a prefill instance."""

    def __init__(self, simulation: Simulation, instance: Instance, unix_seconds: Callable[[], float]) -> None:
        super().__init__(simulation, instance, unix_seconds)
        self._prefill = simulation.prefills[instance.number]
        self._unnoticed: Counter[str] = Counter()

    def stamped(self, request: Request, stamp: str) -> None:
        """The leg goes on."""
        if request.prefill != self.instance.number:
            return
        match stamp:
            case "routed_at":
                self._enter(request)
            case "prefill_arrived_at":
                self._scheduled.enter(request)
            case "prefill_started_at":
                self._report()
            case "prefill_ended_at":
                self._answer(request)

    def prefill_passed(self, instance: int, done: PrefillPass) -> None:
        """A step is over; a prompt counts as a whole with its last part."""
        if instance != self.instance.number:
            return
        whole = [request for request, _, is_last in done.parts if is_last]
        self._observe("iteration_tokens_total", sum(request.prompt_tokens + 1 for request in whole))
        if not self._prefill.waiting.value:
            self._report()

    def lease_expired(self, request: Request) -> None:
        """Nobody has read its KV in time."""
        self._notice(request, _EXPIRED)

    def read_late(self, request: Request) -> None:
        """Decode has read blocks that were free already."""
        self._notice(request, _LATE)

    def ended(self, request: Request) -> None:
        """A prompt that could not be held gets an error."""
        if request.prefill == self.instance.number and request in self._open:
            self._add("request_success_total", 1, "error")
            self._leave(request, request.ended_at - request.routed_at, status="5xx")

    def _notice(self, request: Request, name: str) -> None:
        if request.prefill != self.instance.number:
            return
        self._unnoticed[name] += 1
        if self._scheduled.absent_since is None:
            self._count_noticed()

    def _count_noticed(self) -> None:
        for name, count in self._unnoticed.items():
            self._add(name, count)
        self._unnoticed.clear()

    def _answer(self, request: Request) -> None:
        seconds = request.prefill_ended_at - request.routed_at
        if not self._leave(request, seconds, answer_bytes=_ANSWER_BYTES):
            return
        computing = request.prefill_ended_at - request.prefill_started_at
        self._prompt(request, cached=request.cached_tokens)
        self._add("generation_tokens_total", 1)
        self._observe("request_prefill_kv_computed_tokens", request.prompt_tokens - request.cached_tokens)
        self._observe("time_to_first_token_seconds", seconds)
        times = {
            "e2e_request_latency_seconds": seconds,
            "request_queue_time_seconds": request.prefill_started_at - request.prefill_queued_at,
            "request_inference_time_seconds": computing,
            "request_prefill_time_seconds": computing,
            "request_decode_time_seconds": 0.0,
            "request_time_per_output_token_seconds": 0.0,
        }
        self._finish(request, "length", generated=1, limit=1, times=times)

    def _report(self) -> None:
        state = self._prefill.state()
        self._put("num_requests_running", state.running)
        self._put("num_requests_waiting", state.waiting)
        self._put("num_requests_waiting_by_reason", state.waiting, "capacity")
        self._put("kv_cache_usage_perc", state.held_tokens / state.pool_tokens)
        self._count_noticed()

    def _refresh(self) -> None:
        """An engine with requests goes on stepping, and reporting, also where nothing of them fits."""
        if self._prefill.waiting.value:
            self._report()

    def _activity(self) -> Activity:
        return self._prefill.activity

    def _written_tokens(self) -> int:
        return self._prefill.computed_tokens
