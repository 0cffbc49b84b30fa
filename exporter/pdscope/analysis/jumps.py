"""Counters that go back and forth: one address behind which several processes answer in turn.

No rate can be had from them, nor from those beside them that happen not to fall in this window, so all that is counted
on such a page is missing; that has to be said, not to be passed over in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from pdscope.analysis.board import Board
from pdscope.analysis.counters import jumps_back_and_forth
from pdscope.analysis.observed import Observed
from pdscope.model.metric import Kind
from pdscope.model.signal import Quality, SignalId, instance_scope
from pdscope.model.window import Window

_SEVERAL = 2
"""Counters of one page that jump, from which it is the page and not the counter."""
_NAMED = 3
"""Counters that are told by name."""


def put_jumps(board: Board, observed: Sequence[Observed]) -> list[Observed]:
    """How many counters of an instance jump, where any does.

    Returns:
        What is left to look at: of a page on which several jump, the gauges.
    """
    left = []
    for o in observed:
        moving, jumping, windows = 0, dict[str, None](), []
        for window in o.windows:
            moved = [(name, points) for name, points in _counters(window) if np.ptp(points) > 0]
            jump = dict.fromkeys(name for name, points in moved if jumps_back_and_forth(points))
            moving, jumping = moving + len(moved), {**jumping, **jump}
            windows.append(_without_counters(window) if len(jump) >= _SEVERAL else window)
        left.append(replace(o, windows=windows) if jumping else o)
        if jumping:
            named = ", ".join(islice(jumping, _NAMED)) + (" ..." if len(jumping) > _NAMED else "")
            board.put(
                SignalId.COUNTERS_JUMP,
                float(len(jumping)),
                Quality.MEASURED,
                f"{named} of {o.instance.name} return to values that they had left, of {moving} that move",
                scope=instance_scope(o.instance.name),
                samples=moving,
            )
    return left


def _without_counters(window: Window) -> Window:
    scalars = {key: values for key, values in window.scalars.items() if key.metric.spec.kind is not Kind.COUNTER}
    return replace(window, scalars=scalars, histograms={}, lazy=frozenset())


def _counters(window: Window) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Name and finite values of every counter of a page, and of the count of every histogram."""
    for key, values in window.scalars.items():
        if key.metric.spec.kind is Kind.COUNTER:
            yield from _finite(key.metric.name.lower(), values)
    for key, histogram in window.histograms.items():
        yield from _finite(key.metric.name.lower(), histogram.cumulative[:, -1])


def _finite(name: str, values: NDArray[np.float64]) -> Iterator[tuple[str, NDArray[np.float64]]]:
    points = values[np.isfinite(values)]
    if len(points):
        yield name, points
