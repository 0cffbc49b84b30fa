"""How long latency has been stable: the stretch, up to now, in which TTFT and ITL p95 stayed put and within the SLO."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from statistics import median

from pdscope.model.signal import SignalId, SignalSet
from pdscope.model.topology import Slo

TOLERANCE = 0.2
_MAX_POINTS = 2000


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stable stretch in progress.

    Attributes:
        since: unix seconds of its first evaluation.
        ttft_p95, itl_p95: values seen in it, seconds, sorted; thinned when there are many.
    """

    since: float
    ttft_p95: tuple[float, ...]
    itl_p95: tuple[float, ...]


def extend(stretch: Stretch | None, at: float, signals: SignalSet, slo: Slo) -> Stretch | None:
    """The stretch after one more evaluation.

    It goes on while both p95 are within 20 % of their running median and every configured objective is kept; a value
    outside begins a new stretch, a broken objective or a missing latency ends it.

    Args:
        stretch: before; None: none.
        at: unix seconds.
        signals: of the deployment.
        slo: its objectives.
    """
    ttft, itl = signals.value(SignalId.TTFT_P95), signals.value(SignalId.ITL_P95)
    if ttft is None or itl is None or not _kept(signals, slo):
        return None
    if stretch is None or not (_near(ttft, stretch.ttft_p95) and _near(itl, stretch.itl_p95)):
        return Stretch(at, (ttft,), (itl,))
    return Stretch(stretch.since, _with(stretch.ttft_p95, ttft), _with(stretch.itl_p95, itl))


def _kept(signals: SignalSet, slo: Slo) -> bool:
    limits = (
        (SignalId.TTFT_P50, slo.ttft_p50_seconds),
        (SignalId.TTFT_P95, slo.ttft_p95_seconds),
        (SignalId.TTFT_P99, slo.ttft_p99_seconds),
        (SignalId.ITL_P50, slo.itl_p50_seconds),
        (SignalId.ITL_P95, slo.itl_p95_seconds),
        (SignalId.ITL_P99, slo.itl_p99_seconds),
    )
    for signal, limit in limits:
        value = signals.value(signal)
        if limit is not None and (value is None or value > limit):
            return False
    return True


def _near(value: float, seen: tuple[float, ...]) -> bool:
    middle = median(seen)
    return abs(value - middle) <= TOLERANCE * middle


def _with(seen: tuple[float, ...], value: float) -> tuple[float, ...]:
    points = list(seen)
    insort(points, value)
    # every second value of a sorted list has the same median, in half the memory
    return tuple(points if len(points) <= _MAX_POINTS else points[::2])
