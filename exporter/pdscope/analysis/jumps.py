"""Counters that go back and forth: one address behind which several processes answer in turn.

No rate can be had from them, so all that is counted of the instance is missing; that has to be said, not to be passed
over in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pdscope.analysis.board import Board
from pdscope.analysis.counters import jumps_back_and_forth
from pdscope.analysis.observed import Observed
from pdscope.model.metric import Kind
from pdscope.model.signal import Quality, SignalId, instance_scope
from pdscope.model.window import Window

_NAMED = 3
"""Counters that are told by name."""


def put_jumps(board: Board, observed: Sequence[Observed]) -> None:
    """How many counters of an instance jump, where any does."""
    for o in observed:
        moving = [(name, points) for window in o.windows for name, points in _counters(window) if np.ptp(points) > 0]
        jumping = list(dict.fromkeys(name for name, points in moving if jumps_back_and_forth(points)))
        if jumping:
            named = ", ".join(jumping[:_NAMED]) + (" ..." if len(jumping) > _NAMED else "")
            board.put(
                SignalId.COUNTERS_JUMP,
                float(len(jumping)),
                Quality.MEASURED,
                f"{named} of {o.instance.name} return to values that they had left, of {len(moving)} that move",
                scope=instance_scope(o.instance.name),
                samples=len(moving),
            )


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
