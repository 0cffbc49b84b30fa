"""Small blocks and dear descriptors: posting a transfer takes longer than moving it."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import VLLM_70B, Scenario, changed

SCENARIO = Scenario(
    name="kv_transfer_fragmented",
    story="Blocks of 16 tokens make tens of thousands of descriptors of 8 KiB, and posting one costs 25 µs.",
    watch="posting descriptors takes longer than moving the bytes.",
    draw=changed(VLLM_70B, link={"page_tokens": 16, "descriptor_seconds": 25e-6}, traffic={"concurrency": 8}),
    verdict="kv_transfer_fragmented",
)
