"""The roofline on what the engines report: how much of a decode step reading explains, how much prefill computes.

These are estimates and are called so. No estimate is made without its inputs, and one that says more than the hardware
can do is left out: then an input is wrong, and nobody knows which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pdscope.analysis import roofline
from pdscope.analysis.board import Board
from pdscope.analysis.observed import Observed
from pdscope.model.hardware import Hardware
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, SignalId, instance_scope
from pdscope.model.topology import Deployment, KvShape

_ABOVE_ALL = 1.1
"""Share of the peak above which an estimate refutes itself."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The mean decode step of one instance, all data-parallel ranks added.

    Attributes:
        requests: in the step.
        context_tokens: their contexts added up.
        steps_per_second: of one rank, over the whole window.
        seconds: what a step takes; None where only its rate is known.
    """

    requests: float
    context_tokens: float
    steps_per_second: float
    seconds: float | None
    source: str


def put_estimates(board: Board, deployment: Deployment, observed: Sequence[Observed]) -> None:
    """Needs latency, traffic and measured utilisation on the board, which it never replaces."""
    for o in observed:
        if o.instance.decodes:
            _put_decode(board, deployment, o)
        if o.instance.prefills:
            _put_prefill(board, deployment, o)


def _put_decode(board: Board, deployment: Deployment, o: Observed) -> None:
    scope = instance_scope(o.instance.name)
    batch = _batch(board, o)
    if batch is not None:
        board.put(SignalId.CONTEXT_TOKENS, batch.context_tokens, Quality.ESTIMATED, batch.source, scope=scope)
        board.put(SignalId.STEP_TIME, batch.seconds, Quality.MEASURED, "time of decode steps by steps", scope=scope)
    hardware = o.instance.hardware
    if hardware is None or not hardware.hbm_bandwidth_bytes_per_second:
        return
    if batch is not None:
        _put_step(board, deployment, o, batch, hardware)
    _put_engine_estimate(board, o, hardware)


def _put_step(board: Board, deployment: Deployment, o: Observed, batch: Batch, hardware: Hardware) -> None:
    scope, shape, peak = instance_scope(o.instance.name), _shape(deployment), hardware.hbm_bandwidth_bytes_per_second
    stated = o.level(Metric.WEIGHT_BYTES_PER_RANK)
    weights = roofline.weight_bytes(
        deployment.model,
        batch.requests if o.instance.profile.dp_splits_tp else batch.requests / o.instance.dp,
        stated.last if stated is not None else None,
        o.instance.tp * o.instance.pp,
    )
    if weights is None or shape is None or not peak:
        return
    read = roofline.StepBytes(weights[0], roofline.cache_bytes(shape, batch.requests, batch.context_tokens, o.instance))
    utilization = read.total * batch.steps_per_second / peak
    predicted = roofline.step_seconds(read, hardware)
    if utilization > _ABOVE_ALL or predicted is None:
        return
    source = (
        f"roofline: {read.weights / 1e9:.3g} GB of weights ({weights[1]}) and {read.cache / 1e9:.3g} GB of KV a step "
        f"and device, {batch.steps_per_second:.3g} steps/s ({batch.source}), on {hardware.name or 'these devices'}"
    )
    board.put(SignalId.STEP_BYTES, read.total, Quality.ESTIMATED, source, scope=scope)
    board.put(SignalId.STEP_PREDICTED, predicted, Quality.ESTIMATED, source, scope=scope)
    if board.value(SignalId.HBM_UTILIZATION, scope) is None:
        board.put(SignalId.HBM_UTILIZATION, utilization, Quality.ESTIMATED, source, scope=scope)
    itl = board.value(SignalId.ITL_P50)
    if itl:
        board.put(
            SignalId.STEP_EXPLAINED,
            predicted / itl,
            Quality.ESTIMATED,
            f"{predicted * 1e3:.3g} ms that a step must take by the roofline, by ITL p50; {source}",
            scope=scope,
        )


def _batch(board: Board, o: Observed) -> Batch | None:
    """Steps, requests and contexts, from whatever the engine counts."""
    if o.asleep:
        return None
    running = o.level(Metric.RUNNING)
    steps = o.rate(Metric.DECODE_STEPS)
    held, spent = o.rate(Metric.DECODE_STEP_REQUESTS), o.rate(Metric.DECODE_STEP_TIME)
    if steps is not None and steps.gain > 0 and held is not None:
        requests, rate, source = held.gain / steps.gain, steps.per_second, "decode moments"
        seconds = spent.gain / steps.gain if spent is not None else None
    else:
        if running is None or running.mean < 1:
            return None
        requests, seconds = running.mean, None
        counted = o.rate(Metric.STEPS)
        generated = o.rate(Metric.GENERATED_TOKENS)
        if counted is not None and counted.gain > 0:
            rate, source = counted.per_second, "counted engine steps"
        elif generated is not None and generated.gain > 0:
            rate, source = generated.per_second / requests, "tokens generated by running requests"
        else:
            return None
    context = _context_tokens(board, o, requests)
    if context is None:
        return None
    return Batch(requests, context[0], rate, seconds, f"{source}, {context[1]}")


def _context_tokens(board: Board, o: Observed, requests: float) -> tuple[float, str] | None:
    """Contexts of the batch added up: stated, else what the pool holds, else prompt and half of the answer.

    The pool of decode also holds the KV that is on its way or waits for a slot, which no step reads: that is taken off,
    as a share of the pool where the engine tells it so, else as prompts.
    """
    stated = o.level(Metric.CONTEXT_TOKENS)
    if stated is not None and stated.mean > 0:
        return stated.mean, "sum of the contexts of the batch"
    prompt = board.value(SignalId.PROMPT_TOKENS_PER_REQUEST)
    usage, pool = o.level(Metric.KV_USAGE), o.level(Metric.KV_POOL_TOKENS)
    if usage is not None and pool is not None and usage.mean > 0:
        moving = o.level(Metric.KV_USAGE_IN_TRANSFER)
        if moving is not None:
            return max(0.0, usage.mean - moving.mean) * pool.last, "tokens of the KV pool, less those in transfer"
        arriving = [v.mean for m in (Metric.KV_FETCH_ACTIVE, Metric.KV_FETCH_LANDED) if (v := o.level(m)) is not None]
        if prompt is not None or not sum(arriving):
            held = usage.mean * pool.last - sum(arriving) * (prompt or 0.0)
            return max(0.0, held), "tokens that the KV pool holds, less prompts that arrive"
    generated, finished = o.rate(Metric.GENERATED_TOKENS), o.rate(Metric.REQUESTS_FINISHED)
    if prompt is None or generated is None or finished is None or finished.gain <= 0:
        return None
    return requests * (prompt + generated.gain / finished.gain / 2), "prompt and half of the answer of each request"


def _put_engine_estimate(board: Board, o: Observed, hardware: Hardware) -> None:
    """What vLLM works out itself, where nothing better is known (`--enable-mfu-metrics`). SGLang's is not read.

    SGLang 0.5.23 charges the weights for each token instead of each step: 48 to 266 times too much at usual batches.
    """
    scope, peak = instance_scope(o.instance.name), hardware.hbm_bandwidth_bytes_per_second
    read, written = o.rate(Metric.ESTIMATED_HBM_READ), o.rate(Metric.ESTIMATED_HBM_WRITTEN)
    if board.value(SignalId.HBM_UTILIZATION, scope) is None and read is not None and written is not None and peak:
        share = (read.per_second + written.per_second) / peak
        if share <= _ABOVE_ALL:
            board.put(
                SignalId.HBM_UTILIZATION,
                share,
                Quality.ESTIMATED,
                f"{read.source}, as the engine models itself, by the peak of {hardware.name}",
                scope=scope,
            )


def _put_prefill(board: Board, deployment: Deployment, o: Observed) -> None:
    """FLOP of the prompts that were computed, by what matrix multiplications reach on the devices of the instance."""
    scope, hardware = instance_scope(o.instance.name), o.instance.hardware
    reach = roofline.flop_peak(deployment.model, hardware) if hardware is not None else None
    if hardware is None or not reach:
        return
    counted = o.rate(Metric.ESTIMATED_FLOP)
    done, source = _prompt_flop(board, deployment, o)
    if done is None and counted is not None:
        done, source = counted.per_second * o.instance.devices, f"{counted.source}, as the engine models itself"
    if done is None:
        return
    share = done / (reach * o.instance.devices)
    if share > _ABOVE_ALL:
        return
    whole = f"{source}, by what {o.instance.devices} device(s) {hardware.name} reach"
    board.put(SignalId.PREFILL_FLOP_UTILIZATION, share, Quality.ESTIMATED, whole, scope=scope)
    if board.value(SignalId.COMPUTE_UTILIZATION, scope) is None:
        board.put(SignalId.COMPUTE_UTILIZATION, share, Quality.ESTIMATED, whole, scope=scope)


def _prompt_flop(board: Board, deployment: Deployment, o: Observed) -> tuple[float | None, str]:
    """FLOP a second of the prompts."""
    computed = o.rate(Metric.PREFILL_COMPUTED_TOKENS)
    prompt = board.value(SignalId.PROMPT_TOKENS_PER_REQUEST)
    if computed is None or prompt is None:
        return None, ""
    cached = o.rate(Metric.PREFILL_CACHED_TOKENS)
    hit = cached.gain / (cached.gain + computed.gain) if cached is not None and computed.gain > 0 else 0.0
    flop = roofline.prefill_flop(deployment.model, computed.per_second, prompt * (1 - hit), prompt * hit)
    return flop, f"roofline: FLOP of {computed.per_second:,.0f} computed prompt tokens/s"


def _shape(deployment: Deployment) -> KvShape | None:
    return deployment.model.kv or deployment.model.file_kv
