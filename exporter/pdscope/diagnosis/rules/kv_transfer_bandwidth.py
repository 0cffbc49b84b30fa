"""KV demand reaches what the interconnect can carry."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis import symptoms
from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, past
from pdscope.diagnosis.handover import POSTING, hurts, posting_explains
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import Quality, Scope, ScopeKind, SignalId
from pdscope.model.units import Unit

_LINK = Scope(ScopeKind.LINK, "prefill->decode")


def evaluate(case: Case) -> Iterator[Finding]:
    """Demand (what arrives) or the achieved rate near the usable capacity, and transfers slow accordingly.

    Demand shows an overload that the achieved rate, by nature, cannot; a capacity configured too low would show one
    where there is none, so slow transfers must confirm it. A link that is too narrow for one request is never full.
    And where the rate stays while ever more transfers are in flight, it is all that the link carries, whatever its
    capacity is said to be.
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
    by_capacity = ((full & (late | many)) | congested | (narrow & late)) & _believable(board, capacity)
    plateau = _plateau(board) & late & many & hurts(case)
    if by_capacity is not Truth.TRUE and plateau is Truth.TRUE:
        yield _at_its_plateau(board)
        return
    yield board.finding(
        by_capacity,
        headline=f"{_load(board, demanded, full, narrow, congested)}{_others(board, capacity)}; "
        f"a transfer takes {board.text(SignalId.TRANSFER_TIME)}",
        strength=strength,
        at_best=_worth(board),
        decisive=(load, SignalId.TRANSFER_TTFT_SHARE if late is Truth.TRUE else SignalId.TRANSFER_IN_FLIGHT),
    )


def _plateau(board: Bench) -> Truth:
    """The rate stays while more and more is in flight, and neither small pieces nor a wrong way is why."""
    if board.signal(SignalId.ACHIEVED_TREND) is None or board.signal(SignalId.TRANSFER_IN_FLIGHT_TREND) is None:
        return Truth.FALSE
    grows = board.weigh(SignalId.TRANSFER_IN_FLIGHT_TREND, Op.GE, "growth")
    return _flat(board) & grows & _plain(board)


def _flat(board: Bench) -> Truth:
    flat = board.case.threshold(RULE, "flat")
    rises = board.weigh(SignalId.ACHIEVED_TREND, Op.GT, 1.0 + flat)
    return board.weigh(SignalId.ACHIEVED_TREND, Op.GE, 1.0 - flat) & ~rises


def _plain(board: Bench) -> Truth:
    """No small pieces and no wrong way explain the pace. What is not known of either excuses nothing."""
    crawls = board.signal(SignalId.MOVING_SHARE) is not None and board.weigh(SignalId.MOVING_SHARE, Op.LT, "crawl")
    return Truth.of(crawls is not Truth.TRUE and posting_explains(board) is not Truth.TRUE)


def _at_its_plateau(board: Bench) -> Finding:
    achieved, flying = board.text(SignalId.KV_ACHIEVED), board.count(SignalId.TRANSFER_IN_FLIGHT)
    return board.finding(
        Truth.TRUE,
        headline=f"{achieved} of KV cross the link and no more, while the transfers in flight ({flying} on average) "
        f"rose to {board.text(SignalId.TRANSFER_IN_FLIGHT_TREND)} within the window: that is what it carries"
        f"{_doubt(board)}; a transfer takes {board.text(SignalId.TRANSFER_TIME)}",
        strength=0.6,
        at_best=Quality.DERIVED,
        decisive=(SignalId.ACHIEVED_TREND, SignalId.TRANSFER_IN_FLIGHT_TREND, SignalId.TRANSFER_TTFT_SHARE),
    )


def crowded(case: Case) -> Iterator[Finding]:
    """Asked when nothing explains a TTFT that is over: most of it are transfers, many at a time, at a steady rate.

    Then they share something that is narrower than the configuration says, or that it does not tell: the link, its
    ports in use, its path. Which of them, the rate alone does not say, hence confidence low.
    """
    if not case.deployment.disaggregated or case.broken("ttft") is not Truth.TRUE:
        return
    board = Bench(RULE, case, _LINK)
    most = board.weigh(SignalId.TRANSFER_TTFT_SHARE, Op.GE, "most")
    many = board.weigh(SignalId.TRANSFER_IN_FLIGHT, Op.GE, "in_flight")
    moves = board.weigh(SignalId.KV_ACHIEVED, Op.GT, 0.0)
    if board.signal(SignalId.LINK_CAPACITY) is None:
        board.missing.append(SignalId.LINK_CAPACITY)
    yield board.finding(
        most & many & moves & _flat(board) & _plain(board),
        headline=f"{board.count(SignalId.TRANSFER_IN_FLIGHT)} transfers at a time take "
        f"{board.text(SignalId.TRANSFER_TIME)} each, {board.text(SignalId.TRANSFER_TTFT_SHARE)} of TTFT, and share a "
        f"steady {board.text(SignalId.KV_ACHIEVED)}{_doubt(board)}; look at the ports and the path that KV takes",
        strength=0.5,
        decisive=(SignalId.LINK_CAPACITY,),
        remedies=("check_transport", "use_more_nics", "check_topology"),
    )


def _doubt(board: Bench) -> str:
    """What the configured capacity is worth beside that."""
    if board.signal(SignalId.LINK_CAPACITY) is None:
        return " (interconnect.bandwidth is not configured, or not usable)"
    return f" (check interconnect.bandwidth: by it the link carries {board.text(SignalId.LINK_CAPACITY)})"


def _others(board: Bench, capacity: float | None) -> str:
    """What else is on the ports, where it takes more than it leaves to KV."""
    foreign = board.value(SignalId.LINK_FOREIGN)
    if not foreign or capacity is None or foreign < capacity:
        return ""
    return f", beside {board.text(SignalId.LINK_FOREIGN)} on its ports that is not KV"


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


def _load(board: Bench, demanded: Truth, full: Truth, narrow: Truth, congested: Truth) -> str:
    """Demand, capacity and what gets through. Under a closed population demand follows what the link lets through."""
    capacity, achieved = board.text(SignalId.LINK_CAPACITY), board.text(SignalId.KV_ACHIEVED)
    demand, share = board.text(SignalId.KV_DEMAND), board.text(SignalId.LINK_UTILIZATION)
    notices = f"ports tell of congestion {board.text(SignalId.NIC_CONGESTION)}"
    if full is not Truth.TRUE and congested is Truth.TRUE:
        return f"{notices}, with {achieved} of KV on a link that should carry {capacity} (demand: {demand}, {share})"
    if full is not Truth.TRUE and narrow is Truth.TRUE:
        return (
            f"the {board.text(SignalId.KV_BYTES_PER_REQUEST)} of one request take "
            f"{board.text(SignalId.LINK_FLOOR_SHARE)} of TTFT at its full share of a link that carries "
            f"{board.text(SignalId.LINK_CAPACITY)} ({board.text(SignalId.PAIR_CAPACITY)} a pair): it is too slow for "
            "what comes at a time, full on average or not"
        )
    congestion = f"; {notices}" if congested is Truth.TRUE else ""
    if demanded is not Truth.TRUE:
        window = f"demand in the window: {demand}, {share}"
        return f"{achieved} of KV fill a link that carries {capacity} ({window}){congestion}"
    through = f"; {achieved} get through" if board.value(SignalId.KV_ACHIEVED) is not None else ""
    return f"KV demand of {demand} meets a link that carries {capacity} ({share}){through}{congestion}"


RULE = Rule(
    id="kv_transfer_bandwidth",
    verdict=Verdict.KV_TRANSFER_BANDWIDTH,
    evaluate=evaluate,
    last_resort=crowded,
    thresholds=(
        Threshold("utilization", 0.9, Unit.RATIO, "demand by usable capacity; 0.9 x efficiency 0.8 is 0.72 of nominal"),
        Threshold("ttft_share", 0.2, Unit.RATIO, "share of TTFT from which a stage counts; tensward's warning level"),
        Threshold("floor", 0.3, Unit.RATIO, "share of TTFT that a request's bytes take at its full share of the link"),
        Threshold("moving", 0.5, Unit.RATIO, "of what carries them, that transfers in flight really get"),
        Threshold("flat", 0.1, Unit.RATIO, "by which a steady rate may change from half to half of the window"),
        Threshold("growth", 1.25, Unit.RATIO, "in flight, from half to half of the window: up by half from end to end"),
        Threshold("crawl", 0.05, Unit.RATIO, "of what carries them, below which transfers take a wrong path"),
        Threshold("most", 0.4, Unit.RATIO, "share of TTFT that is more than any other: a slow link had 0.5 to 0.85"),
        *POSTING,
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
    covers=symptoms.FETCH | {"pd_ratio"},
)
