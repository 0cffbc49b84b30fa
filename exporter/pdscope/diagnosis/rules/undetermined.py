"""The service is held back and no rule separates the cause."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, bench, objectives
from pdscope.diagnosis.transfer_wait import transfer_wait
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import SignalId
from pdscope.model.units import format_quantity


def evaluate(case: Case) -> Iterator[Finding]:
    """An objective is broken, or requests wait and none finishes."""
    board = bench(RULE, case)
    broken = _objectives(board)
    waiting = board.weigh(SignalId.QUEUED, Op.GE, 1.0) & board.weigh(SignalId.REQUESTS_FINISHED, Op.LE, 0.0)
    if waiting is Truth.TRUE:
        headline = f"{board.text(SignalId.QUEUED)} wait and none finished in the window"
    else:
        over = [e for e in board.evidence if e.op is Op.GT and e.truth is Truth.TRUE]
        headline = ", ".join(
            f"{e.signal.removesuffix('_seconds').replace('_', ' ').upper().replace(' P', ' p')} "
            f"{format_quantity(e.value, e.unit)} is over its objective of {format_quantity(e.threshold, e.unit)}"
            for e in over
        )
    wait = transfer_wait(case)
    yield board.finding(broken | waiting, headline=f"{headline}; {wait}" if wait else headline, strength=0.5)


def _objectives(board: Bench) -> Truth:
    truth = Truth.FALSE
    for latency in ("ttft", "itl"):
        for signal, limit in objectives(board.case.deployment, latency):
            truth |= board.weigh(signal, Op.GT, limit)
    return truth


RULE = Rule(id="undetermined", verdict=Verdict.UNDETERMINED, evaluate=evaluate, fallback=True)
