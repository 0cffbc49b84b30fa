"""Clients hang up before decode has fetched what prefill computed for them."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import VLLM_70B, Scenario, changed

SCENARIO = Scenario(
    name="kv_pinned",
    story="Clients hang up: five of six prompts are never fetched, and prefill keeps each until its lease ends.",
    watch="prefill's KV pool is full with next to nothing running, requests wait there, decode has room.",
    draw=changed(
        VLLM_70B,
        link={"page_tokens": 16, "lease_seconds": 12.0},
        prefill={"pool_tokens": 24_000},
        traffic={
            "orphan_share": 0.85,
            "concurrency": 60,
            "prompt_tokens": 700.0,
            "prompt_sigma": 0.3,
            "output_tokens": 400.0,
        },
    ),
    verdict="kv_pinned",
)
