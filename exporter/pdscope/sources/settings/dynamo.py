"""NVIDIA Dynamo 1.6: what is its own, and the engines' spellings, since its workers hand arguments to their engine."""

from __future__ import annotations

from collections.abc import Mapping

from pdscope.sources.settings import sglang, vllm

_OF_ENGINES = (
    *("raise_running_limit", "limit_running", "limit_running_to_graphs"),
    *("free_decode_memory", "free_prefill_memory", "reserve_fewer_tokens"),
    *("quantise_kv", "quantise_weights", "speculative_decoding", "decode_prefix_cache"),
    *("capture_larger_graphs", "capture_graphs", "overlap_scheduler", "fewer_stream_events"),
    *("separate_long_prompts", "raise_token_budget", "more_tensor_parallel", "shorter_lease", "longer_lease"),
    *("use_more_nics", "check_topology", "separate_traffic", "check_transport", "check_shapes", "fail_on_expiry"),
    *(
        "balance_ranks",
        "equal_parallelism",
        "larger_pages",
        "staging_buffer",
        "more_transfer_threads",
        "more_transfer_queues",
    ),
)


def _both(remedy: str) -> str:
    tables = (("vLLM", vllm.SETTINGS), ("SGLang", sglang.SETTINGS))
    return "of the engine: " + "; ".join(f"{name} {table[remedy]}" for name, table in tables if remedy in table)


SETTINGS: Mapping[str, str] = {
    **{remedy: _both(remedy) for remedy in _OF_ENGINES},
    "scale_frontend": "no flag: run more of dynamo.frontend",
    "router_policy": "--router-mode of dynamo.frontend",
    "keep_prefix_cache": "--router-mode kv of dynamo.frontend",
    "check_roles": "--disaggregation-mode prefill or decode of each worker",
    "unify": "workers without --disaggregation-mode",
    "restore_metrics": "DYN_SYSTEM_PORT on each worker: without it a worker has no page",
    "fewer_series": "DYN_METRICS_TTFT_COUNT, DYN_METRICS_ITL_COUNT (buckets of the frontend)",
    "add_prefill": "replicas of the prefill worker (the planner's `num_prefill_replicas`)",
    "add_decode": "replicas of the decode worker (the planner's `num_decode_replicas`)",
}

QUERIES: Mapping[str, str] = {
    "decode_admission_queue_requests": 'sum by (instance) (dynamo_frontend_stage_requests{stage="dispatch",$in})',
    "prefill_queue_requests": "sum by (instance, phase) "
    '(dynamo_frontend_stage_requests{stage="dispatch",phase="prefill",$in})',
    "kv_transfer_ttft_share_ratio": "sum by (instance) (rate(dynamo_component_request_duration_seconds_sum$at[5m])) "
    "/ sum by (instance) (rate(dynamo_component_request_duration_seconds_count$at[5m]))",
    "work_in_flight_least_requests": "sum by (instance) (dynamo_component_inflight_requests$at)",
    "work_in_flight_requests": "sum by (instance) (dynamo_component_inflight_requests$at)",
}
"""Signal -> PromQL of the series behind it; `$at` stands for a selector of the instances, `$in` for its inside."""
