"""An SGLang 0.5.23 server of a disaggregated deployment: what both roles have in common.

The servers count when the engine counts. So gauges stand still between two prefill batches or forty decode
steps, request-level series come from every rank, TTFT and ITL exist on decode only, and nothing is there before
its first event.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pdscope.demo.exposition import Exposition
from pdscope.demo.scenario import MODEL_NAME, Machines
from pdscope.demo.sglang_families import STATES, families
from pdscope.demo.timeline import Request
from pdscope.model.topology import Role

GIB = 2**30
MIB = 2**20
_VERSION = "0.5.23"
_ACCELERATOR = "NVIDIA H100 80GB HBM3"
_CONTEXT_LENGTH_TOKENS = 131_072
_COMPLETIONS = ("/v1/chat/completions", "POST")


@dataclass(frozen=True, slots=True)
class Load:
    """What `/v1/loads` says of one instance; a role leaves the fields of the other one alone."""

    max_running_requests: int
    running: int
    waiting: int
    held_tokens: int
    waiting_tokens: int
    active_tokens: int
    queued: int
    waiting_uncached_tokens: int = 0
    generated_per_second: float = 0.0
    cache_hit_rate: float = 0.0
    utilization: float = 0.0
    prefill_uncached_tokens: int = 0
    prefill_busy_seconds: float = 0.0
    decode_moments: list[float] | None = None
    prefill_bootstrap_queue: int = 0
    prefill_inflight_queue: int = 0
    decode_prealloc_queue: int = 0
    decode_transfer_queue: int = 0
    transfer_speed_gib_per_second: float = 0.0
    transfer_latency_ms: float = 0.0


class SglangServer(ABC):
    """One server. It watches a simulated instance and answers for it."""

    role: Role

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._kv_cache_gib = machines.pool_tokens * machines.kv_bytes_per_token / machines.tensor_parallel / GIB
        self._weight_gib = machines.weight_bytes / machines.tensor_parallel / GIB
        ranks = tuple(
            {"moe_ep_rank": "0", "pp_rank": "0", "tp_rank": str(rank)} for rank in range(machines.tensor_parallel)
        )
        self._page = Exposition(families(self.role), {"engine_type": self.role.value, "model_name": MODEL_NAME}, ranks)
        self._put("max_total_num_tokens", machines.pool_tokens)
        self._put("weight_memory_usage_gb", round(self._weight_gib, 2))
        self._put("kv_cache_memory_usage_gb", self._kv_cache_gib)
        self._put("page_size", machines.page_tokens)
        self._put("num_pages", machines.pages(machines.pool_tokens))
        self._put("context_len", _CONTEXT_LENGTH_TOKENS)
        for mode in ("input", "device_hit", "host_hit", "storage_hit"):
            self._add("prefill_effective_tokens_total", 0, mode)

    def opened(self, endpoint: str, method: str) -> None:
        """An HTTP request has come in."""
        self._add("http_requests_total", 1, endpoint, method)
        self._add("http_requests_active", 1, endpoint, method)

    def closed(self, endpoint: str, method: str) -> None:
        """It has been answered, with status 200."""
        self._add("http_responses_total", 1, endpoint, method, "200")
        self._add("http_requests_active", -1, endpoint, method)

    def metrics(self) -> str:
        """The body of `GET /metrics`."""
        self._put("scheduler_idle_seconds_total", self._idle_seconds())
        return self._page.render()

    def loads(self, unix_seconds: float) -> dict[str, Any]:
        """The body of `GET /v1/loads`. Unlike the gauges of `metrics` it shows the present.

        Args:
            unix_seconds: the wall clock, with which the engine stamps the snapshot.
        """
        return {
            "timestamp": datetime.fromtimestamp(unix_seconds, UTC).isoformat(),
            "version": _VERSION,
            "accelerator": _ACCELERATOR,
            "num_accelerators": self._machines.tensor_parallel,
            "loads": [{"timestamp": unix_seconds, "dp_rank": 0, **self._load_body(self._load())}],
        }

    def model_info(self) -> dict[str, Any]:
        """The body of `GET /model_info`."""
        return {
            "model_path": MODEL_NAME,
            "served_model_name": MODEL_NAME,
            "tokenizer_path": MODEL_NAME,
            "is_generation": True,
            "preferred_sampling_params": None,
            "weight_version": "default",
            "load_format": "auto",
            "reasoning_parser": None,
            "tool_call_parser": None,
            "disaggregation_mode": self.role.value,
            "has_image_understanding": False,
            "has_audio_understanding": False,
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
        }

    @abstractmethod
    def _load(self) -> Load:
        """The present, for `/v1/loads`."""

    @abstractmethod
    def _idle_seconds(self) -> float:
        """Time without any request so far."""

    def _load_body(self, load: Load) -> dict[str, Any]:
        pool_tokens = self._machines.pool_tokens
        return {
            "num_running_reqs": load.running,
            "num_waiting_reqs": load.waiting,
            "num_waiting_uncached_tokens": load.waiting_uncached_tokens,
            "num_used_tokens": load.held_tokens,
            "num_total_tokens": load.held_tokens + load.waiting_tokens,
            "num_active_tokens": load.active_tokens,
            "num_prealloc_ready_tokens": 0,
            "max_total_num_tokens": pool_tokens,
            "max_running_requests": load.max_running_requests,
            "token_usage": round(load.held_tokens / pool_tokens, 4),
            "gen_throughput": round(load.generated_per_second, 2),
            "cache_hit_rate": round(load.cache_hit_rate, 4),
            "utilization": load.utilization,
            "total_prefill_uncached_tokens": load.prefill_uncached_tokens,
            "total_prefill_busy_us": round(load.prefill_busy_seconds * 1e6),
            "decode_moments": load.decode_moments,
            "memory": {
                "weight_gb": round(self._weight_gib, 2),
                "kv_cache_gb": round(self._kv_cache_gib, 2),
                "graph_gb": 0.0,
                "token_capacity": pool_tokens,
            },
            "disaggregation": {
                "mode": self.role.value,
                "prefill_bootstrap_queue_reqs": load.prefill_bootstrap_queue,
                "prefill_inflight_queue_reqs": load.prefill_inflight_queue,
                "decode_prealloc_queue_reqs": load.decode_prealloc_queue,
                "decode_transfer_queue_reqs": load.decode_transfer_queue,
                "decode_retracted_queue_reqs": 0,
                "kv_transfer_speed_gb_s": round(load.transfer_speed_gib_per_second, 2),
                "kv_transfer_latency_ms": round(load.transfer_latency_ms, 1),
            },
            "queues": {"waiting": load.queued, "grammar": 0, "paused": 0, "retracted": 0, "prealloc_ready": 0},
        }

    def _accept(self) -> None:
        self.opened(*_COMPLETIONS)

    def _answer(self, request: Request, seconds: float, generated_tokens: int) -> None:
        """Counts a leg of a request that is over, `seconds` after it arrived."""
        self.closed(*_COMPLETIONS)
        streaming = is_streaming(request)
        self._add("num_requests_total", 1, streaming)
        self._add("prompt_tokens_total", request.prompt_tokens, streaming)
        self._add("generation_tokens_total", generated_tokens, streaming)
        if request.cached_tokens:
            self._add("cached_tokens_total", request.cached_tokens, "device")
        self._observe("e2e_request_latency_seconds", seconds, streaming)
        self._observe("prompt_tokens_histogram", request.prompt_tokens)
        self._observe("uncached_prompt_tokens_histogram", request.uncached_tokens)
        self._observe("generation_tokens_histogram", generated_tokens)

    def _report(self, held_tokens: int, cached_tokens: int, **others: float) -> None:
        """Sets all gauges of the state; `others` by their names, and zero for those that no one names."""
        pool_tokens = self._machines.pool_tokens
        known = {
            "token_usage": round(held_tokens / pool_tokens, 2),
            "full_token_usage": held_tokens / pool_tokens,
            "num_used_tokens": held_tokens,
            "kv_used_tokens": held_tokens,
            "kv_evictable_tokens": cached_tokens,
            "kv_available_tokens": pool_tokens - held_tokens - cached_tokens,
            **others,
        }
        for name in STATES:
            self._put(name, known.get(name, 0.0))

    def _put(self, name: str, value: float, *labels: str) -> None:
        self._page.put(f"sglang:{name}", value, *labels)

    def _add(self, name: str, amount: float, *labels: str) -> None:
        self._page.add(f"sglang:{name}", amount, *labels)

    def _observe(self, name: str, value: float, *labels: str, times: int = 1) -> None:
        self._page.observe(f"sglang:{name}", value, *labels, times=times)


def is_streaming(request: Request) -> str:
    """The value of the label `is_streaming`."""
    return "true" if request.is_streaming else "false"
