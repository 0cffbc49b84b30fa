"""Work in flight by instance and its balance; whatever is queued anywhere; failures."""

from __future__ import annotations

from collections.abc import Sequence

from pdscope.analysis.board import Board
from pdscope.analysis.observed import Observed
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, SignalId, instance_scope
from pdscope.model.topology import Deployment, Instance, Role

_OUT_AFTER = 3
"""Failed scrapes in a row: the default of the rule instance_down."""

# what an instance of a role holds beside its running batch; each request is in one of them
_QUEUES = {
    Role.PREFILL: (Metric.PREFILL_BOOTSTRAP_QUEUE, Metric.PREFILL_TRANSFER_QUEUE),
    Role.DECODE: (Metric.DECODE_ALLOCATION_QUEUE, Metric.DECODE_TRANSFER_QUEUE),
    Role.UNIFIED: (),
    Role.ROUTER: (Metric.PREFILL_PENDING, Metric.DECODE_PENDING),
}


def put_work(board: Board, deployment: Deployment, observed: Sequence[Observed]) -> None:
    """Queued requests, work in flight of each instance, idle evidence and the imbalance of each role."""
    queued: list[float] = []
    work: dict[str, float] = {}
    for o in observed:
        _put_scrapes(board, o)
        waiting = _waiting(o)
        if waiting is not None:
            queued.append(waiting)
        if o.instance.role is Role.ROUTER:
            continue
        total = _in_flight(o, waiting)
        if total is not None:
            work[o.instance.name] = total
            board.put(
                SignalId.WORK_IN_FLIGHT,
                total,
                Quality.MEASURED,
                f"counters say that {o.instance.name} was idle: its gauges are frozen"
                if o.asleep
                else f"running, queued and transferring requests of {o.instance.name}, mean",
                scope=instance_scope(o.instance.name),
            )
    spans = [w.span_seconds for o in observed if o.instance.decodes for w in o.windows]
    if spans:
        board.put(SignalId.OBSERVED, max(spans), Quality.MEASURED, "first to last scrape of the instances that decode")
    if queued:
        board.put(SignalId.QUEUED, sum(queued), Quality.MEASURED, "all queues of all instances, newest values")
    ratios = []
    for role in (Role.PREFILL, Role.DECODE, Role.UNIFIED):
        held = [work[i.name] for i in deployment.of_role(role) if i.name in work]
        if len(held) > 1:
            ratios.append(max(held) / max(1.0, min(held)))
    if ratios:
        board.put(
            SignalId.ROLE_IMBALANCE, max(ratios), Quality.DERIVED, "max by max(min, 1) of the work in flight of a role"
        )


def _put_scrapes(board: Board, o: Observed) -> None:
    scope = instance_scope(o.instance.name)
    count = max((len(w.times) for w in o.windows), default=0)
    board.put(SignalId.SCRAPES, float(count), Quality.MEASURED, f"scrapes of {o.instance.name}", scope=scope)
    board.put(SignalId.DATA_AGE, o.age_seconds, Quality.MEASURED, f"newest scrape of {o.instance.name}", scope=scope)


def _waiting(o: Observed) -> float | None:
    """Requests that stand in a queue of this instance at the end of the window."""
    if o.asleep:
        return 0.0
    levels = [o.level(metric) for metric in _QUEUES[o.instance.role]]
    levels.append(o.level(Metric.WAITING) or o.level(Metric.WAITING_CAPACITY))
    known = [level.last for level in levels if level is not None]
    return sum(known) if known else None


def _in_flight(o: Observed, waiting: float | None) -> float | None:
    if o.asleep:
        return 0.0
    accepted = o.level(Metric.IN_FLIGHT)
    if accepted is not None:
        return accepted.mean
    running = o.level(Metric.RUNNING)
    if running is None and waiting is None:
        return None
    queues = [*_QUEUES[o.instance.role]]
    queues.append(Metric.WAITING if o.level(Metric.WAITING) is not None else Metric.WAITING_CAPACITY)
    levels = [running, *(o.level(metric) for metric in queues)]
    return sum(level.mean for level in levels if level is not None)


def put_failures(board: Board, observed: Sequence[Observed]) -> None:
    """Failed transfers and bootstraps of each instance; one bad request counts on every rank, of which one is taken."""
    for o in observed:
        rates = [r for m in (Metric.TRANSFER_FAILURES, Metric.BOOTSTRAP_FAILURES) if (r := o.rate(m)) is not None]
        if rates:
            board.put(
                SignalId.FAILURES_PER_SECOND,
                sum(r.per_second for r in rates),
                Quality.MEASURED,
                " + ".join(r.source for r in rates),
                scope=instance_scope(o.instance.name),
                age_seconds=max(r.age_seconds for r in rates),
            )


def put_failed_share(board: Board, deployment: Deployment) -> None:
    """Requests that end without an answer because their KV did not come, by all that end. Needs `put_failures`.

    Both sides may count one failure, so the side that counts more stands for both. A prompt that decode computes again
    (vLLM with `kv_load_failure_policy=recompute`) is answered: that share of decode's prompt tokens is taken off.
    Where nobody says what finishes, what arrives stands for all that ends.
    """
    served, arrive = board.value(SignalId.REQUESTS_PER_SECOND), board.value(SignalId.ARRIVALS_PER_SECOND)
    failed = [
        sum(rates)
        for role in (Role.PREFILL, Role.DECODE)
        if (rates := _known(board, SignalId.FAILURES_PER_SECOND, deployment.of_role(role)))
    ]
    if not failed or (served is None and arrive is None):
        return
    ended = max(failed) + served if served is not None else max(arrive or 0.0, *failed)
    if ended <= 0.0:
        return
    recomputed = max(_known(board, SignalId.RECOMPUTED_SHARE, deployment.of_role(Role.DECODE)), default=0.0)
    board.put(
        SignalId.FAILED_SHARE,
        max(0.0, max(failed) / ended - recomputed),
        Quality.DERIVED if served is not None else Quality.ESTIMATED,
        f"failures of the side that counts more, by {'these and what finishes' if served is not None else 'arrivals'}, "
        "less what decode computes again",
    )


def put_roles_answering(board: Board, deployment: Deployment) -> None:
    """Of the roles that a request needs, the share that has an instance which answers. Needs `put_beside`.

    An instance is out after so many failed scrapes in a row, with nothing that answers or, in a recording, nothing that
    left a page; what is not known calls nobody out.
    """
    needed = [members for role in (Role.PREFILL, Role.DECODE, Role.UNIFIED) if (members := deployment.of_role(role))]
    if not needed or not any(_known(board, SignalId.SILENT_SCRAPES, members) for members in needed):
        return
    answering = [any(not _is_out(board, instance) for instance in members) for members in needed]
    if deployment.of_role(Role.UNIFIED) and answering[-1]:
        answering = [True]  # it serves requests on its own
    board.put(
        SignalId.ROLES_ANSWERING,
        sum(answering) / len(answering),
        Quality.MEASURED,
        f"roles without {_OUT_AFTER} failed scrapes in a row on each of their instances",
        age_seconds=0.0,
    )


def _is_out(board: Board, instance: Instance) -> bool:
    scope = instance_scope(instance.name)
    silent, answers = board.value(SignalId.SILENT_SCRAPES, scope), board.value(SignalId.ANSWERS, scope)
    return silent is not None and silent >= _OUT_AFTER and answers != 1.0


def _known(board: Board, signal: SignalId, instances: Sequence[Instance]) -> list[float]:
    values = (board.value(signal, instance_scope(instance.name)) for instance in instances)
    return [value for value in values if value is not None]
