"""An instance answers and gives no metrics: it serves blindly."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op
from pdscope.model.signal import SignalId
from pdscope.model.topology import Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """Per instance that is asked live: it answers, with an error or with a page that holds nothing."""
    for instance in case.instances(*Role):
        board = bench(RULE, case, instance)
        if board.signal(SignalId.SILENT_SCRAPES) is None:
            continue
        failing = board.weigh(SignalId.SILENT_SCRAPES, Op.GE, "failures")
        answers = board.weigh(SignalId.ANSWERS, Op.GE, 1.0)
        yield board.finding(
            failing & answers,
            headline=f"{instance.name} ({instance.role}) answers, but {board.count(SignalId.SILENT_SCRAPES)} times "
            "in a row without metrics: whether it serves well is not known",
            strength=0.8,
            decisive=(SignalId.SILENT_SCRAPES, SignalId.ANSWERS),
            culprits=(instance.name,),
        )


RULE = Rule(
    id="telemetry_lost",
    verdict=None,
    evaluate=evaluate,
    thresholds=(Threshold("failures", 3, Unit.COUNT, "answers in a row without metrics"),),
    remedies=("restore_metrics",),
    covers=frozenset({"insufficient_data", "undetermined"}),
)
