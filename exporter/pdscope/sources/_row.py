"""What a compiled plan does with the numbers of a page: gather, drop what is no measurement, scale, add up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdscope.model.metric import Fact, Metric
from pdscope.model.scrape import Dropped, Row, Schema
from pdscope.sources.plausible import Range


@dataclass(frozen=True, slots=True)
class Plan:
    """Turns the wanted values of a page into a row of `schema`.

    Attributes:
        gather: (g,) indices into the values followed by the constants and one NaN.
        starts: (width,) where the group of each slot begins in `gather`.
        scales, low, high: (g,) factor of each gathered value, and the range in which it is a measurement.
        metrics: (g,) what each gathered value is of.
        sentinels: (g,) the range outside of which an adapter knows it to be a driver's blank; None: it knows none.
        masked: (m,) positions in `gather` of bit masks; `bits`: (m,) which of their bits count.
        maxima: slots that take the maximum of their group instead of the sum.
        divisors: (width,) 1, or the number of ranks where they are averaged.
    """

    adapters: tuple[str, ...]
    schema: Schema
    facts: Mapping[Fact, str]
    constants: NDArray[np.float64]
    gather: NDArray[np.intp]
    starts: NDArray[np.intp]
    scales: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    metrics: tuple[Metric, ...]
    sentinels: tuple[Range | None, ...]
    masked: NDArray[np.intp]
    bits: NDArray[np.int64]
    maxima: NDArray[np.intp]
    divisors: NDArray[np.float64]

    def row(self, values: NDArray[np.float64], dropped: list[Dropped] | None = None) -> Row:
        """The numbers of one page under `schema`: (width,). A missing member makes its whole group missing.

        Args:
            values: of the samples of the layout.
            dropped: gets what cannot be a value of its metric: once a sample, in the order of the row.
        """
        if not len(self.gather):
            return np.empty(0)
        everything = np.concatenate((values, self.constants, (np.nan,)))
        picked = everything[self.gather]
        outside = (picked < self.low) | (picked > self.high)
        if outside.any():
            if dropped is not None:
                dropped.extend(self._impossible(picked, np.flatnonzero(outside)))
            picked[outside] = np.nan
        if len(self.masked):
            masks = picked[self.masked]
            missing = np.isnan(masks)
            masks[missing] = 0.0
            picked[self.masked] = np.where(missing, np.nan, (masks.astype(np.int64) & self.bits) != 0)
        picked *= self.scales
        out: Row = np.add.reduceat(picked, self.starts) / self.divisors
        if len(self.maxima):
            out[self.maxima] = np.maximum.reduceat(picked, self.starts)[self.maxima]
        return out

    def _impossible(self, picked: NDArray[np.float64], outside: NDArray[np.intp]) -> Iterator[Dropped]:
        seen: set[int] = set()
        for place in outside.tolist():
            sentinel, sample, value = self.sentinels[place], int(self.gather[place]), float(picked[place])
            known_blank = sentinel is not None and not sentinel[0] <= value <= sentinel[1]
            if sample not in seen and not known_blank:
                seen.add(sample)  # a rank stands in the whole of its instance too
                yield Dropped(self.metrics[place], value * float(self.scales[place]))
