"""A slow detokenizer: tokens wait behind the engine that has made them."""

from __future__ import annotations

from pdscope.demo.scenarios._scenario import SGLANG_70B, Scenario, changed

SCENARIO = Scenario(
    name="frontend_bound",
    story="The detokenizer needs 7 ms for a token, one at a time, and a dozen requests stream.",
    watch="users see tokens several times as far apart as decode makes them.",
    draw=changed(SGLANG_70B, frontend={"detokenize_seconds_per_token": 0.007}),
    verdict="frontend_bound",
)
