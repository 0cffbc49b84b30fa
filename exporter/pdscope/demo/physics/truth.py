"""The truth by counterfactual: which single resource, relieved alone, restores the SLO."""

from __future__ import annotations

from dataclasses import dataclass

from pdscope.demo.physics.draw import Draw
from pdscope.demo.physics.outcome import Outcome, run
from pdscope.demo.physics.reliefs import RELIEFS
from pdscope.errors import UsageError

_FAR = 4.0
"""A relief that restores nothing is still the answer when it leaves less than a quarter of the violation ..."""
_LEAD = 2.0
"""... and half of what the next one leaves."""


@dataclass(frozen=True, slots=True)
class Remainder:
    """What is left of the violation with one resource relieved; `verdict` is the name of its scarcity."""

    resource: str
    verdict: str
    violation: float


@dataclass(frozen=True, slots=True)
class Label:
    """What is wrong with a draw.

    Attributes:
        resource: whose relief alone restores the SLO; `none` when it holds, `several` when no single one does.
        verdict: the verdict that says so; `healthy` for `none`, `undetermined` for `several`.
        violation: of the draw as it is, 0 when the SLO holds.
        ranking: every relief that changes the draw, what it leaves, least first.
        restoring: resources whose relief restores the SLO, the cheapest first; the first is `resource`.
        outcome: the run of the draw itself.
    """

    resource: str
    verdict: str
    violation: float
    ranking: tuple[Remainder, ...]
    restoring: tuple[str, ...]
    outcome: Outcome


def truth(draw: Draw, seconds: float = 60.0) -> Label:
    """Runs `draw` and each of its reliefs under the same seed, and compares.

    Args:
        draw: its causes.
        seconds: judged, as in `run`.

    Raises:
        UsageError: the draw does not make a deployment.
    """
    outcome = run(draw, seconds)
    base = outcome.violation
    if base <= 0.0:
        return Label("none", "healthy", 0.0, (), (), outcome)
    left: list[Remainder] = []
    for relief in RELIEFS:
        relieved = relief.apply(draw)
        if relieved == draw:
            continue
        try:
            violation = run(relieved, seconds).violation
        except UsageError:
            continue  # no such deployment: weights that fit on prefill's devices need not fit on decode's
        left.append(Remainder(relief.resource, relief.verdict(outcome), violation))
    restoring = tuple(one.resource for one in left if one.violation <= 0.0)
    ranking = tuple(sorted(left, key=lambda one: one.violation))
    chosen = next((one for one in left if one.violation <= 0.0), None) or _by_far(ranking, base)
    if chosen is None:
        return Label("several", "undetermined", base, ranking, restoring, outcome)
    return Label(chosen.resource, chosen.verdict, base, ranking, restoring, outcome)


def _by_far(ranking: tuple[Remainder, ...], base: float) -> Remainder | None:
    if not ranking or not ranking[0].violation * _FAR <= base:
        return None
    best = ranking[0]
    others = [one.violation for one in ranking if one.verdict != best.verdict]
    return best if not others or min(others) >= best.violation * _LEAD else None
