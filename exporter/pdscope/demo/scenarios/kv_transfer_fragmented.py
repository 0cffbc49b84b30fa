"""Pages of one token."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import VLLM_70B, Scenario, changed

SCENARIO = Scenario(
    name="kv_transfer_fragmented",
    story="Pages of one token: a prompt is hundreds of thousands of descriptors of 4 KiB.",
    watch="posting descriptors takes longer than moving the bytes.",
    draw=changed(VLLM_70B, link={"page_tokens": 1, "descriptor_seconds": 5e-6}),
    verdict="kv_transfer_fragmented",
)
