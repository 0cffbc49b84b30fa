"""Recorded pages: read by the adapters and, beside them, by the official parser, which knows nothing of adapters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from pdscope.model.metric import Metric
from pdscope.model.scrape import Scrape, SeriesKey
from pdscope.model.topology import Role
from pdscope.sources import devices, engines
from pdscope.sources.adapter import Adapter, discover
from pdscope.sources.reader import PageReader, TargetReader
from pdscope.sources.selection import Selection

EXPOSITIONS = Path(__file__).parents[1] / "fixtures" / "expositions"
ENGINES = discover(engines)
DEVICES = discover(devices)
AT = 1_800_000_000.0


def page(name: str) -> bytes:
    """A recorded page by file name."""
    return (EXPOSITIONS / name).read_bytes()


@dataclass(frozen=True, slots=True)
class Buckets:
    """A histogram: cumulative counts by upper bound, and the sum."""

    cumulative: Mapping[float, float]
    total: float

    @property
    def count(self) -> float:
        """Observations."""
        return self.cumulative[math.inf]


@dataclass(frozen=True, slots=True)
class Reading:
    """What the adapters made of one page."""

    scrape: Scrape

    def value(self, metric: Metric, rank: str = "") -> float | None:
        """A gauge or counter; None where the page has none, NaN where a member of it has no number."""
        schema, row = self.scrape.schema, self.scrape.row
        assert schema is not None
        assert row is not None
        index = schema.scalars.get(SeriesKey(metric, rank))
        return None if index is None else float(row[index])

    def buckets(self, metric: Metric, rank: str = "") -> Buckets | None:
        """A histogram; None where the page has none."""
        schema, row = self.scrape.schema, self.scrape.row
        assert schema is not None
        assert row is not None
        slot = schema.histograms.get(SeriesKey(metric, rank))
        if slot is None:
            return None
        end = slot.start + len(slot.bounds)
        return Buckets(dict(zip(slot.bounds, row[slot.start : end].tolist(), strict=True)), float(row[end]))

    def ranks(self, metric: Metric) -> set[str]:
        """Ranks of which each has a number of its own."""
        assert self.scrape.schema is not None
        keys = (*self.scrape.schema.scalars, *self.scrape.schema.histograms)
        return {key.rank for key in keys if key.metric is metric and key.rank}

    def known(self) -> set[Metric]:
        """Metrics that the page has."""
        assert self.scrape.schema is not None
        return {key.metric for key in (*self.scrape.schema.scalars, *self.scrape.schema.histograms)}

    def lazy(self) -> set[Metric]:
        """Metrics whose absence means: none so far."""
        assert self.scrape.schema is not None
        return set(self.scrape.schema.lazy) - self.known()

    def scalars(self) -> dict[Metric, float]:
        """Gauges and counters of the whole instance."""
        assert self.scrape.schema is not None
        assert self.scrape.row is not None
        found = self.scrape.schema.scalars.items()
        return {key.metric: float(self.scrape.row[index]) for key, index in found if not key.rank}

    def histograms(self) -> dict[Metric, tuple[float, float]]:
        """Count and sum of the histograms of the whole instance."""
        assert self.scrape.schema is not None
        found = {key.metric: self.buckets(key.metric) for key in self.scrape.schema.histograms if not key.rank}
        return {metric: (buckets.count, buckets.total) for metric, buckets in found.items() if buckets is not None}


def read_with(
    adapters: Sequence[Adapter], body: bytes, *, select: Mapping[str, str] | None = None, at: float = AT
) -> Reading:
    """Read a page with exactly these adapters, as the only ones there are."""
    return Reading(TargetReader("t", PageReader(adapters), adapters, Selection.of(select or {})).read(body, at))


def read_engine(body: bytes, *, engine: str | None = None, role: Role | None = None, at: float = AT) -> Reading:
    """Read the page of an instance for which the configuration says this much."""
    reader = PageReader(ENGINES)
    return Reading(TargetReader("i", reader, reader.candidates(engine=engine, role=role)).read(body, at))


def read_loads(body: bytes) -> Reading:
    """Read an answer of SGLang's `/v1/loads`."""
    reader = PageReader(ENGINES)
    adapter = reader.json_adapter("sglang_loads")
    assert adapter is not None
    return Reading(TargetReader("i", reader, (adapter,)).read(body, AT))


def read_devices(body: bytes, *, source: str = "dcgm", select: Mapping[str, str] | None = None) -> Reading:
    """Read the page of a device exporter for one instance."""
    return read_with(tuple(a for a in DEVICES if a.name == source), body, select=select)


@dataclass(frozen=True, slots=True)
class Printed:
    """Samples as the official parser finds them."""

    samples: Sequence[tuple[str, Mapping[str, str], float]]

    def value(self, name: str, **labels: str) -> float:
        """Sum of the samples of a name that carry all these labels; at least one has to."""
        found = [value for n, have, value in self.samples if n == name and labels.items() <= have.items()]
        assert found, (name, labels)
        return math.fsum(found)

    def buckets(self, name: str, scale: float = 1.0, **labels: str) -> Buckets:
        """A histogram over all samples that carry these labels, bounds and sum multiplied by `scale`."""
        cumulative: dict[float, float] = {}
        for n, have, value in self.samples:
            if n == f"{name}_bucket" and labels.items() <= have.items():
                bound = float(have["le"]) * scale
                cumulative[bound] = cumulative.get(bound, 0.0) + value
        return Buckets(cumulative, self.value(f"{name}_sum", **labels) * scale)


def printed(name: str, *families: str) -> Printed:
    """Samples of a recorded page whose names begin with one of `families`: the official parser is slow."""
    lines = [line for line in page(name).decode().splitlines() if line.startswith(families)]
    found = text_string_to_metric_families("\n".join(lines) + "\n")
    return Printed([(s.name, s.labels, float(s.value)) for family in found for s in family.samples])
