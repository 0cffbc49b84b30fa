"""KV fell back to TCP."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import SGLANG_70B, Scenario, changed

SCENARIO = Scenario(
    name="kv_transfer_path",
    story="KV fell back to TCP: 0.4 GB/s over NICs of 200 GB/s.",
    watch="bytes move at a fraction of a percent of the line rate, however many transfers wait.",
    draw=changed(SGLANG_70B, link={"path_bytes_per_second": 0.4e9}, traffic={"concurrency": 10}),
    verdict="kv_transfer_path",
)
