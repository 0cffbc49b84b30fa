"""Making its metrics page costs an engine a good part of its time."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op
from pdscope.model.signal import SignalId
from pdscope.model.topology import Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """Per instance that is asked live. Whoever else scrapes it costs as much again."""
    for instance in case.instances(*Role):
        board = bench(RULE, case, instance)
        if board.signal(SignalId.SCRAPE_COST) is None:
            continue
        yield board.finding(
            board.weigh(SignalId.SCRAPE_COST, Op.GT, "share"),
            headline=f"{instance.name} is at work on its metrics page {board.text(SignalId.SCRAPE_COST)} of the time "
            "at the configured interval, on the loop that serves users; pdscope asks it less often",
            strength=0.4,
            decisive=(SignalId.SCRAPE_COST,),
            culprits=(instance.name,),
        )


RULE = Rule(
    id="scrape_cost",
    verdict=None,
    evaluate=evaluate,
    thresholds=(Threshold("share", 0.02, Unit.RATIO, "of its time, at the configured interval"),),
    remedies=("fewer_series", "longer_interval"),
)
