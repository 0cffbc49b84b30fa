"""SGLang 0.5.x: `/metrics` and `/v1/loads`.

Read in the wheel `sglang-0.5.23` (srt/observability/metrics_collector.py, srt/entrypoints/v1_loads.py) and in older
wheels for the names that changed. What matters here:

* The role is the label `engine_type`; every queue gauge of both roles is exported at 0 everywhere.
* Request histograms and counters come from every tensor-parallel rank with the same meaning, gauges from the first
  only; `kv_transfer_total_mb` is each rank's own part, in MiB.
* Prefill measures no TTFT. Decode's TTFT starts when the request reaches decode; routers ask both legs at once, so it
  contains prefill and transfer. Only streaming requests are measured at the first token.
* Labelled counters and histograms have no series before their first event.
* A prefill request ends when its KV has left.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pdscope.errors import PageError
from pdscope.model.metric import Fact, Metric
from pdscope.model.topology import EngineProfile, Role, Routing
from pdscope.sources.adapter import Adapter, InfoLabel, Series
from pdscope.sources.promises import promise
from pdscope.sources.settings import sglang as settings

_MIB = 2.0**20
_GIB = 2.0**30
_STREAMING = {"is_streaming": "true"}
_FIELD = re.compile(r"[a-z][a-z0-9_]*")
_VERSION = re.compile(r"[0-9A-Za-z.+!_-]{1,64}")  # as PEP 440 spells versions: no quote, no blank
_ROLES = {"prefill": Role.PREFILL, "decode": Role.DECODE, "unified": Role.UNIFIED}


def _stage(name: str) -> tuple[Series, ...]:
    return (Series("sglang:per_stage_req_latency_seconds", {"stage": name}, lazy=True),)


# of live traffic and with nothing to fill in: a router's serving address is not known
_PROFILE = (
    "curl -X POST {url}/start_profile -H 'Content-Type: application/json' -d '{{\"num_steps\": 20}}'  "
    "# stops by itself; traces go to SGLANG_TORCH_PROFILER_DIR of the server; with a key, add it as a bearer token"
)
# prefill and decode are profiled apart: the two options exclude each other
_PROFILE_APART = (
    "; with a load of its own through the router: python3 -m sglang.bench_serving --profile --pd-separated "
    "--profile-$role-url {url}"
)

PROFILE = EngineProfile(
    name="sglang",
    routing=Routing.CONCURRENT,
    prefill_finish_includes_transfer=True,
    dp_splits_tp=True,
    replicates_mla=True,
    default_page_tokens=1,
    settings=settings.SETTINGS,
    lacks=settings.LACKS,
    queries=settings.QUERIES,
    enable={
        "metrics": "--enable-metrics",
        "max_running_requests": "/v1/loads (0.5.17 and newer), or max_running of the instance in the configuration",
        "prefill_busy_ratio": "/v1/loads (SGLang 0.5.17 and newer), or SGLANG_ENABLE_METRICS_DEVICE_TIMER=1",
    },
    profiling={
        Role.PREFILL: _PROFILE + _PROFILE_APART.replace("$role", "prefill"),
        Role.DECODE: _PROFILE + _PROFILE_APART.replace("$role", "decode"),
        Role.UNIFIED: _PROFILE,
    },
)

_DECODES = (Role.DECODE, Role.UNIFIED)
_PROMISED = (
    promise(
        *(Metric.RUNNING, Metric.WAITING_CAPACITY, Metric.KV_USAGE),
        *(Metric.PREFILL_BOOTSTRAP_QUEUE, Metric.PREFILL_TRANSFER_QUEUE),
        *(Metric.DECODE_ALLOCATION_QUEUE, Metric.DECODE_TRANSFER_QUEUE),
        *(Metric.REQUESTS_FINISHED, Metric.PROMPT_TOKENS),
    ),
    promise(Metric.TTFT, Metric.ITL, Metric.GENERATED_TOKENS, roles=_DECODES),
    promise(Metric.QUEUE_TIME, since="0.5.2"),
    promise(Metric.EXPOSED_TRANSFER_TIME, since="0.5.3", roles={Role.PREFILL}),
    promise(Metric.KV_POOL_TOKENS, Metric.KV_POOL_TOKENS_PER_RANK, since="0.5.6"),
    promise(Metric.CONTEXT_TOKENS, since="0.5.7", roles=_DECODES),
    promise(Metric.KV_TRANSFER_TIME, Metric.KV_TRANSFER_BYTES, since="0.5.10", roles={Role.PREFILL}),
    promise(Metric.PAGE_TOKENS, Metric.KV_POOL_PAGES, since="0.5.11"),
    promise(Metric.KV_POOL_BYTES, since="0.5.17"),
    promise(Metric.IDLE, since="0.5.20"),
    promise(Metric.KV_USAGE_IN_TRANSFER, since="0.5.23", roles={Role.DECODE}),
)

METRICS = Adapter(
    name="sglang",
    probe=("sglang:",),
    rank_labels=("dp_rank",),
    repeated=("pp_rank", "tp_rank", "moe_ep_rank"),
    summed=frozenset({Metric.KV_TRANSFER_BYTES}),
    totals=("priority",),
    facts={Fact.ROLE: "engine_type", Fact.MODEL: "model_name"},
    roles=_ROLES,
    profile=PROFILE,
    promised=_PROMISED,
    series={
        Metric.RUNNING: (Series("sglang:num_running_reqs"),),
        Metric.WAITING_CAPACITY: (Series("sglang:num_queue_reqs"),),
        Metric.PREFILL_BOOTSTRAP_QUEUE: (
            Series("sglang:num_prefill_bootstrap_queue_reqs"),
            Series("sglang:num_prefill_prealloc_queue_reqs"),  # up to 0.5.11
        ),
        Metric.PREFILL_TRANSFER_QUEUE: (
            Series("sglang:num_prefill_inflight_queue_reqs"),
            Series("sglang:num_prefill_infight_queue_reqs"),  # up to 0.4.10.post2
        ),
        Metric.DECODE_ALLOCATION_QUEUE: (Series("sglang:num_decode_prealloc_queue_reqs"),),
        Metric.DECODE_TRANSFER_QUEUE: (Series("sglang:num_decode_transfer_queue_reqs"),),
        Metric.HTTP_ACTIVE: (Series("sglang:http_requests_active", {"method": "POST"}),),
        Metric.KV_USAGE: (Series("sglang:full_token_usage"), Series("sglang:token_usage")),
        Metric.KV_USAGE_IN_TRANSFER: (Series("sglang:prealloc_full_token_usage"),),
        Metric.KV_POOL_TOKENS: (Series("sglang:max_total_num_tokens"),),
        Metric.KV_POOL_TOKENS_PER_RANK: (Series("sglang:max_total_num_tokens"),),
        Metric.KV_POOL_BYTES: (Series("sglang:kv_cache_memory_usage_gb", scale=_GIB),),
        Metric.WEIGHT_BYTES_PER_RANK: (Series("sglang:weight_memory_usage_gb", scale=_GIB),),
        Metric.KV_POOL_PAGES: (Series("sglang:num_pages"),),
        Metric.PAGE_TOKENS: (Series("sglang:page_size"),),
        Metric.CONTEXT_TOKENS: (Series("sglang:decode_sum_seq_lens"),),
        Metric.REQUESTS_FINISHED: (Series("sglang:num_requests_total"),),
        Metric.PROMPT_TOKENS: (Series("sglang:prompt_tokens_total"),),
        Metric.GENERATED_TOKENS: (
            Series("sglang:realtime_tokens_total", {"mode": "decode"}, lazy=True),
            Series("sglang:generation_tokens_total"),
        ),
        Metric.PREFILL_COMPUTED_TOKENS: (
            Series("sglang:realtime_tokens_total", {"mode": "prefill_compute"}, lazy=True),
        ),
        Metric.PREFILL_CACHED_TOKENS: (Series("sglang:realtime_tokens_total", {"mode": "prefill_cache"}, lazy=True),),
        Metric.PREFILL_BUSY: (
            Series("sglang:forward_execution_seconds_total", {"category": "extend"}),
            Series("sglang:gpu_execution_seconds_total", {"category": "extend"}),  # 0.5.7 to 0.5.10
        ),
        Metric.DECODE_BUSY: (
            Series("sglang:forward_execution_seconds_total", {"category": "decode"}),
            Series("sglang:gpu_execution_seconds_total", {"category": "decode"}),  # 0.5.7 to 0.5.10
        ),
        Metric.GRAPH_STEPS: (Series("sglang:cuda_graph_passes_total", {"mode": "decode_cuda_graph"}, lazy=True),),
        Metric.EAGER_STEPS: (Series("sglang:cuda_graph_passes_total", {"mode": "decode_none"}, lazy=True),),
        Metric.TOKENIZER_CPU: (Series("sglang:process_cpu_seconds_total", {"component": "tokenizer"}),),
        Metric.DETOKENIZER_CPU: (Series("sglang:process_cpu_seconds_total", {"component": "detokenizer"}),),
        Metric.IDLE: (Series("sglang:scheduler_idle_seconds_total"),),
        Metric.STEPS: (Series("sglang:cuda_graph_passes_total", lazy=True),),  # of all modes: with a graph and without
        Metric.PREEMPTIONS: (Series("sglang:num_retracted_requests_total", lazy=True),),
        Metric.TRANSFER_FAILURES: (
            Series("sglang:num_transfer_failed_reqs_total", lazy=True),
            Series("sglang:num_transfer_failed_reqs"),
        ),
        Metric.BOOTSTRAP_FAILURES: (
            Series("sglang:num_bootstrap_failed_reqs_total", lazy=True),
            Series("sglang:num_bootstrap_failed_reqs"),
        ),
        Metric.TTFT: (Series("sglang:time_to_first_token_seconds", _STREAMING, lazy=True),),
        Metric.ITL: (Series("sglang:inter_token_latency_seconds", lazy=True),),
        Metric.TPOT: (Series("sglang:request_time_per_output_token_seconds", _STREAMING, lazy=True),),  # from 0.5.22
        Metric.PROMPT_LENGTH: (Series("sglang:prompt_tokens_histogram"),),
        Metric.QUEUE_TIME: (
            Series("sglang:queue_time_seconds", lazy=True),
            Series("sglang:queue_time_s"),  # 0.5.2
        ),
        Metric.PREFILL_TIME: _stage("prefill_forward"),
        Metric.EXPOSED_TRANSFER_TIME: _stage("prefill_transfer_kv_cache"),
        Metric.DECODE_PREPARE_TIME: _stage("decode_prepare"),
        Metric.DECODE_BOOTSTRAP_TIME: _stage("decode_bootstrap"),
        Metric.DECODE_TRANSFERRED_TIME: _stage("decode_transferred"),
        Metric.DECODE_WAITING_TIME: _stage("decode_waiting"),
        Metric.KV_TRANSFER_TIME: (Series("sglang:kv_transfer_latency_ms", scale=1e-3, lazy=True),),
        Metric.KV_TRANSFER_BYTES: (Series("sglang:kv_transfer_total_mb", scale=_MIB, lazy=True),),
        Metric.ALLOCATION_TIME: (Series("sglang:kv_transfer_alloc_ms", scale=1e-3, lazy=True),),
        Metric.HANDSHAKE_TIME: (Series("sglang:kv_transfer_bootstrap_ms", scale=1e-3, lazy=True),),
    },
    infos={
        Metric.PAGE_TOKENS: (InfoLabel("sglang:cache_config_info", "page_size"),),  # 0.5.9 and 0.5.10
        Metric.KV_POOL_PAGES: (InfoLabel("sglang:cache_config_info", "num_pages"),),  # 0.5.9 and 0.5.10
    },
)


def flatten_loads(body: bytes) -> bytes:
    """`/v1/loads` (JSON) as exposition lines, one set a data-parallel rank.

    The snapshot is refreshed at least every 50 ms even where requests are parked and no batch runs, when the gauges of
    `/metrics` freeze (managers/scheduler.py, `on_idle`).

    Raises:
        PageError: the body is not what `/v1/loads` answers.
    """
    try:
        document = json.loads(body)
        lines = list(_lines(document))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise PageError(f"not a /v1/loads answer: {error}") from error
    return ("\n".join(lines) + "\n").encode()


_MOMENTS = ("decode_steps", "decode_step_requests", "decode_step_us")
"""The first of `decode_moments`: contiguous decode steps under 2 s, their batch sizes and times added up."""


def _lines(document: Any) -> Iterator[str]:
    loads = document["loads"] if isinstance(document, dict) and "loads" in document else None
    if not isinstance(loads, list):
        message = "it has no list `loads`"
        raise TypeError(message)
    mode = None
    for load in loads:
        groups: tuple[tuple[str, Mapping[str, Any]], ...] = (
            ("", load),
            ("disaggregation_", load.get("disaggregation") or {}),
            ("queues_", load.get("queues") or {}),
            ("memory_", load.get("memory") or {}),
        )
        mode = groups[1][1].get("mode") or mode
        rank = int(load.get("dp_rank", 0))
        for name, value in zip(_MOMENTS, load.get("decode_moments") or (), strict=False):
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                yield f'sglang_loads:{name}{{dp_rank="{rank}"}} {value}'
        for prefix, values in groups:
            for name, value in values.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool) and _FIELD.fullmatch(name):
                    yield f'sglang_loads:{prefix}{name}{{dp_rank="{rank}"}} {value}'
    version = document.get("version")
    known_version = version if isinstance(version, str) and _VERSION.fullmatch(version) else ""
    yield f'sglang_loads:info{{version="{known_version}",mode="{mode if mode in _ROLES else ""}"}} 1'


LOADS = Adapter(
    name="sglang_loads",
    probe=("sglang_loads:",),
    rank_labels=("dp_rank",),
    labelled=("sglang_loads:info",),
    facts={Fact.ENGINE_VERSION: "version", Fact.ROLE: "mode"},
    roles=_ROLES,
    flatten=flatten_loads,
    profile=PROFILE,
    promised=(promise(Metric.RUNNING, Metric.KV_POOL_TOKENS), promise(Metric.MAX_RUNNING, since="0.5.17")),
    series={
        Metric.RUNNING: (Series("sglang_loads:num_running_reqs"),),
        Metric.WAITING_CAPACITY: (Series("sglang_loads:queues_waiting"),),
        Metric.PREFILL_BOOTSTRAP_QUEUE: (
            Series("sglang_loads:disaggregation_prefill_bootstrap_queue_reqs"),
            Series("sglang_loads:disaggregation_prefill_prealloc_queue_reqs"),  # up to 0.5.11
        ),
        Metric.PREFILL_TRANSFER_QUEUE: (Series("sglang_loads:disaggregation_prefill_inflight_queue_reqs"),),
        Metric.DECODE_ALLOCATION_QUEUE: (Series("sglang_loads:disaggregation_decode_prealloc_queue_reqs"),),
        Metric.DECODE_TRANSFER_QUEUE: (Series("sglang_loads:disaggregation_decode_transfer_queue_reqs"),),
        Metric.MAX_RUNNING: (Series("sglang_loads:max_running_requests", valid=(1, 1e9)),),
        Metric.KV_POOL_TOKENS: (Series("sglang_loads:max_total_num_tokens"),),
        Metric.KV_POOL_TOKENS_PER_RANK: (Series("sglang_loads:max_total_num_tokens"),),
        Metric.KV_POOL_BYTES: (Series("sglang_loads:memory_kv_cache_gb", scale=_GIB),),
        Metric.WEIGHT_BYTES_PER_RANK: (Series("sglang_loads:memory_weight_gb", scale=_GIB),),
        Metric.PREFILL_BUSY: (Series("sglang_loads:total_prefill_busy_us", scale=1e-6),),
        Metric.DECODE_STEPS: (Series("sglang_loads:decode_steps"),),
        Metric.DECODE_STEP_REQUESTS: (Series("sglang_loads:decode_step_requests"),),
        Metric.DECODE_STEP_TIME: (Series("sglang_loads:decode_step_us", scale=1e-6),),
    },
)

ADAPTERS = (METRICS, LOADS)
