"""The control path is slow."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import SGLANG_70B, Scenario, changed

SCENARIO = Scenario(
    name="kv_transfer_setup",
    story="The control path is slow: the two legs need two seconds to find each other before any byte moves.",
    watch="bootstrap time is nearly all of TTFT; link, memory and slots are free.",
    draw=changed(SGLANG_70B, link={"bootstrap_seconds": 2.0}, traffic={"concurrency": 10}),
    verdict="kv_transfer_setup",
)
