"""Decode has fewer slots than there are requests."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import SGLANG_70B, Scenario, changed

SCENARIO = Scenario(
    name="decode_admission",
    story="Decode may hold six requests at once, and twelve are there.",
    watch="requests wait for decode's allocation, which is most of TTFT; ITL is better than ever, its batch is capped.",
    draw=changed(SGLANG_70B, decode={"slots": 6}, traffic={"concurrency": 12}),
    verdict="decode_admission",
)
