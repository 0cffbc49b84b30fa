"""What came out of a probe, as values, as text, as JSON, and as lines to paste into the configuration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pdscope.model.topology import LinkScope
from pdscope.model.units import Unit, format_quantity

SCHEMA_VERSION = 1
_UNSTEADY = 1.5
"""Spread from which a person should look twice."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes per second over the rounds of a level. `spread` is p95 over p5: 1 is perfectly steady."""

    p5: float
    p50: float
    p95: float
    mean: float
    spread: float


@dataclass(frozen=True, slots=True)
class Level:
    """The rounds of one step.

    Attributes:
        name: `single`, `aggregate` or `coarse`.
        block_bytes: of one block.
        blocks: of one request.
        in_flight: requests at once.
        seconds: of each counted round, at least one.
    """

    name: str
    block_bytes: int
    blocks: int
    in_flight: int
    seconds: tuple[float, ...]

    @property
    def request_bytes(self) -> int:
        """Bytes of one request."""
        return self.block_bytes * self.blocks

    @property
    def total_bytes(self) -> int:
        """Bytes of the counted rounds."""
        return self.request_bytes * self.in_flight * len(self.seconds)

    @property
    def rates(self) -> Rates:
        """Of all requests in flight together. The mean is all bytes over all time."""
        round_bytes = self.request_bytes * self.in_flight
        low, middle, high = (float(p) for p in np.percentile([round_bytes / s for s in self.seconds], [5, 50, 95]))
        return Rates(low, middle, high, self.total_bytes / math.fsum(self.seconds), high / low)


@dataclass(frozen=True, slots=True)
class Result:
    """A whole probe.

    Attributes:
        transport: `nixl` or `tcp`.
        levels: the single one first.
        wanted_blocks: of a whole request.
    """

    transport: str
    levels: tuple[Level, ...]
    wanted_blocks: int

    @property
    def bytes_per_second(self) -> float:
        """What the link gives at the model's block size: the better median of one and of several in flight."""
        return max(level.rates.p50 for level in self.levels if level.name != "coarse")

    @property
    def descriptor_seconds(self) -> float | None:
        """What one more descriptor costs, from the same bytes in blocks of two sizes.

        None without a second size, or when the difference drowns in noise.
        """
        levels = {level.name: level for level in self.levels}
        if "coarse" not in levels:
            return None
        single, coarse = levels["single"], levels["coarse"]
        fine_seconds = float(np.median(single.seconds))
        # A coarse request may be a few blocks smaller: compare equal bytes.
        coarse_seconds = float(np.median(coarse.seconds)) * single.request_bytes / coarse.request_bytes
        coarse_blocks = coarse.blocks * single.request_bytes / coarse.request_bytes
        cost = (fine_seconds - coarse_seconds) / (single.blocks - coarse_blocks)
        return cost if cost > 0 else None


def snippet(result: Result, scope: LinkScope) -> str:
    """The line of the configuration. What was measured is what can be had, so nothing is taken off it again."""
    bandwidth = bandwidth_text(result.bytes_per_second)
    return (
        f"interconnect: {{bandwidth: {bandwidth}, scope: {scope}, efficiency: 1.0, measured: true, "
        f"transfer_engine: {result.transport}}}"
    )


def bandwidth_text(bytes_per_second: float) -> str:
    """Three digits or more in a unit that the configuration reads: `41.2GB/s`, `1250GB/s`, `7B/s`."""
    for factor, unit in ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")):
        if bytes_per_second >= factor:
            scaled = bytes_per_second / factor
            digits = max(0, 2 - math.floor(math.log10(scaled)))
            return f"{scaled:.{digits}f}{unit}"
    return f"{max(1, round(bytes_per_second))}B/s"


def text_lines(result: Result, scope: LinkScope) -> Iterator[str]:
    """For people."""
    yield f"transport {result.transport}, blocks of {_bytes(result.levels[0].block_bytes)}"
    yield ""
    yield f"{'':10}  {'p50':>10}  {'p5':>10}  {'p95':>10}  {'mean':>10}  {'p95/p5':>6}  what"
    yield from (_row(level) for level in result.levels)
    yield ""
    yield from _remarks(result)
    yield "To be pasted into the configuration. It was measured, so it can be had: efficiency 1.0."
    yield ""
    yield f"  {snippet(result, scope)}"


def document(result: Result, scope: LinkScope) -> Mapping[str, object]:
    """For programs. Keys carry units; seconds and bytes."""
    return {
        "schema_version": SCHEMA_VERSION,
        "transport": result.transport,
        "bandwidth_bytes_per_second": result.bytes_per_second,
        "descriptor_seconds": result.descriptor_seconds,
        "wanted_blocks": result.wanted_blocks,
        "levels": [_level(level) for level in result.levels],
        "interconnect": {
            "bandwidth": bandwidth_text(result.bytes_per_second),
            "scope": scope.value,
            "efficiency": 1.0,
            "measured": True,
            "transfer_engine": result.transport,
        },
    }


def _level(level: Level) -> Mapping[str, object]:
    rates = level.rates
    return {
        "name": level.name,
        "block_bytes": level.block_bytes,
        "blocks": level.blocks,
        "in_flight": level.in_flight,
        "rounds": len(level.seconds),
        "bytes": level.total_bytes,
        "p5_bytes_per_second": rates.p5,
        "p50_bytes_per_second": rates.p50,
        "p95_bytes_per_second": rates.p95,
        "mean_bytes_per_second": rates.mean,
        "spread": rates.spread,
    }


def _row(level: Level) -> str:
    rates = level.rates
    figures: Sequence[float] = (rates.p50, rates.p5, rates.p95, rates.mean)
    shown = "  ".join(f"{format_quantity(figure, Unit.BYTES_PER_SECOND):>10}" for figure in figures)
    what = f"{level.in_flight} x {level.blocks} blocks of {_bytes(level.block_bytes)}, {len(level.seconds)} rounds"
    return f"{level.name:10}  {shown}  {rates.spread:6.2f}  {what}, {_bytes(level.total_bytes)}"


def _remarks(result: Result) -> Iterator[str]:
    single = result.levels[0]
    cost = result.descriptor_seconds
    if cost is not None:
        yield f"One descriptor costs about {format_quantity(cost, Unit.SECONDS)} more than its bytes."
    if single.blocks < result.wanted_blocks:
        yield f"Requests were cut from {result.wanted_blocks} to {single.blocks} blocks to stay within the bytes."
    counted = [level for level in result.levels if level.name != "coarse"]
    if max(level.rates.spread for level in counted) > _UNSTEADY:
        yield f"The rounds differ by more than {_UNSTEADY}: other traffic was there, or there were too few rounds."


def _bytes(count: float) -> str:
    return format_quantity(count, Unit.BYTES)
