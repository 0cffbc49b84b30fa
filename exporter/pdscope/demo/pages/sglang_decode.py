"""The SGLang decode server: admission, arrival of the KV, and the first token that comes along with it."""

from __future__ import annotations

from pdscope.demo.pages.sglang_decoding import GRAPH_GIB, SglangDecoding
from pdscope.demo.pages.sglang_loads import Load
from pdscope.demo.physics.decode_state import DecodeState
from pdscope.demo.physics.observer import DecodeSteps
from pdscope.demo.physics.request import Request


class SglangDecode(SglangDecoding):
    """Answers for a decode instance."""

    def stamped(self, request: Request, stamp: str) -> None:
        """A leg goes on. What decode calls transferred contains prefill's queue and its computation."""
        if request.decode != self.instance.number:
            return
        match stamp:
            case "routed_at":
                self._enter(request)
            case "decode_arrived_at":
                self._scheduled.enter(request)
                self._stage("decode_prepare", request.decode_arrived_at - request.routed_at)
            case "allocated_at":
                self._stage("decode_bootstrap", request.allocated_at - request.decode_arrived_at)
                shaken = request.handshaken_at - request.decode_arrived_at
                self._observe("kv_transfer_bootstrap_ms", shaken * 1e3)
                self._observe("kv_transfer_alloc_ms", (request.allocated_at - request.handshaken_at) * 1e3)
            case "transfer_seen_at":
                self._stage("decode_transferred", request.transfer_seen_at - request.allocated_at)
            case "joined_at":
                waited = request.joined_at - request.transfer_seen_at
                self._stage("decode_waiting", waited)
                self._observe("queue_time_seconds", waited)
            case "first_token_at":
                self._stage("fake_output", request.first_computed_at - request.joined_at)
                self._first_token(request)
            case "finished_at":
                self._answer(request)

    def resumed(self, request: Request, gap_seconds: float) -> None:
        """It was retracted and its KV is back: its next token is late by that much."""
        if request.decode == self.instance.number:
            self._paused.append(gap_seconds)

    def ended(self, request: Request) -> None:
        """A leg that has not been answered by now never will be."""
        if request.decode == self.instance.number:
            self._fail(request)

    def _mixed(self, steps: DecodeSteps, seconds: float) -> None:
        raise AssertionError(f"{self.instance.name} at {steps.started_at} s: {seconds} s of prompts")

    def _queues(self, state: DecodeState) -> dict[str, float]:
        return {
            "num_queue_reqs": state.ready,
            "num_decode_prealloc_queue_reqs": state.handshaking + state.queued,
            "num_decode_transfer_queue_reqs": state.transferring,
            "prealloc_full_token_usage": state.pending_tokens / state.pool_tokens,
        }

    def _load(self) -> Load:
        state = self._decode.state()
        prealloc = state.handshaking + state.queued
        return Load(
            max_running_requests=state.slots,
            running=state.running,
            waiting=prealloc + state.transferring + state.ready + state.retracted,
            held_tokens=state.held_tokens,
            waiting_tokens=0,
            active_tokens=state.context_tokens,
            queued=state.ready,
            retracted=state.retracted,
            graph_gib=GRAPH_GIB,
            generated_per_second=self.generated_per_second,
            decode_moments=list(self._moments) if self._moments[0] else None,
            decode_prealloc_queue=prealloc,
            decode_transfer_queue=state.transferring,
        )
