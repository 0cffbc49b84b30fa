"""Steps of decode take now one time, now twice as long, for a reason that no metric tells."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import SGLANG_70B_AT_EASE, Scenario, changed

SCENARIO = Scenario(
    name="undetermined",
    story="Something outside the engine holds up single steps of decode, now and then for twice their time.",
    watch="ITL p95 over its objective with a median far below; the answer lists what it is not, and names no stage.",
    draw=changed(SGLANG_70B_AT_EASE, decode={"jitter": 1.2}, slo={"itl_p95_seconds": 0.05}),
    verdict="undetermined",
)
