"""What stands beside the bottleneck: leases, prompts computed twice, decode that waits, targets that do not answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pdscope.analysis.board import Board
from pdscope.analysis.observed import Observed
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, SignalId, instance_scope
from pdscope.model.topology import Role


@dataclass(frozen=True, slots=True)
class Reach:
    """How a target answered lately.

    Attributes:
        silent: failures in a row up to now; in a recording, scrapes that left no page.
        answers: whether something answered the last time, even if not with metrics; None: a recording does not say.
        cost_ratio: share of its interval in which it made its page; None: not known.
    """

    silent: int
    answers: bool | None
    cost_ratio: float | None = None


def put_beside(board: Board, observed: Sequence[Observed], reach: Mapping[str, Reach]) -> None:
    """Signals of the findings that never are a verdict."""
    for o in observed:
        _put_reach(board, o.instance.name, reach.get(o.instance.name))
        if o.instance.role in (Role.PREFILL, Role.DECODE):
            _put_leases(board, o)
            _put_page(board, o)
        if o.instance.role is Role.DECODE:
            _put_recompute(board, o)
            _put_starvation(board, o)


def _put_reach(board: Board, name: str, reach: Reach | None) -> None:
    if reach is None:
        return
    recorded = reach.answers is None
    silence = (
        f"scrapes without a page of {name} at the end of the recording" if recorded else f"failed scrapes of {name}"
    )
    answers = None if reach.answers is None else float(reach.answers)
    quality = Quality.DERIVED if recorded else Quality.MEASURED
    for signal, value, source in (
        (SignalId.SILENT_SCRAPES, float(reach.silent), silence),
        (SignalId.ANSWERS, answers, f"last scrape of {name}: {_told(reach)}"),
        (SignalId.SCRAPE_COST, reach.cost_ratio, f"time that {name} takes for its page by the interval of asking"),
    ):
        # known of this moment, however old what the instance last said
        board.put(signal, value, quality, source, scope=instance_scope(name), age_seconds=0.0)


def _told(reach: Reach) -> str:
    if not reach.answers:
        return "nothing answers"
    return "it answers with metrics" if reach.silent == 0 else "something answers, but not with metrics"


def _put_leases(board: Board, o: Observed) -> None:
    for signal, metric in (
        (SignalId.LEASES_EXPIRED, Metric.KV_EXPIRED),
        (SignalId.LATE_KV_READS, Metric.LATE_KV_READS),
    ):
        rate = o.rate(metric)
        if rate is not None:
            board.put(
                signal,
                rate.per_second,
                Quality.MEASURED,
                rate.source,
                scope=instance_scope(o.instance.name),
                age_seconds=rate.age_seconds,
            )


def _put_page(board: Board, o: Observed) -> None:
    """What the configuration says stands for what the engine does not."""
    scope, page = instance_scope(o.instance.name), o.level(Metric.PAGE_TOKENS)
    if page is not None:
        board.put(
            SignalId.PAGE_TOKENS, page.last, Quality.MEASURED, page.source, scope=scope, age_seconds=page.age_seconds
        )
    elif o.instance.page_tokens is not None:
        told = f"page_size of {o.instance.name} in the configuration"
        board.put(SignalId.PAGE_TOKENS, float(o.instance.page_tokens), Quality.ASSUMED, told, scope=scope)


def _put_recompute(board: Board, o: Observed) -> None:
    """Prompt tokens that decode computed itself, by all of its prompt tokens."""
    computed, prompts = o.rate(Metric.PREFILL_COMPUTED_TOKENS), o.rate(Metric.PROMPT_TOKENS)
    if computed is not None and prompts is not None and prompts.gain > 0:
        board.put(
            SignalId.RECOMPUTED_SHARE,
            min(1.0, computed.gain / prompts.gain),
            Quality.MEASURED,
            f"{computed.source} by {prompts.source}",
            scope=instance_scope(o.instance.name),
            age_seconds=computed.age_seconds,
        )


def _put_starvation(board: Board, o: Observed) -> None:
    """Requests whose KV is awaited, standing through the newer half of the window."""
    level = o.level(Metric.DECODE_TRANSFER_QUEUE) or o.level(Metric.KV_FETCH_ACTIVE)
    if level is not None and not o.asleep:
        board.put(
            SignalId.AWAITED_KV,
            level.standing,
            Quality.MEASURED,
            f"{level.source}, least of the newer half of the window",
            scope=instance_scope(o.instance.name),
            age_seconds=level.age_seconds,
        )
