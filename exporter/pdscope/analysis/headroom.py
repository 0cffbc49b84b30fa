"""How loaded each resource is, what it has left, and which of them is first to be used up when load grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from pdscope.analysis.board import Board
from pdscope.analysis.roofline import achievable_hbm
from pdscope.model.signal import Quality, SignalId, instance_scope, worst
from pdscope.model.topology import Deployment, Instance, Role

Load = tuple[float, Quality] | None

_FULL = 1.0


def put_headroom(board: Board, deployment: Deployment) -> None:
    """Loads of both roles and the spare share of link, prefill, slots and KV memory; needs all other signals.

    Loads grow with the rate of requests at today's shape of traffic: bytes on the link and computed tokens in
    proportion, running requests and held KV by Little's law while latencies stay as they are.
    """
    prefill = _mean(board, deployment.of_role(Role.PREFILL, Role.UNIFIED), _prefill_load)
    slots = _mean(board, deployment.of_role(Role.DECODE, Role.UNIFIED), _slot_load)
    memory = _mean(board, deployment.of_role(Role.DECODE, Role.UNIFIED), _kv_load)
    bandwidth = _mean(board, deployment.of_role(Role.DECODE, Role.UNIFIED), _hbm_load)
    decode = max(
        (load for load in (slots, memory, bandwidth) if load is not None), key=lambda load: load[0], default=None
    )
    for signal, load, what in (
        (SignalId.PREFILL_LOAD, prefill, "busy fraction or SM activity of prefill, 1 while requests queue, mean"),
        (SignalId.DECODE_LOAD, decode, "slots, KV memory or memory bandwidth of decode in use, the most, mean"),
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
    _put_saturation(board, known)


def _put_saturation(board: Board, loads: dict[SignalId, tuple[float, Quality]]) -> None:
    """The rate of requests at which the most loaded resource is used up."""
    arrivals = board.value(SignalId.ARRIVALS_PER_SECOND)
    if not arrivals or not loads:
        return
    first = max(loads, key=lambda signal: loads[signal][0])
    load, quality = loads[first]
    if load > 0:
        resource = first.value.partition("{")[2].rstrip("}")
        board.put(
            SignalId.SATURATION_RATE,
            arrivals / load,
            worst(quality, Quality.ESTIMATED),
            f"{resource} is the first to be used up: {arrivals:.3g} arrivals/s by its load of {load:.2f}",
        )


def _mean(board: Board, instances: Sequence[Instance], load: Callable[[Board, Instance], Load]) -> Load:
    """Mean over the instances that are known; None of none."""
    found = [one for i in instances if (one := load(board, i)) is not None]
    return (fmean(v for v, _ in found), worst(*(q for _, q in found))) if found else None


def _prefill_load(board: Board, instance: Instance) -> Load:
    scope = instance_scope(instance.name)
    queue = board.value(SignalId.PREFILL_QUEUE, scope)
    if queue is not None and queue >= 1:
        return _FULL, Quality.MEASURED
    busy = board.value(SignalId.PREFILL_BUSY, scope)
    if busy is not None:
        return min(_FULL, busy), Quality.MEASURED
    compute = board.value(SignalId.COMPUTE_UTILIZATION, scope)
    return (min(_FULL, compute), Quality.ESTIMATED) if compute is not None else None


def _slot_load(board: Board, instance: Instance) -> Load:
    share = board.value(SignalId.RUNNING_TO_LIMIT, instance_scope(instance.name))
    return (min(_FULL, share), Quality.MEASURED) if share is not None else None


def _kv_load(board: Board, instance: Instance) -> Load:
    usage = board.value(SignalId.KV_USAGE_NET, instance_scope(instance.name))
    return (min(_FULL, usage), Quality.MEASURED) if usage is not None else None


def _hbm_load(board: Board, instance: Instance) -> Load:
    usage = board.value(SignalId.HBM_UTILIZATION, instance_scope(instance.name))
    return (min(_FULL, usage / achievable_hbm(instance.hardware)), Quality.DERIVED) if usage is not None else None
