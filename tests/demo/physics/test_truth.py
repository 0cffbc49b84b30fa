"""Each fault alone, put in as a cause, is found again as the label."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pdscope.demo.physics.draw import Draw
from pdscope.demo.physics.truth import truth

SECONDS = 25.0


def draw(base: Draw | None = None, /, **changes: Any) -> Draw:
    """A draw with parts of it changed: a dictionary changes fields of that part."""
    made = base or Draw(warm_up_seconds=10.0)
    for name, change in changes.items():
        value = replace(getattr(made, name), **change) if isinstance(change, dict) else change
        made = replace(made, **{name: value})
    return made


SMALL = draw(
    model="meta-llama/Llama-3.1-8B-Instruct",
    deployment={"prefill_devices": 1, "decode_devices": 1},
    traffic={"requests_per_second": 3.0},
)
PAIRS = {"prefill_instances": 2, "decode_instances": 2}

FAULTS: dict[str, tuple[Draw, str, str]] = {
    "narrow link": (draw(link={"nic_bytes_per_second": 0.5e9}), "link_bandwidth", "kv_transfer_bandwidth"),
    "narrow fabric": (
        draw(link={"shared_bytes_per_second": 1.5e9}, engine="vllm"),
        "link_bandwidth",
        "kv_transfer_bandwidth",
    ),
    "TCP fallback": (draw(link={"path_bytes_per_second": 0.4e9}), "link_path", "kv_transfer_path"),
    "pages of one token": (draw(link={"page_tokens": 1, "threads": 4}), "descriptor_cost", "kv_transfer_fragmented"),
    "dear descriptors": (draw(link={"descriptor_seconds": 200e-6}), "descriptor_cost", "kv_transfer_fragmented"),
    "slow bootstrap": (draw(link={"bootstrap_seconds": 2.0}), "handshake", "kv_transfer_setup"),
    "a pair that cannot talk": (
        draw(link={"failing_pairs": ((0, 0),)}, deployment=PAIRS),
        "link_health",
        "kv_transfer_failing",
    ),
    "clients that went away": (
        draw(traffic={"orphan_share": 0.5}, prefill={"pool_tokens": 60_000}, engine="vllm"),
        "orphans",
        "kv_pinned",
    ),
    "leases shorter than the queue": (
        draw(engine="vllm", decode={"slots": 10}, link={"lease_seconds": 0.2, "lease_renewed": False}),
        "lease",
        "decode_admission",
    ),
    "throttled cards": (draw(prefill={"compute_factor": 0.4}), "device_clocks", "hardware_degraded"),
    "one slow rank": (draw(prefill={"slow_rank": 0.4}), "device_clocks", "hardware_degraded"),
    "affinity": (
        draw(deployment=PAIRS, frontend={"affinity": 1.0}, traffic={"requests_per_second": 5.0, "groups": 1}),
        "router_skew",
        "router_imbalance",
    ),
    "slow router": (draw(frontend={"router_seconds": 0.42}), "frontend", "frontend_bound"),
    "slow detokenizer": (draw(frontend={"detokenize_seconds_per_token": 0.0025}), "frontend", "frontend_bound"),
    "few graphs": (
        draw(decode={"graph_ceiling": 4, "launch_seconds_per_layer": 800e-6}),
        "cuda_graphs",
        "cuda_graph_miss",
    ),
    "slow host": (draw(decode={"host_seconds": 0.05}), "host_overhead", "host_bound"),
    "small token budget": (
        draw(prefill={"batch_tokens": 256, "pass_seconds": 0.03}),
        "prefill_schedule",
        "prefill_queue",
    ),
    "lost prefix cache": (
        draw(
            prefill={"prefix_cache": False},
            traffic={"shared_tokens": 2500, "groups": 2, "requests_per_second": 4.5, "prompt_sigma": 0.1},
        ),
        "prefill_schedule",
        "prefill_queue",
    ),
    "few slots": (draw(decode={"slots": 6}), "decode_slots", "decode_admission"),
    "large reserve": (draw(decode={"reserved_tokens": 80_000}), "decode_reserve", "decode_admission"),
    "small pool": (draw(decode={"pool_tokens": 30_000}), "decode_memory", "decode_admission"),
    "pool that overflows": (
        draw(engine="vllm", decode={"pool_tokens": 32_000}, traffic={"output_tokens": 500.0}),
        "decode_memory",
        "decode_kv_capacity",
    ),
    "too many prompts": (draw(traffic={"requests_per_second": 5.0}), "prefill_compute", "prefill_compute"),
    "long contexts": (
        draw(
            SMALL,
            deployment={"prefill_instances": 3},
            traffic={
                "prompt_tokens": 12_000.0,
                "prompt_sigma": 0.3,
                "output_tokens": 700.0,
                "requests_per_second": 1.5,
            },
            slo={"itl_p50_seconds": 0.009},
        ),
        "decode_hbm",
        "decode_hbm_bandwidth",
    ),
    "short prompts": (
        draw(
            SMALL,
            traffic={"prompt_tokens": 100.0, "output_tokens": 60.0},
            link={"bootstrap_seconds": 0.004, "latency_seconds": 0.02},
            slo={"ttft_p50_seconds": 0.036},
        ),
        "disaggregation",
        "workload_mismatch",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_cause_that_was_put_in_comes_out_as_the_label(name: str) -> None:
    caused, resource, verdict = FAULTS[name]
    label = truth(caused, SECONDS)
    assert (label.resource, label.verdict) == (resource, verdict), label.ranking
    assert label.violation > 0.0


@pytest.mark.parametrize("base", [draw(), draw(engine="vllm"), SMALL])
def test_a_deployment_with_room_is_healthy(base: Draw) -> None:
    label = truth(base, SECONDS)
    assert (label.resource, label.verdict) == ("none", "healthy")


def test_two_faults_at_once_are_several() -> None:
    """Neither the router's nor the bootstrap's relief alone is enough."""
    both = draw(link={"bootstrap_seconds": 2.0}, frontend={"router_seconds": 0.45})
    label = truth(both, SECONDS)
    assert label.resource == "several"
    assert label.ranking[0].violation <= label.violation
    assert not label.restoring
