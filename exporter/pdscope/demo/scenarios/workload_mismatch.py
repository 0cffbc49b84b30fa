"""Prompts of a hundred tokens."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import VLLM_8B, Scenario, changed

SCENARIO = Scenario(
    name="workload_mismatch",
    story="Prompts of a hundred tokens: moving their KV takes longer than computing it again would.",
    watch="the transfer is the largest part of a TTFT that has nothing else in it.",
    draw=changed(
        VLLM_8B,
        traffic={"prompt_tokens": 100.0, "output_tokens": 60.0},
        link={"latency_seconds": 0.02},
        slo={"ttft_p50_seconds": 0.036},
    ),
    verdict="workload_mismatch",
)
