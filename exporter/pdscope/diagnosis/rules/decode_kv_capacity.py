"""The KV pool of decode is full: requests are pushed out, or nothing moves any more."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis import symptoms
from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import SignalId
from pdscope.model.topology import Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """Per instance that decodes: pool full, and either preemptions or a standstill."""
    for instance in case.instances(Role.DECODE, Role.UNIFIED):
        board = bench(RULE, case, instance)
        full = pool_full(board)
        pushed = board.weigh(SignalId.PREEMPTIONS_PER_SECOND, Op.GT, 0.0) & _many(board)
        stuck = standstill(board)
        # an engine that pushes requests out has said itself that there was no memory, whatever the mean usage
        pressed = board.weigh(SignalId.KV_USAGE_NET, Op.GE, "usage_when_pushed") & _by_its_own(board)
        if case.broken("ttft") is Truth.FALSE and case.broken("itl") is Truth.FALSE:
            pressed = Truth.FALSE  # a pool that is full now and then, and nobody feels it
        truth = (full & (pushed | stuck)) | (pressed & pushed)
        if stuck is Truth.TRUE:
            tail = f"{board.text(SignalId.WORK_IN_FLIGHT)} are there and not a single token comes out"
            decisive = [SignalId.KV_USAGE_NET, SignalId.GENERATION_RATE]
            remedies: tuple[str, ...] = ("shed_load", "free_decode_memory", "quantise_kv", "add_decode")
        else:
            tail = f"it pushes requests out ({board.text(SignalId.PREEMPTIONS_PER_SECOND)} preemptions or retractions)"
            decisive = [SignalId.KV_USAGE_NET, SignalId.PREEMPTIONS_PER_SECOND]
            remedies = RULE.remedies
        yield board.finding(
            truth,
            headline=_words(board, full, tail),
            strength=board.value(SignalId.KV_USAGE_NET) or 0.0,
            decisive=decisive,
            culprits=(instance.name,),
            remedies=remedies,
        )


def _words(board: Bench, full: Truth, tail: str) -> str:
    """A pool that has room on average was full in between: it would push nobody out otherwise."""
    used, net = board.text(SignalId.KV_USAGE), board.text(SignalId.KV_USAGE_NET)
    if full is Truth.TRUE:
        return f"the KV pool of {board.scope.name} is full ({used} in use, {net} net of KV in flight) and {tail}"
    return (
        f"the KV pool of {board.scope.name} fills up again and again, with {used} in use on average ({net} net of KV "
        f"in flight), and {tail}"
    )


def _by_its_own(board: Bench) -> Truth:
    """Whether what fills the pool is mostly decode's work, and not KV that is still on its way."""
    usage = board.value(SignalId.KV_USAGE)
    if usage is None:
        return Truth.UNKNOWN
    return board.weigh(SignalId.KV_USAGE_NET, Op.GE, board.case.threshold(RULE, "own") * usage)


def pool_full(board: Bench) -> Truth:
    """Free KV, net of KV in flight, is less than the next request needs; or nearly all is used.

    A pool of a few large requests is full at 85 %, one of many small ones at 99 %: the need of the next request decides
    where both are known.
    """
    return board.weigh(SignalId.KV_FREE_REQUESTS, Op.LT, 1.0) | board.weigh(
        SignalId.KV_USAGE_NET, Op.GE, 1.0 - board.case.threshold(RULE, "free")
    )


def standstill(board: Bench) -> Truth:
    """Requests are there, and no token was generated in the whole window.

    Work in flight is taken and not the running gauge: that one freezes at its last value when an engine falls idle.
    """
    present = board.weigh(SignalId.WORK_IN_FLIGHT, Op.GE, 1.0)
    return present & board.weigh(SignalId.GENERATION_RATE, Op.LE, 0.0)


def _many(board: Bench) -> Truth:
    served = board.value(SignalId.REQUESTS_PER_SECOND)
    if served is None:
        board.missing.append(SignalId.REQUESTS_PER_SECOND)
        return Truth.UNKNOWN
    return board.weigh(SignalId.PREEMPTIONS_PER_SECOND, Op.GE, board.case.threshold(RULE, "preemptions") * served)


RULE = Rule(
    id="decode_kv_capacity",
    verdict=Verdict.DECODE_KV_CAPACITY,
    evaluate=evaluate,
    thresholds=(
        Threshold("free", 0.03, Unit.RATIO, "of a pool of unknown size, net, below which it counts as full"),
        Threshold("usage_when_pushed", 0.5, Unit.RATIO, "mean net usage of a pool that was full in between"),
        Threshold("own", 0.7, Unit.RATIO, "of what is used, below which KV in flight fills the pool"),
        Threshold("preemptions", 0.01, Unit.RATIO, "preemptions a finished request; tensward's warning level"),
    ),
    remedies=("limit_running", "quantise_kv", "free_decode_memory", "add_decode", "shed_load"),
    covers=symptoms.QUEUES | {"decode_admission", "kv_transfer_failing", "itl_unstable"},
)
