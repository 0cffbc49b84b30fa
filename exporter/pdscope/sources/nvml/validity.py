"""What counts as a measurement: drivers answer with blanks, NaN and sentinels under return code 0."""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

from pdscope.sources.nvml.snapshot import Signal

_RATIO: Final = (-0.005, 1.1)
"""Counters read slightly apart lead out of 0..1; up to here the value is meant as 0 or 1."""
_BOUNDS: Final[dict[Signal, tuple[float, float]]] = {
    **dict.fromkeys((Signal.SM_ACTIVE, Signal.TENSOR_ACTIVE, Signal.HBM_BANDWIDTH, Signal.BUSY), _RATIO),
    **dict.fromkeys((Signal.MEMORY_USED, Signal.MEMORY_TOTAL), (0.0, 1e15)),
    Signal.HBM_PEAK: (1e9, 1e15),
    **dict.fromkeys((Signal.CLOCK, Signal.CLOCK_MAX), (0.0, 1e11)),
    **dict.fromkeys((Signal.POWER, Signal.POWER_LIMIT), (0.0, 1e5)),
    **dict.fromkeys((Signal.NVLINK_TX_RATE, Signal.NVLINK_RX_RATE), (0.0, 1e14)),
    **dict.fromkeys((Signal.PCIE_TX_RATE, Signal.PCIE_RX_RATE), (0.0, 1e14)),
    **dict.fromkeys((Signal.NVLINK_TX_BYTES, Signal.NVLINK_RX_BYTES), (0.0, 1e21)),
}
_EVERYTHING: Final = (-math.inf, math.inf)


def measured(signal: Signal, value: float, invalid: Counter[str]) -> float | None:
    """The value in its unit, a ratio within 0..1; None, counted in `invalid`, where it is no measurement."""
    if not math.isfinite(value):
        invalid["not_finite"] += 1
        return None
    low, high = bounds = _BOUNDS.get(signal, _EVERYTHING)
    if not low <= value <= high:
        invalid["out_of_range"] += 1
        return None
    return min(max(value, 0.0), 1.0) if bounds is _RATIO else float(value)
