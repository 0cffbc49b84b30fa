"""What the host adds: frontends in front of the engines, steps outside graphs, time in which devices wait for it."""

from __future__ import annotations

from collections.abc import Sequence

from pdscope.analysis.board import Board
from pdscope.analysis.latency import engine_ttft, user_ttft
from pdscope.analysis.observed import Observed
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, SignalId, instance_scope, worst
from pdscope.model.topology import Deployment, Role


def put_host(board: Board, deployment: Deployment, observed: Sequence[Observed]) -> None:
    """Needs latency and steps on the board."""
    _put_frontend(board, deployment, observed)
    for o in observed:
        if o.instance.role is Role.ROUTER:
            continue
        _put_cpu(board, o)
        if o.instance.decodes:
            _put_text(board, o)
            _put_graphs(board, o)


def _put_frontend(board: Board, deployment: Deployment, observed: Sequence[Observed]) -> None:
    """What is left of the TTFT that a router sees when that of the engines behind it is taken off, means."""
    user, engines = user_ttft(deployment, observed), engine_ttft(deployment, observed)
    if user is None or engines is None or user.mean is None or engines.mean is None or user.source == engines.source:
        return
    board.put(SignalId.ENGINE_TTFT_MEAN, engines.mean, engines.quality, engines.source)
    if user.mean > 0:
        board.put(
            SignalId.FRONTEND_TTFT_SHARE,
            max(0.0, 1.0 - engines.mean / user.mean),
            worst(user.quality, engines.quality),
            f"{user.source}, less {engines.source}, means",
        )


def _put_text(board: Board, o: Observed) -> None:
    """The gap that users see by the gap that the engine makes: running requests by generated tokens a second.

    One token a step and request: an engine that speculates makes more, so the quotient is then too small and says
    nothing; it never is too large.
    """
    running, made = o.level(Metric.RUNNING), o.rate(Metric.GENERATED_TOKENS)
    gaps = o.distribution(Metric.ITL)
    if running is None or made is None or gaps is None or running.mean < 1 or made.per_second <= 0 or not gaps.mean:
        return
    if o.asleep:
        return
    step = running.mean / made.per_second
    scope = instance_scope(o.instance.name)
    board.put(
        SignalId.ITL_TO_STEP,
        gaps.mean / step,
        Quality.DERIVED,
        f"mean ITL {gaps.mean:.3g} s by {running.mean:.4g} running requests / {made.per_second:,.0f} tokens/s",
        scope=scope,
        age_seconds=running.age_seconds,
    )


def _put_cpu(board: Board, o: Observed) -> None:
    """The busiest of the engine's processes that turn text into tokens and back; each is one thread."""
    rates = [r for m in (Metric.TOKENIZER_CPU, Metric.DETOKENIZER_CPU) if (r := o.rate(m)) is not None]
    if rates:
        busiest = max(rates, key=lambda rate: rate.per_second)
        board.put(
            SignalId.FRONTEND_CPU,
            busiest.per_second,
            Quality.MEASURED,
            busiest.source,
            scope=instance_scope(o.instance.name),
            age_seconds=busiest.age_seconds,
        )


def _put_graphs(board: Board, o: Observed) -> None:
    """Share of decode steps outside CUDA graphs, and of the time in which the devices run decode steps."""
    scope = instance_scope(o.instance.name)
    inside, outside = o.rate(Metric.GRAPH_STEPS), o.rate(Metric.EAGER_STEPS)
    if inside is not None and outside is not None and inside.gain + outside.gain > 0:
        board.put(
            SignalId.GRAPH_MISS,
            outside.gain / (inside.gain + outside.gain),
            Quality.MEASURED,
            f"{outside.source} by all decode steps",
            scope=scope,
            samples=int(inside.gain + outside.gain),
            age_seconds=outside.age_seconds,
        )
    busy = o.rate(Metric.DECODE_BUSY)
    if busy is not None:
        board.put(
            SignalId.DECODE_BUSY,
            busy.per_second,
            Quality.MEASURED,
            busy.source,
            scope=scope,
            age_seconds=busy.age_seconds,
        )
