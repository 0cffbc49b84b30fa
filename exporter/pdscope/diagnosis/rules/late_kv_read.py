"""Decode read KV whose lease had ended: the blocks may hold another request by then."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op
from pdscope.model.signal import SignalId
from pdscope.model.topology import Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """Per instance whose engine counts late reads. Each of them may have answered a user with another's context."""
    for instance in case.instances(Role.PREFILL, Role.DECODE):
        board = bench(RULE, case, instance)
        if board.signal(SignalId.LATE_KV_READS) is None:
            continue
        yield board.finding(
            board.weigh(SignalId.LATE_KV_READS, Op.GT, "rate"),
            headline=f"blocks of {instance.name} were read after their lease had ended, "
            f"{board.text(SignalId.LATE_KV_READS)}: answers may be WRONG although they say HTTP 200",
            strength=1.0,
            decisive=(SignalId.LATE_KV_READS,),
            culprits=(instance.name,),
        )


RULE = Rule(
    id="late_kv_read",
    verdict=None,
    evaluate=evaluate,
    thresholds=(Threshold("rate", 0, Unit.PER_SECOND, "none is harmless"),),
    remedies=("fail_on_expiry", "longer_lease"),
    covers=frozenset({"kv_lease_expired"}),
    urgent=True,
)
