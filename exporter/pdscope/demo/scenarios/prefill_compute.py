"""More prompts than prefill can compute."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import SGLANG_70B, Scenario, changed

SCENARIO = Scenario(
    name="prefill_compute",
    story="Thirty users at once: prefill computes all the time and still falls behind.",
    watch="prefill's queue and TTFT grow, its tensor cores are at their limit, ITL stays.",
    draw=changed(SGLANG_70B, traffic={"concurrency": 30}),
    verdict="prefill_compute",
)
