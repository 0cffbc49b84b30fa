"""Decode idles while it waits for KV."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op
from pdscope.model.signal import SignalId
from pdscope.model.topology import Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """Per decode instance: requests whose KV is awaited stand there all the time, and next to none runs.

    What they wait for (prefill's queue, its computation, the link) is for the verdict to say.
    """
    for instance in case.instances(Role.DECODE):
        board = bench(RULE, case, instance)
        awaited = board.weigh(SignalId.AWAITED_KV, Op.GE, "awaited")
        idle = board.weigh(SignalId.RUNNING, Op.LT, "running")
        yield board.finding(
            awaited & idle,
            headline=f"{instance.name} runs {board.text(SignalId.RUNNING)} while the KV of "
            f"{board.text(SignalId.AWAITED_KV)} is awaited",
            strength=0.6,
            decisive=(SignalId.AWAITED_KV, SignalId.RUNNING),
            culprits=(instance.name,),
            remedies=_remedies(board),
        )


def _remedies(board: Bench) -> tuple[str, ...]:
    """More link where the link is full, else more prefill where prefill is; else the verdict says what holds KV up."""
    loaded = (
        ("use_more_nics", SignalId.LINK_UTILIZATION, board.case.threshold(RULE, "link")),
        ("add_prefill", SignalId.PREFILL_LOAD, board.case.threshold(RULE, "prefill")),
    )
    return tuple(
        remedy for remedy, signal, limit in loaded if (load := board.value(signal)) is not None and load >= limit
    )[:1]


RULE = Rule(
    id="decode_starved",
    verdict=None,
    evaluate=evaluate,
    thresholds=(
        Threshold("awaited", 2, Unit.REQUESTS, "whose KV is awaited through the newer half of the window"),
        Threshold("running", 1, Unit.REQUESTS, "in the batch, mean: less is an instance that idles part of the time"),
        Threshold("prefill", 0.85, Unit.RATIO, "load of prefill from which more of it would help"),
        Threshold("link", 0.9, Unit.RATIO, "demand by capacity from which a wider link would help"),
    ),
    remedies=("add_prefill", "use_more_nics"),
)
