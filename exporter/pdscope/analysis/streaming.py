"""How many tokens an engine streams at once: its time between events by its time between tokens."""

from __future__ import annotations

from dataclasses import replace

from pdscope.analysis.observed import Observed
from pdscope.model.metric import Metric
from pdscope.model.window import HistogramWindow, Window

_WHOLE = 0.03
"""Relative distance from a whole number within which a quotient is one."""
_WHOLE_AT_MOST = 0.1
"""The same as a distance: of large numbers each is close to a whole one."""
_ENOUGH_REQUESTS = 20.0
"""Finished requests, from which their mean time per token stands for all."""


def stream_interval(o: Observed) -> int | None:
    """Tokens in one event of an instance, where its ITL is of events and its TPOT of tokens.

    A stable whole quotient of the two means is a stream interval; anything else is other requests in one histogram than
    in the other, or speculation, which brings a varying number of tokens.

    Returns:
        At least 2; None where each token is an event of its own, or nobody knows.
    """
    quotient = _events_to_tokens(o, _ENOUGH_REQUESTS)
    if quotient is None:
        return None
    parts = [part for half in halves(o) if (part := _events_to_tokens(half, _ENOUGH_REQUESTS / 2)) is not None]
    return whole_number(quotient, *parts)


def whole_number(quotient: float, *parts: float) -> int | None:
    """The whole number above 1 that all of them are close to, if there is one."""
    whole = round(quotient)
    near = all(abs(one - whole) <= min(_WHOLE * whole, _WHOLE_AT_MOST) for one in (quotient, *parts))
    return whole if whole > 1 and near else None


def halves(o: Observed) -> tuple[Observed, Observed]:
    """The older and the newer half of the window; the scrape in the middle is in both."""
    older = [_part(w, 0, len(w.times) // 2 + 1) for w in o.windows]
    newer = [_part(w, len(w.times) // 2, len(w.times)) for w in o.windows]
    return replace(o, windows=older), replace(o, windows=newer)


def _events_to_tokens(o: Observed, enough: float) -> float | None:
    """Mean time between events by mean time between tokens; None from fewer than `enough` requests."""
    events, tokens = o.distribution(Metric.ITL), o.distribution(Metric.TPOT)
    if events is None or tokens is None or tokens.count < enough or not events.mean or not tokens.mean:
        return None
    return events.mean / tokens.mean


def _part(window: Window, start: int, end: int) -> Window:
    rows = slice(start, end)
    return replace(
        window,
        times=window.times[rows],
        scalars={key: values[rows] for key, values in window.scalars.items()},
        histograms={
            key: HistogramWindow(h.bounds, h.cumulative[rows], h.sums[rows]) for key, h in window.histograms.items()
        },
    )
