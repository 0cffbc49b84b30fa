"""The families of SGLang 0.5.23 that the simulated instances export: names, help texts, labels, buckets, ranks.

They are those of the engine's own page, word for word; a test compares them with a captured one.
"""

from __future__ import annotations

from pdscope.demo.exposition import Family, Ranks
from pdscope.model.topology import Role

_TTFT_BOUNDS = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
_E2E_BOUNDS = (*_TTFT_BOUNDS, 600, 1200, 1800, 2400)
_ITL_BOUNDS = (
    *(0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1),
    *(0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8),
)
_LENGTH_BOUNDS = tuple(
    hundreds * 100
    for hundreds in (
        *(1, 3, 5, 7, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100, 125, 150, 175, 200, 225, 250, 275, 300),
        *(350, 400, 600, 800, 1000, 2000, 3000, 4000, 6000, 8000, 10_000, 11_000),
    )
)
_QUEUE_BOUNDS = (
    *(0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90),
    *(100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1200, 1400, 1600, 1800, 2000, 2500, 3000),
)
_STAGE_BOUNDS = tuple(0.001 * 1.62**k for k in range(30))
_HANDSHAKE_MS_BOUNDS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500)
_TRANSFER_MS_BOUNDS = (*_HANDSHAKE_MS_BOUNDS, 5000)
_TRANSFER_MIB_BOUNDS = (1, 5, 10, 50, 100, 500, 1000, 5000, 10_000)
_TRANSFER_GIB_PER_SECOND_BOUNDS = (0.1, 0.5, 1, 5, 10, 25, 50, 100, 200, 400)

_HTTP = (
    ("requests_total", "counter", "Total number of HTTP requests by endpoint and method", ()),
    ("responses_total", "counter", "Total number of HTTP responses by endpoint and status code", ("status_code",)),
    ("requests_active", "gauge", "Number of currently active HTTP requests", ()),
)
_REQUEST_COUNTERS = {
    "prompt_tokens_total": "Number of prefill tokens processed.",
    "generation_tokens_total": "Number of generation tokens processed.",
    "num_requests_total": "Number of requests processed.",
}
_REQUEST_TIMES = {
    "time_to_first_token_seconds": ("Histogram of time to first token in seconds.", _TTFT_BOUNDS),
    "request_time_per_output_token_seconds": (
        "Per-request TPOT in seconds: (finished_time - first_token_time) / (completion_tokens - 1).",
        _ITL_BOUNDS,
    ),
    "e2e_request_latency_seconds": ("Histogram of End-to-end request latency in seconds", _E2E_BOUNDS),
}
_REQUEST_SHAPES = {
    "inter_token_latency_seconds": ("Histogram of inter-token latency in seconds.", _ITL_BOUNDS),
    "prompt_tokens_histogram": ("Histogram of prompt token length.", _LENGTH_BOUNDS),
    "uncached_prompt_tokens_histogram": ("Histogram of uncached (compute) prompt token length.", _LENGTH_BOUNDS),
    "generation_tokens_histogram": ("Histogram of generation token length.", _LENGTH_BOUNDS),
}
_CONSTANTS = {
    "max_total_num_tokens": "Maximum total number of tokens in the KV cache pool.",
    "weight_memory_usage_gb": "Memory used by model weights in GB.",
    "kv_cache_memory_usage_gb": "Memory used by the KV cache pools in GB.",
    "page_size": "KV cache page size in tokens.",
    "num_pages": "Number of KV cache pages.",
    "context_len": "Maximum context length.",
}
_IDLE = "Total wall time while the scheduler has no runnable or queued work."
_EFFECTIVE_TOKENS = (
    "Effective prefill tokens with retracted-request re-counts excluded, updated on each log interval. "
    "mode: device_hit, host_hit, storage_hit, input. Windowed prefix cache hit rate = "
    "rate(sum of *_hit) / rate(sum of all modes); per-tier rate uses a single *_hit mode in the numerator."
)
_REALTIME_TOKENS = (
    "Total number of tokens processed (updated on each log interval). mode: prefill_compute, prefill_cache, decode."
)
_FORWARD = "Total time that GPU is busy executing model forward passes. Refer to ForwardMode for category labels."
_PASSES = "Total number of forward passes categorized by CUDA graph."
_STAGES = "The latency of each stage of requests."
_WAYS = {
    "queue_time_seconds": ("Histogram of queueing time in seconds.", _QUEUE_BOUNDS),
    "kv_transfer_latency_ms": ("Histogram of KV cache transfer latency in ms.", _TRANSFER_MS_BOUNDS),
    "kv_transfer_total_mb": ("Histogram of KV cache transfer size in MB.", _TRANSFER_MIB_BOUNDS),
    "kv_transfer_speed_gb_s": (
        "Histogram of KV cache transfer speed in GB/s.",
        _TRANSFER_GIB_PER_SECOND_BOUNDS,
    ),
    "kv_transfer_bootstrap_ms": ("Histogram of KV transfer bootstrap time in ms.", _HANDSHAKE_MS_BOUNDS),
    "kv_transfer_alloc_ms": (
        "Histogram of KV transfer allocation waiting time in ms.",
        _HANDSHAKE_MS_BOUNDS,
    ),
}
STATES = {
    "num_running_reqs": "The number of running requests.",
    "num_queue_reqs": "The number of requests in the waiting queue.",
    "gen_throughput": "The generation throughput (token/s).",
    "cache_hit_rate": "The prefix cache hit rate.",
    "decode_sum_seq_lens": "The sum of all sequence lengths in decode.",
    "token_usage": "The token usage.",
    "full_token_usage": "The token usage for full attention layers.",
    "num_used_tokens": "The number of used tokens.",
    "kv_available_tokens": "Number of free token slots in the KV cache pool.",
    "kv_evictable_tokens": "Number of evictable (radix-cached) token slots in the KV cache pool.",
    "kv_used_tokens": "Number of actively used token slots in the KV cache pool.",
    "num_prefill_bootstrap_queue_reqs": "The number of requests in the prefill bootstrap queue.",
    "num_prefill_inflight_queue_reqs": "The number of requests in the prefill inflight queue.",
    "num_decode_prealloc_queue_reqs": "The number of requests in the decode prealloc queue.",
    "num_decode_transfer_queue_reqs": "The number of requests in the decode transfer queue.",
    "pending_prealloc_token_usage": ("The token usage for pending preallocated tokens (not preallocated yet)."),
    "prealloc_full_token_usage": (
        "Share of the full-attention KV pool held by decode requests whose KV transfer is pending "
        "(preallocated, not yet running); same capacity basis as sglang:full_token_usage."
    ),
    "utilization": "The utilization.",
}
"""The gauges of the scheduler's state: both roles export all of them, whichever they have a meaning for."""


def _counter(name: str, text: str, label: str, ranks: Ranks = Ranks.NONE) -> Family:
    return Family(f"sglang:{name}", "counter", text, (label,), ranks)


def _histogram(name: str, spec: tuple[str, tuple[float, ...]], ranks: Ranks, *labels: str) -> Family:
    text, bounds = spec
    return Family(f"sglang:{name}", "histogram", text, labels, ranks, tuple(map(float, bounds)))


def families(role: Role) -> tuple[Family, ...]:
    """The families of an instance. Prefill counts its passes on the first rank only, decode on every rank."""
    passes_ranks = Ranks.ALL if role is Role.DECODE else Ranks.FIRST
    return (
        *(
            Family(f"sglang:http_{name}", kind, text, ("endpoint", "method", *more), common=False)
            for name, kind, text, more in _HTTP
        ),
        *(_counter(name, text, "is_streaming") for name, text in _REQUEST_COUNTERS.items()),
        _counter(
            "cached_tokens_total",
            "Number of cached prompt tokens by source (device/host/storage).",
            "cache_source",
        ),
        *(_histogram(name, spec, Ranks.NONE, "is_streaming") for name, spec in _REQUEST_TIMES.items()),
        *(_histogram(name, spec, Ranks.NONE) for name, spec in _REQUEST_SHAPES.items()),
        *(Family(f"sglang:{name}", "gauge", text, ranks=Ranks.ALL) for name, text in _CONSTANTS.items()),
        _counter("prefill_effective_tokens_total", _EFFECTIVE_TOKENS, "mode", Ranks.SEEDED),
        Family("sglang:scheduler_idle_seconds_total", "counter", _IDLE, ranks=Ranks.ALL),
        _counter("realtime_tokens_total", _REALTIME_TOKENS, "mode", Ranks.FIRST),
        _counter("forward_execution_seconds_total", _FORWARD, "category", Ranks.ALL),
        _counter("cuda_graph_passes_total", _PASSES, "mode", passes_ranks),
        _histogram("per_stage_req_latency_seconds", (_STAGES, _STAGE_BOUNDS), Ranks.ALL, "stage"),
        *(_histogram(name, spec, Ranks.ALL) for name, spec in _WAYS.items()),
        *(Family(f"sglang:{name}", "gauge", text, ranks=Ranks.FIRST) for name, text in STATES.items()),
    )
