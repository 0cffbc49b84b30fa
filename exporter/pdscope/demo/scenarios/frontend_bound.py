"""The router needs 0.42 s for each request, one at a time."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import SGLANG_70B, Scenario, changed

SCENARIO = Scenario(
    name="frontend_bound",
    story="The router needs half a second for each request, one at a time.",
    watch="TTFT at the router is seconds, at the engines it is what it always was.",
    draw=changed(SGLANG_70B, frontend={"router_seconds": 0.5}, traffic={"concurrency": 12}),
    verdict="frontend_bound",
)
