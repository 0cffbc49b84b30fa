"""Each step of decode takes another time, for a reason that no metric tells."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import SGLANG_70B_AT_EASE, Scenario, changed

SCENARIO = Scenario(
    name="undetermined",
    story="Something that no metric tells of takes turns on decode's devices: each step takes another time.",
    watch="ITL p95 over its objective, the median well within; the answer lists what it is not, and names no stage.",
    draw=changed(SGLANG_70B_AT_EASE, decode={"jitter": 1.2}, slo={"itl_p50_seconds": 0.04, "itl_p95_seconds": 0.04}),
    verdict="undetermined",
)
