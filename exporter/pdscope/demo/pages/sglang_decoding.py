"""What SGLang's decode and unified servers have in common: steps, tokens on their way to users, retractions."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from pdscope.demo.pages.hosts import Instance
from pdscope.demo.pages.sglang_server import STREAMING, SglangServer
from pdscope.demo.physics.decode_state import DecodeState
from pdscope.demo.physics.machine import Floats
from pdscope.demo.physics.observer import DecodeSteps
from pdscope.demo.physics.request import Request
from pdscope.demo.physics.simulation import Simulation

_LOG_INTERVAL_STEPS = 40
GRAPH_GIB = 1.74
_CAPTURE_SECONDS = 14.8


class SglangDecoding(SglangServer):
    """Answers for an instance that has a decode batch."""

    def __init__(self, simulation: Simulation, instance: Instance) -> None:
        super().__init__(simulation, instance)
        self._decode = simulation.decodes[instance.number]
        self._paused: list[float] = []
        self._moments = [0.0] * 6
        self._tokens = 0
        self._steps = 0
        self._logged_tokens = 0
        self._logged_at = 0.0
        self._logged_kernel_seconds = 0.0
        self._kernel_seconds = 0.0
        self._retracted = 0
        self.generated_per_second = 0.0
        self._put("graph_memory_usage_gb", GRAPH_GIB, "decode")
        self._put("startup_cuda_graph_time_seconds", _CAPTURE_SECONDS, "decode")
        self._add("generation_tokens_total", 8, "false")
        self._observe("time_to_first_token_seconds", 0.61, "false")
        self._observe("e2e_request_latency_seconds", 0.78, "false")
        self._observe("request_time_per_output_token_seconds", 0.024, "false")
        self._observe("generation_tokens_histogram", 8)

    def stepped(self, instance: int, steps: DecodeSteps) -> None:
        """Tokens for all of the batch; the gauges move every forty steps only."""
        if instance != self.instance.number:
            return
        self._has_run = True
        seconds = np.diff(steps.ended_at, prepend=steps.started_at)
        if steps.prefill_tokens:
            self._mixed(steps, float(seconds.sum()))
        elif steps.requests:
            self._decoded(steps, seconds)
        if not steps.requests:
            return
        count = len(seconds)
        self._deliver(steps)
        tokens = steps.requests * count
        self._tokens += tokens
        self._add("realtime_tokens_total", tokens, "decode")
        self._estimate(tokens)
        for index in range(count):
            self._steps += 1
            if self._steps % _LOG_INTERVAL_STEPS == 0:
                # What has been counted includes the steps of this call that come after.
                after = steps.requests * (count - index - 1)
                self._log(float(steps.ended_at[index]), self._tokens - after, steps, index)

    def preempted(self, request: Request) -> None:
        """The memory of `request` was taken back."""
        if request.decode != self.instance.number:
            return
        self._retracted += 1
        self._add("num_retracted_requests_total", 1)
        self._add("num_retracted_input_tokens_total", request.prompt_tokens)
        self._add("num_retracted_output_tokens_total", request.generated_tokens)

    @abstractmethod
    def _mixed(self, steps: DecodeSteps, seconds: float) -> None:
        """A step of `seconds` with parts of prompts."""

    def _decoded(self, steps: DecodeSteps, seconds: Floats) -> None:
        count, batch = len(seconds), steps.requests
        total = float(seconds.sum())
        # Without a graph the device waits between kernels for their launch, and the timer does not see it.
        busy = float(steps.kernel_seconds.sum()) if steps.is_graph else total
        self._kernel_seconds += busy
        self._add("forward_execution_seconds_total", busy, "decode")
        self._add("cuda_graph_passes_total", count, "decode_cuda_graph" if steps.is_graph else "decode_none")
        microseconds = total * 1e6
        sums = (count, batch * count, microseconds, batch**2 * count, batch * microseconds, batch * count)
        for index, value in enumerate(sums):
            self._moments[index] += value

    def _deliver(self, steps: DecodeSteps) -> None:
        paused, self._paused = self._paused, []
        for index, gap in enumerate(steps.gap_seconds.tolist()):
            late = paused if index == 0 else ()
            for pause in late:
                self._observe("inter_token_latency_seconds", pause + gap)
            if steps.requests > len(late):
                self._observe("inter_token_latency_seconds", gap, times=steps.requests - len(late))

    def _first_token(self, request: Request) -> None:
        """The user's: its clock began when the request reached this server."""
        self._observe("time_to_first_token_seconds", request.first_token_at - request.routed_at, STREAMING)

    def _answer(self, request: Request) -> None:
        self._finish(request, request.finished_at - request.routed_at, request.output_tokens)
        if request.output_tokens > 1:
            self._observe("request_time_per_output_token_seconds", request.tpot_seconds, STREAMING)

    def _log(self, at: float, tokens: int, steps: DecodeSteps, index: int) -> None:
        elapsed = at - self._logged_at
        self.generated_per_second = (tokens - self._logged_tokens) / elapsed
        occupancy = 100.0 * min(1.0, (self._kernel_seconds - self._logged_kernel_seconds) / elapsed)
        self._logged_tokens, self._logged_at, self._logged_kernel_seconds = tokens, at, self._kernel_seconds
        self._put("num_retracted_reqs", self._retracted, self._pid)
        self._retracted = 0
        state = self._decode.state()
        self._report(
            state.held_tokens,
            0,
            num_running_reqs=steps.requests,
            gen_throughput=self.generated_per_second,
            decode_sum_seq_lens=steps.context_tokens + steps.requests * (index + 1),
            fwd_occupancy=occupancy,
            new_token_ratio=0.42,
            **self._queues(state),
        )

    @abstractmethod
    def _queues(self, state: DecodeState) -> dict[str, float]:
        """The gauges of its queues."""

    def _report_idle(self) -> None:
        self.generated_per_second = 0.0
        state = self._decode.state()
        self._report(
            state.held_tokens,
            0,
            num_running_reqs=0,
            gen_throughput=0.0,
            fwd_occupancy=float("nan"),
            **self._queues(state),
        )

    def _detokenizer_seconds(self) -> float:
        return self._decode.stepper.detokenizer_busy_seconds
