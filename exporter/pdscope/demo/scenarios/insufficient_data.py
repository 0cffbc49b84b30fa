"""Decode was started without its metrics."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import SGLANG_70B_AT_EASE, Scenario, changed

SCENARIO = Scenario(
    name="insufficient_data",
    story="Decode was started without --enable-metrics: users are served as in healthy, and nobody can see how.",
    watch="no tokens, no ITL and no finished requests; the answer says what to switch on, and no stage.",
    draw=changed(SGLANG_70B_AT_EASE, exposure={"decode_metrics": False}),
    verdict="insufficient_data",
)
