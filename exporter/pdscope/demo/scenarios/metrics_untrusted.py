"""Two decode instances behind one address."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import SGLANG_70B_PAIRS, Scenario, changed

SCENARIO = Scenario(
    name="metrics_untrusted",
    story="Both decode instances are scraped through one address, and a proxy draws which of them answers.",
    watch="counters of d0 that go back and forth; a rate made of them would be a number of nobody.",
    draw=changed(SGLANG_70B_PAIRS, exposure={"decode_address_shared": True}, traffic={"prompt_tokens": 2000.0}),
    verdict="metrics_untrusted",
)
