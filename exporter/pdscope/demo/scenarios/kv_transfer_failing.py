"""One prefill and one decode instance cannot talk."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import SGLANG_70B_PAIRS, Scenario, changed

SCENARIO = Scenario(
    name="kv_transfer_failing",
    story="One prefill and one decode instance cannot talk: every transfer between them fails.",
    watch="failure counters of both rise; requests on the other three pairs are fine.",
    draw=changed(SGLANG_70B_PAIRS, link={"failing_pairs": ((0, 0),)}),
    verdict="kv_transfer_failing",
)
