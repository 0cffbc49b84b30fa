"""One answer of one target, translated into canonical metrics; the form in which every source delivers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pdscope.model.metric import Fact, Metric

Row = NDArray[np.float64]


class FailureReason(StrEnum):
    """Why a target gave no data. A closed list: it is a label value."""

    TIMEOUT = "timeout"
    CONNECT = "connect"
    HTTP_STATUS = "http_status"
    TOO_LARGE = "too_large"
    NOT_EXPOSITION = "not_exposition"
    METRICS_OFF = "metrics_off"
    REDIRECT = "redirect"
    UNAVAILABLE = "unavailable"
    """A local source (NVML) that this host does not have."""
    INTERNAL = "internal"


class SeriesKey(NamedTuple):
    """A metric of the whole instance (`rank` empty) or of one data-parallel rank."""

    metric: Metric
    rank: str = ""


@dataclass(frozen=True, slots=True)
class HistogramSlot:
    """Where a histogram lies in a row: cumulative counts by `bounds`, then the sum.

    Attributes:
        bounds: (b,) upper bounds in the metric's unit, increasing, the last is +inf.
        start: index of the first bucket in the row; the sum is at `start + b`.
    """

    bounds: tuple[float, ...]
    start: int


class Schema:
    """What the numbers of a row mean. Scrapes of one page layout share one schema, so it is compared by identity."""

    __slots__ = ("__weakref__", "histograms", "lazy", "refresh_seconds", "scalars", "width")

    def __init__(
        self,
        scalars: tuple[SeriesKey, ...],
        histograms: Mapping[SeriesKey, tuple[float, ...]],
        lazy: frozenset[Metric],
        refresh_seconds: float = 0.0,
    ) -> None:
        """Lay out a row.

        Args:
            scalars: keys of the first `len(scalars)` numbers of a row.
            histograms: bounds by key; they follow the scalars in this order.
            lazy: metrics whose series the engine does not print before their first event: absent means none yet.
            refresh_seconds: how rarely the program measures anew, where that is rarer than it is asked.
        """
        self.scalars: Mapping[SeriesKey, int] = {key: index for index, key in enumerate(scalars)}
        slots: dict[SeriesKey, HistogramSlot] = {}
        start = len(scalars)
        for key, bounds in histograms.items():
            slots[key] = HistogramSlot(bounds, start)
            start += len(bounds) + 1
        self.histograms: Mapping[SeriesKey, HistogramSlot] = slots
        self.lazy = lazy
        self.refresh_seconds = refresh_seconds
        self.width = start


class Dropped(NamedTuple):
    """A sample whose number cannot be one of its metric, in the metric's unit: "9900 % in use", -5 requests."""

    metric: Metric
    value: float


@dataclass(frozen=True, slots=True)
class PageQuality:
    """What was wrong with a page that could be read all the same."""

    bad_lines: int = 0
    nan_samples: int = 0
    duplicate_samples: int = 0
    impossible: tuple[Dropped, ...] = ()


@dataclass(frozen=True, slots=True)
class Scrape:
    """One scrape of one target: data, or the reason why there are none.

    Attributes:
        target: name of the instance or device.
        source: what was read: the adapter's name (`sglang`, `sglang_loads`, `dcgm` ...).
        at: unix seconds at which the last byte had arrived; for a page that carries its own time stamps, theirs.
        reason: None when data are there.
        row: (schema.width,) values in base units; NaN where the page has no number.
    """

    target: str
    source: str
    at: float
    schema: Schema | None = None
    row: Row | None = None
    facts: Mapping[Fact, str] = field(default_factory=dict)
    quality: PageQuality = PageQuality()
    duration_seconds: float | None = None
    reason: FailureReason | None = None
    detail: str = ""

    @property
    def ok(self) -> bool:
        """Whether the scrape brought data."""
        return self.reason is None and self.row is not None
