"""Requests wait for prefill although its devices do not compute at their limit."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis import prefill
from pdscope.diagnosis.base import Case, Rule, bench
from pdscope.model.finding import Finding, Truth, Verdict
from pdscope.model.signal import SignalId
from pdscope.model.topology import Role


def evaluate(case: Case) -> Iterator[Finding]:
    """Per instance that computes prompts: a queue stands there, and compute is below its limit or not known.

    Without device telemetry nobody can tell the two verdicts on prefill apart; the queue is then all that is known, and
    the answer has confidence low.
    """
    for instance in case.instances(Role.PREFILL, Role.UNIFIED):
        board = bench(RULE, case, instance)
        waits, at_limit = prefill.requests_wait(board), prefill.computes_at_limit(board)
        known = at_limit is not Truth.UNKNOWN
        compute = (
            f"although its devices are below their limit ({prefill.activity_text(board)})"
            if known
            else "; without device telemetry it is not known whether it computes at its limit"
        )
        yield board.finding(
            waits & ~at_limit if known else waits,
            headline=f"{prefill.queue_text(board)}{' ' if known else ''}{compute}",
            strength=board.value(SignalId.PREFILL_WAIT_TTFT_SHARE) or 0.5,
            decisive=(SignalId.PREFILL_QUEUE, prefill.activity_signal(board)),
            culprits=(instance.name,),
            remedies=RULE.remedies if known else ("add_prefill", "raise_token_budget", "keep_prefix_cache"),
        )


RULE = Rule(
    id="prefill_queue",
    verdict=Verdict.PREFILL_QUEUE,
    evaluate=evaluate,
    thresholds=prefill.THRESHOLDS,
    remedies=("raise_token_budget", "keep_prefix_cache", "separate_long_prompts", "add_prefill"),
    covers=frozenset({"decode_starved"}),
)
