"""Two sides whose settings do not fit each other."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule
from pdscope.model.finding import Finding, Truth
from pdscope.model.signal import SignalId, instance_scope
from pdscope.model.topology import Role


def evaluate(case: Case) -> Iterator[Finding]:
    """Page size and KV type of prefill against those of decode: what one writes the other has to read.

    Unequal parallelism is healthy with most engines and not among them.
    """
    if not case.deployment.disaggregated:
        return
    board = Bench(RULE, case, case.signals.deployment)
    differences = [text for text in (_pages(board), _types(case)) if text]
    known = board.evidence or any(i.kv_dtype for i in case.deployment.instances)
    truth = Truth.TRUE if differences else Truth.FALSE if known else Truth.UNKNOWN
    yield board.finding(
        truth,
        headline=f"prefill and decode do not fit each other: {'; '.join(differences)}",
        strength=0.7,
        decisive=(SignalId.PAGE_TOKENS,) if board.evidence else (),
    )


def _pages(board: Bench) -> str:
    """Page sizes by role, where they differ."""
    by_role = {}
    for role in (Role.PREFILL, Role.DECODE):
        signals = [
            board.case.signals.get(SignalId.PAGE_TOKENS, instance_scope(i.name)) for i in board.case.instances(role)
        ]
        by_role[role] = {signal.value for signal in signals if signal is not None}
    if not all(by_role.values()) or by_role[Role.PREFILL] == by_role[Role.DECODE]:
        return ""
    sides = (f"{role} {', '.join(f'{v:g}' for v in sorted(values))}" for role, values in by_role.items())
    return f"KV pages of {' and '.join(sides)} tokens"


def _types(case: Case) -> str:
    """KV types by role, where they differ; `auto` says nothing."""
    by_role = {
        role: {i.kv_dtype for i in case.instances(role) if i.kv_dtype not in (None, "auto")}
        for role in (Role.PREFILL, Role.DECODE)
    }
    if not all(by_role.values()) or by_role[Role.PREFILL] == by_role[Role.DECODE]:
        return ""
    sides = (f"{role} {', '.join(sorted(str(v) for v in values))}" for role, values in by_role.items())
    return f"KV types of {' and '.join(sides)}"


RULE = Rule(
    id="engine_setting",
    verdict=None,
    evaluate=evaluate,
    remedies=("check_shapes",),
)
