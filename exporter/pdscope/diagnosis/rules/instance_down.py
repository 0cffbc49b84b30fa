"""An instance does not answer."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op
from pdscope.model.signal import SignalId
from pdscope.model.topology import Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """Per instance: nothing has answered, or left a page in the recording, several times in a row."""
    for instance in case.instances(*Role):
        board = bench(RULE, case, instance)
        if board.signal(SignalId.SILENT_SCRAPES) is None:
            continue
        failing = board.weigh(SignalId.SILENT_SCRAPES, Op.GE, "failures")
        recorded = board.signal(SignalId.ANSWERS) is None
        if not recorded:
            failing &= ~board.weigh(SignalId.ANSWERS, Op.GE, 1.0)
        yield board.finding(
            failing,
            headline=f"{instance.name} ({instance.role}) does not answer; {board.count(SignalId.SILENT_SCRAPES)} "
            f"scrapes in a row have {'left no page at the end of the recording' if recorded else 'failed'}",
            strength=0.9,
            decisive=(SignalId.SILENT_SCRAPES,),
            culprits=(instance.name,),
        )


RULE = Rule(
    id="instance_down",
    verdict=None,
    evaluate=evaluate,
    thresholds=(Threshold("failures", 3, Unit.COUNT, "scrapes in a row; one may be lost to the network"),),
    remedies=("restart_instance",),
    covers=frozenset({"telemetry_lost", "insufficient_data", "undetermined", "router_imbalance"}),
    urgent=True,
)
