"""vLLM 0.9 to 0.33: read in the arguments (`engine/arg_utils.py`, `config`) of the wheels."""

from __future__ import annotations

from collections.abc import Mapping

from pdscope.sources.settings.routers import VLLM_ROUTER

_LEASE = (
    "kv_lease_duration in kv_connector_extra_config of prefill, 30 s (NIXL, 0.22 and newer; "
    "VLLM_NIXL_ABORT_REQUEST_TIMEOUT before, ignored since)"
)
_NICS = "UCX_NET_DEVICES (NIXL)"

SETTINGS: Mapping[str, str] = {
    "raise_running_limit": "--max-num-seqs",
    "limit_running": "--max-num-seqs",
    "limit_running_to_graphs": "--max-num-seqs",
    "free_decode_memory": "--gpu-memory-utilization, or --kv-cache-memory-bytes (0.11 and newer)",
    "free_prefill_memory": "--gpu-memory-utilization, or --kv-cache-memory-bytes (0.11 and newer)",
    "quantise_kv": "--kv-cache-dtype fp8 on both roles",
    "quantise_weights": "--quantization fp8, or a checkpoint that is quantised",
    "speculative_decoding": "--speculative-config with its draft model",
    "capture_larger_graphs": "--max-cudagraph-capture-size, --cudagraph-capture-sizes (0.11 and newer)",
    "capture_graphs": "without --enforce-eager",
    "overlap_scheduler": "--async-scheduling (off by default up to 0.13; on from 0.14 where nothing excludes it, "
    "but not with --no-async-scheduling)",
    "decode_prefix_cache": "--enable-prefix-caching on decode",
    "separate_long_prompts": "--long-prefill-token-threshold, --max-num-batched-tokens",
    "raise_token_budget": "--max-num-batched-tokens",
    "use_more_nics": _NICS,
    "check_topology": _NICS,
    "separate_traffic": _NICS,
    "check_transport": "UCX_TLS and UCX_NET_DEVICES (NIXL); mooncake_protocol of the connector (Mooncake)",
    "more_tensor_parallel": "--tensor-parallel-size",
    "equal_parallelism": "--tensor-parallel-size on both roles",
    "larger_pages": "--block-size on both roles",
    "check_shapes": "--block-size, --kv-cache-dtype, --tensor-parallel-size on both roles",
    "check_roles": "--kv-transfer-config (kv_connector, kv_role)",
    "unify": "without --kv-transfer-config",
    "more_transfer_threads": "num_workers in kv_connector_extra_config, 10 (Mooncake only)",
    "longer_lease": _LEASE,
    "shorter_lease": _LEASE,
    "fail_on_expiry": "kv_load_failure_policy in --kv-transfer-config, `fail` from 0.19 on, for loads that fail; no "
    "setting stops a late read: the router has to drop a request whose prefill is older than kv_lease_duration",
    "balance_ranks": "without --data-parallel-external-lb: its own balancing goes by what each rank holds",
    "scale_frontend": "--api-server-count",
    "fewer_stream_events": "--stream-interval (0.11 and newer)",
    "router_policy": f"of vllm-router: {VLLM_ROUTER['router_policy']}",
    "less_affinity": f"of vllm-router: {VLLM_ROUTER['less_affinity']}",
    "keep_prefix_cache": f"of vllm-router: {VLLM_ROUTER['keep_prefix_cache']}",
    "shed_load": "--max-num-queued-reqs, --max-num-queued-tokens (0.32 and newer)",
    "restore_metrics": "without --disable-log-stats: with it there is no metric at all",
    "fewer_series": "--custom-histogram-buckets (0.32 and newer)",
}

LACKS = frozenset({"reserve_fewer_tokens", "staging_buffer", "more_transfer_queues"})
"""It reserves blocks as tokens come, and its connectors send each block from where it lies."""


def _mean(name: str) -> str:
    return f"sum by (instance) (rate({name}_sum$at[5m])) / sum by (instance) (rate({name}_count$at[5m]))"


QUERIES: Mapping[str, str] = {
    "decode_admission_queue_requests": "sum by (instance, stage) (vllm:num_requests_kv_fetch_by_stage$at)",
    "prefill_queue_requests": "sum by (instance) (vllm:num_requests_waiting$at)",
    "kv_transfers_in_flight": "sum by (instance) (rate(vllm:nixl_xfer_time_seconds_sum$at[5m]))",
    "kv_transfer_ttft_share_ratio": _mean("vllm:nixl_xfer_time_seconds"),
    "kv_transfer_moving_ratio": "sum by (instance) (rate(vllm:nixl_bytes_transferred_sum$at[5m]))",
    "kv_transfer_post_ratio": "sum by (instance) (rate(vllm:nixl_post_time_seconds_sum$at[5m])) "
    "/ sum by (instance) (rate(vllm:nixl_xfer_time_seconds_sum$at[5m]))",
    "kv_descriptor_bytes": "sum by (instance) (rate(vllm:nixl_bytes_transferred_sum$at[5m])) "
    "/ sum by (instance) (rate(vllm:nixl_num_descriptors_sum$at[5m]))",
    "kv_transfer_setup_ratio": 'sum by (instance) (vllm:num_requests_kv_fetch_by_stage{stage="in_progress",$in})',
    "transfer_failures_per_second": "sum by (instance) (rate(vllm:nixl_num_failed_transfers_total$at[5m]))",
    "kv_leases_expired_per_second": "sum by (instance) (rate(vllm:nixl_num_kv_expired_reqs_total$at[5m]))",
    "late_kv_reads_per_second": "sum by (instance) (rate(vllm:nixl_num_notifications_after_expiry_total$at[5m]))",
    "kv_usage_ratio": "max by (instance) (vllm:kv_cache_usage_perc$at)",
    "kv_usage_net_ratio": "max by (instance) (vllm:kv_cache_usage_perc$at)",
    "preemptions_per_second": "sum by (instance) (rate(vllm:num_preemptions_total$at[5m]))",
    "running_to_limit_ratio": "sum by (instance) (vllm:num_requests_running$at)",
    "rank_imbalance_ratio": "sum by (instance, engine) (vllm:num_requests_running$at)",
    "work_in_flight_least_requests": "sum by (instance) (vllm:num_requests_running$at)",
    "work_in_flight_requests": "sum by (instance) (vllm:num_requests_running$at)",
    "instance_generation_tokens_per_second": "sum by (instance) (rate(vllm:generation_tokens_total$at[5m]))",
    "kv_received_share_ratio": "sum by (instance, source) (rate(vllm:prompt_tokens_by_source_total$at[5m]))",
    "itl_to_step_ratio": "sum by (instance) (rate(vllm:iteration_tokens_total_count$at[5m]))",
}
"""Signal -> PromQL of the series behind it; `$at` stands for a selector of the instances, `$in` for its inside."""
