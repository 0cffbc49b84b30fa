"""Which values a metric can have at all. What lies outside is no measurement, whatever page it stands on.

The bounds are wide: they keep out what would overflow or be reported as "9900 % in use", not what is merely odd. A page
that prints per cent where its name promises a ratio, a gauge that was counted below zero, memory read as a number: none
of these can be mended by guessing, so the figure is missing and its name is told.
"""

from __future__ import annotations

from collections.abc import Mapping

from pdscope.model.metric import Kind, Metric
from pdscope.model.units import Unit

Range = tuple[float, float]

_RATIO = (-0.01, 1.1)
"""Rounding, and gauges whose parts are read at different moments, lead slightly out of 0..1."""
_MOST_OF_A_GAUGE = 1e15
_MOST_BYTES = 1e18
_MOST_OF_A_COUNTER: Mapping[Unit, float] = {
    Unit.BYTES: 1e24,  # 10 TB/s for three thousand years
    Unit.COUNT: 1e21,  # ports count ticks in 64 bits
    Unit.FLOP: 1e30,
}


def plausible(metric: Metric) -> Range:
    """The least and the greatest value that a sample of `metric` can have, in its base unit.

    Of a histogram: its buckets, which count; `plausible_sum` is for its sum.
    """
    spec = metric.spec
    if spec.kind is Kind.HISTOGRAM:
        return 0.0, _MOST_OF_A_GAUGE
    if spec.unit is Unit.RATIO:
        return _RATIO
    if spec.kind is Kind.COUNTER:
        return 0.0, _MOST_OF_A_COUNTER.get(spec.unit, _MOST_OF_A_GAUGE)
    return 0.0, _MOST_BYTES if spec.unit in (Unit.BYTES, Unit.BYTES_PER_SECOND) else _MOST_OF_A_GAUGE


def plausible_sum(metric: Metric) -> Range:
    """The same of the sum of a histogram: its observations are times, lengths and sizes, none of them below zero."""
    return 0.0, _MOST_OF_A_COUNTER.get(metric.spec.unit, _MOST_OF_A_GAUGE)
