"""The decode server: admission, arrival of the KV, and the tokens on their way to users."""

from __future__ import annotations

from dataclasses import dataclass

from pdscope.demo.scenario import Machines
from pdscope.demo.sglang_server import Load, SglangServer, is_streaming
from pdscope.demo.timeline import Batch, DecodeInstance, Request
from pdscope.model.topology import Role

_LOG_INTERVAL_STEPS = 40
_FORCED_STREAM_TOKENS = 50
"""Tokens after which an answer that is not streamed goes to the tokenizer process all the same."""


@dataclass(slots=True)
class _Answer:
    """What the tokenizer process has seen of an answer: how many tokens, and when the first and last came."""

    tokens: int
    first_at: float
    last_at: float


class SglangDecode(SglangServer):
    """Answers for a simulated decode instance, from now on."""

    role = Role.DECODE

    def __init__(self, instance: DecodeInstance, machines: Machines) -> None:
        super().__init__(machines)
        self._instance = instance
        self._answers: dict[int, _Answer] = {}
        self._steps = 0
        self._requests_stepped = 0
        self._microseconds = 0.0
        self._requests_squared = 0
        self._request_microseconds = 0.0
        self._reported_at = 0.0
        self._reported_tokens = 0
        self._generated_per_second = 0.0
        instance.watch(self)

    def accepted(self, _request: Request, /) -> None:
        """The router's request for the decode leg."""
        self._accept()

    def allocated(self, request: Request) -> None:
        """The wait for memory is a part of the bootstrap stage and a series of its own."""
        self._stage("decode_prepare", request.queued_at - request.arrived_at)
        self._stage("decode_bootstrap", request.allocated_at - request.queued_at)
        self._observe("kv_transfer_bootstrap_ms", (request.handshaken_at - request.queued_at) * 1e3)
        self._observe("kv_transfer_alloc_ms", (request.allocated_at - request.handshaken_at) * 1e3)

    def received(self, request: Request) -> None:
        """What decode calls transferred contains prefill's queue and computation."""
        self._stage("decode_transferred", request.transferred_at - request.allocated_at)

    def joined(self, request: Request) -> None:
        """The first token was computed by prefill and goes out with the admission."""
        waited = request.joined_at - request.transferred_at
        self._stage("decode_waiting", waited)
        self._stage("fake_output", request.first_token_at - request.joined_at)
        self._observe("queue_time_seconds", waited)
        self._send(request, request.first_token_at)

    def stepped(self, step: Batch) -> None:
        """A token for each request; the gauges move every forty steps only."""
        size = len(step.requests)
        self._steps += 1
        self._requests_stepped += size
        self._microseconds += step.seconds * 1e6
        self._requests_squared += size**2
        self._request_microseconds += size * step.seconds * 1e6
        self._add("realtime_tokens_total", size, "decode")
        self._add("cuda_graph_passes_total", 1, "decode_cuda_graph")
        self._add("forward_execution_seconds_total", step.seconds, "decode")
        for request in step.requests:
            self._send(request, step.finished_at)
        if self._steps % _LOG_INTERVAL_STEPS == 0:
            self._report_state(step.finished_at)

    def finished(self, request: Request) -> None:
        """The answer is complete."""
        answer = self._answers.pop(request.number)
        self._answer(request, request.finished_at - request.arrived_at, request.generated_tokens)
        self._observe(
            "request_time_per_output_token_seconds",
            (answer.last_at - answer.first_at) / (request.generated_tokens - 1),
            is_streaming(request),
        )

    def _send(self, request: Request, at: float) -> None:
        """Shows the tokenizer process the new tokens: at once if streamed, else every fifty and at the end."""
        answer = self._answers.get(request.number)
        seen = answer.tokens if answer else 0
        new = request.generated_tokens - seen
        complete = request.generated_tokens >= request.output_tokens
        if not (request.is_streaming or complete or new >= _FORCED_STREAM_TOKENS):
            return
        if answer is None:
            self._observe("time_to_first_token_seconds", at - request.arrived_at, is_streaming(request))
            self._answers[request.number] = _Answer(request.generated_tokens, at, at)
            return
        self._observe("inter_token_latency_seconds", (at - answer.last_at) / new, times=new)
        answer.tokens, answer.last_at = request.generated_tokens, at

    def _report_state(self, now_seconds: float) -> None:
        tokens = self._requests_stepped - self._reported_tokens
        self._generated_per_second = tokens / (now_seconds - self._reported_at)
        self._reported_tokens, self._reported_at = self._requests_stepped, now_seconds
        state = self._instance.state()
        self._report(
            state.held_tokens,
            0,
            num_running_reqs=state.running,
            num_queue_reqs=state.ready,
            gen_throughput=self._generated_per_second,
            decode_sum_seq_lens=state.context_tokens,
            num_decode_prealloc_queue_reqs=state.allocating,
            num_decode_transfer_queue_reqs=state.transferring,
            prealloc_full_token_usage=state.pending_tokens / self._machines.pool_tokens,
        )

    def _stage(self, stage: str, seconds: float) -> None:
        self._observe("per_stage_req_latency_seconds", seconds, stage)

    def _idle_seconds(self) -> float:
        return self._instance.state().idle_seconds

    def _load(self) -> Load:
        state = self._instance.state()
        generated = float(self._requests_stepped)
        moments = [
            float(self._steps),
            generated,
            self._microseconds,
            float(self._requests_squared),
            self._request_microseconds,
            generated,
        ]
        return Load(
            max_running_requests=self._machines.decode_slots,
            running=state.running,
            waiting=state.allocating + state.transferring + state.ready,
            held_tokens=state.held_tokens,
            waiting_tokens=state.allocating_tokens,
            active_tokens=state.context_tokens,
            queued=state.ready,
            generated_per_second=self._generated_per_second,
            decode_moments=moments if self._steps else None,
            decode_prealloc_queue=state.allocating,
            decode_transfer_queue=state.transferring,
        )
