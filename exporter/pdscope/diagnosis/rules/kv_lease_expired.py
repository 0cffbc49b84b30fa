"""Prefill dropped finished prompts before decode fetched them."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op
from pdscope.model.signal import SignalId
from pdscope.model.topology import Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """Per prefill instance whose engine counts expired leases. Any is one too many: what becomes of it is policy."""
    for instance in case.instances(Role.PREFILL):
        board = bench(RULE, case, instance)
        if board.signal(SignalId.LEASES_EXPIRED) is None:
            continue
        yield board.finding(
            board.weigh(SignalId.LEASES_EXPIRED, Op.GT, "rate"),
            headline=f"{instance.name} drops finished prompts that decode has not fetched, "
            f"{board.text(SignalId.LEASES_EXPIRED)}: they are computed again, fail, or are answered wrongly with "
            "HTTP 200",
            strength=0.9,
            decisive=(SignalId.LEASES_EXPIRED,),
            culprits=(instance.name,),
        )


RULE = Rule(
    id="kv_lease_expired",
    verdict=None,
    evaluate=evaluate,
    thresholds=(Threshold("rate", 0, Unit.PER_SECOND, "none is harmless"),),
    remedies=("longer_lease", "fail_on_expiry", "add_decode"),
)
