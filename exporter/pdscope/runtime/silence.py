"""How long targets of a recording were silent at its end: a scrape that failed has left no file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from statistics import median

from pdscope.sources.bundle import Bundle, PageKind

_JITTER = 0.05
"""Of an interval. Targets whose scrapes are spread over the interval end less than that apart, where it is shared by no
more than twenty; a clock that runs a little early is no lost scrape."""

Source = tuple[str, PageKind]
"""A page of a target."""


def missed_scrapes(bundle: Bundle, intervals_seconds: Mapping[str, float]) -> dict[Source, int]:
    """Scrapes that brought nothing between the last page of a source and the end of the recording; without zeros.

    The pace is that of the configuration, unless the pages lie further apart: it may have been recorded by hand, or
    more slowly. A target that was always recorded more rarely than the others has its own pace. A target that has a
    folder and no page at all has missed every scrape. One that ends before any other begins was recorded at another
    time, or by a clock that differs: that is no silence.

    Args:
        bundle: as recorded.
        intervals_seconds: configured time between two scrapes, by target; others are left out.

    Returns:
        By target and kind of page. Nothing where no target was recorded twice: then there is no pace.
    """
    times: dict[Source, list[float]] = {}
    for page in bundle.pages:
        if page.target in intervals_seconds:
            times.setdefault((page.target, page.kind), []).append(page.at)
    gaps = {source: [later - earlier for earlier, later in pairwise(at)] for source, at in times.items()}
    stretches = [gap / intervals_seconds[target] for (target, _), found in gaps.items() for gap in found]
    if not stretches or bundle.newest is None:
        return {}
    stretch = max(1.0, median(stretches))
    missed = {}
    for source, at in times.items():
        target = source[0]
        pace = max(stretch * intervals_seconds[target], median(gaps[source]) if gaps[source] else 0.0)
        begin_of_others = min((t[0] for (other, _), t in times.items() if other != target), default=at[0])
        if at[-1] + pace >= begin_of_others:
            missed[source] = _whole((bundle.newest - at[-1]) / pace)
    for target in _never_recorded(bundle, times, intervals_seconds):
        missed[target, PageKind.METRICS] = 1 + _whole(
            (bundle.newest - bundle.pages[0].at) / (stretch * intervals_seconds[target])
        )
    return {source: count for source, count in missed.items() if count}


def _never_recorded(bundle: Bundle, sources: Iterable[Source], targets: Iterable[str]) -> set[str]:
    """Targets that were asked, since they have a folder, and never gave a page."""
    return set(targets) & set(bundle.folders) - {target for target, _ in sources}


def _whole(intervals: float) -> int:
    return math.floor(intervals + _JITTER)
