"""All prompts have the same prefix, and the router sends them by it."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import SGLANG_70B_PAIRS, Scenario, changed

SCENARIO = Scenario(
    name="router_imbalance",
    story="All prompts share a prefix, and the router goes by it: one instance of each role gets everything.",
    watch="one prefill instance has the whole queue while its peer idles.",
    draw=changed(
        SGLANG_70B_PAIRS,
        frontend={"affinity": 1.0},
        traffic={"groups": 1, "concurrency": 56, "output_tokens": 400.0, "output_sigma": 0.3, "prompt_sigma": 0.3},
    ),
    verdict="router_imbalance",
)
