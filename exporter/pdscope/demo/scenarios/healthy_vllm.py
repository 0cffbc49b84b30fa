"""The same machines and users as in healthy, under vLLM, whose decode pulls the KV."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import SGLANG_70B_AT_EASE, Scenario, changed

SCENARIO = Scenario(
    name="healthy_vllm",
    story="The same machines and users as in healthy, under vLLM, whose decode pulls the KV.",
    watch="TTFT p50 under half a second; no request waits for memory or slots.",
    draw=changed(SGLANG_70B_AT_EASE, engine="vllm"),
    verdict="healthy",
)
