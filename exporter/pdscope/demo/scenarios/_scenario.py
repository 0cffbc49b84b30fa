"""What a scenario is, and the deployments that scenarios change a cause of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pdscope.demo.physics.draw import Deployment, Draw, Traffic

FAULTLESS = frozenset({"healthy", "idle"})
"""Verdicts of a deployment with nothing wrong: the truth of both is that the SLO holds."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One thing that can be wrong with a deployment, or nothing.

    Attributes:
        name: as on the command line.
        story: one line: what has happened.
        watch: one line: where it shows.
        draw: the deployment with its cause.
        verdict: what pdscope should say of it.
    """

    name: str
    story: str
    watch: str
    draw: Draw
    verdict: str

    @property
    def is_faultless(self) -> bool:
        """Whether nothing is wrong."""
        return self.verdict in FAULTLESS


def changed(base: Draw, /, **changes: Any) -> Draw:
    """`base` with something else.

    Args:
        base: what is changed.
        changes: by field of `Draw`; of its parts (`link`, `traffic`, ...) a dictionary changes the fields named there.

    Raises:
        TypeError: there is no such field.
    """
    values = {
        name: replace(getattr(base, name), **change) if isinstance(change, dict) else change
        for name, change in changes.items()
    }
    return replace(base, **values)


SGLANG_70B = Draw(traffic=Traffic(burst_factor=1.2, burst_share=0.2))
"""One prefill and one decode instance of SGLang, four H100 each, Llama-3.1-70B, 2.5 requests/s: it has room."""

SGLANG_70B_AT_EASE = changed(SGLANG_70B, traffic={"prompt_tokens": 2000.0})
"""The same with shorter prompts: prefill computes two fifths of the time, so that a burst of a few long prompts makes
nobody wait, not even in the first window, which holds a few requests only."""

VLLM_70B = changed(SGLANG_70B, engine="vllm")
"""The same under vLLM, which pulls."""

SGLANG_70B_PAIRS = changed(
    SGLANG_70B,
    deployment={"prefill_instances": 2, "decode_instances": 2},
    traffic={"requests_per_second": 5.0},
)
"""Twice the instances and twice the users."""

VLLM_8B = Draw(
    engine="vllm",
    model="meta-llama/Llama-3.1-8B-Instruct",
    deployment=Deployment(prefill_devices=1, decode_devices=1),
    traffic=Traffic(requests_per_second=3.0),
)
"""Llama-3.1-8B on one H100 each."""
