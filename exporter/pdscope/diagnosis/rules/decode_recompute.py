"""Decode computes prompts again although their KV is handed over."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op
from pdscope.model.signal import SignalId
from pdscope.model.topology import Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """Per decode instance that fetches KV: a good part of its prompt tokens is computed there all the same.

    One token of each prompt is with vLLM before 0.21. Where nothing is fetched at all the roles do not work together,
    which is another verdict; where a router lets decode prefill short prompts this is its intention.
    """
    if not case.deployment.disaggregated:
        return
    for instance in case.instances(Role.DECODE):
        board = bench(RULE, case, instance)
        if board.signal(SignalId.RECOMPUTED_SHARE) is None:
            continue
        computed = board.weigh(SignalId.RECOMPUTED_SHARE, Op.GE, "share")
        fetched = board.weigh(SignalId.KV_RECEIVED_SHARE, Op.GT, 0.0)
        yield board.finding(
            computed & fetched,
            headline=f"{instance.name} computes {board.text(SignalId.RECOMPUTED_SHARE)} of its prompt tokens itself "
            f"and gets {board.text(SignalId.KV_RECEIVED_SHARE)} from prefill",
            strength=board.value(SignalId.RECOMPUTED_SHARE) or 0.0,
            decisive=(SignalId.RECOMPUTED_SHARE,),
            culprits=(instance.name,),
        )


RULE = Rule(
    id="decode_recompute",
    verdict=None,
    evaluate=evaluate,
    thresholds=(Threshold("share", 0.1, Unit.RATIO, "of the prompt tokens; one token a request is no recomputation"),),
    remedies=("fix_transport", "longer_lease", "free_decode_memory"),
)
