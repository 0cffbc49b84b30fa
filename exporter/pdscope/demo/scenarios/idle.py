"""Hardly anybody asks."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import SGLANG_70B, Scenario, changed

SCENARIO = Scenario(
    name="idle",
    story="Hardly anybody asks: a request every twenty seconds.",
    watch="fewer than five requests finish in a window, so nothing is judged.",
    draw=changed(SGLANG_70B, traffic={"requests_per_second": 0.05, "prompt_tokens": 600.0}),
    verdict="idle",
)
