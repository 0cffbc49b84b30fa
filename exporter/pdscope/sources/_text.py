r"""Single lines of an exposition: text format 0.0.4 and OpenMetrics, read tolerantly and in linear time.

Where the two formats or their readers differ, this reader

- takes as a number what Prometheus takes (decimal with or without exponent, `Inf` and `Infinity` with or without
  a sign, `NaN`, in any case) and `-nan`, which C programs print; but no `1_0` and no hexadecimal;
- leaves escapes other than `\\`, `\"` and `\n` as they stand, as Prometheus does;
- takes quoted names (`{"a.b",c="d"}`) and exemplars on every page, whatever format it is in;
- refuses a line with two metric names or a label twice, and one that is no UTF-8; series that nobody wants are held
  to the grammar alone.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

_NUMBER_BYTES = b"0123456789+-.EeINFTYAinftya"
_MEMORY_BYTES = 32 * 2**20  # what a reader remembers before it starts afresh
_HEAD_BYTES = 256  # about what the objects of a head take beside its text

# No branch of these patterns can match at two lengths, so that a hostile line costs its length and no more.
_NAME = rb"[a-zA-Z_:][a-zA-Z0-9_:]*+"
_LABEL_NAME = rb"[a-zA-Z_][a-zA-Z0-9_]*+"
_QUOTED = rb'"[^"\\]*+(?:\\.[^"\\]*+)*"'
_TERM = rb"(?:%(label)b[ \t]*+=[ \t]*+%(quoted)b|%(quoted)b(?:[ \t]*+=[ \t]*+%(quoted)b)?)[ \t]*+" % {
    b"label": _LABEL_NAME,
    b"quoted": _QUOTED,
}
_LABELS = rb"\{[ \t]*+(?:%(term)b(?:,[ \t]*+%(term)b)*(?:,[ \t]*+)?)?\}[ \t]*+" % {b"term": _TERM}
_SAMPLE = re.compile(
    rb"[ \t]*+(?:(?P<name>%(name)b)?[ \t]*+(?P<labels>%(labels)b)|(?P<bare>%(name)b)[ \t]++)"
    rb"(?P<value>[^ \t]++)(?:[ \t]++(?P<time>[^ \t#][^ \t]*+))?[ \t]*+"
    rb"(?:#[ \t]*+%(labels)b(?P<example>[^ \t]++)(?:[ \t]++(?P<example_time>[^ \t]++))?[ \t]*+)?"
    % {b"name": _NAME, b"labels": _LABELS}
)
_PART = re.compile(
    rb"(%(label)b)[ \t]*+=[ \t]*+(%(quoted)b)|(%(quoted)b)(?:[ \t]*+=[ \t]*+(%(quoted)b))?"
    % {b"label": _LABEL_NAME, b"quoted": _QUOTED}
)
_TYPE = re.compile(
    rb"[ \t]*+#[ \t]*+TYPE"
    rb"(?:[ \t]++(?P<family>%(name)b|%(quoted)b)[ \t]++(?P<type>[a-zA-Z_]++)[ \t]*+\Z|[ \t]|\Z)"
    % {b"name": _NAME, b"quoted": _QUOTED}
)
_ESCAPE = re.compile(r'\\([\\n"])')


@dataclass(frozen=True, slots=True)
class SampleId:
    """What a sample is of. `labels` are sorted by name and unescaped; `le` and `quantile` are among them."""

    name: str
    labels: tuple[tuple[str, str], ...]


class Head(NamedTuple):
    """The part of a line that stays the same from page to page.

    Attributes:
        text: of a sample all that stands before the value; of a comment or a blank the whole line.
        is_sample: whether a value follows.
        sample: of a wanted sample.
        declares: family and type, of a TYPE line.
    """

    text: bytes
    is_sample: bool = False
    sample: SampleId | None = None
    declares: tuple[str, str] | None = None


class Line(NamedTuple):
    """A line that follows the grammar. `timestamp` is as printed; NaN is none, and so is `value` of a comment."""

    head: Head
    value: float = math.nan
    timestamp: float = math.nan


def parse_number(text: bytes) -> float | None:
    """The number that `text` is, or None. It may be NaN or infinite."""
    if text.translate(None, _NUMBER_BYTES):
        return None
    try:
        return float(text)
    except ValueError:
        return None


def parse_numbers(joined: bytes, count: int) -> list[float] | None:
    """The `count` numbers that stand in `joined` with commas between, or None when they are not that."""
    if joined.translate(None, _NUMBER_BYTES + b","):
        return None
    try:
        numbers: list[Any] = orjson.loads(b"[" + joined.replace(b"NaN", b"null") + b"]")
    except orjson.JSONDecodeError:  # infinity, other spellings of NaN, `.5`
        try:
            numbers = list(map(float, joined.split(b",")))
        except ValueError:
            return None
    else:
        if b"NaN" in joined:
            numbers = [math.nan if number is None else number for number in numbers]
    return numbers if len(numbers) == count else None


class LineReader:
    """Reads lines, and remembers the heads that it has taken apart.

    Equal heads are one object, in whatever page they stand: the layouts of a fleet share their texts.
    """

    def __init__(self, wanted: frozenset[str]) -> None:
        self._names = wanted
        self._wanted = {name.encode(): name for name in wanted}
        self._heads: dict[bytes, Head] = {}
        self._labels: dict[tuple[bytes, bytes], tuple[str, str]] = {}
        self._remembered_bytes = 0

    def read(self, line: bytes) -> Line | None:
        """What the line says (it has no newline), or None when it does not follow the grammar."""
        head = self._heads.get(line[: line.rfind(b" ") + 1])
        if head is not None and head.is_sample:
            value = parse_number(line[len(head.text) :])
            if value is not None:
                return Line(head, value)
        start = line.lstrip(b" \t")
        if not start or start.startswith(b"#"):
            return self._comment(line)
        return self._sample(line)

    def _comment(self, line: bytes) -> Line | None:
        head = self._heads.get(line)
        if head is None:
            declaration = _TYPE.match(line)
            if declaration is None:
                head = Head(line)
            elif declaration["family"] is None:
                return None
            else:
                family = _unquoted(declaration["family"])
                if family is None:
                    return None
                head = Head(line, declares=(family, declaration["type"].decode()))
            self._remember(head)
        return Line(head)

    def _sample(self, line: bytes) -> Line | None:
        found = _SAMPLE.fullmatch(line)
        if found is None:
            return None
        name, labels, bare_name, value_text, *times_and_example = found.groups()
        value = parse_number(value_text)
        if value is None or not all(map(_is_finite, filter(None, times_and_example))):
            return None
        text = line[: found.start("value")]
        head = self._heads.get(text) or self._learn(text, bare_name or name, labels or b"")
        time = times_and_example[0]
        return None if head is None else Line(head, value, math.nan if time is None else float(time))

    def _learn(self, text: bytes, name: bytes | None, labels: bytes) -> Head | None:
        sample = None
        if name is None or name in self._wanted:
            sample = self._sample_id(name, labels)
            if sample is None:
                return None
            if sample.name not in self._names:
                sample = None
        head = Head(text, is_sample=True, sample=sample)
        self._remember(head)
        return head

    def _sample_id(self, name: bytes | None, labels: bytes) -> SampleId | None:
        named = None if name is None else self._wanted[name]
        pairs: list[tuple[str, str]] = []
        for bare_key, bare_value, quoted_key, quoted_value in _PART.findall(labels):
            key, value = (quoted_key, quoted_value) if quoted_key else (bare_key, bare_value)
            if value:
                pair = self._labels.get((key, value)) or self._label(key, value)
                if pair is None:
                    return None
                pairs.append(pair)
            elif named is None:
                named = _unquoted(key)
                if named is None:
                    return None
            else:
                return None
        by_key = dict(pairs)
        if named is None or len(by_key) < len(pairs) or "__name__" in by_key:
            return None
        pairs.sort()
        return SampleId(named, tuple(pairs))

    def _label(self, key: bytes, value: bytes) -> tuple[str, str] | None:
        name, text = _unquoted(key), _unquoted(value)
        if name is None or text is None:
            return None
        pair = self._labels[key, value] = (name, text)
        return pair

    def _remember(self, head: Head) -> None:
        if self._remembered_bytes > _MEMORY_BYTES:
            self._heads.clear()
            self._labels.clear()
            self._remembered_bytes = 0
        self._heads[head.text] = head
        self._remembered_bytes += len(head.text) + _HEAD_BYTES


def _is_finite(text: bytes) -> bool:
    number = parse_number(text)
    return number is not None and math.isfinite(number)


def _unquoted(raw: bytes) -> str | None:
    """A name, or a quoted and escaped text, as the program meant it; None when it is no UTF-8."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    if text.startswith('"'):
        text = text[1:-1]
    if "\\" in text:
        text = _ESCAPE.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], text)
    return text
