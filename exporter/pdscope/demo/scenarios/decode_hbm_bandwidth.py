"""Long contexts: reading them takes all the bandwidth of decode's memory."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import VLLM_8B, Scenario, changed

SCENARIO = Scenario(
    name="decode_hbm_bandwidth",
    story="Long contexts: every decode step reads tens of GB of KV, and ITL has to stay under 9 ms.",
    watch="decode's memory interface is as busy as it gets and ITL grows with the batch; TTFT is fine.",
    draw=changed(
        VLLM_8B,
        deployment={"prefill_instances": 3},
        traffic={"prompt_tokens": 12_000.0, "prompt_sigma": 0.3, "output_tokens": 700.0, "requests_per_second": 1.2},
        slo={"itl_p50_seconds": 0.009},
    ),
    verdict="decode_hbm_bandwidth",
)
