"""Some instances, or data-parallel ranks, are hot while others idle."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op, Verdict
from pdscope.model.signal import SignalId, instance_scope
from pdscope.model.topology import Instance, Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """Per role: the least that the fullest instance ever held against the most that the emptiest ever held.

    Work in flight (running, queued, in transfer) and the whole window: counts of running requests alone hide a queue,
    and a moment's imbalance is how requests arrive. With the objectives kept nobody is hurt.
    """
    for role in (Role.PREFILL, Role.DECODE, Role.UNIFIED):
        found = _between(case, role)
        if found is not None:
            yield found
        for instance in case.instances(role):
            board = bench(RULE, case, instance)
            if board.signal(SignalId.RANK_IMBALANCE) is not None:
                yield _between_ranks(board, instance)


def _between(case: Case, role: Role) -> Finding | None:
    least = {i.name: case.signals.value(SignalId.WORK_LEAST, instance_scope(i.name)) for i in case.instances(role)}
    most = {i.name: case.signals.value(SignalId.WORK_MOST, instance_scope(i.name)) for i in case.instances(role)}
    held = {name: value for name, value in least.items() if value is not None}
    room = {name: value for name, value in most.items() if value is not None}
    if len(held) < 2 or set(held) != set(room):
        return None
    cold = min(room, key=lambda name: room[name])
    bar = max(
        case.threshold(RULE, "ratio") * max(1.0, room[cold]),
        room[cold] + case.threshold(RULE, "difference"),
    )
    hot = sorted((name for name in held if name != cold), key=lambda name: (-held[name], name))
    board = Bench(RULE, case, instance_scope(hot[0]))
    over = board.weigh(SignalId.WORK_LEAST, Op.GE, bar)
    board.weigh(SignalId.WORK_MOST, Op.LE, room[cold], instance_scope(cold))
    culprits = tuple(name for name in hot if held[name] >= bar)
    return board.finding(
        over & case.slo_broken,
        headline=f"{', '.join(culprits[:4])} of {role} never held less than {held[hot[0]]:.4g} requests in the window, "
        f"{cold} never more than {room[cold]:.4g}",
        strength=min(1.0, held[hot[0]] / (4 * max(1.0, room[cold]))),
        decisive=(SignalId.WORK_LEAST,),
        culprits=culprits,
    )


def _between_ranks(board: Bench, instance: Instance) -> Finding:
    over = board.weigh(SignalId.RANK_IMBALANCE, Op.GE, "ratio")
    least = board.weigh(SignalId.WORK_LEAST, Op.GE, "difference")
    signal = board.signal(SignalId.RANK_IMBALANCE)
    return board.finding(
        over & least & board.case.slo_broken,
        headline=f"the data-parallel ranks of {instance.name} are loaded unequally: {signal.source if signal else ''}",
        strength=0.6,
        decisive=(SignalId.RANK_IMBALANCE,),
        culprits=(instance.name,),
    )


RULE = Rule(
    id="router_imbalance",
    verdict=Verdict.ROUTER_IMBALANCE,
    evaluate=evaluate,
    thresholds=(
        Threshold("ratio", 3, Unit.RATIO, "work of the fullest by that of the emptiest, over the whole window"),
        Threshold("difference", 4, Unit.REQUESTS, "by which they differ at least: three against one is chance"),
    ),
    remedies=("router_policy", "less_affinity", "reset_router_state"),
)
