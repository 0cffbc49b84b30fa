"""CUDA graphs were captured up to a batch of four, and more run."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import SGLANG_70B, Scenario, changed

SCENARIO = Scenario(
    name="cuda_graph_miss",
    story="CUDA graphs were captured up to a batch of four, and more run.",
    watch="decode steps outside graphs, and an ITL that steps up with them.",
    draw=changed(SGLANG_70B, decode={"graph_ceiling": 4, "launch_seconds_per_layer": 800e-6}),
    verdict="cuda_graph_miss",
)
