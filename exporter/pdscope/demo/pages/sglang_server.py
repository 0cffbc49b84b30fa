"""An SGLang 0.5.23 server: what prefill, decode and unified instances have in common.

The engine's oddities are kept: request-level series repeat on every tensor-parallel rank and gauges stand on the first
one; what is labelled is absent before its first event; gauges move when a batch is launched or after forty decode
steps, so they freeze when nothing runs, and only an engine that has been idle for 30 s refreshes them; `/v1/loads`
shows the present. MFU counters and the device timer are on. All users stream; the warm-up request does not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from pdscope.demo.pages.dialect import PYTHON_PROCESSES
from pdscope.demo.pages.exposition import Exposition
from pdscope.demo.pages.families import Ranks, families
from pdscope.demo.pages.hosts import Instance
from pdscope.demo.pages.presence import Presence
from pdscope.demo.pages.sglang_loads import GIB, Load
from pdscope.demo.physics.observer import Observer
from pdscope.demo.physics.request import End, Request
from pdscope.demo.physics.simulation import Simulation

STREAMING = "true"
_COMPLETIONS = ("/v1/chat/completions", "POST")
_IDLE_REFRESH_SECONDS = 30.0
_LOADS_SECONDS = 0.0004
"""What an answer of `/v1/loads` costs the server."""
_LOADS_AT_START = 3
_PROCESS_CPU_SECONDS = 0.08
"""Of tokenizer and detokenizer before the first request."""
_MLP_SHARE = 0.8
"""Share of the parameters that the engine's estimator forgets to divide by the tensor-parallel size."""
_WRITTEN_ACTIVATIONS = 13
"""Activations of a token that the estimator counts as written, a layer."""
_STAGE_SHARES = {
    "other": 0.25,
    "recv_requests": 0.06,
    "process_input_requests": 0.02,
    "get_next_batch_to_run": 0.07,
    "process_queue": 0.05,
    "run_batch": 0.24,
    "process_batch_result": 0.31,
}
_OVERLAP_SHARES = {"none": 0.3, "partial": 0.1, "full": 0.6}


class SglangServer(Observer, ABC):
    """One server. It watches the simulation from its beginning and answers for one instance.

    Args:
        simulation: that it is part of.
        instance: that it answers for.
    """

    def __init__(self, simulation: Simulation, instance: Instance) -> None:
        self.simulation = simulation
        self.instance = instance
        machine = instance.machine
        model = machine.model
        ranks = tuple(
            {"moe_ep_rank": "0", "pp_rank": "0", "tp_rank": str(rank), "dp_rank": "0"}
            for rank in range(machine.devices)
        )
        known = families("sglang")
        self._states = tuple(one.name for one in known if one.kind == "gauge" and one.ranks is Ranks.FIRST)
        common = {"engine_type": instance.role, "model_name": model.name}
        self._page = Exposition(known, PYTHON_PROCESSES, common=common, rank_labels=ranks)
        self._scheduled = Presence(simulation.clock)
        self._open: set[Request] = set()
        self._reported_at = 0.0
        self._has_run = False
        self.kv_cache_gib = instance.pool_tokens * model.kv_bytes_per_token / machine.devices / GIB
        self.weight_gib = model.weight_bytes / machine.devices / GIB
        self._estimated_share = _MLP_SHARE + (1.0 - _MLP_SHARE) / machine.devices
        self._pid = str(13_146 + instance.number)
        self._start()
        simulation.watch(self)

    def metrics(self) -> bytes:
        """The body of `GET /metrics`, which the server counts as well."""
        self._opened("/metrics", "GET")
        self._refresh()
        body = self._page.render()
        self._closed("/metrics", "GET", "200")
        return body

    def answered(self, path: str) -> None:
        """A GET of another path has been answered."""
        self._opened(path, "GET")
        self._closed(path, "GET", "200")

    def loads(self) -> Load:
        """What `/v1/loads` says now."""
        self._observe("get_loads_duration_seconds", _LOADS_SECONDS)
        return self._load()

    @abstractmethod
    def _load(self) -> Load:
        """The present."""

    @abstractmethod
    def _report_idle(self) -> None:
        """The gauges, after half a minute without anything to do."""

    def _detokenizer_seconds(self) -> float:
        return 0.0

    def _tokenizer_seconds(self) -> float:
        router = self.simulation.router
        servers = router.prefill_tokenizers if self.instance.role == "prefill" else router.decode_tokenizers
        return servers[self.instance.number].busy_seconds

    def _start(self) -> None:
        """What a server shows that has only answered its own warm-up request."""
        for family in families("sglang"):
            for labels, value in family.start:
                values = tuple(
                    self._pid if name == "pid" else one for name, one in zip(family.labels, labels, strict=True)
                )
                if family.kind == "histogram":
                    self._page.show(family.name, *values)
                else:
                    self._page.put(family.name, value, *values)
        link = self.simulation.draw.link
        self._put("max_total_num_tokens", self.instance.pool_tokens)
        self._put("weight_memory_usage_gb", round(self.weight_gib, 2))
        self._put("kv_cache_memory_usage_gb", self.kv_cache_gib)
        self._put("page_size", link.page_tokens)
        self._put("num_pages", self.instance.pool_tokens // link.page_tokens)
        self._observe("get_loads_duration_seconds", _LOADS_SECONDS, times=_LOADS_AT_START)
        self._opened("/generate", "POST")
        self._closed("/generate", "POST", "200")
        self._add("num_requests_total", 1, "false")
        self._add("prompt_tokens_total", 4, "false")
        self._observe("prompt_tokens_histogram", 4)
        self._observe("uncached_prompt_tokens_histogram", 4)

    def _enter(self, request: Request) -> None:
        """The router's request for this leg has come in."""
        self._open.add(request)
        self._opened(*_COMPLETIONS)

    def _leave(self, request: Request, status: str = "200") -> bool:
        """Its answer is out, or it is given up; False if it was over before."""
        self._scheduled.leave(request)
        if request not in self._open:
            return False
        self._open.remove(request)
        self._closed(*_COMPLETIONS, status)
        return True

    def _finish(self, request: Request, seconds: float, generated_tokens: int) -> None:
        """Counts a leg that went well, `seconds` after it had come in."""
        if not self._leave(request):
            return
        self._add("num_requests_total", 1, STREAMING)
        self._add("prompt_tokens_total", request.prompt_tokens, STREAMING)
        self._add("generation_tokens_total", generated_tokens, STREAMING)
        if request.cached_tokens:
            self._add("cached_tokens_total", request.cached_tokens, "device")
        self._observe("e2e_request_latency_seconds", seconds, STREAMING)
        self._observe("prompt_tokens_histogram", request.prompt_tokens)
        self._observe("uncached_prompt_tokens_histogram", request.prompt_tokens - request.cached_tokens)
        self._observe("generation_tokens_histogram", generated_tokens)

    def _fail(self, request: Request) -> None:
        """Counts a leg that did not: one failure is counted on both sides and on every rank."""
        if not self._leave(request, "500"):
            return
        if request.end is End.ORPHANED:
            self._add("num_aborted_requests_total", 1)
        elif request.end is End.BOOTSTRAP_TIMEOUT:
            self._add("num_bootstrap_failed_reqs_total", 1)
        elif request.end in {End.TRANSFER_FAILED, End.WAITING_TIMEOUT}:
            self._add("num_transfer_failed_reqs_total", 1)

    def _stage(self, stage: str, seconds: float) -> None:
        self._observe("per_stage_req_latency_seconds", seconds, stage)

    def _estimate(self, tokens: int) -> None:
        """The engine's own estimate: full weights for every token, most of them on every rank."""
        model = self.instance.machine.model
        share = self._estimated_share
        self._add("estimated_flops_per_gpu_total", 2.0 * model.active_parameters * share * tokens)
        self._add("estimated_read_bytes_per_gpu_total", model.weight_bytes * share * tokens)
        written = _WRITTEN_ACTIVATIONS * model.layers * model.hidden * 2.0
        self._add("estimated_write_bytes_per_gpu_total", written * tokens)

    def _report(self, held_tokens: int, cached_tokens: int, **others: float) -> None:
        """Sets the gauges of the state; `others` by their names. What no one names stays as it was."""
        pool = self.instance.pool_tokens
        known = {
            "token_usage": round(held_tokens / pool, 2),
            "full_token_usage": held_tokens / pool,
            "num_used_tokens": held_tokens,
            "kv_used_tokens": held_tokens,
            "kv_evictable_tokens": cached_tokens,
            "kv_available_tokens": pool - held_tokens - cached_tokens,
            **others,
        }
        for name, value in known.items():
            self._put(name, value)
        self._reported_at = self.simulation.now_seconds

    def _refresh(self) -> None:
        """What the processes update by themselves."""
        now, idle = self.simulation.now_seconds, self._scheduled.absent_seconds
        since = self._scheduled.absent_since
        if since is not None and now - max(since, self._reported_at) >= _IDLE_REFRESH_SECONDS:
            self._report_idle()
        self._put("scheduler_idle_seconds_total", idle)
        self._put("scheduler_process_cpu_seconds_total", now)
        self._put("scheduler_stage_seconds_total", idle, "idle", "none")
        for overlap, part in _OVERLAP_SHARES.items():
            if overlap == "none" or self._has_run:
                for category, share in _STAGE_SHARES.items():
                    self._put("scheduler_stage_seconds_total", (now - idle) * part * share, category, overlap)
        self._put("process_cpu_seconds_total", _PROCESS_CPU_SECONDS + self._tokenizer_seconds(), "tokenizer")
        self._put("process_cpu_seconds_total", _PROCESS_CPU_SECONDS + self._detokenizer_seconds(), "detokenizer")

    def _opened(self, endpoint: str, method: str) -> None:
        self._add("http_requests_total", 1, endpoint, method)
        self._add("http_requests_active", 1, endpoint, method)

    def _closed(self, endpoint: str, method: str, status: str) -> None:
        self._add("http_responses_total", 1, endpoint, method, status)
        self._add("http_requests_active", -1, endpoint, method)

    def _put(self, name: str, value: float, *labels: str) -> None:
        self._page.put(f"sglang:{name}", value, *labels)

    def _add(self, name: str, amount: float, *labels: str) -> None:
        self._page.add(f"sglang:{name}", amount, *labels)

    def _observe(self, name: str, value: float, *labels: str, times: float = 1) -> None:
        self._page.observe(f"sglang:{name}", value, *labels, times=times)
