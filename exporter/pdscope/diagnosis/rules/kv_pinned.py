"""Prefill's pool is full of finished prompts that decode has not fetched."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import SignalId, instance_scope
from pdscope.model.topology import Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """Per prefill instance: a full pool, next to nobody computing, a queue, and a decode side that has time.

    Pinned prompts are a symptom where decode or the link is at its limit: then those are the verdict.
    """
    if not case.deployment.disaggregated:
        return
    for instance in case.instances(Role.PREFILL):
        board = bench(RULE, case, instance)
        full = board.weigh(SignalId.KV_USAGE, Op.GE, "usage")
        waiting = board.weigh(SignalId.PREFILL_QUEUE, Op.GE, "queue")
        queue = board.value(SignalId.PREFILL_QUEUE) or 0.0
        still = board.weigh(SignalId.RUNNING, Op.LE, max(1.0, case.threshold(RULE, "running") * queue))
        free = Truth.TRUE
        for decoder in case.instances(Role.DECODE):
            scope = instance_scope(decoder.name)
            if case.signals.value(SignalId.ADMISSION_QUEUE, scope) is not None:
                free &= board.weigh(SignalId.ADMISSION_QUEUE, Op.LT, "decode_queue", scope)
        if board.signal(SignalId.LINK_UTILIZATION) is not None:
            free &= board.weigh(SignalId.LINK_UTILIZATION, Op.LT, "link")
        yield board.finding(
            full & waiting & still & free,
            headline=f"{instance.name} holds {board.text(SignalId.KV_USAGE)} of its KV pool with "
            f"{board.text(SignalId.RUNNING)} in computation while {board.text(SignalId.PREFILL_QUEUE)} wait: the pool "
            "is full of finished prompts that nobody fetches, and decode has nothing to do",
            strength=0.8,
            decisive=(SignalId.KV_USAGE, SignalId.PREFILL_QUEUE),
            culprits=(instance.name,),
        )


RULE = Rule(
    id="kv_pinned",
    verdict=Verdict.KV_PINNED,
    evaluate=evaluate,
    thresholds=(
        Threshold("usage", 0.95, Unit.RATIO, "usage of prefill's pool at which no further prompt fits"),
        Threshold("queue", 1, Unit.REQUESTS, "requests that stand before prefill"),
        Threshold("running", 0.1, Unit.RATIO, "requests in computation by those that wait: next to none"),
        Threshold("decode_queue", 1, Unit.REQUESTS, "requests that stand before decode's admission"),
        Threshold("link", 0.9, Unit.RATIO, "demand by capacity at which the link is why nothing is fetched"),
    ),
    remedies=("shorter_lease", "abort_prefill", "free_prefill_memory"),
)
