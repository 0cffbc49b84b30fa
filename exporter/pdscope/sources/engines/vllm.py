"""vLLM 0.9 to 0.33, with the NIXL connector and, as of 0.33, Mooncake's.

Read in the wheels and observed on vLLM 0.32.0 (vllm/v1/metrics/loggers.py, kv_connector/v1/nixl). What matters here:

* With a sequential router (vllm-router, NIXL) prefill answers before decode is asked: the user waits for both TTFTs.
* A prefill instance pins finished KV until decode has read it; decode allocates before it pulls. Usage is judged net.
* NIXL counts on the side that initiates (decode for pull), one observation for each remote rank: bytes are exact.
  Mooncake pushes, so its histograms fill on prefill.
* `num_requests_waiting` is capacity plus deferred (0.22 and newer); the stages of the KV fetch exist from 0.32 on.
"""

from __future__ import annotations

from pdscope.model.metric import Fact, Metric
from pdscope.model.topology import EngineProfile, Role, Routing
from pdscope.sources.adapter import Adapter, InfoLabel, Series
from pdscope.sources.promises import promise
from pdscope.sources.settings import vllm as settings


def _fetch(stage: str) -> tuple[Series, ...]:
    return (Series("vllm:num_requests_kv_fetch_by_stage", {"stage": stage}),)


def _tokens(source: str) -> tuple[Series, ...]:
    return (Series("vllm:prompt_tokens_by_source_total", {"source": source}),)


_POSITIVE = (1e-300, 1.7e308)

_PROFILING = (
    "curl -X POST {url}/start_profile && sleep 10 && curl -X POST {url}/stop_profile  # the server has to be started "
    'with --profiler-config \'{{"profiler": "torch", "torch_profiler_dir": "/tmp/traces"}}\' (0.13 and newer; '
    "VLLM_TORCH_PROFILER_DIR before)"
)

PROFILE = EngineProfile(
    name="vllm",
    routing=Routing.SEQUENTIAL,
    prefill_finish_includes_transfer=False,
    replicates_mla=True,
    default_page_tokens=16,
    settings=settings.SETTINGS,
    lacks=settings.LACKS,
    queries=settings.QUERIES,
    enable={
        "metrics": "remove --disable-log-stats",
        "max_running_requests": "max_running of the instance in the configuration: vLLM exports --max-num-seqs nowhere",
        "prefill_busy_ratio": "device telemetry (dcgm-exporter), or --enable-mfu-metrics",
    },
    profiling=dict.fromkeys((Role.PREFILL, Role.DECODE, Role.UNIFIED), _PROFILING),
)

ADAPTERS = (
    Adapter(
        name="vllm",
        probe=("vllm:",),
        rank_labels=("engine",),
        facts={Fact.MODEL: "model_name"},
        profile=PROFILE,
        promised=(
            promise(
                *(Metric.RUNNING, Metric.WAITING, Metric.KV_USAGE, Metric.PREEMPTIONS, Metric.STEPS),
                *(Metric.PROMPT_TOKENS, Metric.GENERATED_TOKENS, Metric.REQUESTS_FINISHED, Metric.PROMPT_LENGTH),
                *(Metric.TTFT, Metric.ITL, Metric.QUEUE_TIME, Metric.PREFILL_TIME),
            ),
            promise(Metric.PREFILL_COMPUTED_TOKENS, Metric.KV_RECEIVED_TOKENS, since="0.16"),
            promise(Metric.WAITING_CAPACITY, since="0.22"),
            promise(
                *(Metric.KV_FETCH_WAITING, Metric.KV_FETCH_ACTIVE, Metric.KV_FETCH_LANDED),
                since="0.32",
                roles={Role.DECODE},
            ),
        ),
        series={
            Metric.RUNNING: (Series("vllm:num_requests_running"),),
            Metric.WAITING: (Series("vllm:num_requests_waiting"),),
            Metric.WAITING_CAPACITY: (Series("vllm:num_requests_waiting_by_reason", {"reason": "capacity"}),),
            Metric.KV_FETCH_WAITING: _fetch("waiting_to_start"),
            Metric.KV_FETCH_ACTIVE: _fetch("in_progress"),
            Metric.KV_FETCH_LANDED: _fetch("completed_waiting"),
            Metric.KV_USAGE: (
                Series("vllm:kv_cache_usage_perc"),
                Series("vllm:gpu_cache_usage_perc"),  # up to 0.11
            ),
            Metric.REQUESTS_FINISHED: (Series("vllm:request_success_total"),),
            Metric.PROMPT_TOKENS: (Series("vllm:prompt_tokens_total"),),
            Metric.GENERATED_TOKENS: (Series("vllm:generation_tokens_total"),),
            Metric.PREFILL_COMPUTED_TOKENS: _tokens("local_compute"),
            Metric.PREFILL_CACHED_TOKENS: (
                *_tokens("local_cache_hit"),
                Series("vllm:prefix_cache_hits_total"),  # before 0.16
                Series("vllm:gpu_prefix_cache_hits_total"),  # up to 0.11
            ),
            Metric.KV_RECEIVED_TOKENS: (
                *_tokens("external_kv_transfer"),
                Series("vllm:external_prefix_cache_hits_total"),  # 0.11.2 until 0.16: the connector's hits
            ),
            Metric.STEPS: (Series("vllm:iteration_tokens_total_count"),),
            # the series stand at 0 without --enable-mfu-metrics
            Metric.ESTIMATED_FLOP: (Series("vllm:estimated_flops_per_gpu_total", valid=_POSITIVE),),
            Metric.ESTIMATED_HBM_READ: (Series("vllm:estimated_read_bytes_per_gpu_total", valid=_POSITIVE),),
            Metric.ESTIMATED_HBM_WRITTEN: (Series("vllm:estimated_write_bytes_per_gpu_total", valid=_POSITIVE),),
            Metric.PREEMPTIONS: (Series("vllm:num_preemptions_total"),),
            Metric.TRANSFER_FAILURES: (
                Series("vllm:nixl_num_failed_transfers_total"),
                Series("vllm:mooncake_num_failed_transfers_total"),  # from 0.33
            ),
            Metric.KV_EXPIRED: (
                Series("vllm:nixl_num_kv_expired_reqs_total"),
                Series("vllm:mooncake_num_kv_expired_reqs_total"),  # from 0.33
            ),
            Metric.LATE_KV_READS: (Series("vllm:nixl_num_notifications_after_expiry_total"),),  # from 0.32
            Metric.TTFT: (Series("vllm:time_to_first_token_seconds"),),
            Metric.ITL: (
                Series("vllm:inter_token_latency_seconds"),
                Series("vllm:time_per_output_token_seconds"),  # up to 0.11
            ),
            Metric.TPOT: (Series("vllm:request_time_per_output_token_seconds"),),  # from 0.11; on prefill all are 0
            Metric.PROMPT_LENGTH: (Series("vllm:request_prompt_tokens"),),
            Metric.QUEUE_TIME: (Series("vllm:request_queue_time_seconds"),),
            Metric.PREFILL_TIME: (Series("vllm:request_prefill_time_seconds"),),
            Metric.KV_TRANSFER_TIME: (
                Series("vllm:nixl_xfer_time_seconds"),
                Series("vllm:mooncake_xfer_time_seconds"),  # from 0.33
            ),
            Metric.KV_TRANSFER_BYTES: (
                Series("vllm:nixl_bytes_transferred"),
                Series("vllm:mooncake_bytes_transferred"),  # from 0.33
            ),
            Metric.KV_POST_TIME: (Series("vllm:nixl_post_time_seconds"),),
            Metric.KV_DESCRIPTORS: (
                Series("vllm:nixl_num_descriptors"),
                Series("vllm:mooncake_num_descriptors"),  # from 0.33
            ),
        },
        infos={
            Metric.PAGE_TOKENS: (InfoLabel("vllm:cache_config_info", "block_size"),),
            Metric.KV_POOL_PAGES: (InfoLabel("vllm:cache_config_info", "num_gpu_blocks"),),
            Metric.KV_POOL_TOKENS: (InfoLabel("vllm:cache_config_info", "kv_cache_size_tokens"),),
            # kv_cache_memory_bytes is what the user allows, and num_gpu_blocks_override uses less of it: no pool size
        },
    ),
)
