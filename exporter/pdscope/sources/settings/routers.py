"""smg 1.13, sglang_router 0.3 and vllm-router 0.1: read in the arguments (`router_args.py`) of the wheels."""

from __future__ import annotations

from collections.abc import Mapping

_COMMON: Mapping[str, str] = {
    "keep_prefix_cache": "--prefill-policy cache_aware",
    "less_affinity": "--balance-abs-threshold and --balance-rel-threshold lower, or --cache-threshold higher",
    "shed_load": "--max-concurrent-requests, with --queue-size and --queue-timeout-secs for those that wait",
}

SMG: Mapping[str, str] = {
    **_COMMON,
    "router_policy": "--prefill-policy, --decode-policy: power_of_two (or least_load of smg 1.13)",
    "check_roles": "--pd-disaggregation with --prefill URL PORT and --decode URL",
    "restore_metrics": "--prometheus-host and --prometheus-port",
    "fewer_series": "--prometheus-duration-buckets",
}

VLLM_ROUTER: Mapping[str, str] = {
    **_COMMON,
    "router_policy": "--prefill-policy, --decode-policy: power_of_two",
    "check_roles": "--vllm-pd-disaggregation with --prefill URL and --decode URL",
    "restore_metrics": "--prometheus-host and --prometheus-port",
}

LLM_D: Mapping[str, str] = {
    "restore_metrics": "--metrics-port of the endpoint picker",
}
