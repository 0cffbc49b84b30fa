"""Prefill's pool is full of finished prompts that decode has not fetched."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import SignalId, instance_scope
from pdscope.model.topology import Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """Per prefill instance: a full pool, next to nobody computing, a queue, and a decode side that could fetch.

    Pinned prompts are a symptom where decode or the link is at its limit: then those are the verdict. Who cannot see
    that decode has room and that transfers are quick cannot tell.
    """
    if not case.deployment.disaggregated:
        return
    for instance in case.instances(Role.PREFILL):
        board = bench(RULE, case, instance)
        full = board.weigh(SignalId.KV_USAGE, Op.GE, 1.0 - case.threshold(RULE, "free"))
        if board.signal(SignalId.KV_FREE_REQUESTS) is not None:  # the prompt at the head may be longer than the mean
            full |= board.weigh(SignalId.KV_FREE_REQUESTS, Op.LE, "fits")
        expires = _expires(board)
        waiting = board.weigh(SignalId.PREFILL_QUEUE, Op.GE, "queue")
        timed = board.signal(SignalId.PREFILL_WAIT_TTFT_SHARE) is not None
        if waiting is Truth.FALSE and timed and case.broken("ttft") is Truth.TRUE:
            waiting = board.weigh(SignalId.PREFILL_WAIT_TTFT_SHARE, Op.GE, "most")
        yield board.finding(
            (full | expires) & waiting & _still(board) & _decode_has_room(board) & _nothing_moves(board),
            headline=_words(board, full),
            strength=0.8,
            decisive=(SignalId.KV_USAGE, SignalId.PREFILL_QUEUE, SignalId.ADMISSION_QUEUE),
            culprits=(instance.name,),
        )


def _words(board: Bench, full: Truth) -> str:
    """A queue that comes and goes stands empty at times, and a pool whose leases run out has room at times."""
    queue = board.value(SignalId.PREFILL_QUEUE)
    stands = queue is not None and queue >= board.case.threshold(RULE, "queue")
    share = board.text(SignalId.PREFILL_WAIT_TTFT_SHARE)
    waiting = (
        f"{board.text(SignalId.PREFILL_QUEUE)} wait"
        if stands
        else f"requests, in a queue that comes and goes, wait there for {share} of TTFT"
    )
    state = "is full of" if full is Truth.TRUE else "fills up again and again with"
    return (
        f"{board.scope.name} holds {board.text(SignalId.KV_USAGE)} of its KV pool with "
        f"{board.text(SignalId.RUNNING)} in computation while {waiting}: the pool {state} finished prompts that nobody "
        "fetches, although decode has room"
    )


def _expires(board: Bench) -> Truth:
    """Leases of prompts that nobody fetched run out, and the pool that held them was full in between."""
    served = board.value(SignalId.REQUESTS_PER_SECOND)
    if not served or board.signal(SignalId.LEASES_EXPIRED) is None:
        return Truth.FALSE
    expired = board.weigh(SignalId.LEASES_EXPIRED, Op.GE, board.case.threshold(RULE, "expired") * served)
    return expired & board.weigh(SignalId.KV_USAGE, Op.GE, "usage_when_expired")


def _still(board: Bench) -> Truth:
    """Next to nobody is in computation: what fills the pool is done. One huge prompt fills it too, and computes."""
    queue = board.value(SignalId.PREFILL_QUEUE) or 0.0
    still = board.weigh(SignalId.RUNNING, Op.LE, max(1.0, board.case.threshold(RULE, "running") * queue))
    for activity in (SignalId.TENSOR_UTILIZATION, SignalId.PREFILL_FLOP_UTILIZATION):
        if board.signal(activity) is not None:
            still &= board.weigh(activity, Op.LT, "compute")
    return still


def _decode_has_room(board: Bench) -> Truth:
    """Nobody stands before decode, and its pool has room, on every instance."""
    room = Truth.TRUE
    for decoder in board.case.instances(Role.DECODE):
        scope = instance_scope(decoder.name)
        room &= board.weigh(SignalId.ADMISSION_QUEUE, Op.LT, "decode_queue", scope)
        room &= board.weigh(SignalId.KV_USAGE, Op.LT, "decode_usage", scope)
    return room


def _nothing_moves(board: Bench) -> Truth:
    """Transfers are few or quick, and the link is not full; unknown where neither their number nor time is known."""
    signs = ((SignalId.TRANSFER_IN_FLIGHT, "in_flight"), (SignalId.TRANSFER_TTFT_SHARE, "ttft_share"))
    known = [(signal, name) for signal, name in signs if board.signal(signal) is not None]
    quiet = Truth.TRUE
    for signal, name in known or signs:
        quiet &= board.weigh(signal, Op.LT, name)
    if board.signal(SignalId.LINK_UTILIZATION) is not None:
        quiet &= board.weigh(SignalId.LINK_UTILIZATION, Op.LT, "link")
    return quiet


RULE = Rule(
    id="kv_pinned",
    verdict=Verdict.KV_PINNED,
    evaluate=evaluate,
    thresholds=(
        Threshold("free", 0.05, Unit.RATIO, "of prefill's pool: no further prompt fits into what is left"),
        Threshold("fits", 2, Unit.COUNT, "mean prompts that would fit: a queue whose head is long stands all the same"),
        Threshold(
            "expired", 0.02, Unit.RATIO, "leases that run out by finished requests: not a lone client that hung up"
        ),
        Threshold("usage_when_expired", 0.75, Unit.RATIO, "mean usage of a pool that was full in between"),
        Threshold(
            "most", 0.5, Unit.RATIO, "share of TTFT: a queue that comes and goes, and yet is most of what users wait"
        ),
        Threshold("queue", 1, Unit.REQUESTS, "requests that stand before prefill"),
        Threshold("running", 0.1, Unit.RATIO, "requests in computation by those that wait: next to none"),
        Threshold("compute", 0.5, Unit.RATIO, "tensor activity, or estimated share of the FLOP, of a prefill at work"),
        Threshold("decode_queue", 1, Unit.REQUESTS, "requests that stand before decode's admission"),
        Threshold("decode_usage", 0.9, Unit.RATIO, "usage of decode's pool, KV in flight included, without room"),
        Threshold("in_flight", 4, Unit.REQUESTS, "transfers in progress: 5 to 6 on a full link, 0 to 1 beside it"),
        Threshold("ttft_share", 0.2, Unit.RATIO, "share of TTFT from which a stage counts; tensward's warning level"),
        Threshold("link", 0.9, Unit.RATIO, "demand by capacity at which the link is why nothing is fetched"),
    ),
    remedies=("shorter_lease", "abort_prefill", "free_prefill_memory"),
    covers=frozenset({"prefill_queue", "kv_lease_expired", "decode_starved", "pd_ratio"}),
)
