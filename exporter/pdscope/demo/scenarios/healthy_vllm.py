"""The same machines and users as in healthy, under vLLM, whose decode pulls the KV."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import VLLM_70B, Scenario

SCENARIO = Scenario(
    name="healthy_vllm",
    story="The same machines and users as in healthy, under vLLM, whose decode pulls the KV.",
    watch="TTFT p50 under half a second; no request waits for memory or slots.",
    draw=VLLM_70B,
    verdict="healthy",
)
