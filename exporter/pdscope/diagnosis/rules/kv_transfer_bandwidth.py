"""KV demand reaches what the interconnect can carry."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, past
from pdscope.diagnosis.handover import hurts
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import Quality, Scope, ScopeKind, SignalId
from pdscope.model.units import Unit

_LINK = Scope(ScopeKind.LINK, "prefill->decode")


def evaluate(case: Case) -> Iterator[Finding]:
    """Demand (what arrives) or the achieved rate near the usable capacity, and transfers slow accordingly.

    Demand shows an overload that the achieved rate, by nature, cannot; a capacity configured too low would show one
    where there is none, so slow transfers must confirm it. A link that is too narrow for one request is never full.
    """
    if not case.deployment.disaggregated:
        return
    board = Bench(RULE, case, _LINK)
    limit = case.threshold(RULE, "utilization")
    demanded = board.weigh(SignalId.LINK_UTILIZATION, Op.GE, limit)
    capacity = board.value(SignalId.LINK_CAPACITY)
    filled = Truth.UNKNOWN
    if capacity is not None and board.value(SignalId.KV_ACHIEVED) is not None:
        filled = board.weigh(SignalId.KV_ACHIEVED, Op.GE, limit * capacity)
    late = board.weigh(SignalId.TRANSFER_TTFT_SHARE, Op.GE, "ttft_share")
    many = board.weigh(SignalId.TRANSFER_IN_FLIGHT, Op.GE, "in_flight")
    full = demanded | filled
    # the notices are of the ports' whole traffic, so they count only where KV goes through these ports
    congested = Truth.FALSE
    if board.signal(SignalId.LINK_FOREIGN) is not None and board.signal(SignalId.NIC_CONGESTION) is not None:
        congested = board.weigh(SignalId.NIC_CONGESTION, Op.GE, "congestion") & late
    narrow = _too_narrow(board) & hurts(case)
    load = SignalId.LINK_UTILIZATION if demanded is Truth.TRUE else SignalId.KV_ACHIEVED
    strength = past(board.value(SignalId.LINK_UTILIZATION), limit)
    if full is not Truth.TRUE and congested is Truth.TRUE:
        load = SignalId.NIC_CONGESTION
    elif full is not Truth.TRUE and narrow is Truth.TRUE:
        load = SignalId.LINK_FLOOR_SHARE
        strength = past(board.value(SignalId.LINK_FLOOR_SHARE), case.threshold(RULE, "floor"))
    yield board.finding(
        ((full & (late | many)) | congested | (narrow & late)) & _believable(board, capacity),
        headline=f"{_load(board, demanded, full, narrow)}{_notices(board, congested)}; "
        f"a transfer takes {board.text(SignalId.TRANSFER_TIME)}",
        strength=strength,
        at_best=_worth(board),
        decisive=(load, SignalId.TRANSFER_TTFT_SHARE if late is Truth.TRUE else SignalId.TRANSFER_IN_FLIGHT),
    )


def _notices(board: Bench, congested: Truth) -> str:
    return f"; ports tell of congestion {board.text(SignalId.NIC_CONGESTION)}" if congested is Truth.TRUE else ""


def _worth(board: Bench) -> Quality:
    """A capacity from a data sheet makes the answer no better than derived, whatever is compared with it."""
    capacity = board.signal(SignalId.LINK_CAPACITY)
    measured = capacity is not None and capacity.quality is Quality.MEASURED
    return Quality.MEASURED if measured else Quality.DERIVED


def _believable(board: Bench, capacity: float | None) -> Truth:
    """Whether what really crosses the link leaves its configured capacity possible.

    More bytes than the capacity, or one transfer that is faster than the whole link, say that the figure is wrong, and
    nothing can be concluded from it. Bytes are counted when a transfer ends, so short windows may exceed the line.
    """
    if capacity is None:
        return Truth.UNKNOWN
    most = (1.0 + board.case.threshold(RULE, "excess")) * capacity
    achieved, size = board.value(SignalId.KV_ACHIEVED), board.value(SignalId.KV_BYTES_PER_REQUEST)
    seconds = board.value(SignalId.TRANSFER_TIME)
    if achieved is not None:
        return board.weigh(SignalId.KV_ACHIEVED, Op.LE, most)
    if size is None or not seconds:
        return Truth.TRUE
    return Truth.TRUE if size / seconds <= most else Truth.UNKNOWN


def _too_narrow(board: Bench) -> Truth:
    """A link that is no way near full over the window, and yet too slow for one request: each keeps it busy for long.

    A good part of TTFT is what the bytes of one request take at their share of all that the link can carry, beside
    those in flight with them; and while something is in flight the link really carries at least half of that.
    """
    if board.signal(SignalId.LINK_FLOOR_SHARE) is None or board.signal(SignalId.MOVING_SHARE) is None:
        return Truth.FALSE
    return board.weigh(SignalId.LINK_FLOOR_SHARE, Op.GE, "floor") & board.weigh(SignalId.MOVING_SHARE, Op.GE, "moving")


def _load(board: Bench, demanded: Truth, full: Truth, narrow: Truth) -> str:
    """Demand, capacity and what gets through. Under a closed population demand follows what the link lets through."""
    if full is not Truth.TRUE and narrow is Truth.TRUE:
        return (
            f"the {board.text(SignalId.KV_BYTES_PER_REQUEST)} of one request take "
            f"{board.text(SignalId.LINK_FLOOR_SHARE)} of TTFT at its full share of a link that carries "
            f"{board.text(SignalId.LINK_CAPACITY)} ({board.text(SignalId.PAIR_CAPACITY)} a pair): it is too slow for "
            "what comes at a time, full on average or not"
        )
    capacity, achieved = board.text(SignalId.LINK_CAPACITY), board.text(SignalId.KV_ACHIEVED)
    demand, share = board.text(SignalId.KV_DEMAND), board.text(SignalId.LINK_UTILIZATION)
    if demanded is not Truth.TRUE:
        return f"{achieved} of KV fill a link that carries {capacity} (demand in the window: {demand}, {share})"
    through = f"; {achieved} get through" if board.value(SignalId.KV_ACHIEVED) is not None else ""
    return f"KV demand of {demand} meets a link that carries {capacity} ({share}){through}"


RULE = Rule(
    id="kv_transfer_bandwidth",
    verdict=Verdict.KV_TRANSFER_BANDWIDTH,
    evaluate=evaluate,
    thresholds=(
        Threshold("utilization", 0.9, Unit.RATIO, "demand by usable capacity; 0.9 x efficiency 0.8 is 0.72 of nominal"),
        Threshold("ttft_share", 0.2, Unit.RATIO, "share of TTFT from which a stage counts; tensward's warning level"),
        Threshold("floor", 0.3, Unit.RATIO, "share of TTFT that a request's bytes take at its full share of the link"),
        Threshold("moving", 0.5, Unit.RATIO, "of what carries them, that transfers in flight really get"),
        Threshold("excess", 0.25, Unit.RATIO, "over the capacity; bytes of short windows reached 1.08 of a line"),
        Threshold(
            "congestion", 100, Unit.PER_SECOND, "notices of congestion from which a port is full and not brushed"
        ),
        Threshold("in_flight", 4, Unit.REQUESTS, "transfers at a time; healthy pairs had below 1"),
    ),
    remedies=(
        "use_more_nics",
        "faster_link",
        "quantise_kv",
        "decode_prefix_cache",
        "local_prefill",
        "shed_load",
    ),
)
