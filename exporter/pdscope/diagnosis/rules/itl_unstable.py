"""Tokens come in jerks: p95 of ITL lies far from its median."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold
from pdscope.model.finding import Finding, Op
from pdscope.model.signal import SignalId
from pdscope.model.units import Unit

_MORE_ROOM = ("limit_running", "add_decode")
"""Where prompts are computed apart, long ones do not come between the steps of decode."""


def evaluate(case: Case) -> Iterator[Finding]:
    """Of the deployment: the ratio, and a p95 that a reader notices."""
    board = Bench(RULE, case, case.signals.deployment)
    median = board.value(SignalId.ITL_P50)
    if median is None or board.signal(SignalId.ITL_P95) is None:
        return
    far = board.weigh(SignalId.ITL_P95, Op.GE, case.threshold(RULE, "ratio") * median)
    seen = board.weigh(SignalId.ITL_P95, Op.GE, "noticed")
    yield board.finding(
        far & seen,
        headline=f"ITL p95 is {board.text(SignalId.ITL_P95)} where its median is {board.text(SignalId.ITL_P50)}: "
        "steps of two kinds take turns, as with prompts computed between decode steps, or preemptions",
        strength=0.5,
        decisive=(SignalId.ITL_P95,),
        remedies=_MORE_ROOM if case.deployment.disaggregated else None,
    )


RULE = Rule(
    id="itl_unstable",
    verdict=None,
    evaluate=evaluate,
    thresholds=(
        Threshold("ratio", 3, Unit.RATIO, "p95 by median; one kind of step stays within 1.5"),
        Threshold("noticed", 0.1, Unit.SECONDS, "a gap that a reader sees"),
    ),
    remedies=("separate_long_prompts", "limit_running", "add_decode"),
)
