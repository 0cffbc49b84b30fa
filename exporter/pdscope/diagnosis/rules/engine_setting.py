"""Two sides that do not fit each other: prefill and decode, or the configuration and what is there."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, bench
from pdscope.model.finding import Finding, Op, Truth
from pdscope.model.signal import SignalId, instance_scope
from pdscope.model.topology import Instance, Role


def evaluate(case: Case) -> Iterator[Finding]:
    """Prefill against decode where they run apart; per instance, the configuration against what is there."""
    if case.deployment.disaggregated:
        yield _between(case)
    for instance in case.instances(*Role):
        if case.signals.get(SignalId.CONTRADICTIONS, instance_scope(instance.name)) is not None:
            yield _contradicted(case, instance)


def _contradicted(case: Case, instance: Instance) -> Finding:
    """What an instance and its devices are configured to be, and are not."""
    board = bench(RULE, case, instance)
    found = board.signal(SignalId.CONTRADICTIONS)
    return board.finding(
        board.weigh(SignalId.CONTRADICTIONS, Op.GT, 0.0),
        headline=f"{instance.name} is not what is configured ({found.source if found else ''})",
        strength=0.9,
        decisive=(SignalId.CONTRADICTIONS,),
        culprits=(instance.name,),
        remedies=("correct_configuration",),
    )


def _between(case: Case) -> Finding:
    """Page size and KV type of prefill against those of decode: what one writes the other has to read.

    Unequal parallelism is healthy with most engines and not among them.
    """
    board = Bench(RULE, case, case.signals.deployment)
    pages, types = _pages(board), _types(case)
    differences = [
        f"{what} {_sides(values)}" for what, values in (("KV pages (tokens)", pages), ("KV types", types)) if values
    ]
    known = bool(board.evidence) or all(_kv_types(case, role) for role in _ROLES)
    truth = Truth.TRUE if differences else Truth.FALSE if known else Truth.UNKNOWN
    return board.finding(
        truth,
        headline=f"prefill and decode do not fit each other: {'; '.join(differences)}",
        strength=0.7,
        decisive=(SignalId.PAGE_TOKENS,) if pages else (),
        remedies=("check_shapes",),
    )


_ROLES = (Role.PREFILL, Role.DECODE)

_Sides = dict[Role, set[str]]


def _pages(board: Bench) -> _Sides:
    """Page sizes by role, where they differ; each is weighed against the least of all."""
    scopes = {role: [instance_scope(i.name) for i in board.case.instances(role)] for role in _ROLES}
    sizes = {
        role: {size for scope in own if (size := board.value(SignalId.PAGE_TOKENS, scope)) is not None}
        for role, own in scopes.items()
    }
    if not all(sizes.values()):
        board.missing.append(SignalId.PAGE_TOKENS)
        return {}
    least = min(size for own in sizes.values() for size in own)
    for scope in (scope for own in scopes.values() for scope in own):
        if board.signal(SignalId.PAGE_TOKENS, scope) is not None:
            board.weigh(SignalId.PAGE_TOKENS, Op.GT, least, scope)
    if sizes[Role.PREFILL] == sizes[Role.DECODE]:
        return {}
    return {role: {f"{size:g}" for size in own} for role, own in sizes.items()}


def _types(case: Case) -> _Sides:
    """KV types by role, where they differ."""
    by_role = {role: _kv_types(case, role) for role in _ROLES}
    if not all(by_role.values()) or by_role[Role.PREFILL] == by_role[Role.DECODE]:
        return {}
    return by_role


def _kv_types(case: Case, role: Role) -> set[str]:
    """KV types that instances of a role state; `auto` says nothing."""
    return {i.kv_dtype for i in case.instances(role) if i.kv_dtype is not None and i.kv_dtype != "auto"}


def _sides(values: _Sides) -> str:
    return ", ".join(f"{role} {', '.join(sorted(own))}" for role, own in values.items())


RULE = Rule(
    id="engine_setting",
    verdict=None,
    evaluate=evaluate,
    remedies=("check_shapes", "correct_configuration"),
)
