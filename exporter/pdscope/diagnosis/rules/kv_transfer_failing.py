"""Transfers or bootstraps fail, or nothing moves any more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pdscope.diagnosis import symptoms
from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import SignalId, instance_scope
from pdscope.model.topology import Instance, Role
from pdscope.model.units import Unit


def evaluate(case: Case) -> Iterator[Finding]:
    """Per instance of a split deployment: failure counters rise, and decode's limit does not explain them.

    A deadline counts from arrival, so requests that queue in front of a full decode fail it: that is the limit's fault.
    So do those that queue in front of prefill for as long as deadlines are: then the failures stand beside the verdict
    on that queue.
    """
    if not case.deployment.disaggregated:
        return
    for instance in case.instances(Role.PREFILL, Role.DECODE):
        yield _judge(case, instance)
    for instance in case.instances(Role.DECODE):
        yield _stall(case, instance)


def _judge(case: Case, instance: Instance) -> Finding:
    board = bench(RULE, case, instance)
    failing = board.weigh(SignalId.FAILURES_PER_SECOND, Op.GT, 0.0)
    rate, served = board.value(SignalId.FAILURES_PER_SECOND), board.value(SignalId.REQUESTS_PER_SECOND)
    if rate is not None and served is not None:
        # one bad request in thousands is no bottleneck
        failing &= Truth.of(rate >= case.threshold(RULE, "share") * (served + rate))
    truth = failing & ~_decode_at_limit(board)
    late = _prefill_outlasts_deadlines(board) if truth is Truth.TRUE else None
    found = board.finding(
        truth,
        headline=f"KV transfers or bootstraps fail on {instance.name}: {board.text(SignalId.FAILURES_PER_SECOND)}"
        f"{_beside(board)}{_by_the_queue(board, late)}",
        strength=1.0 if not served else min(1.0, (rate or 0.0) / served),
        decisive=(SignalId.FAILURES_PER_SECOND,),
        culprits=(instance.name,),
    )
    return replace(found, before=Verdict.DECODE_HBM_BANDWIDTH) if late is not None else found


def _stall(case: Case, instance: Instance) -> Finding:
    """No token and no byte for a whole window, while computed prompts wait for their transfer and memory is there.

    Few requests never silence a stall. A long prompt that is still being computed is none: then nothing is in flight.
    """
    board = bench(RULE, case, instance)
    signals = (SignalId.GENERATION_RATE, SignalId.AWAITED_KV, SignalId.TRANSFER_IN_FLIGHT, SignalId.KV_ACHIEVED)
    if any(board.signal(signal) is None for signal in signals):
        return board.finding(Truth.FALSE)  # the counters of failures are the plain sign
    still = board.weigh(SignalId.GENERATION_RATE, Op.LE, 0.0) & board.weigh(SignalId.KV_ACHIEVED, Op.LE, 0.0)
    waiting = board.weigh(SignalId.AWAITED_KV, Op.GE, 1.0) & board.weigh(SignalId.TRANSFER_IN_FLIGHT, Op.GE, 1.0)
    long = board.weigh(SignalId.OBSERVED, Op.GE, "stall")
    if board.signal(SignalId.KV_FREE_REQUESTS) is not None:
        memory = board.weigh(SignalId.KV_FREE_REQUESTS, Op.GE, 1.0)
    else:  # with nothing finished the size of a prompt is not known
        memory = board.weigh(SignalId.KV_USAGE, Op.LT, 1.0 - case.threshold(RULE, "free"))
    return board.finding(
        still & waiting & long & memory,
        headline=f"{instance.name} has generated nothing for {board.text(SignalId.OBSERVED)} while the KV of "
        f"{board.text(SignalId.AWAITED_KV)} is awaited and none of it moves, with memory free",
        strength=1.0,
        decisive=(SignalId.GENERATION_RATE,),
        culprits=(instance.name,),
    )


def _decode_at_limit(board: Bench) -> Truth:
    """Some decode instance makes requests wait at its limit. Unknown counts as no: failures are plain to see."""
    for instance in board.case.instances(Role.DECODE):
        scope = instance_scope(instance.name)
        limited = board.weigh(SignalId.RUNNING_TO_LIMIT, Op.GE, 1.0, scope) | board.weigh(
            SignalId.KV_FREE_REQUESTS, Op.LT, 1.0, scope
        )
        if (limited & board.weigh(SignalId.ADMISSION_QUEUE, Op.GE, 1.0, scope)) is Truth.TRUE:
            return Truth.TRUE
    return Truth.FALSE


def _prefill_outlasts_deadlines(board: Bench) -> Instance | None:
    """A prefill instance in whose standing queue requests wait about as long as a deadline. Unknown counts as none."""
    for instance in board.case.instances(Role.PREFILL):
        scope = instance_scope(instance.name)
        stands = board.weigh(SignalId.PREFILL_QUEUE, Op.GE, 1.0, scope)
        if (stands & board.weigh(SignalId.PREFILL_WAIT, Op.GE, "deadline", scope)) is Truth.TRUE:
            return instance
    return None


def _beside(board: Bench) -> str:
    if board.signal(SignalId.REQUESTS_PER_SECOND) is None:
        return ""
    return f" beside {board.text(SignalId.REQUESTS_PER_SECOND)} that finish"


def _by_the_queue(board: Bench, instance: Instance | None) -> str:
    if instance is None:
        return ""
    wait = board.text(SignalId.PREFILL_WAIT, instance_scope(instance.name))
    return f"; they wait for prefill on {instance.name} for {wait}, about as long as deadlines allow"


RULE = Rule(
    id="kv_transfer_failing",
    verdict=Verdict.KV_TRANSFER_FAILING,
    evaluate=evaluate,
    thresholds=(
        Threshold("share", 0.01, Unit.RATIO, "failures by all that ends, from which they count"),
        Threshold("free", 0.1, Unit.RATIO, "of decode's pool, where the size of a prompt is not known"),
        Threshold("deadline", 150, Unit.SECONDS, "wait for prefill that uses up deadlines: half of SGLang's 300 s"),
        Threshold("stall", 20, Unit.SECONDS, "without a token or a byte; transfers that work take less"),
    ),
    remedies=("fix_transport", "check_shapes"),
    covers=symptoms.FETCH,
)
