"""Per instance that computes prompts: who waits for prefill, for how long, and how busy its scheduler is."""

from __future__ import annotations

from collections.abc import Sequence

from pdscope.analysis.board import Board
from pdscope.analysis.observed import Level, Observed
from pdscope.model.metric import Fact, Metric
from pdscope.model.signal import Quality, SignalId, instance_scope, worst
from pdscope.model.topology import Role

_MAX_ID = 20
"""Digits of the largest 64-bit number."""


def put_prefill(board: Board, observed: Sequence[Observed]) -> None:
    """Queue, its growth, the wait in it and how that compares with the service time; busy fraction."""
    prefillers = [o for o in observed if o.instance.prefills]
    for o in prefillers:
        _put_queue(board, o, observed, len(prefillers))
        _put_wait(board, o)
        busy = o.rate(Metric.PREFILL_BUSY)
        if busy is not None:
            board.put(
                SignalId.PREFILL_BUSY,
                busy.per_second,
                Quality.MEASURED,
                busy.source,
                scope=instance_scope(o.instance.name),
                age_seconds=busy.age_seconds,
            )


def queue_level(o: Observed) -> Level | None:
    """Requests that wait for prefill computation on this instance.

    Requests that are only deferred (their KV is on its way) are not in it where the engine tells them apart.
    """
    return o.level(Metric.WAITING_CAPACITY) or o.level(Metric.WAITING)


def _put_queue(board: Board, o: Observed, everyone: Sequence[Observed], prefillers: int) -> None:
    scope = instance_scope(o.instance.name)
    level = queue_level(o)
    if level is not None:
        board.put(
            SignalId.PREFILL_QUEUE,
            level.standing,
            Quality.MEASURED,
            f"{level.source}, least of the newer half of the window (mean {level.mean:.3g}, newest {level.last:.3g})",
            scope=scope,
            samples=level.samples,
            age_seconds=level.age_seconds,
        )
        board.put(SignalId.PREFILL_QUEUE_GROWTH, level.growth_per_second, Quality.MEASURED, level.source, scope=scope)
        return
    if _put_given(board, o, everyone):
        return
    pending = [
        v for r in everyone if r.instance.role is Role.ROUTER and (v := r.level(Metric.PREFILL_PENDING)) is not None
    ]
    if pending:
        # a router counts what it has sent to prefill and what is not answered: one a worker is being computed
        standing = sum(v.standing for v in pending) / prefillers
        board.put(
            SignalId.PREFILL_QUEUE,
            max(0.0, standing - 1.0),
            Quality.ESTIMATED,
            f"{pending[0].source} over {prefillers} prefill instance(s), less the one in computation",
            scope=scope,
            age_seconds=max(v.age_seconds for v in pending),
        )


def _put_given(board: Board, o: Observed, everyone: Sequence[Observed]) -> bool:
    """What a frontend has given to this very worker, in prompts: better than an equal share of all that is pending."""
    prompt, own = board.value(SignalId.PROMPT_TOKENS_PER_REQUEST), worker_number(o)
    if own is None or not prompt:
        return False
    for router in everyone:
        if router.instance.role is not Role.ROUTER:
            continue
        for window in router.windows:
            for rank in window.ranks(Metric.WORKER_PREFILL_TOKENS):
                level = router.level(Metric.WORKER_PREFILL_TOKENS, rank) if _decimal(rank) == own else None
                if level is not None:
                    board.put(
                        SignalId.PREFILL_QUEUE,
                        max(0.0, level.standing / prompt - 1.0),
                        Quality.ESTIMATED,
                        f"{level.source} for this worker by {prompt:,.0f} prompt tokens, less the one in computation",
                        scope=instance_scope(o.instance.name),
                        samples=level.samples,
                        age_seconds=level.age_seconds,
                    )
                    return True
    return False


def worker_number(o: Observed) -> int | None:
    """The id of a Dynamo worker as a number: its own page writes it in hexadecimal, the frontend's in decimal."""
    for window in o.windows:
        text = window.facts.get(Fact.WORKER_ID, "")
        if text and len(text) <= _MAX_ID and all(c in "0123456789abcdefABCDEF" for c in text):
            return int(text, 16)
    return None


def _decimal(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_ID else None


def _put_wait(board: Board, o: Observed) -> None:
    scope = instance_scope(o.instance.name)
    waits, served = o.distribution(Metric.QUEUE_TIME), o.distribution(Metric.PREFILL_TIME)
    wait = waits.mean if waits is not None else None
    quality, source = Quality.MEASURED, f"mean of {o.source_of(Metric.QUEUE_TIME)}"
    if wait is None:
        depth, rate = board.value(SignalId.PREFILL_QUEUE, scope), _computed_per_second(o)
        if depth is not None and rate:
            wait, quality, source = depth / rate, Quality.ESTIMATED, "queue by completion rate (Little's law)"
    board.put(SignalId.PREFILL_WAIT, wait, quality, source, scope=scope, samples=int(waits.count) if waits else 0)
    ttft = board.value(SignalId.TTFT_MEAN)
    if wait is not None and ttft:
        board.put(
            SignalId.PREFILL_WAIT_TTFT_SHARE,
            min(1.0, wait / ttft),
            worst(quality, board.quality(SignalId.TTFT_MEAN)),
            f"{source}, by mean TTFT",
            scope=scope,
        )
    service = served.mean if served is not None else None
    if wait is not None and service:
        board.put(
            SignalId.PREFILL_WAIT_TO_SERVICE,
            wait / service,
            quality,
            f"{source}, by mean of {o.source_of(Metric.PREFILL_TIME)}",
            scope=scope,
        )


def _computed_per_second(o: Observed) -> float | None:
    rate = o.rate(Metric.REQUESTS_FINISHED) or o.rate(Metric.REQUESTS_ARRIVED)
    return rate.per_second if rate is not None else None
