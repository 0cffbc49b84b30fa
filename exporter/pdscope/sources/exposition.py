"""Prometheus pages to arrays of the samples that somebody wants.

Engines print the same lines in the same order at every scrape; only the numbers change. So a page is read in
full once, which teaches its layout, and from then on each line is held against the head that stood there last
time: what is left of it is a number. Lines with another head are judged one by one, and when one of them matters
the page is read in full again. Both ways give the same page, always: the tests hold them against each other.

A page whose last line is `# EOF` is OpenMetrics: its timestamps are seconds, those of other pages milliseconds.
Beyond 1e11 a timestamp is milliseconds on any page: as seconds it would lie three thousand years ahead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from pdscope.sources._structure import Reading, Structure, read_in_full
from pdscope.sources._text import LineReader, SampleId

__all__ = ["Layout", "Page", "PageDefects", "PageParser", "SampleId"]

_MAX_TRIES = 4  # layouts that a page without a hint is held against
_MAX_STRUCTURE_BYTES = 64 * 2**20  # of all layouts that are kept for targets to come


class Layout:
    """Which samples a page holds; one object for all pages that hold the same ones in the same lines.

    Compared by identity and open to weak references: what is compiled for a layout can be kept beside it.

    Attributes:
        samples: wanted samples in page order, each once.
        types: family -> type as printed, of all families that the page declares.
    """

    __slots__ = ("__weakref__", "samples", "types")

    def __init__(self, samples: tuple[SampleId, ...], types: Mapping[str, str]) -> None:
        self.samples = samples
        self.types = types


@dataclass(frozen=True, slots=True)
class PageDefects:
    """What is wrong with a page that could be read nevertheless.

    Attributes:
        bad_lines: lines that do not follow the format; they say nothing, wanted or not.
        nan_samples: wanted samples whose value is NaN.
        duplicate_samples: wanted lines whose sample was there already; the last value counts.
        first_bad_line: counted from 1.
    """

    bad_lines: int
    nan_samples: int
    duplicate_samples: int
    first_bad_line: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """One page. `values` and `timestamps` are (n,), in the order of `layout.samples`.

    Attributes:
        layout: names what the values are of.
        values: as printed: no unit converted, no sentinel removed, NaN where the page says so.
        timestamps: unix seconds, NaN for a sample without; None when no sample has one.
        defects: what is wrong with it.
    """

    layout: Layout
    values: NDArray[np.float64]
    timestamps: NDArray[np.float64] | None
    defects: PageDefects


@dataclass(slots=True, eq=False)
class _Entry:
    """What the parser knows of a layout: how to read its pages, and when it last did."""

    structure: Structure
    used: int


class PageParser:
    """Reads pages for the wanted samples. Not for several threads at once.

    Args:
        wanted: exact names of samples: `vllm:time_to_first_token_seconds_bucket`.
        max_layouts: how many are kept for targets to come; one that still serves as a hint is known anyway.
    """

    def __init__(self, wanted: frozenset[str], max_layouts: int = 256) -> None:
        self._reader = LineReader(wanted)
        self._max_layouts = max_layouts
        self._layouts: dict[tuple[object, ...], Layout] = {}
        self._entries: WeakKeyDictionary[Layout, _Entry] = WeakKeyDictionary()
        self._uses = 0

    def parse(self, body: bytes, hint: Layout | None = None) -> Page:
        """The wanted samples of a page. An empty body is an empty page.

        Args:
            body: as received, decompressed.
            hint: layout of the last page of the same target.

        Raises:
            PageError: the body is no exposition: HTML, JSON, plain text.
        """
        if b"\r" in body:
            body = body.replace(b"\r\n", b"\n").removesuffix(b"\r")
        lines = body.split(b"\n")
        text_bytes = len(body) - len(lines) + 1
        for layout, entry in self._candidates(hint, len(lines)):
            values = entry.structure.values(lines, text_bytes, self._reader)
            if values is not None:
                entry.used = self._tick()
                return _page(layout, values, None, entry.structure)
        reading = read_in_full(lines, self._reader)
        return _page(self._layout(reading), reading.values, reading.timestamps, reading.structure)

    def _candidates(self, hint: Layout | None, line_count: int) -> Iterator[tuple[Layout, _Entry]]:
        """Layouts that a page of so many lines may have: the target's last one, then those last in use."""
        entry = None if hint is None else self._entries.get(hint)
        if hint is not None and entry is not None and len(entry.structure.heads) == line_count:
            yield hint, entry
        others = [(layout, self._entries[layout]) for layout in self._layouts.values() if layout is not hint]
        others.sort(key=lambda other: other[1].used, reverse=True)
        fitting = ((layout, entry) for layout, entry in others if len(entry.structure.heads) == line_count)
        yield from islice(fitting, _MAX_TRIES)

    def _layout(self, reading: Reading) -> Layout:
        """The one layout of all pages such as this, which is now known by this page's structure."""
        line_count = len(reading.structure.heads)
        key = (line_count, reading.wanted_lines, reading.samples, tuple(reading.types.items()))
        layout = self._layouts.setdefault(key, Layout(reading.samples, MappingProxyType(reading.types)))
        self._entries[layout] = _Entry(reading.structure, self._tick())
        self._forget()
        return layout

    def _forget(self) -> None:
        """Lets go of the layouts not used for longest; a target that still has one keeps it alive."""
        by_age = sorted(
            ((self._entries[layout], key) for key, layout in self._layouts.items()), key=lambda item: item[0].used
        )
        excess_layouts = len(by_age) - self._max_layouts
        excess_bytes = sum(entry.structure.head_bytes for entry, _ in by_age) - _MAX_STRUCTURE_BYTES
        for entry, key in by_age[:-1]:
            if excess_layouts <= 0 and excess_bytes <= 0:
                return
            del self._layouts[key]
            excess_layouts -= 1
            excess_bytes -= entry.structure.head_bytes

    def _tick(self) -> int:
        self._uses += 1
        return self._uses


def _page(
    layout: Layout, values: NDArray[np.float64], timestamps: NDArray[np.float64] | None, structure: Structure
) -> Page:
    defects = PageDefects(
        bad_lines=structure.bad_lines,
        nan_samples=int(np.count_nonzero(np.isnan(values))),
        duplicate_samples=structure.wanted_count - len(values),
        first_bad_line=structure.first_bad_line,
    )
    return Page(layout, values, timestamps, defects)
