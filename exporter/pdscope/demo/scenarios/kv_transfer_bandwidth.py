"""NICs that carry less KV than the users ask for."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import SGLANG_70B, Scenario, changed

SCENARIO = Scenario(
    name="kv_transfer_bandwidth",
    story="Old NICs: 1.6 GB/s of KV an instance, and ten users ask for more.",
    watch="prefill's inflight queue and TTFT grow while prefill itself has time to spare and ITL stays.",
    draw=changed(SGLANG_70B, link={"nic_bytes_per_second": 0.4e9}, traffic={"concurrency": 10}),
    verdict="kv_transfer_bandwidth",
)
