"""One card of prefill runs at 40 % of its clock, and the others wait for it in every layer."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import SGLANG_70B, Scenario, changed

SCENARIO = Scenario(
    name="hardware_degraded",
    story="One card of prefill runs at 40 % of its clock, and the others wait for it in every layer.",
    watch="its clock far below that of its peers; prefill's queue and TTFT grow.",
    draw=changed(SGLANG_70B, prefill={"slow_rank": 0.4}, traffic={"concurrency": 12}),
    verdict="hardware_degraded",
)
