"""Per instance that decodes: who waits to be let in, what memory and slots are left, and whether tokens come out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pdscope.analysis.board import Board
from pdscope.analysis.observed import Level, Observed
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, Scope, SignalId, instance_scope, worst
from pdscope.model.topology import Role

_CONTRADICTION = 1.5
"""By which a wait may exceed the TTFT that holds it: bursts, and buckets of the mean are none."""
_FULL = 0.9
_MANY = 8
"""Requests below which a queue comes and goes between two scrapes."""


@dataclass(frozen=True, slots=True)
class _Queue:
    standing: float
    mean: float
    quality: Quality
    source: str
    age_seconds: float
    samples: int
    stands: bool
    """Whether it neither grew nor shrank by more than a tenth between the ends of the window."""


def put_decode(board: Board, observed: Sequence[Observed]) -> None:
    """Memory, slots, admission queue and wait, preemptions and token rate of every instance that decodes."""
    for o in observed:
        if o.instance.role is not Role.ROUTER:
            _put_memory(board, o, observed)
            _put_slots(board, o)
        if o.instance.decodes:
            _put_rates(board, o)
        if o.instance.role is Role.DECODE:
            _put_admission(board, o)


def _put_slots(board: Board, o: Observed) -> None:
    scope = instance_scope(o.instance.name)
    running = o.level(Metric.RUNNING)
    if running is None:
        return
    board.put(
        SignalId.RUNNING,
        running.mean,
        Quality.MEASURED,
        f"{running.source}, mean",
        scope=scope,
        samples=running.samples,
        age_seconds=running.age_seconds,
    )
    if not o.instance.decodes:
        return  # a prefill batch is limited by its tokens
    limit = o.level(Metric.MAX_RUNNING)
    value: float | None = limit.last if limit is not None else None
    quality, source = Quality.MEASURED, limit.source if limit is not None else ""
    if value is None and o.instance.max_running is not None:
        value, quality, source = float(o.instance.max_running), Quality.ASSUMED, "max_running of the configuration"
    board.put(SignalId.MAX_RUNNING, value, quality, source, scope=scope)
    if value:
        # a slot stays empty while the next KV arrives, so the limit counts as reached a little below it
        reached = max(1.0, value - max(1.0, 0.05 * value))
        # an engine that restarted with another limit: what ran before it says nothing of the new one
        moved = limit is not None and limit.low != limit.high
        board.put(
            SignalId.RUNNING_TO_LIMIT,
            (running.last if moved else running.mean) / reached,
            Quality.MEASURED if quality is Quality.MEASURED else Quality.DERIVED,
            f"{running.source}{', newest,' if moved else ''} by the limit of {value:.0f} less max(1, 5 %) ({source})",
            scope=scope,
            age_seconds=running.age_seconds,
        )


def _put_memory(board: Board, o: Observed, everyone: Sequence[Observed]) -> None:
    """KV usage, and usage net of KV that is still arriving: blocks are taken before the KV comes."""
    scope = instance_scope(o.instance.name)
    usage = o.level(Metric.KV_USAGE)
    if usage is None:
        return
    board.put(
        SignalId.KV_USAGE,
        usage.mean,
        Quality.MEASURED,
        f"{usage.source}, mean (greatest {usage.high:.3g})",
        scope=scope,
        samples=usage.samples,
        age_seconds=usage.age_seconds,
    )
    pool = pool_tokens(o, everyone)
    prompt = board.value(SignalId.PROMPT_TOKENS_PER_REQUEST)
    net, quality, source = _net_usage(o, usage, pool, prompt)
    board.put(SignalId.KV_USAGE_NET, net, quality, source, scope=scope, age_seconds=usage.age_seconds)
    if pool and prompt:
        board.put(
            SignalId.KV_FREE_REQUESTS,
            max(0.0, 1.0 - net) * pool / prompt,
            worst(quality, Quality.DERIVED),
            f"free KV of {pool:,.0f} tokens at net usage {net:.3g}, in prompts of {prompt:,.0f} tokens",
            scope=scope,
            age_seconds=usage.age_seconds,
        )


def _net_usage(o: Observed, usage: Level, pool: float | None, prompt: float | None) -> tuple[float, Quality, str]:
    if o.instance.role is not Role.DECODE:
        return usage.mean, Quality.MEASURED, f"{usage.source}, mean"
    arriving = o.level(Metric.KV_USAGE_IN_TRANSFER)
    if arriving is not None:
        return max(0.0, usage.mean - arriving.mean), Quality.MEASURED, f"{usage.source} less {arriving.source}, means"
    fetching = o.level(Metric.KV_FETCH_ACTIVE)
    if fetching is not None and pool and prompt:
        held = fetching.mean * prompt / pool
        text = f"{usage.source} less {fetching.mean:.3g} fetches of {prompt:,.0f} tokens"
        return max(0.0, usage.mean - held), Quality.ESTIMATED if held else Quality.MEASURED, text
    return usage.mean, Quality.DERIVED, f"{usage.source}; KV in flight is not told apart"


def pool_tokens(o: Observed, everyone: Sequence[Observed]) -> float | None:
    """Tokens that the KV pool of the instance holds."""
    own = o.level(Metric.KV_POOL_TOKENS)
    if own is not None and own.last > 0:
        return own.last
    pages, page = o.level(Metric.KV_POOL_PAGES), o.level(Metric.PAGE_TOKENS)
    if pages is not None and page is not None and pages.last * page.last > 0:
        return pages.last * page.last
    # a frontend publishes what its decode workers registered; with one pool size for all of them
    for router in everyone:
        if router.instance.role is Role.ROUTER and o.instance.role is Role.DECODE:
            pages, page = router.level(Metric.KV_POOL_PAGES), router.level(Metric.PAGE_TOKENS)
            if pages is not None and page is not None and pages.last * page.last > 0:
                return pages.last * page.last
    return None


def _put_rates(board: Board, o: Observed) -> None:
    scope = instance_scope(o.instance.name)
    for signal, metric in (
        (SignalId.PREEMPTIONS_PER_SECOND, Metric.PREEMPTIONS),
        (SignalId.GENERATION_RATE, Metric.GENERATED_TOKENS),
    ):
        rate = o.rate(metric)
        if rate is not None:
            board.put(signal, rate.per_second, Quality.MEASURED, rate.source, scope=scope, age_seconds=rate.age_seconds)
    received, prompts = o.rate(Metric.KV_RECEIVED_TOKENS), o.rate(Metric.PROMPT_TOKENS)
    if received is not None and prompts is not None and prompts.gain > 0:
        board.put(
            SignalId.KV_RECEIVED_SHARE,
            min(1.0, received.gain / prompts.gain),
            Quality.MEASURED,
            f"{received.source} by {prompts.source}",
            scope=scope,
        )


def _put_admission(board: Board, o: Observed) -> None:
    scope = instance_scope(o.instance.name)
    queue = admission_queue(o)
    allocation = o.distribution(Metric.ALLOCATION_TIME)
    impossible = _impossible(board, o, queue) if queue is not None and allocation is None else ""
    if queue is not None and impossible:
        board.put(SignalId.DISTRUSTED_QUEUE, queue.mean, queue.quality, f"{queue.source}: {impossible}", scope=scope)
        return
    if queue is not None:
        board.put(
            SignalId.ADMISSION_QUEUE,
            queue.standing,
            queue.quality,
            f"{queue.source}, least of the newer half of the window (mean {queue.mean:.3g})",
            scope=scope,
            samples=queue.samples,
            age_seconds=queue.age_seconds,
        )
    if allocation is not None and allocation.mean is not None:
        _put_wait(board, scope, allocation.mean, Quality.MEASURED, f"mean of {o.source_of(Metric.ALLOCATION_TIME)}")
        return
    finished = o.rate(Metric.REQUESTS_FINISHED)
    rate = finished.per_second if finished is not None else board.value(SignalId.REQUESTS_PER_SECOND)
    if queue is not None and rate:
        quality = worst(queue.quality, Quality.DERIVED)
        _put_wait(board, scope, queue.mean / rate, quality, "admission queue by completion rate (Little's law)")
    elif queue is not None and rate is None and (arrive := board.value(SignalId.ARRIVALS_PER_SECOND)):
        # while a queue stands or grows, at least as many arrive as leave it: the wait is at least this
        _put_wait(
            board, scope, queue.mean / arrive, Quality.ESTIMATED, "admission queue by all arrivals (Little's law)"
        )


def _impossible(board: Board, o: Observed, queue: _Queue) -> str:
    """Why the queue cannot be what it says; empty where it can.

    A queue that stands unchanged for a window makes everybody who leaves it wait queue / rate (Little's law), and
    decode's TTFT holds that wait. Where requests fail or the queue grows, those who wait are not those who are counted.
    A queue in front of full slots or a full pool is believed all the same: that much is plain without its length.
    """
    scope = instance_scope(o.instance.name)
    if (board.value(SignalId.RUNNING_TO_LIMIT, scope) or 0.0) >= 1 or (
        board.value(SignalId.KV_USAGE, scope) or 0
    ) > _FULL:
        return ""
    ttft, finished = o.distribution(Metric.TTFT), o.rate(Metric.REQUESTS_FINISHED)
    failed = [r.gain for m in (Metric.TRANSFER_FAILURES, Metric.BOOTSTRAP_FAILURES) if (r := o.rate(m)) is not None]
    if ttft is None or not ttft.mean or finished is None or finished.per_second <= 0 or sum(failed) > 0:
        return ""
    wait = queue.standing / finished.per_second
    if not queue.stands or wait <= _CONTRADICTION * ttft.mean or queue.standing < _MANY:
        return ""
    return f"by its completion rate it would make requests wait {wait:.3g} s, and their mean TTFT is {ttft.mean:.3g} s"


def _put_wait(board: Board, scope: Scope, seconds: float, quality: Quality, source: str) -> None:
    board.put(SignalId.ADMISSION_WAIT, seconds, quality, source, scope=scope)
    ttft = board.value(SignalId.TTFT_MEAN)
    if ttft:
        share = min(1.0, seconds / ttft)
        board.put(
            SignalId.ADMISSION_TTFT_SHARE,
            share,
            worst(quality, board.quality(SignalId.TTFT_MEAN)),
            f"{source}, by mean TTFT",
            scope=scope,
        )


def admission_queue(o: Observed) -> _Queue | None:
    """Requests in front of decode's slots and memory, not those whose KV is on its way.

    SGLang: the pre-allocation queue and the requests whose KV has landed and that have no slot. vLLM from 0.32 on: the
    stages of the KV fetch before and after the pull. Older or foreign engines: all that wait, which may include
    transfers, so an estimate.
    """
    sglang = [o.level(Metric.DECODE_ALLOCATION_QUEUE), o.level(Metric.WAITING_CAPACITY)]
    vllm = [o.level(Metric.KV_FETCH_WAITING), o.level(Metric.KV_FETCH_LANDED)]
    for levels in (sglang if sglang[0] is not None else [], vllm):
        known = [level for level in levels if level is not None]
        if known:
            return _joined(known, Quality.MEASURED)
    held_back = o.level(Metric.WAITING_CAPACITY)
    if held_back is not None:
        return _joined([held_back], Quality.DERIVED)
    waiting = o.level(Metric.WAITING)
    return _joined([waiting], Quality.ESTIMATED) if waiting is not None else None


def _joined(levels: Sequence[Level], quality: Quality) -> _Queue:
    return _Queue(
        standing=sum(level.standing for level in levels),
        mean=sum(level.mean for level in levels),
        quality=quality,
        source=" + ".join(level.source for level in levels),
        age_seconds=max(level.age_seconds for level in levels),
        samples=min(level.samples for level in levels),
        stands=abs(sum(v.last for v in levels) - sum(v.first for v in levels)) <= 0.1 * sum(v.mean for v in levels),
    )
