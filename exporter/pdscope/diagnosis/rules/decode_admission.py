"""Decode cannot let requests in: no slot, or no memory for the next one."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis import symptoms
from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, bench
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Instance, Role
from pdscope.model.units import Unit, format_quantity


def evaluate(case: Case) -> Iterator[Finding]:
    """Per decode instance: a queue before its slots and memory that stands and is a good part of TTFT, or most of it.

    The queue itself is direct evidence where the engine tells it apart from transfers (SGLang's allocation wait, vLLM's
    fetch stages); where it does not, a full pool or a full batch must explain it. KV that is still arriving is taken
    off the usage first: a pool filled by slow transfers is the link's fault.
    """
    for instance in case.instances(Role.DECODE):
        yield _judge(case, instance)


def _judge(case: Case, instance: Instance) -> Finding:
    board = bench(RULE, case, instance)
    waiting = board.weigh(SignalId.ADMISSION_QUEUE, Op.GE, "queue")
    long_wait = board.weigh(SignalId.ADMISSION_TTFT_SHARE, Op.GE, "ttft_share")
    fetched = board.signal(SignalId.KV_RECEIVED_SHARE)
    handed_over = (
        Truth.TRUE if fetched is None else board.weigh(SignalId.KV_RECEIVED_SHARE, Op.GT, 0.0)
    )  # requests that decode computes itself wait for prefill, not for admission
    slots = board.weigh(SignalId.RUNNING_TO_LIMIT, Op.GE, 1.0)
    memory = board.weigh(SignalId.KV_FREE_REQUESTS, Op.LT, 1.0) | board.weigh(
        SignalId.KV_USAGE_NET, Op.GE, 1.0 - board.case.threshold(RULE, "free")
    )
    told_apart = _told_apart(board)
    passing = waiting is Truth.FALSE and told_apart is Truth.TRUE and case.broken("ttft") is Truth.TRUE and _many(board)
    if passing and board.signal(SignalId.ADMISSION_TTFT_SHARE) is not None:
        waiting = board.weigh(SignalId.ADMISSION_TTFT_SHARE, Op.GE, "most")
    cause = (told_apart & ~_held_by_transfers(board, slots, memory)) | slots | memory
    truth = waiting & long_wait & handed_over & cause
    wait = board.text(SignalId.ADMISSION_WAIT)
    share = board.text(SignalId.ADMISSION_TTFT_SHARE)
    decisive = [SignalId.ADMISSION_QUEUE, SignalId.ADMISSION_TTFT_SHARE]
    if told_apart is not Truth.TRUE:
        decisive.append(SignalId.RUNNING_TO_LIMIT if slots is Truth.TRUE else SignalId.KV_USAGE_NET)
    return board.finding(
        truth,
        headline=f"{'requests, in a queue that comes and goes,' if passing else board.text(SignalId.ADMISSION_QUEUE)} "
        f"wait in front of {instance.name} for {wait} ({share} of TTFT): {_why(board, slots, memory)}",
        strength=board.value(SignalId.ADMISSION_TTFT_SHARE) or 0.0,
        decisive=decisive,
        culprits=(instance.name,),
        remedies=_remedies(case, slots, memory),
    )


def _many(board: Bench) -> bool:
    """Whether a queue is there on average (Little's law): one request at a scrape or two is none."""
    wait, served = board.value(SignalId.ADMISSION_WAIT), board.value(SignalId.REQUESTS_PER_SECOND)
    return wait is not None and served is not None and wait * served >= board.case.threshold(RULE, "queue")


def _told_apart(board: Bench) -> Truth:
    queue = board.signal(SignalId.ADMISSION_QUEUE)
    if queue is None:
        return Truth.UNKNOWN
    return Truth.TRUE if queue.quality is Quality.MEASURED else Truth.UNKNOWN


def _held_by_transfers(board: Bench, slots: Truth, memory: Truth) -> Truth:
    """The pool is full only by KV in flight: gross usage leaves no room, net usage does, and slots are free."""
    gross, net = board.value(SignalId.KV_USAGE), board.value(SignalId.KV_USAGE_NET)
    if gross is None or net is None:
        return Truth.FALSE
    crowded = gross >= board.case.threshold(RULE, "crowded") and gross - net >= board.case.threshold(RULE, "in_flight")
    if slots is Truth.TRUE or memory is Truth.TRUE:
        return Truth.FALSE
    return Truth.of(crowded or _crawling(board))


def _crawling(board: Bench) -> bool:
    """Transfers that hardly move and are most of TTFT: slots and memory wait for them, not they for those."""
    moving, share = board.value(SignalId.MOVING_SHARE), board.value(SignalId.TRANSFER_TTFT_SHARE)
    if moving is None or share is None:
        return False
    return moving < board.case.threshold(RULE, "crawl") and share >= board.case.threshold(RULE, "transfer_share")


def _why(board: Bench, slots: Truth, memory: Truth) -> str:
    running, usage = board.count(SignalId.RUNNING), board.text(SignalId.KV_USAGE_NET)
    if slots is Truth.TRUE:
        return f"it is at its slot limit ({_slots(board)}, KV usage {usage} net)"
    if memory is Truth.TRUE:
        return f"its KV memory has no room for the next request (usage {usage} net, {running} running)"
    return (
        f"neither its slots ({running} running) nor its KV pool ({usage} net) is used up, so memory that it holds in "
        "reserve, or a limit that it does not export, stops admission"
    )


def _slots(board: Bench) -> str:
    """Running requests and their limit, of one time: a limit that was lowered says nothing of what ran before it."""
    running, limit = board.value(SignalId.RUNNING), board.value(SignalId.MAX_RUNNING)
    share, count = board.value(SignalId.RUNNING_TO_LIMIT), board.count(SignalId.MAX_RUNNING)
    if running is None or limit is None or share is None or running > limit:
        return f"its limit is {count} now"
    full = f", reached from {format_quantity(running / share, Unit.COUNT)} on" if running < limit and share else ""
    return f"{board.count(SignalId.RUNNING)} running of {count}{full}"


def _remedies(case: Case, slots: Truth, memory: Truth) -> tuple[str, ...]:
    if memory is Truth.TRUE:  # also beside a full batch: more slots would only share less memory
        return ("free_decode_memory", "quantise_kv", "reserve_fewer_tokens", "add_decode", "shed_load")
    if slots is Truth.TRUE:
        # more slots stretch every step: no help where ITL is over already
        more = () if case.broken("itl") is Truth.TRUE else ("raise_running_limit",)
        return (*more, "add_decode", "shed_load")
    # where nothing else is short and no limit of its slots is known, they are; a limit that is known is not reached
    more = () if slots is Truth.FALSE or case.broken("itl") is Truth.TRUE else ("raise_running_limit",)
    return ("reserve_fewer_tokens", *more, "add_decode", "shed_load")


RULE = Rule(
    id="decode_admission",
    verdict=Verdict.DECODE_ADMISSION,
    evaluate=evaluate,
    thresholds=(
        Threshold("queue", 1, Unit.REQUESTS, "requests that stand there during the newer half of the window"),
        Threshold("most", 0.5, Unit.RATIO, "share of TTFT: a queue that comes and goes, and yet is most of it"),
        Threshold("ttft_share", 0.2, Unit.RATIO, "share of TTFT from which a stage counts; tensward's warning level"),
        Threshold("free", 0.03, Unit.RATIO, "of a pool of unknown size, net, below which it counts as full"),
        Threshold("crawl", 0.05, Unit.RATIO, "of the link, that transfers in flight get: below, they hold the rest up"),
        Threshold("transfer_share", 0.5, Unit.RATIO, "share of TTFT from which the transfer is most of it"),
        Threshold("crowded", 0.8, Unit.RATIO, "gross usage from which KV in flight can be what fills the pool"),
        Threshold("in_flight", 0.2, Unit.RATIO, "share of the pool held by KV in flight from which it is"),
    ),
    remedies=(
        "raise_running_limit",
        "free_decode_memory",
        "reserve_fewer_tokens",
        "quantise_kv",
        "add_decode",
        "shed_load",
    ),
    covers=symptoms.QUEUES | {"kv_transfer_failing"},
)
