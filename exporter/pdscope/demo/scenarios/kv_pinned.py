"""Clients hang up."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import VLLM_70B, Scenario, changed

SCENARIO = Scenario(
    name="kv_pinned",
    story="Clients hang up: half of the computed prompts are never fetched, and prefill keeps them until their lease ends.",
    watch="prefill's KV pool is full with nothing running, requests wait there, decode is idle.",
    draw=changed(VLLM_70B, traffic={"orphan_share": 0.5}, prefill={"pool_tokens": 60_000}),
    verdict="kv_pinned",
)
