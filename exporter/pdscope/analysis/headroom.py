"""How loaded each resource is, what it has left, and which of them is first to be used up when load grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from pdscope.analysis import roofline
from pdscope.analysis.board import Board
from pdscope.model.signal import Quality, SignalId, instance_scope, worst
from pdscope.model.topology import Deployment, Instance, Role

Load = tuple[float, Quality] | None

_FULL = 1.0
_HALF_BUSY = 0.5
"""Busy fraction below which a queue at prefill was met by chance: one that stands keeps a scheduler at work."""
_STEP = "room_under_the_objective_on_ITL"


def put_headroom(board: Board, deployment: Deployment) -> None:
    """Loads of both roles and the spare share of link, prefill, slots and KV memory; needs all other signals.

    Loads grow with the rate of requests at today's shape of traffic: bytes on the link and computed tokens in
    proportion, running requests and held KV by Little's law while latencies stay as they are. Of a decode step only
    what reading KV takes grows: the weights are read once a step, whoever shares it.
    """
    prefill = _mean(board, deployment.of_role(Role.PREFILL, Role.UNIFIED), _prefill_load)
    decoders = deployment.of_role(Role.DECODE, Role.UNIFIED)
    slots, memory = _mean(board, decoders, _slot_load), _mean(board, decoders, _kv_load)
    step = _mean(board, decoders, lambda board, instance: _step_load(board, deployment, instance))
    decode = max((load for load in (slots, memory, step) if load is not None), key=lambda load: load[0], default=None)
    for signal, load, what in (
        (SignalId.PREFILL_LOAD, prefill, "busy fraction or SM activity of prefill, 1 while requests queue, mean"),
        (SignalId.DECODE_LOAD, decode, "slots, KV memory or room under ITL's objective in use, the most, mean"),
    ):
        if load is not None:
            board.put(signal, load[0], load[1], what)
    link = board.value(SignalId.LINK_UTILIZATION)
    loads = {
        SignalId.HEADROOM_LINK: (link, board.quality(SignalId.LINK_UTILIZATION)) if link is not None else None,
        SignalId.HEADROOM_PREFILL: prefill,
        SignalId.HEADROOM_SLOTS: slots,
        SignalId.HEADROOM_KV: memory,
    }
    known = {signal: load for signal, load in loads.items() if load is not None}
    for signal, (value, quality) in known.items():
        board.put(signal, max(0.0, 1.0 - value), worst(quality, Quality.DERIVED), "1 less the share in use")
    resources = {signal.value.partition("{")[2].rstrip("}"): load for signal, load in known.items()}
    if step is not None and _objective(board, deployment) is not None:
        resources[_STEP] = step
    _put_saturation(board, resources)


def _put_saturation(board: Board, loads: dict[str, tuple[float, Quality]]) -> None:
    """The rate of requests at which the most loaded resource is used up.

    Nothing is foretold of a resource that is used up already, nor a rate below the one that is served: then the two
    figures are of different moments.
    """
    arrivals = board.value(SignalId.ARRIVALS_PER_SECOND)
    if not arrivals or not loads:
        return
    first = max(loads, key=lambda resource: loads[resource][0])
    load, quality = loads[first]
    served = board.value(SignalId.REQUESTS_PER_SECOND) or 0.0
    if 0 < load < _FULL and arrivals / load > served:
        board.put(
            SignalId.SATURATION_RATE,
            arrivals / load,
            worst(quality, Quality.ESTIMATED),
            f"{first} is the first to be used up: {arrivals:.3g} arrivals/s by its load of {load:.2f}",
        )


def _mean(board: Board, instances: Sequence[Instance], load: Callable[[Board, Instance], Load]) -> Load:
    """Mean over the instances that are known; None of none."""
    found = [one for i in instances if (one := load(board, i)) is not None]
    return (fmean(v for v, _ in found), worst(*(q for _, q in found))) if found else None


def _prefill_load(board: Board, instance: Instance) -> Load:
    """A queue that stands means full, unless the scheduler itself says that it rests half of the time."""
    scope = instance_scope(instance.name)
    queue, busy = board.value(SignalId.PREFILL_QUEUE, scope), board.value(SignalId.PREFILL_BUSY, scope)
    if queue is not None and queue >= 1 and (busy is None or busy >= _HALF_BUSY):
        return _FULL, Quality.MEASURED
    if busy is not None:
        return min(_FULL, busy), Quality.MEASURED
    compute = board.value(SignalId.COMPUTE_UTILIZATION, scope)
    return (min(_FULL, compute), Quality.ESTIMATED) if compute is not None else None


def _slot_load(board: Board, instance: Instance) -> Load:
    share = board.value(SignalId.RUNNING_TO_LIMIT, instance_scope(instance.name))
    return (min(_FULL, share), Quality.MEASURED) if share is not None else None


def _kv_load(board: Board, instance: Instance) -> Load:
    """Usage of the pool; full is a pool that has no room for the next prompt, at whatever usage."""
    scope = instance_scope(instance.name)
    usage, room = board.value(SignalId.KV_USAGE_NET, scope), board.value(SignalId.KV_FREE_REQUESTS, scope)
    if usage is None:
        return None
    return _FULL if room is not None and room < 1 else min(_FULL, usage), Quality.MEASURED


def _step_load(board: Board, deployment: Deployment, instance: Instance) -> Load:
    """How much of the requests that a decode step can serve, it serves now.

    A step takes t = fixed + g, where g, the reading of KV, grows with the requests in it. Requests that each need n
    steps pass at batch / (n x t), and the batch is as g, so they pass at a rate as g / t. At the objective T that is
    (T - fixed) / T, so the load is (g / t) / ((T - fixed) / T): 1 where t = T. Without an objective T is endless, and
    one that a step without requests would miss is no limit of requests: then the load is g / t.
    """
    growing = _growing_share(board, deployment, instance)
    if growing is None:
        return None
    met = _objective(board, deployment)
    if met is None:
        return growing, Quality.ESTIMATED
    latency, limit = met
    fixed = (1.0 - growing) * latency
    return (min(_FULL, growing * limit / (limit - fixed)) if fixed < limit else growing), Quality.ESTIMATED


def _growing_share(board: Board, deployment: Deployment, instance: Instance) -> float | None:
    """Share of a decode step in which KV is read: of the time in which memory is read, by bytes."""
    scope, shape = instance_scope(instance.name), deployment.model.kv or deployment.model.file_kv
    usage, read = board.value(SignalId.HBM_UTILIZATION, scope), board.value(SignalId.STEP_BYTES, scope)
    running, context = board.value(SignalId.RUNNING, scope), board.value(SignalId.CONTEXT_TOKENS, scope)
    if shape is None or usage is None or not read or running is None or context is None:
        return None
    cache = min(1.0, roofline.cache_bytes(shape, running, context, instance) / read)
    return min(1.0, usage / roofline.achievable_hbm(instance.hardware)) * cache


def _objective(board: Board, deployment: Deployment) -> tuple[float, float] | None:
    """ITL and the objective on it, of the lowest percentile that has one: a tail tells of jitter first."""
    slo = deployment.slo
    for signal, limit in (
        (SignalId.ITL_P50, slo.itl_p50_seconds),
        (SignalId.ITL_P95, slo.itl_p95_seconds),
        (SignalId.ITL_P99, slo.itl_p99_seconds),
    ):
        value = board.value(signal)
        if limit is not None and value is not None:
            return value, limit
    return None
