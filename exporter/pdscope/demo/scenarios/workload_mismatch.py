"""Prompts so short that handing them over costs more than it saves."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import VLLM_8B, Scenario, changed

SCENARIO = Scenario(
    name="workload_mismatch",
    story="Prompts of sixty tokens: handing their KV over takes longer than computing it.",
    watch="the transfer is the largest part of a TTFT that has nothing else in it.",
    draw=changed(
        VLLM_8B,
        link={"page_tokens": 16, "latency_seconds": 0.02},
        traffic={"prompt_tokens": 60.0, "output_tokens": 60.0},
        slo={"ttft_p50_seconds": 0.036},
    ),
    verdict="workload_mismatch",
)
