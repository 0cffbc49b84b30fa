"""SGLang 0.5.3 to 0.5.23: read in the arguments (`server_args.py`, `arg_groups/fields`) and variables of the wheels."""

from __future__ import annotations

from collections.abc import Mapping

from pdscope.sources.settings.routers import SMG

_GRAPHS = "--cuda-graph-max-bs-decode, --cuda-graph-bs-decode (up to 0.5.13 --cuda-graph-max-bs, --cuda-graph-bs)"
_NICS = "--disaggregation-ib-device (a list, or JSON by device; with NIXL UCX_NET_DEVICES wins)"
_SWITCH = "--enable-pd-role-switch and POST /pd_role_switch, to turn an instance (0.5.21 and newer)"

SETTINGS: Mapping[str, str] = {
    "raise_running_limit": "--max-running-requests",
    "limit_running": "--max-running-requests",
    "limit_running_to_graphs": "--max-running-requests",
    "free_decode_memory": "--mem-fraction-static",
    "free_prefill_memory": "--mem-fraction-static",
    "reserve_fewer_tokens": "--num-reserved-decode-tokens (512 by default)",
    "quantise_kv": "--kv-cache-dtype fp8_e4m3 on both roles",
    "quantise_weights": "--quantization fp8, or a checkpoint that is quantised",
    "speculative_decoding": "--speculative-algorithm with its draft model",
    "capture_larger_graphs": _GRAPHS,
    "capture_graphs": "without --disable-decode-cuda-graph (0.5.14 and newer) or --disable-cuda-graph",
    "overlap_scheduler": "without --disable-overlap-schedule (the overlap scheduler is on by default)",
    "decode_prefix_cache": "--disaggregation-decode-enable-radix-cache (0.5.11 and newer)",
    "separate_long_prompts": "--chunked-prefill-size",
    "raise_token_budget": "--max-prefill-tokens, --chunked-prefill-size",
    "use_more_nics": _NICS,
    "check_topology": "--disaggregation-ib-device (JSON by device; with NIXL UCX_NET_DEVICES wins)",
    "separate_traffic": _NICS,
    "check_transport": "--disaggregation-transfer-backend (mooncake_tcp forces TCP), MOONCAKE_PROTOCOL=rdma",
    "more_tensor_parallel": "--tp-size",
    "equal_parallelism": "--tp-size on both roles",
    "larger_pages": "--page-size on both roles",
    "check_shapes": "--page-size, --kv-cache-dtype, --tp-size on both roles",
    "check_roles": "--disaggregation-mode prefill or decode",
    "unify": "without --disaggregation-mode",
    "staging_buffer": "SGLANG_DISAGG_STAGING_BUFFER=1 on both roles (0.5.10 and newer; Mooncake, NIXL; not MLA)",
    "more_transfer_threads": "SGLANG_DISAGGREGATION_THREAD_POOL_SIZE on prefill (Mooncake and Ascend only)",
    "more_transfer_queues": "SGLANG_DISAGGREGATION_QUEUE_SIZE on prefill, at most the thread pool (Mooncake)",
    "balance_ranks": "--load-balance-method total_requests or total_tokens (0.5.10 and newer; shortest_queue in 0.5.6)",
    "scale_frontend": "--tokenizer-worker-num, --detokenizer-worker-num (the latter 0.5.12 and newer)",
    "fewer_stream_events": "--stream-interval",
    "router_policy": f"of the gateway: {SMG['router_policy']}",
    "less_affinity": f"of the gateway: {SMG['less_affinity']}",
    "keep_prefix_cache": f"of the gateway: {SMG['keep_prefix_cache']}",
    "shed_load": "--max-queued-requests, ignored with --disaggregation-mode: there --max-concurrent-requests of smg",
    "add_prefill": _SWITCH,
    "add_decode": _SWITCH,
    "restore_metrics": "--enable-metrics: without it /metrics is 404",
    "fewer_series": "without --enable-metrics-for-all-schedulers; --bucket-time-to-first-token and the like",
}

LACKS = frozenset({"shorter_lease", "longer_lease", "fail_on_expiry"})
"""Its prefill holds KV until it is sent or the bootstrap gives up: there are no leases."""


def _mean(name: str, labels: str = "$at") -> str:
    return f"sum by (instance) (rate({name}_sum{labels}[5m])) / sum by (instance) (rate({name}_count{labels}[5m]))"


QUERIES: Mapping[str, str] = {
    "decode_admission_queue_requests": "max by (instance) (sglang:num_decode_prealloc_queue_reqs$at)",
    "prefill_queue_requests": "max by (instance) (sglang:num_queue_reqs$at)",
    "kv_transfers_in_flight": "max by (instance) (sglang:num_prefill_inflight_queue_reqs$at)",
    "kv_transfer_ttft_share_ratio": _mean(
        "sglang:per_stage_req_latency_seconds", '{stage="prefill_transfer_kv_cache",$in}'
    ),
    "kv_transfer_moving_ratio": "sum by (instance) (rate(sglang:kv_transfer_total_mb_sum$at[5m])) * 2 ^ 20",
    "kv_descriptor_bytes": "max by (instance) (sglang:page_size$at)",
    "kv_transfer_setup_ratio": _mean("sglang:kv_transfer_bootstrap_ms"),
    "transfer_failures_per_second": "sum by (instance) (rate(sglang:num_transfer_failed_reqs_total$at[5m]))",
    "kv_usage_ratio": "max by (instance) (sglang:full_token_usage$at)",
    "kv_usage_net_ratio": "max by (instance) (sglang:full_token_usage$at) "
    "- max by (instance) (sglang:prealloc_full_token_usage$at)",
    "preemptions_per_second": "max by (instance) (rate(sglang:num_retracted_requests_total$at[5m]))",
    "running_to_limit_ratio": "max by (instance) (sglang:num_running_reqs$at)",
    "rank_imbalance_ratio": "max by (instance, dp_rank) (sglang:num_running_reqs$at)",
    "work_in_flight_least_requests": "max by (instance) (sglang:num_running_reqs$at)",
    "work_in_flight_requests": "max by (instance) (sglang:num_running_reqs$at)",
    "instance_generation_tokens_per_second": "sum by (instance) "
    '(rate(sglang:realtime_tokens_total{mode="decode",$in}[5m]))',
    "cuda_graph_miss_ratio": 'max by (instance) (rate(sglang:cuda_graph_passes_total{mode="decode_none",$in}[5m]))',
    "frontend_cpu_ratio": "sum by (instance, component) (rate(sglang:process_cpu_seconds_total$at[5m]))",
    "ttft_unstaged_ratio": "sum by (instance, component) (rate(sglang:process_cpu_seconds_total$at[5m]))",
    "itl_to_step_ratio": "sum by (instance, component) (rate(sglang:process_cpu_seconds_total$at[5m]))",
    "decode_busy_ratio": 'max by (instance) (rate(sglang:forward_execution_seconds_total{category="decode",$in}[5m]))',
}
"""Signal -> PromQL of the series behind it; `$at` stands for a selector of the instances, `$in` for its inside."""
