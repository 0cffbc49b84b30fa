"""Two instances of four H100 each serve 2.5 requests/s of 2,000 tokens with room everywhere."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import SGLANG_70B_AT_EASE, Scenario

SCENARIO = Scenario(
    name="healthy",
    story="Two instances of four H100 each serve 2.5 requests/s of 2,000 tokens with room everywhere.",
    watch="TTFT p50 under half a second, queues near zero, the link a few percent used.",
    draw=SGLANG_70B_AT_EASE,
    verdict="healthy",
)
