"""The token budget of a prefill pass is 256, so the host's work for each pass counts many times."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import SGLANG_70B, Scenario, changed

SCENARIO = Scenario(
    name="prefill_queue",
    story="The token budget of a prefill pass is 256, so the host's work for each pass counts many times.",
    watch="requests queue for prefill although its tensor cores are not at their limit.",
    draw=changed(SGLANG_70B, prefill={"batch_tokens": 256, "pass_seconds": 0.03}, traffic={"concurrency": 12}),
    verdict="prefill_queue",
)
