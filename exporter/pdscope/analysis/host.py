"""What the host adds: frontends in front of the engines, steps outside graphs, time in which devices wait for it."""

from __future__ import annotations

from collections.abc import Sequence

from pdscope.analysis.board import Board
from pdscope.analysis.histograms import merge
from pdscope.analysis.latency import engine_ttft, user_ttft
from pdscope.analysis.observed import Level, Observed
from pdscope.analysis.streaming import halves, stream_interval, whole_number
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, SignalId, instance_scope, worst
from pdscope.model.topology import Deployment, Role

_DECODE_STAGES = (
    Metric.DECODE_PREPARE_TIME,
    Metric.DECODE_BOOTSTRAP_TIME,
    Metric.DECODE_TRANSFERRED_TIME,
    Metric.DECODE_WAITING_TIME,
)

_FEW = 3.0
_SAME_REQUESTS = 0.25
"""Two histograms whose counts differ by no more than this share and `_FEW` hold the same requests."""

_ENOUGH_RUNNING = 4.0
"""Requests, from which their mean over a dozen scrapes says how many there were between the scrapes."""

_CORE = 0.9
"""Of a core, from which a process of one thread is at its limit."""

_ENOUGH_STEPS = 50.0
"""Decode steps, from which a share of them is no accident of a start or of health checks."""

_SPECULATES = 0.1
"""Share of the time below which decode steps are not what the devices run."""


def put_host(board: Board, deployment: Deployment, observed: Sequence[Observed]) -> None:
    """Needs latency and steps on the board."""
    _put_frontend(board, deployment, observed)
    for o in observed:
        if o.instance.role is Role.ROUTER:
            continue
        _put_cpu(board, o)
        _put_unstaged(board, o)
        if o.instance.decodes:
            _put_text(board, o)
            _put_graphs(board, o)
            _put_busy(board, o)


def _put_frontend(board: Board, deployment: Deployment, observed: Sequence[Observed]) -> None:
    """What is left of the TTFT that a router sees when that of the engines behind it is taken off, means.

    Both have to be of the same requests: a router may serve other engines too, or count what is not streamed. Where
    nobody knows whether prefill is in decode's TTFT, what is left may be prefill.
    """
    user, engines = user_ttft(deployment, observed), engine_ttft(deployment, observed)
    if user is None or engines is None or user.mean is None or engines.mean is None or user.source == engines.source:
        return
    if abs(user.count - engines.count) > _FEW + _SAME_REQUESTS * max(user.count, engines.count):
        return
    if not _legs_known(deployment):
        return
    board.put(SignalId.ENGINE_TTFT_MEAN, engines.mean, engines.quality, engines.source)
    before = _prefill_stage(observed)
    if user.mean > 0:
        board.put(
            SignalId.FRONTEND_TTFT_SHARE,
            max(0.0, 1.0 - (engines.mean + before) / user.mean),
            worst(user.quality, engines.quality),
            f"{user.source}, less {engines.source}{' and the answer of prefill' if before else ''}, means",
        )


def _legs_known(deployment: Deployment) -> bool:
    """Whether it is known how the legs are asked, which decides what decode's TTFT contains."""
    told = (*deployment.of_role(Role.ROUTER), *deployment.of_role(Role.DECODE))
    driven = deployment.routing is not None or any(i.profile.routing is not None for i in told)
    return driven or not deployment.of_role(Role.PREFILL)


def _prefill_stage(observed: Sequence[Observed]) -> float:
    """Mean time until prefill answers a frontend that asks for it first; 0 where none says so.

    Taken off as a whole, although decode's TTFT may contain part of it: what is left then is the frontend's alone.
    """
    told = [d for o in observed if o.instance.role is Role.ROUTER and (d := o.distribution(Metric.PREFILL_STAGE_TIME))]
    merged = merge(told)
    return (merged.mean or 0.0) if merged is not None else 0.0


def _put_unstaged(board: Board, o: Observed) -> None:
    """What is left of an instance's TTFT when all stages of its scheduler are taken off, means.

    That is its HTTP server, tokenizer and detokenizer, and a first step. Decode's stages at SGLang hold the wait for
    prefill; an engine that times its queue and its prefill has no others.
    """
    ttft, user = o.distribution(Metric.TTFT), board.value(SignalId.TTFT_MEAN)
    stages = [o.distribution(metric) for metric in _DECODE_STAGES]
    if o.distribution(Metric.DECODE_TRANSFERRED_TIME) is None:
        stages = [o.distribution(metric) for metric in (Metric.QUEUE_TIME, Metric.PREFILL_TIME)]
        if None in stages:
            return
    told = [stage for stage in stages if stage is not None and stage.mean is not None]
    known = [stage.mean for stage in told if stage.mean is not None]
    if ttft is None or ttft.mean is None or not known or not user:
        return
    # vLLM tells the stages of a request at its end and TTFT at its first token: what differs in number is of others
    if any(abs(stage.count - ttft.count) > _FEW + _SAME_REQUESTS * max(stage.count, ttft.count) for stage in told):
        return
    scope = instance_scope(o.instance.name)
    # and while waits grow those that ended waited less than those that stand before admission now
    held = max(sum(known), board.value(SignalId.ADMISSION_WAIT, scope) or 0.0)
    left = max(0.0, ttft.mean - held)
    source = f"mean TTFT of {o.instance.name}, {ttft.mean:.3g} s, less its {len(known)} stages, {held:.3g} s"
    board.put(SignalId.UNSTAGED_TTFT, left, Quality.DERIVED, source, scope=scope)
    board.put(SignalId.UNSTAGED_TTFT_SHARE, min(1.0, left / user), Quality.DERIVED, f"{source}, by TTFT", scope=scope)


def _put_text(board: Board, o: Observed) -> None:
    """The gap that users see by the gap that the engine makes.

    A request gets a token every (running requests / generated tokens a second); users wait (time between tokens that
    was observed / generated tokens) for one. So the quotient is observed time by request time, and does not depend on
    how many tokens an observation is for: with speculation and with a stream interval one event brings several.
    """
    running = o.level(Metric.RUNNING)
    gap = _gap_to_step(o, running)
    if running is None or gap is None or _by_event(board, o, gap):
        return
    board.put(
        SignalId.ITL_TO_STEP,
        gap,
        Quality.DERIVED,
        f"time between tokens that was observed, by that of {running.mean:.4g} running requests (1: nothing between)",
        scope=instance_scope(o.instance.name),
        age_seconds=running.age_seconds,
    )


def _gap_to_step(o: Observed, running: Level | None) -> float | None:
    """Time between tokens as observed, by the time that requests spent in the batch."""
    gaps = o.distribution(Metric.ITL)
    if running is None or gaps is None or not gaps.mean or running.mean < _ENOUGH_RUNNING or gaps.seconds <= 0:
        return None
    return None if o.asleep else gaps.total / (running.mean * gaps.seconds)


def _by_event(board: Board, o: Observed, gap: float) -> bool:
    """Whether the quotient shows how many tokens an event has rather than a slow frontend.

    An engine that counts the time of its tokens too tells how many an event brings, however few requests run. Else a
    stable whole number is a stream interval whose events were counted token by token, unless a process that turns text
    into tokens and back is at its limit.
    """
    if stream_interval(o) is not None:
        return True
    busiest = board.value(SignalId.FRONTEND_CPU, instance_scope(o.instance.name))
    if busiest is not None and busiest >= _CORE:
        return False
    parts = [part for half in halves(o) if (part := _gap_to_step(half, half.level(Metric.RUNNING))) is not None]
    return whole_number(gap, *parts) is not None


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
    """Share of decode steps outside CUDA graphs."""
    inside, outside = o.rate(Metric.GRAPH_STEPS), o.rate(Metric.EAGER_STEPS)
    if inside is None or outside is None or inside.gain + outside.gain < _ENOUGH_STEPS:
        return
    board.put(
        SignalId.GRAPH_MISS,
        outside.gain / (inside.gain + outside.gain),
        Quality.MEASURED,
        f"{outside.source} by all decode steps",
        scope=instance_scope(o.instance.name),
        samples=int(inside.gain + outside.gain),
        age_seconds=outside.age_seconds,
    )


def _put_busy(board: Board, o: Observed) -> None:
    """Share of the time with work in which the devices run decode steps; unknown where steps are of another kind.

    An engine that speculates verifies and drafts instead, and its time in plain decode steps says nothing.
    """
    busy, idle = o.rate(Metric.DECODE_BUSY), o.rate(Metric.IDLE)
    awake = 1.0 - min(1.0, idle.per_second) if idle is not None else 1.0
    if busy is None or o.asleep or awake <= 0 or busy.per_second < _SPECULATES * awake:
        return
    board.put(
        SignalId.DECODE_BUSY,
        busy.per_second / awake,
        Quality.MEASURED,
        busy.source if idle is None else f"{busy.source}, by the time in which there was work",
        scope=instance_scope(o.instance.name),
        age_seconds=busy.age_seconds,
    )
