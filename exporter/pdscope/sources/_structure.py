"""Whole pages: reading one in full, and reading the next one by what the first has taught."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdscope.errors import PageError
from pdscope.sources._text import Line, LineReader, SampleId, parse_number, parse_numbers

_MAX_SECONDS = 1e11

_Picker = Callable[[Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """What the lines of a page are, apart from their numbers.

    Attributes:
        heads: of every line, what stands before the value; of a line without a value the whole line.
        valueless: a byte for each line, 1 for comments, blanks and bad lines.
        pinned: a byte for each line, 1 where another line would make another page: wanted, TYPE and bad ones.
        pick_valueless: takes these lines out of all.
        pick_wanted: takes the wanted samples out of all samples.
        sample_count: lines of samples.
        wanted_count: lines of wanted samples, duplicates among them.
        last: (n,) which of the wanted lines holds the value of each sample; None without duplicates.
        bad_lines: how many.
        first_bad_line: counted from 1.
        head_bytes: of all heads.
    """

    heads: Sequence[bytes]
    valueless: bytes
    pinned: bytes
    pick_valueless: _Picker
    pick_wanted: _Picker
    sample_count: int
    wanted_count: int
    last: NDArray[np.intp] | None
    bad_lines: int
    first_bad_line: int | None
    head_bytes: int

    def values(self, lines: list[bytes], text_bytes: int, reader: LineReader) -> NDArray[np.float64] | None:
        """What reading `lines` in full would find: (n,), or None when they have to be read in full.

        Args:
            lines: as many as `heads`.
            text_bytes: of all lines.
            reader: judges the lines that begin differently.
        """
        rests = list(map(bytes.removeprefix, lines, self.heads))
        texts = list(filter(None, rests))
        joined = b",".join(texts)
        # A line that lacks its head stays whole: it may look like a number, but the rests are too long together.
        heads_fit = len(joined) - max(len(texts) - 1, 0) == text_bytes - self.head_bytes
        numbers: Sequence[float] | None = None
        if heads_fit and len(texts) == self.sample_count and not any(self.pick_valueless(rests)):
            numbers = parse_numbers(joined, len(texts))
        if numbers is None:
            numbers = self._numbers(lines, rests, reader)
        if numbers is None:
            return None
        values = np.fromiter(self.pick_wanted(numbers), np.float64, self.wanted_count)
        return values if self.last is None else values[self.last]

    def _numbers(self, lines: list[bytes], rests: list[bytes], reader: LineReader) -> list[float] | None:
        """A number for each sample, if the lines that differ are valid, and neither were nor are of interest."""
        numbers: list[float] = []
        for index, (line, head, rest) in enumerate(zip(lines, self.heads, rests, strict=True)):
            if self.valueless[index]:
                same = line == head
            else:
                number = parse_number(rest) if len(rest) < len(line) else None
                numbers.append(math.nan if number is None else number)
                same = number is not None
            if not same and (self.pinned[index] or not _says_nothing(reader.read(line))):
                return None
        return numbers


def _says_nothing(line: Line | None) -> bool:
    """Whether a line adds nothing to a page, but shows that it is one: no bad line does that, no blank one either."""
    if line is None or line.head.sample is not None or line.head.declares is not None:
        return False
    return bool(line.head.text.strip())


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What a page says.

    Attributes:
        samples: wanted samples, each where it stands first.
        types: family -> type; of several declarations the first.
        values: (n,) of each sample the last.
        timestamps: (n,) unix seconds, NaN where there is none; None when no sample has one.
        wanted_lines: indices of the lines with wanted samples.
        structure: by which to read the next page.
    """

    samples: tuple[SampleId, ...]
    types: Mapping[str, str]
    values: NDArray[np.float64]
    timestamps: NDArray[np.float64] | None
    wanted_lines: tuple[int, ...]
    structure: Structure


def read_in_full(lines: list[bytes], reader: LineReader) -> Reading:
    """Reads every line of a page.

    Raises:
        PageError: this is no exposition; lines that look like one do so by accident.
    """
    heads: list[bytes] = []
    valueless: list[int] = []
    declarations: list[int] = []
    bad: list[int] = []
    wanted: list[int] = []
    wanted_among_samples: list[int] = []
    found: list[Line] = []
    last: dict[SampleId, int] = {}  # in the order of first appearance
    types: dict[str, str] = {}
    for index, text in enumerate(lines):
        line = reader.read(text)
        heads.append(text if line is None else line.head.text)
        if line is None:
            bad.append(index)
            valueless.append(index)
        elif not line.head.is_sample:
            valueless.append(index)
            if line.head.declares is not None:
                declarations.append(index)
                types.setdefault(*line.head.declares)
        elif line.head.sample is not None:
            last[line.head.sample] = len(wanted)
            wanted.append(index)
            wanted_among_samples.append(index - len(valueless))
            found.append(line)

    begin = next((text.strip() for text in lines if text.strip()), b"")
    all_bad = bool(bad) and len(bad) == sum(1 for text in lines if text.strip())
    if all_bad or (begin.startswith((b"<", b"[")) and not types):
        raise PageError(_refusal(begin))
    picks = np.fromiter(last.values(), np.intp, len(last))
    structure = Structure(
        heads=heads,
        valueless=_mask(valueless, len(lines)),
        pinned=_mask((*wanted, *declarations, *bad), len(lines)),
        pick_valueless=_picker(valueless),
        pick_wanted=_picker(wanted_among_samples),
        sample_count=len(lines) - len(valueless),
        wanted_count=len(wanted),
        last=picks if len(last) < len(wanted) else None,
        bad_lines=len(bad),
        first_bad_line=bad[0] + 1 if bad else None,
        head_bytes=sum(map(len, heads)),
    )
    return Reading(
        samples=tuple(last),
        types=types,
        values=np.array([line.value for line in found], dtype=np.float64)[picks],
        timestamps=_unix_seconds(np.array([line.timestamp for line in found], dtype=np.float64)[picks], lines),
        wanted_lines=tuple(wanted),
        structure=structure,
    )


def _mask(indices: Sequence[int], length: int) -> bytes:
    mask = bytearray(length)
    for index in indices:
        mask[index] = 1
    return bytes(mask)


def _picker(indices: Sequence[int]) -> _Picker:
    if len(indices) > 1:
        return itemgetter(*indices)
    # itemgetter of none fails, and of one it gives no sequence.
    return itemgetter(slice(indices[0], indices[0] + 1) if indices else slice(0))


def _unix_seconds(timestamps: NDArray[np.float64], lines: Sequence[bytes]) -> NDArray[np.float64] | None:
    if np.isnan(timestamps).all():
        return None
    end = next(text for text in reversed(lines) if text.strip())
    in_seconds = (np.abs(timestamps) <= _MAX_SECONDS) & (end.strip() == b"# EOF")
    return np.where(in_seconds, timestamps, timestamps / 1e3)


def _refusal(begin: bytes) -> str:
    kind = {b"<": "HTML or XML", b"[": "JSON", b"{": "JSON"}.get(begin[:1], "no Prometheus exposition")
    return f"the page is {kind}: it begins with {begin[:60].decode(errors='replace')!a}"
