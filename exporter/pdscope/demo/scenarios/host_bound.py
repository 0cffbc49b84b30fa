"""The host needs 50 ms between two decode steps."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import VLLM_70B, Scenario, changed

SCENARIO = Scenario(
    name="host_bound",
    story="The host needs 50 ms between two decode steps.",
    watch="ITL is over its objective with devices that idle most of the time.",
    draw=changed(VLLM_70B, decode={"host_seconds": 0.05}),
    verdict="host_bound",
)
