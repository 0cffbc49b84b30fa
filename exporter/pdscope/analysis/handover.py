"""What is slow about a transfer: its path, its pieces, its set-up. Needs bytes, times and capacity on the board.

The speed of one transfer says something of the path only where it is alone; where many run they share it. Posting and
set-up are parts that no link explains.
"""

from __future__ import annotations

from collections.abc import Sequence

from pdscope.analysis import kv, link
from pdscope.analysis.board import Board
from pdscope.analysis.counters import increase
from pdscope.analysis.handshake import put_setup
from pdscope.analysis.observed import Observed, merged
from pdscope.model.metric import Metric
from pdscope.model.scrape import SeriesKey
from pdscope.model.signal import Quality, SignalId, worst
from pdscope.model.topology import Deployment, Role

PATH_SHARE = 0.05
"""Share of the link below which a transfer that is alone takes a wrong way (VERDICTS, kv_transfer_path)."""
_MIN_SCRAPES = 3
"""Of a window, for each half to be a rate: counters lie on the scrapes, so one interval is enough."""
_MIN_TRANSFERS = 10
"""In the older half: a rate by fewer is a matter of chance."""


def put_handover(board: Board, deployment: Deployment, observed: Sequence[Observed]) -> None:
    """Shares of the link, pieces, posting and set-up of a disaggregated deployment."""
    _put_pair(board, deployment, observed)
    _put_trend(board, observed)
    _put_pieces(board, deployment, observed)
    _put_moving(board, deployment)
    put_setup(board, observed)
    _put_excess(board, deployment, observed)
    _put_gain(board, observed)


def pair_capacity(deployment: Deployment) -> float | None:
    """Bytes a second that one prefill and one decode instance can have between them, after efficiency."""
    interconnect = deployment.interconnect
    if interconnect is None:
        return None
    pairs = [
        link.capacity(interconnect, [sender], [receiver])
        for sender in deployment.of_role(Role.PREFILL)
        for receiver in deployment.of_role(Role.DECODE)
    ]
    known = [pair.bytes_per_second for pair in pairs if pair is not None]
    return min(known) if known else None


def _put_pair(board: Board, deployment: Deployment, observed: Sequence[Observed]) -> None:
    """One transfer against what its pair has, and how long it would take at a twentieth of that, in engine steps."""
    capacity = pair_capacity(deployment)
    size, seconds = board.value(SignalId.KV_BYTES_PER_REQUEST), board.value(SignalId.TRANSFER_TIME)
    if deployment.interconnect is not None:
        measured = deployment.interconnect.measured
        board.put(
            SignalId.PAIR_CAPACITY,
            capacity,
            Quality.MEASURED if measured else Quality.ASSUMED,
            f"{'measured' if measured else 'configured'} interconnect, of one pair of instances",
        )
    achieved, whole = board.value(SignalId.KV_ACHIEVED), board.value(SignalId.LINK_CAPACITY)
    if achieved is not None and whole:
        quality = worst(board.quality(SignalId.KV_ACHIEVED), Quality.DERIVED)
        board.put(SignalId.ACHIEVED_SHARE, achieved / whole, quality, "achieved rate by capacity")
    if capacity is None or size is None:
        return
    quality = worst(board.quality(SignalId.KV_BYTES_PER_REQUEST), Quality.DERIVED)
    if seconds:
        poll = _poll_seconds(board, observed)
        board.put(
            SignalId.TRANSFER_LINK_SHARE,
            size / capacity / max(seconds - poll, size / capacity),
            worst(quality, board.quality(SignalId.TRANSFER_TIME)),
            f"{size:,.0f} B in {seconds:.3g} s ({board.source(SignalId.TRANSFER_TIME)}) less {poll:.3g} s in which its "
            "end may go unseen, by what one pair can carry",
        )
    step = board.value(SignalId.ITL_P50)
    if step:
        board.put(
            SignalId.TRANSFER_FLOOR_STEPS,
            size / (PATH_SHARE * capacity) / step,
            quality,
            f"{size:,.0f} B at {PATH_SHARE:.0%} of what one pair can carry, by ITL p50",
        )


def _poll_seconds(board: Board, observed: Sequence[Observed]) -> float:
    """How long a finished transfer may go unseen: engines look once a batch, prefill's lasting as long as a prompt."""
    timing = [
        o.instance.role
        for o in observed
        for metric in (Metric.EXPOSED_TRANSFER_TIME, Metric.KV_TRANSFER_TIME)
        if (times := o.distribution(metric)) is not None and times.count > 0
    ]
    if Role.PREFILL in timing:
        computed = merged([o for o in observed if o.instance.role is Role.PREFILL], Metric.PREFILL_TIME)
        return computed.mean or 0.0 if computed is not None else 0.0
    return board.value(SignalId.ITL_P50) or 0.0


def _put_trend(board: Board, observed: Sequence[Observed]) -> None:
    """Bytes a second in the newer half of the window by those in the older one."""
    older, newer = 0.0, 0.0
    for o in observed:
        for window in o.windows:
            histogram = window.histograms.get(SeriesKey(Metric.KV_TRANSFER_BYTES))
            if histogram is None or len(window.times) < _MIN_SCRAPES:
                continue
            middle = len(window.times) // 2
            ended = increase(window.times[: middle + 1], histogram.cumulative[: middle + 1, -1], lazy=False)
            if ended is None or ended.value < _MIN_TRANSFERS:
                continue
            parts = [
                increase(window.times[part], histogram.sums[part], lazy=False)
                for part in (slice(None, middle + 1), slice(middle, None))
            ]
            if parts[0] is not None and parts[1] is not None and parts[0].seconds > 0 and parts[1].seconds > 0:
                older += parts[0].per_second
                newer += parts[1].per_second
            break
    if older > 0:
        board.put(
            SignalId.ACHIEVED_TREND,
            newer / older,
            Quality.MEASURED,
            "rate of transferred bytes, newer half of the window by the older",
        )


def _put_pieces(board: Board, deployment: Deployment, observed: Sequence[Observed]) -> None:
    """Bytes of a descriptor, and what posting them takes: of a transfer's time, and of a rank's.

    Of a transfer that waits among others posting is a small part, however busy the thread is that posts them all. vLLM
    observes the time once a rank (NixlKVConnectorStats aggregate the workers' lists).
    """
    pieces = merged(observed, Metric.KV_DESCRIPTORS)
    counters = [o for o in observed if o.distribution(Metric.KV_DESCRIPTORS) is not None]
    moved = merged(counters, Metric.KV_TRANSFER_BYTES)
    if pieces is not None and moved is not None and pieces.total > 0:
        board.put(SignalId.DESCRIPTOR_BYTES, moved.total / pieces.total, Quality.MEASURED, "bytes by descriptors")
    else:
        size = _page_bytes(deployment, observed)
        board.put(SignalId.DESCRIPTOR_BYTES, size, Quality.ESTIMATED, "a page of one layer on one rank")
    posted, spent = merged(observed, Metric.KV_POST_TIME), merged(counters, Metric.KV_TRANSFER_TIME)
    if posted is not None and spent is not None and spent.total > 0:
        board.put(
            SignalId.POST_SHARE, posted.total / spent.total, Quality.MEASURED, "time to post by time of the transfers"
        )
    found = [(o.distribution(Metric.KV_POST_TIME), o.instance) for o in observed]
    times = [(d.total / d.seconds, i) for d, i in found if d is not None and d.count > 0]
    ranks = sum(i.attention_ranks for _, i in times)
    if ranks:
        board.put(
            SignalId.POST_BUSY,
            sum(busy for busy, _ in times) / ranks,
            Quality.DERIVED,
            f"time to post a second, by {ranks} rank(s) of {', '.join(i.name for _, i in times)}",
        )


def _put_moving(board: Board, deployment: Deployment) -> None:
    """What crosses the link while something is in flight, and what one piece of it takes on one rank.

    With fewer than one in flight on average the link rests part of the time: by Little's law the share in which
    something is under way. With more it never does, and all of them together are what the way can carry.
    """
    achieved, flying = board.value(SignalId.KV_ACHIEVED), board.value(SignalId.TRANSFER_IN_FLIGHT)
    pair, whole = board.value(SignalId.PAIR_CAPACITY), board.value(SignalId.LINK_CAPACITY)
    size, ttft = board.value(SignalId.KV_BYTES_PER_REQUEST), board.value(SignalId.TTFT_MEAN)
    quality = worst(board.quality(SignalId.KV_ACHIEVED), Quality.DERIVED)
    flying = max(flying or 0.0, _by_littles_law(board))
    if pair and whole and size is not None and ttft:
        each = min(pair, whole / max(1.0, flying))
        board.put(
            SignalId.LINK_FLOOR_SHARE,
            size / each / ttft,
            worst(board.quality(SignalId.KV_BYTES_PER_REQUEST), Quality.DERIVED),
            f"{size:,.0f} B at the {each / 1e9:.3g} GB/s that each of {max(1.0, flying):.3g} transfers gets of a link "
            "at its full rate, by mean TTFT",
        )
    if not achieved or not flying:
        return
    moving = achieved / min(1.0, flying)
    used = max(1.0, flying)
    if pair and whole:
        alone = board.value(SignalId.TRANSFER_LINK_SHARE) or 0.0
        board.put(
            SignalId.MOVING_SHARE,
            max(alone, moving / min(whole, pair * used)),
            quality,
            f"{moving / 1e9:.3g} GB/s while transfers are in flight ({flying:.3g} on average), by what carries them",
        )
    piece = board.value(SignalId.DESCRIPTOR_BYTES)
    senders, receivers = deployment.of_role(Role.PREFILL), deployment.of_role(Role.DECODE)
    if piece is not None and senders and receivers:
        ranks = min(senders[0].devices, receivers[0].devices)
        pairs = min(used, float(min(len(senders), len(receivers))))
        board.put(
            SignalId.DESCRIPTOR_TIME,
            piece * ranks * pairs / moving,
            worst(quality, board.quality(SignalId.DESCRIPTOR_BYTES)),
            f"pieces of {piece:,.0f} B on {ranks} rank(s) of {pairs:.2g} pair(s) at {moving / 1e9:.3g} GB/s",
        )


def _by_littles_law(board: Board) -> float:
    """Transfers in flight by their rate and time: better than a gauge that is looked at now and then while few are."""
    rate, seconds = board.value(SignalId.REQUESTS_PER_SECOND), board.value(SignalId.TRANSFER_TIME)
    return rate * seconds if rate is not None and seconds is not None else 0.0


def _page_bytes(deployment: Deployment, observed: Sequence[Observed]) -> float | None:
    """The least piece in which an engine that does not count them can move the cache: a page of one layer and rank."""
    shape = deployment.model.kv or deployment.model.file_kv
    sizes = []
    for o in observed:
        if shape is None or o.instance.role not in (Role.PREFILL, Role.DECODE):
            continue
        stated = o.level(Metric.PAGE_TOKENS)
        page = stated.last if stated is not None and stated.last >= 1 else o.instance.page_tokens
        if page:
            ranks = o.instance.attention_ranks
            share = kv.rank_bytes_per_token(shape, ranks) / max(1.0, kv.bytes_per_token(shape))
            sizes.append(page * kv.layer_bytes_per_token(shape) * share)
    return min(sizes) if sizes else None


def _put_excess(board: Board, deployment: Deployment, observed: Sequence[Observed]) -> None:
    """A transfer that is faster than the line: its time is not the time of its bytes.

    Only where the answer hangs on it. SGLang also times the hand-over from prefill's end to the confirmed transfer, and
    where that is there the time of the transfer itself is not used. Both figures must be measured: bytes by the shape
    know nothing of what decode has cached, and a difference of two means may be next to nothing by chance.
    """
    capacity, interconnect = pair_capacity(deployment), deployment.interconnect
    seconds, size = board.value(SignalId.TRANSFER_TIME), board.value(SignalId.KV_BYTES_PER_REQUEST)
    exposed = merged(observed, Metric.EXPOSED_TRANSFER_TIME)
    timed = exposed is not None and exposed.mean is not None
    if timed or capacity is None or interconnect is None or not seconds or size is None:
        return
    used = (SignalId.TRANSFER_TIME, SignalId.KV_BYTES_PER_REQUEST)
    if worst(*map(board.quality, used)) is not Quality.MEASURED:
        return
    board.put(
        SignalId.SPEED_TO_LINE,
        size / seconds / (capacity / interconnect.efficiency),
        Quality.DERIVED,
        f"{size:,.0f} B in {seconds:.3g} s ({board.source(SignalId.TRANSFER_TIME)}), by the line rate of one pair",
    )


def _put_gain(board: Board, observed: Sequence[Observed]) -> None:
    """Transfer and set-up by the time that prefill computes: from 1 on the hand-over costs what it saves."""
    computed = merged([o for o in observed if o.instance.role is Role.PREFILL], Metric.PREFILL_TIME)
    moving = board.value(SignalId.TRANSFER_TIME)
    if computed is None or not computed.mean or moving is None:
        return
    board.put(
        SignalId.HANDOVER_TO_PREFILL,
        (moving + (board.value(SignalId.SETUP_TIME) or 0.0)) / computed.mean,
        worst(board.quality(SignalId.TRANSFER_TIME), Quality.DERIVED),
        "transfer and set-up by prefill's computation of a request, means",
    )
