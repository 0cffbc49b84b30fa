"""A vLLM 0.32 server: what prefill, decode and unified instances have in common.

One API server, so the page has `_created` series and all unlabelled families from the start. With NixlConnector the
transfer's histograms are on every instance and count where the transfer is asked for, on decode. MFU counters are on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from pdscope.demo.pages.dialect import PYTHON
from pdscope.demo.pages.exposition import Exposition
from pdscope.demo.pages.families import Family, families, of_role
from pdscope.demo.pages.hosts import Instance
from pdscope.demo.pages.presence import Presence
from pdscope.demo.physics.devices import Activity
from pdscope.demo.physics.observer import Observer
from pdscope.demo.physics.request import Request
from pdscope.demo.physics.simulation import Simulation

HANDLER = "/v1/completions"
_MODEL_LENGTH_TOKENS = 131_072
_START_UP_SECONDS = 118.0
_START_UP_CPU_SECONDS = 22.0
_CPU_SHARE = 0.1
_BYTES_PER_PROMPT_TOKEN = 4.3


class VllmServer(Observer, ABC):
    """One server. It watches the simulation from its beginning and answers for one instance.

    Args:
        simulation: that it is part of.
        instance: that it answers for.
        unix_seconds: the wall clock, printed where a series came into being.
    """

    def __init__(self, simulation: Simulation, instance: Instance, unix_seconds: Callable[[], float]) -> None:
        self.simulation = simulation
        self.instance = instance
        self._page = Exposition(
            of_role(families("vllm"), instance.role),
            PYTHON,
            common={"engine": "0", "model_name": instance.machine.model.name},
            unix_seconds=unix_seconds,
        )
        self._scheduled = Presence(simulation.clock)
        self._open: set[Request] = set()
        self._start(unix_seconds())
        simulation.watch(self)

    def metrics(self) -> bytes:
        """The body of `GET /metrics`."""
        self._refresh()
        cpu = _START_UP_CPU_SECONDS + _CPU_SHARE * self.simulation.now_seconds
        self._page.put("process_cpu_seconds_total", cpu)
        activity, devices = self._activity(), self.instance.machine.devices
        self._put("estimated_flops_per_gpu_total", activity.flop / devices)
        self._put("estimated_read_bytes_per_gpu_total", activity.bytes / devices)
        written = self._written_tokens() * self.instance.machine.model.kv_bytes_per_token
        self._put("estimated_write_bytes_per_gpu_total", written / devices)
        return self._page.render()

    @abstractmethod
    def _refresh(self) -> None:
        """What is read rather than told."""

    @abstractmethod
    def _activity(self) -> Activity:
        """Of its devices, by which the engine's analytic estimate goes."""

    @abstractmethod
    def _written_tokens(self) -> int:
        """Tokens whose KV it has computed."""

    def _start(self, unix_seconds: float) -> None:
        for family in of_role(families("vllm"), self.instance.role):
            for labels, value in family.start:
                values = self._cache_config(family, labels) if family.name == "vllm:cache_config_info" else labels
                if family.kind == "histogram":
                    self._page.show(family.name, *values)
                else:
                    self._page.put(family.name, value, *values)
        self._page.put("process_start_time_seconds", round(unix_seconds - _START_UP_SECONDS, 2))

    def _cache_config(self, family: Family, labels: tuple[str, ...]) -> tuple[str, ...]:
        pool, page = self.instance.pool_tokens, self.simulation.draw.link.page_tokens
        known = {
            "block_size": str(page),
            "effective_attention_block_size": str(page),
            "enable_prefix_caching": str(self.simulation.draw.prefill.prefix_cache),
            "kv_cache_max_concurrency": str(round(pool / _MODEL_LENGTH_TOKENS, 2)),
            "kv_cache_memory_bytes": "None",  # on devices this is what the user allows, who does not
            "kv_cache_size_tokens": str(pool),
            "num_gpu_blocks": str(pool // page),
        }
        return tuple(known.get(name, value) for name, value in zip(family.labels, labels, strict=True))

    def _enter(self, request: Request) -> None:
        """The router's request for this leg has come in."""
        self._open.add(request)

    def _leave(self, request: Request, seconds: float, *, status: str = "2xx", answer_bytes: int = 0) -> bool:
        """Its answer is out; False if it was before."""
        self._scheduled.leave(request)
        if request not in self._open:
            return False
        self._open.remove(request)
        page = self._page
        page.add("http_requests_total", 1, HANDLER, "POST", status)
        size = round(request.prompt_tokens * _BYTES_PER_PROMPT_TOKEN)
        page.observe("http_request_size_bytes", size, HANDLER)
        page.observe("http_response_size_bytes", answer_bytes, HANDLER)
        page.observe("http_request_duration_highr_seconds", seconds)
        page.observe("http_request_duration_seconds", seconds, HANDLER, "POST")
        return True

    def _finish(self, request: Request, reason: str, *, generated: int, limit: int, times: dict[str, float]) -> None:
        """Counts an engine request that is over; `times` by the names of the histograms."""
        self._add("request_success_total", 1, reason)
        self._observe("request_prompt_tokens", request.prompt_tokens)
        self._observe("request_generation_tokens", generated)
        self._observe("request_max_num_generation_tokens", generated)
        self._observe("request_params_n", 1)
        self._observe("request_params_max_tokens", limit)
        self._observe("request_num_preemptions", request.preemptions)
        for name, seconds in times.items():
            self._observe(name, seconds)

    def _prompt(self, request: Request, *, cached: int = 0, received: int = 0) -> None:
        """Counts a prompt whose KV is whole here: what was computed, found, or brought from elsewhere."""
        computed = request.prompt_tokens - cached - received
        self._add("prompt_tokens_total", request.prompt_tokens)
        self._add("prompt_tokens_by_source_total", computed, "local_compute")
        self._add("prompt_tokens_by_source_total", cached, "local_cache_hit")
        self._add("prompt_tokens_by_source_total", received, "external_kv_transfer")
        self._add("prompt_tokens_cached_total", cached + received)
        self._add("prompt_tokens_cached_by_source_total", cached, "device")
        self._add("prompt_tokens_cached_by_source_total", received, "p2p")
        self._add("prefix_cache_queries_total", request.prompt_tokens)
        self._add("prefix_cache_hits_total", cached)
        if self.instance.role != "unified":
            self._add("external_prefix_cache_queries_total", request.prompt_tokens - cached)
            self._add("external_prefix_cache_hits_total", received)

    def _put(self, name: str, value: float, *labels: str) -> None:
        self._page.put(f"vllm:{name}", value, *labels)

    def _add(self, name: str, amount: float, *labels: str) -> None:
        self._page.add(f"vllm:{name}", amount, *labels)

    def _observe(self, name: str, value: float, *labels: str, times: float = 1) -> None:
        self._page.observe(f"vllm:{name}", value, *labels, times=times)
