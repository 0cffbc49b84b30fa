"""Long answers outgrow a small KV pool on decode."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import VLLM_70B, Scenario, changed

SCENARIO = Scenario(
    name="decode_kv_capacity",
    story="Long answers outgrow a small KV pool on decode.",
    watch="the pool is full and requests are preempted: they queue and are computed again.",
    draw=changed(VLLM_70B, decode={"pool_tokens": 24_000}, traffic={"output_tokens": 500.0, "concurrency": 14}),
    verdict="decode_kv_capacity",
)
