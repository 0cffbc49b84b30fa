"""Some instances, or data-parallel ranks, are hot while others idle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pdscope.diagnosis import symptoms
from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import Quality, SignalId, instance_scope
from pdscope.model.topology import Instance, Role
from pdscope.model.units import Unit

"""What overfeeding an instance makes of it and what comes before this verdict in the order of evidence."""


def evaluate(case: Case) -> Iterator[Finding]:
    """Per role: the least that the fullest instance ever held against the most that the emptiest ever held.

    Work in flight (running, queued, in transfer) and the whole window: counts of running requests alone hide a queue,
    and a moment's imbalance is how requests arrive. Where the role keeps its objectives nobody is hurt. Only instances
    of the same size are compared: a larger one is meant to hold more.
    """
    for role in (Role.PREFILL, Role.DECODE, Role.UNIFIED):
        alike: dict[tuple[int, int, int], list[Instance]] = {}
        for instance in case.instances(role):
            alike.setdefault((instance.tp, instance.pp, instance.dp), []).append(instance)
        for members in alike.values():
            if len(members) > 1:
                yield _between(case, role, members)
        for instance in case.instances(role):
            board = bench(RULE, case, instance)
            if board.signal(SignalId.RANK_IMBALANCE) is not None:
                yield _between_ranks(board, role)


def _between(case: Case, role: Role, members: Sequence[Instance]) -> Finding:
    least, most = _known(case, SignalId.WORK_LEAST, members), _known(case, SignalId.WORK_MOST, members)
    if min(len(least), len(most)) < 2:
        silent = bench(RULE, case, next(i for i in members if i.name not in least or i.name not in most))
        silent.weigh(SignalId.WORK_LEAST, Op.GE, "difference")
        silent.weigh(SignalId.WORK_MOST, Op.GE, "difference")
        return silent.finding(Truth.UNKNOWN)
    cold = min(most, key=lambda name: (most[name], name))
    bar = max(case.threshold(RULE, "ratio") * max(1.0, most[cold]), most[cold] + case.threshold(RULE, "difference"))
    others = sorted((name for name in least if name != cold), key=lambda name: (-least[name], name))
    hot = others[0]
    board = Bench(RULE, case, instance_scope(hot))
    over = board.weigh(SignalId.WORK_LEAST, Op.GE, bar)
    slow = role is not Role.PREFILL and _slow(board, cold)
    culprits = tuple(name for name in others if least[name] >= bar)
    found = board.finding(
        over & _could_take(board, role, cold) & _present(board, cold) & _hurt(board, role),
        headline=f"{', '.join(culprits[:4])} of {role} never held less than {least[hot]:.4g} requests in the window, "
        f"{cold} never more than {most[cold]:.4g}{'; yet they put out no more' if slow else ''}",
        strength=min(1.0, least[hot] / (4 * max(1.0, most[cold]))),
        decisive=(SignalId.WORK_LEAST,),
        culprits=culprits,
        at_best=Quality.DERIVED if slow or _more_than_all(case, len(members), len(culprits)) else Quality.MEASURED,
    )
    # what makes an instance slow explains why requests pile up on it, so it comes first; unseen, it is not ruled out
    return replace(found, before=Verdict.FRONTEND_BOUND) if slow else replace(found, outranks=RULE.outranks)


def _more_than_all(case: Case, members: int, hot: int) -> bool:
    """Whether about all that the members could serve arrives, if each gave what the hot ones give.

    Then balance alone is hardly enough, and confidence is not high.
    """
    arrivals = case.signals.value(SignalId.ARRIVALS_PER_SECOND)
    served = case.signals.value(SignalId.REQUESTS_PER_SECOND)
    if arrivals is None or not served or not hot:
        return False
    return arrivals > case.threshold(RULE, "load") * served * members / hot


def _known(case: Case, signal: SignalId, members: Sequence[Instance]) -> Mapping[str, float]:
    values = {i.name: case.signals.value(signal, instance_scope(i.name)) for i in members}
    return {name: value for name, value in values.items() if value is not None}


def _could_take(board: Bench, role: Role, cold: str) -> Truth:
    """The emptiest has held nothing, or has memory and time for more: few requests may be long ones."""
    scope = instance_scope(cold)
    empty = board.weigh(SignalId.WORK_MOST, Op.LT, 1.0, scope)
    if empty is Truth.TRUE:
        return empty
    room = board.weigh(SignalId.KV_USAGE_NET, Op.LE, "room", scope)
    if role is Role.PREFILL:  # one prompt at a time can take all the time
        room &= board.weigh(SignalId.WORK_LEAST, Op.LT, 1.0, scope)
    return room


def _present(board: Bench, cold: str) -> Truth:
    """The emptiest was there nearly as long as the fullest: a fresh instance has not had its share yet."""
    seen = board.value(SignalId.SCRAPES, board.scope)
    needed = board.case.threshold(RULE, "seen") * (seen or 0.0)
    return board.weigh(SignalId.SCRAPES, Op.GE, needed, instance_scope(cold))


def _hurt(board: Bench, role: Role) -> Truth:
    """The role breaks an objective of its own; decode answers for TTFT only where requests stand before it."""
    if role is Role.PREFILL:
        return board.case.broken("ttft")
    if role is Role.UNIFIED:
        return board.case.slo_broken
    slow = board.case.broken("itl")
    if slow is Truth.TRUE:
        return slow
    return slow | (board.case.broken("ttft") & board.weigh(SignalId.ADMISSION_QUEUE, Op.GE, "queue", board.scope))


def _slow(board: Bench, cold: str) -> bool:
    """The fullest gives no more tokens than the emptiest: then requests pile up on it because it is slow."""
    hot = board.value(SignalId.GENERATION_RATE, board.scope)
    other = board.value(SignalId.GENERATION_RATE, instance_scope(cold))
    if hot is None or other is None:
        return False
    return board.weigh(SignalId.GENERATION_RATE, Op.LE, board.case.threshold(RULE, "output") * other) is Truth.TRUE


def _between_ranks(board: Bench, role: Role) -> Finding:
    over = board.weigh(SignalId.RANK_IMBALANCE, Op.GE, "ratio")
    apart = board.weigh(SignalId.RANK_EXCESS, Op.GE, "difference")
    signal = board.signal(SignalId.RANK_IMBALANCE)
    found = board.finding(
        over & apart & _hurt(board, role),
        headline=f"the data-parallel ranks of {board.scope.name} are {board.text(SignalId.RANK_EXCESS)} apart: "
        f"{signal.source if signal else ''}",
        strength=0.6,
        decisive=(SignalId.RANK_IMBALANCE,),
        culprits=(board.scope.name,),
    )
    return replace(found, outranks=RULE.outranks)  # the queue is that of the hot rank: the others have room


RULE = Rule(
    id="router_imbalance",
    verdict=Verdict.ROUTER_IMBALANCE,
    evaluate=evaluate,
    thresholds=(
        Threshold("ratio", 3, Unit.RATIO, "work of the fullest by that of the emptiest, over the whole window"),
        Threshold("difference", 4, Unit.REQUESTS, "by which they differ at least: three against one is chance"),
        Threshold("room", 0.5, Unit.RATIO, "net usage of the emptiest's KV pool above which its few requests are long"),
        Threshold("seen", 0.75, Unit.RATIO, "scrapes of the emptiest by those of the fullest; fewer: it has just come"),
        Threshold("queue", 1, Unit.REQUESTS, "requests before a decode instance from which it answers for TTFT"),
        Threshold("load", 0.9, Unit.RATIO, "arrivals by what all could serve; above, balance alone is not enough"),
        Threshold("output", 1.2, Unit.RATIO, "tokens of the fullest by those of the emptiest: below, it is only slow"),
    ),
    remedies=("balance_ranks", "router_policy", "less_affinity", "reset_router_state"),
    outranks=(Verdict.DECODE_KV_CAPACITY, Verdict.DECODE_ADMISSION),
    covers=symptoms.WORK | symptoms.FETCH | {"itl_unstable", "pd_ratio"},
    covers_culprits_only=True,
)
