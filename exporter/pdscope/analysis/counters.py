"""Increase of counters over a window: resets, series that appear late, pages that jump between workers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MIN_POINTS = 2


@dataclass(frozen=True, slots=True)
class Increase:
    """What a counter gained.

    Attributes:
        value: gain over `seconds`, in the counter's unit.
        seconds: time between the first and last point used.
        resets: restarts of the process that were corrected for.
    """

    value: float
    seconds: float
    resets: int = 0

    @property
    def per_second(self) -> float:
        """Mean rate."""
        return self.value / self.seconds


def increase(times: NDArray[np.float64], values: NDArray[np.float64], *, lazy: bool) -> Increase | None:
    """Gain of one counter over its window.

    A value below its predecessor is a restart: the process began at zero, so what it shows now was gained since. A
    series that goes down and comes back up by as much is not restarting: its page is answered by several workers in
    turn, and no rate can be had from it.

    Args:
        times: (n,) unix seconds, increasing.
        values: (n,) counter values; NaN where the series was absent. What is not finite is no count and left out.
        lazy: absence before the first event means zero (otherwise the series is unknown until it appears).

    Returns:
        The gain, or None: fewer than two points, or a series that jumps back and forth.
    """
    filled = fill_absent(values, lazy=lazy)
    known = np.isfinite(filled)
    if int(known.sum()) < _MIN_POINTS:
        return None
    points, at = filled[known], times[known]
    steps = np.diff(points)
    if jumps_back_and_forth(points):
        return None
    gained = np.where(steps < 0, points[1:], steps)
    return Increase(float(gained.sum()), float(at[-1] - at[0]), int((steps < 0).sum()))


def fill_absent(values: NDArray[np.float64], *, lazy: bool) -> NDArray[np.float64]:
    """Zeros before the first appearance of a lazy series: a counter that jumps from absent to 1 has counted one event.

    After an appearance, absence is a gap (a restart hides the series again), not zero.
    """
    if not lazy:
        return values
    present = np.flatnonzero(~np.isnan(values))
    first = int(present[0]) if len(present) else len(values)
    if first == 0:
        return values
    filled = values.copy()
    filled[:first] = 0.0
    return filled


def jumps_back_and_forth(points: NDArray[np.float64]) -> bool:
    """Whether the values alternate between the counters of several processes.

    Two stories are compared: every fall is a restart, or several processes answer in turn and none of their counters
    ever falls. The second is believed when it returns to a counter that was left before and needs less than half the
    growth of the first: 1000, 600, 1010, 605 is 15 events of two workers, or 1,615 of one that restarted twice.
    """
    steps = np.diff(points)
    if not (steps < 0).any():
        return False
    counters: list[float] = []
    growth, current, returned = 0.0, -1, False
    for point in points.tolist():
        behind = [index for index, last in enumerate(counters) if last <= point]
        if behind:
            nearest = max(behind, key=lambda index: counters[index])
            growth += point - counters[nearest]
            returned = returned or nearest != current
            counters[nearest], current = point, nearest
        else:
            current = len(counters)
            counters.append(point)
    return returned and 2.0 * growth < float(np.where(steps < 0, points[1:], steps).sum())
