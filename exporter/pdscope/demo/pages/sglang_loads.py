"""The JSON pages of an SGLang server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

import orjson

from pdscope.demo.pages import families
from pdscope.demo.pages.hosts import Instance, driver_name
from pdscope.demo.physics.draw import Draw

GIB = 2**30
MIB = 2**20
VERSION = "0.5.23"
PREFILL_RUNNING_LIMIT = 2048


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
    retracted: int = 0
    graph_gib: float = 0.0
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


def loads_body(
    load: Load, instance: Instance, draw: Draw, *, weight_gib: float, kv_cache_gib: float, unix_seconds: float
) -> bytes:
    """The body of `GET /v1/loads`."""
    pool = instance.pool_tokens
    document = {
        "timestamp": datetime.fromtimestamp(unix_seconds, UTC).isoformat(timespec="microseconds"),
        "version": VERSION,
        "accelerator": driver_name(draw.hardware),
        "num_accelerators": instance.machine.devices,
        "loads": [
            {
                "timestamp": unix_seconds,
                "dp_rank": 0,
                "num_running_reqs": load.running,
                "num_waiting_reqs": load.waiting,
                "num_waiting_uncached_tokens": load.waiting_uncached_tokens,
                "num_used_tokens": load.held_tokens,
                "num_total_tokens": load.held_tokens + load.waiting_tokens,
                "num_active_tokens": load.active_tokens,
                "num_prealloc_ready_tokens": 0,
                "max_total_num_tokens": pool,
                "max_running_requests": load.max_running_requests,
                "token_usage": round(load.held_tokens / pool, 4),
                "gen_throughput": round(load.generated_per_second, 2),
                "cache_hit_rate": round(load.cache_hit_rate, 4),
                "utilization": load.utilization,
                "total_prefill_uncached_tokens": load.prefill_uncached_tokens,
                "total_prefill_busy_us": round(load.prefill_busy_seconds * 1e6),
                "decode_moments": load.decode_moments,
                "memory": {
                    "weight_gb": round(weight_gib, 2),
                    "kv_cache_gb": round(kv_cache_gib, 2),
                    "graph_gb": load.graph_gib,
                    "token_capacity": pool,
                },
                "disaggregation": {
                    "mode": None if instance.role == "unified" else instance.role,
                    "prefill_bootstrap_queue_reqs": load.prefill_bootstrap_queue,
                    "prefill_inflight_queue_reqs": load.prefill_inflight_queue,
                    "decode_prealloc_queue_reqs": load.decode_prealloc_queue,
                    "decode_transfer_queue_reqs": load.decode_transfer_queue,
                    "decode_retracted_queue_reqs": load.retracted,
                    "kv_transfer_speed_gb_s": round(load.transfer_speed_gib_per_second, 2),
                    "kv_transfer_latency_ms": round(load.transfer_latency_ms, 1),
                },
                "queues": {
                    "waiting": load.queued,
                    "grammar": 0,
                    "paused": 0,
                    "retracted": load.retracted,
                    "prealloc_ready": 0,
                },
            }
        ],
    }
    return orjson.dumps(document)


def model_info_body(instance: Instance) -> bytes:
    """The body of `GET /model_info`."""
    name = instance.machine.model.name
    kind, architecture = _KINDS[name.partition("/")[0]]
    document = {
        "model_path": name,
        "served_model_name": name,
        "tokenizer_path": name,
        "is_generation": True,
        "preferred_sampling_params": None,
        "weight_version": "default",
        "load_format": "auto",
        "reasoning_parser": None,
        "tool_call_parser": None,
        "disaggregation_mode": "null" if instance.role == "unified" else instance.role,
        "has_image_understanding": False,
        "has_audio_understanding": False,
        "model_type": kind,
        "architectures": [architecture],
    }
    return orjson.dumps(document)


_KINDS = {
    "meta-llama": ("llama", "LlamaForCausalLM"),
    "Qwen": ("qwen3_moe", "Qwen3MoeForCausalLM"),
    "deepseek-ai": ("deepseek_v3", "DeepseekV3ForCausalLM"),
}


@cache
def _server_info() -> dict[str, Any]:
    return dict(orjson.loads((files(families) / "sglang_server_info.json").read_bytes()))


def server_info_body(
    instance: Instance, draw: Draw, *, weight_gib: float, kv_cache_gib: float, generated_per_second: float
) -> bytes:
    """The body of `GET /server_info`: all arguments of the server, once more for the scheduler; no keys are set."""
    document = dict(_server_info())
    name, devices, pool = instance.machine.model.name, instance.machine.devices, instance.pool_tokens
    limit = PREFILL_RUNNING_LIMIT if instance.role == "prefill" else draw.decode.slots
    arguments = {
        "model_path": name,
        "served_model_name": name,
        "tokenizer_path": name,
        "tp_size": devices,
        "page_size": draw.link.page_tokens,
        "max_running_requests": limit,
        "chunked_prefill_size": draw.prefill.batch_tokens,
        "num_reserved_decode_tokens": draw.decode.reserved_tokens,
        "disaggregation_mode": "null" if instance.role == "unified" else instance.role,
        "load_balance_method": "follow_bootstrap_room" if instance.role == "prefill" else "round_robin",
        "enable_metrics": instance.role != "decode" or draw.exposure.decode_metrics,
        "disable_radix_cache": instance.role == "decode" or not draw.prefill.prefix_cache,
    }
    scheduler = dict(document["internal_states"][0])
    for known in (document, scheduler):
        known.update({key: value for key, value in arguments.items() if key in known})
    scheduler |= {
        "world_size": devices,
        "effective_max_running_requests_per_dp": limit,
        "last_gen_throughput": round(generated_per_second, 2),
    }
    scheduler["memory_usage"] = scheduler["memory_usage"] | {
        "weight": round(weight_gib, 2),
        "kvcache": round(kv_cache_gib, 2),
        "token_capacity": pool,
    }
    document |= {"max_total_num_tokens": pool, "internal_states": [scheduler]}
    return orjson.dumps(document)
