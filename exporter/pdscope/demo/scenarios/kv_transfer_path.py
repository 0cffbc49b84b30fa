"""KV fell back to TCP."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import SGLANG_70B, Scenario, changed

SCENARIO = Scenario(
    name="kv_transfer_path",
    story="KV fell back to TCP: 0.3 GB/s between instances with NICs of 200 GB/s.",
    watch="a transfer alone on the link takes seconds, most of TTFT, at a fraction of a percent of the line rate.",
    draw=changed(
        SGLANG_70B,
        link={"path_bytes_per_second": 0.3e9, "page_tokens": 128},
        traffic={"concurrency": 2, "prompt_tokens": 1500.0, "prompt_sigma": 0.3, "output_tokens": 100.0},
    ),
    verdict="kv_transfer_path",
)
