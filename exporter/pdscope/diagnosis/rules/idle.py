"""Too few requests to judge, and nothing waits."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op, Verdict
from pdscope.model.signal import SignalId
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """Nothing queued, fewer than five requests finished, no objective broken (the fallback order sees to the last)."""
    board = bench(RULE, case)
    few = board.weigh(SignalId.REQUESTS_FINISHED, Op.LT, "finished")
    quiet = board.weigh(SignalId.QUEUED, Op.LT, 1.0)
    watched = board.weigh(SignalId.OBSERVED, Op.GE, "observed")
    yield board.finding(
        few & quiet & watched,
        headline=f"{board.text(SignalId.REQUESTS_FINISHED)} finished in {board.text(SignalId.OBSERVED)} and nothing is "
        "queued",
        strength=1.0,
        decisive=(SignalId.REQUESTS_FINISHED, SignalId.QUEUED, SignalId.OBSERVED),
    )


RULE = Rule(
    id="idle",
    verdict=Verdict.IDLE,
    evaluate=evaluate,
    thresholds=(
        Threshold("finished", 5, Unit.REQUESTS, "fewer say nothing about a latency distribution"),
        Threshold("observed", 8, Unit.SECONDS, "in less time nobody can tell few requests from none"),
    ),
    fallback=True,
)
