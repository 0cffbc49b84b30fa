"""Prefill computes at its limit, and requests wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis import prefill
from pdscope.diagnosis.base import Case, Rule, bench
from pdscope.model.finding import Finding, Verdict
from pdscope.model.signal import SignalId
from pdscope.model.topology import Role


def evaluate(case: Case) -> Iterator[Finding]:
    """Per instance that computes prompts: a queue stands there, and its devices compute at their limit."""
    for instance in case.instances(Role.PREFILL, Role.UNIFIED):
        board = bench(RULE, case, instance)
        truth = prefill.requests_wait(board) & prefill.computes_at_limit(board)
        yield board.finding(
            truth,
            headline=f"{prefill.queue_text(board)} while it computes at its limit ({prefill.activity_text(board)})",
            strength=board.value(SignalId.PREFILL_WAIT_TTFT_SHARE) or 0.5,
            decisive=(SignalId.PREFILL_QUEUE, prefill.activity_signal(board)),
            culprits=(instance.name,),
        )


RULE = Rule(
    id="prefill_compute",
    verdict=Verdict.PREFILL_COMPUTE,
    evaluate=evaluate,
    thresholds=prefill.THRESHOLDS,
    remedies=("add_prefill", "keep_prefix_cache", "more_tensor_parallel", "shed_load"),
    covers=frozenset({"prefill_queue", "decode_starved"}),
)
