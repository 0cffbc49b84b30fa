"""How work is spread over the instances of a role, and over the data-parallel ranks inside one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pdscope.analysis.board import Board
from pdscope.analysis.observed import Observed
from pdscope.model.metric import Metric
from pdscope.model.scrape import SeriesKey
from pdscope.model.signal import Quality, SignalId, instance_scope
from pdscope.model.topology import Role
from pdscope.model.window import Window

_HELD = {
    Role.PREFILL: (
        Metric.RUNNING,
        Metric.WAITING_CAPACITY,
        Metric.PREFILL_BOOTSTRAP_QUEUE,
        Metric.PREFILL_TRANSFER_QUEUE,
    ),
    Role.DECODE: (
        Metric.RUNNING,
        Metric.WAITING_CAPACITY,
        Metric.DECODE_ALLOCATION_QUEUE,
        Metric.DECODE_TRANSFER_QUEUE,
    ),
    Role.UNIFIED: (Metric.RUNNING, Metric.WAITING_CAPACITY),
}
"""What a request on an instance can be in; each is in one of them."""
_MIN_RANKS = 2


def put_balance(board: Board, observed: Sequence[Observed]) -> None:
    """The least and the most work that each instance held at any scrape of the window, and the same of its ranks."""
    for o in observed:
        if o.instance.role is Role.ROUTER:
            continue
        scope = instance_scope(o.instance.name)
        held = _held(o)
        if held is not None:
            extremes = ((SignalId.WORK_LEAST, held.min(), "least"), (SignalId.WORK_MOST, held.max(), "most"))
            for signal, value, word in extremes:
                board.put(
                    signal,
                    float(value),
                    Quality.MEASURED,
                    f"requests on {o.instance.name}, {word} of the window",
                    scope=scope,
                    samples=len(held),
                )
        _put_ranks(board, o)


def _put_ranks(board: Board, o: Observed) -> None:
    """The fullest rank at its least against the emptiest at its most: their ratio, and by how much they differ."""
    ranks = {} if o.asleep else _ranks(o)  # gauges of an engine that sleeps froze at its last batch
    if len(ranks) < _MIN_RANKS:
        return
    least = {rank: float(work.min()) for rank, work in ranks.items()}
    hot = max(least, key=lambda rank: least[rank])
    cold = min(float(work.max()) for rank, work in ranks.items() if rank != hot)
    name = o.instance.name
    source = f"rank {hot} of {name} never held less than {least[hot]:.3g}, the emptiest never more than {cold:.3g}"
    scope = instance_scope(name)
    board.put(SignalId.RANK_IMBALANCE, least[hot] / max(1.0, cold), Quality.MEASURED, source, scope=scope)
    board.put(SignalId.RANK_EXCESS, max(0.0, least[hot] - cold), Quality.MEASURED, source, scope=scope)


def _held(o: Observed) -> NDArray[np.float64] | None:
    """Requests on the instance at each scrape of one source; None where they are not known."""
    if o.asleep:
        return np.zeros(1)
    accepted = _column(o, Metric.IN_FLIGHT, "")
    return accepted if accepted is not None else _sum(o, "")


def _ranks(o: Observed) -> dict[str, NDArray[np.float64]]:
    """The same by data-parallel rank."""
    names = {rank for window in o.windows for rank in window.ranks(Metric.RUNNING)}
    found = {rank: _sum(o, rank) for rank in sorted(names)}
    return {rank: work for rank, work in found.items() if work is not None}


def _sum(o: Observed, rank: str) -> NDArray[np.float64] | None:
    for window in o.windows:
        if SeriesKey(Metric.RUNNING, rank) not in window.scalars:
            continue
        columns = [
            window.scalars[key]
            for metric in _metrics(o, window, rank)
            if (key := SeriesKey(metric, rank)) in window.scalars
        ]
        total = np.sum(columns, axis=0)
        known = total[np.isfinite(total)]
        if len(known):
            return np.asarray(known, dtype=np.float64)
    return None


def _metrics(o: Observed, window: Window, rank: str) -> Sequence[Metric]:
    """What to add: all that wait, where the engine does not tell why, stand for those that wait for capacity."""
    held = _HELD[o.instance.role]
    if SeriesKey(Metric.WAITING, rank) in window.scalars:
        return tuple(Metric.WAITING if metric is Metric.WAITING_CAPACITY else metric for metric in held)
    return held


def _column(o: Observed, metric: Metric, rank: str) -> NDArray[np.float64] | None:
    for window in o.windows:
        values = window.scalars.get(SeriesKey(metric, rank))
        known = values[np.isfinite(values)] if values is not None else np.empty(0)
        if len(known):
            return known
    return None
