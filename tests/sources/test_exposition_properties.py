"""Generated pages against the truth they were made of, the official parser, and the two ways of reading each other."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from pdscope.errors import PageError
from pdscope.sources._text import parse_number, parse_numbers
from pdscope.sources.exposition import Layout, Page, PageDefects, PageParser, SampleId

WANTED = frozenset({"a", "a_total", "engine:b_bucket"})
UNWANTED = ("ab", "a_created", "engine:b", "process_cpu_seconds_total")

BAD_LINES = (
    *(b"a", b"5", b"nan", b"a 1_0", b"a 0x10", b"a one", b"a 1 2 3", b"a 1 soon", b"1a 5", b"{} 5", b"a} 5"),
    *(b'a{x="1" 5', b'a{x="1} 5', b"a{x=1} 5", b'a{x="1",,y="2"} 5', b'a{,x="1"} 5', b'a{x="1",x="2"} 5'),
    *(b'a{x="\xff"} 5', b"# TYPE a", b"# TYPE a gauge 5", b"<html>", b"[1]", b"a 1,2", b"a 1\x0b", b"\xef\xbb\xbfa 5"),
)
COMMENTS = (b"", b" \t", b"# EOL", b'# HELP a Some text, {x="y"} 5', b"#a 5", b"\t# TYPES a gauge", b"# HELP")

nasty_text = st.text(st.sampled_from('"\\\n\r{}=, #x5\tä') | st.characters(exclude_categories=["Cs"]), max_size=12)
label_names = st.sampled_from(["le", "x", "Y_1", "_", "quantile"])
blanks = st.sampled_from([b" ", b" ", b"  ", b"\t", b" \t "])
maybe_blanks = st.just(b"") | blanks
numbers = st.floats() | st.integers(-(2**70), 2**70).map(float) | st.sampled_from([0.0, -0.0, 1.0, math.nan])


@dataclass(frozen=True)
class Line:
    """A line as printed, and what it says: nothing, or a value of a sample at a time in milliseconds."""

    text: bytes
    sample: SampleId | None = None
    value: float = math.nan
    time: int | None = None
    bad: bool = False


@st.composite
def printed(draw: st.DrawFn, value: float) -> bytes:
    """A number as one of many programs prints it."""
    if math.isnan(value):
        return draw(st.sampled_from([b"NaN", b"nan", b"Nan", b"-nan"]))
    if math.isinf(value):
        infinity = draw(st.sampled_from([b"Inf", b"inf", b"INF", b"Infinity"]))
        return b"-" + infinity if value < 0 else draw(st.sampled_from([b"", b"+"])) + infinity
    texts = [repr(value), f"{value:.17e}", f"{value:.17g}".upper(), f"{value:+.17g}"]
    if value == int(value):
        texts.append(str(int(value)))
    return draw(st.sampled_from(texts)).encode()


@st.composite
def sample_lines(draw: st.DrawFn) -> Line:
    name = draw(st.sampled_from(sorted(WANTED) + list(UNWANTED)))
    labels = draw(st.dictionaries(label_names, nasty_text, max_size=3))
    value = draw(numbers)
    time = draw(st.none() | st.integers(-(10**12), 10**13))
    text = draw(maybe_blanks) + name.encode()
    if labels or draw(st.booleans()):
        escaped = {k: v.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for k, v in labels.items()}
        pairs = [
            key.encode() + draw(maybe_blanks) + b"=" + draw(maybe_blanks) + b'"' + raw.encode() + b'"'
            for key, raw in draw(st.permutations(sorted(escaped.items())))
        ]
        comma = draw(maybe_blanks) + b"," + draw(maybe_blanks)
        trailing = comma if labels and draw(st.booleans()) else b""
        text += draw(maybe_blanks) + b"{" + draw(maybe_blanks) + comma.join(pairs) + trailing + b"}"
        text += draw(maybe_blanks)
    else:
        text += draw(blanks)
    text += draw(printed(value))
    if time is not None:
        text += draw(blanks) + b"%d" % time
    text += draw(maybe_blanks)
    return Line(text, SampleId(name, tuple(sorted(labels.items()))), value, time)


other_lines = st.sampled_from([Line(text) for text in COMMENTS] + [Line(text, bad=True) for text in BAD_LINES])
pages = st.lists(st.one_of(sample_lines(), sample_lines(), sample_lines(), other_lines), max_size=12)


def body_of(lines: list[Line], newline: bytes = b"\n") -> bytes:
    return b"# TYPE a gauge" + newline + newline.join(line.text for line in lines)


def page_or_error(parser: PageParser, body: bytes, hint: Layout | None = None) -> Page | str:
    try:
        return parser.parse(body, hint)
    except PageError as error:
        return str(error)


def assert_same(page: Page, expected: Page) -> None:
    assert page.layout.samples == expected.layout.samples
    assert list(page.layout.types.items()) == list(expected.layout.types.items())
    np.testing.assert_array_equal(page.values, expected.values)
    assert (page.timestamps is None) == (expected.timestamps is None)
    if page.timestamps is not None and expected.timestamps is not None:
        np.testing.assert_array_equal(page.timestamps, expected.timestamps)
    assert page.defects == expected.defects


@given(pages, st.sampled_from([b"\n", b"\r\n"]), st.booleans())
def test_a_page_says_what_it_was_made_of(lines: list[Line], newline: bytes, newline_at_end: bool) -> None:
    """First place and last value of each wanted sample; every defect counted."""
    page = PageParser(WANTED).parse(body_of(lines, newline) + newline * newline_at_end)
    wanted = [line for line in lines if line.sample is not None and line.sample.name in WANTED]
    last = {line.sample: line for line in wanted}
    assert page.layout.samples == tuple(last)
    np.testing.assert_array_equal(page.values, [line.value for line in last.values()])
    times = [math.nan if line.time is None else line.time / 1e3 for line in last.values()]
    if page.timestamps is None:
        assert all(map(math.isnan, times))
    else:
        np.testing.assert_array_equal(page.timestamps, times)
    bad = [number for number, line in enumerate(lines, start=2) if line.bad]
    assert page.defects == PageDefects(
        bad_lines=len(bad),
        nan_samples=sum(math.isnan(line.value) for line in last.values()),
        duplicate_samples=len(wanted) - len(last),
        first_bad_line=bad[0] if bad else None,
    )


@settings(max_examples=300)
@given(sample_lines())
def test_a_line_is_what_the_official_parser_takes_it_for(line: Line) -> None:
    """Where that one accepts it: it wants one kind of blank between value and time."""
    try:
        (family,) = text_string_to_metric_families(line.text.decode())
    except ValueError:
        return
    (theirs,) = family.samples
    assert line.sample is not None
    page = PageParser(frozenset({line.sample.name})).parse(line.text)
    assert page.layout.samples == (SampleId(theirs.name, tuple(sorted(theirs.labels.items()))),)
    np.testing.assert_array_equal(page.values, [float(theirs.value)])
    assert (page.timestamps is None) == (theirs.timestamp is None)
    if page.timestamps is not None:
        assert page.timestamps.tolist() == [theirs.timestamp]


# What an edit may leave on a page: lines that look like others, numbers that look like lines.
REPLACEMENTS = (
    *BAD_LINES,
    *COMMENTS,
    *(b"a 7", b"a 7 5000", b"a 7 # {} 1", b" a 7", b"a  7", b"a 7 ", b"a\t7", b'a{x="1"} 7', b"a_total 7", b"ab 7"),
    *(b"# TYPE a gauge", b"# TYPE a counter", b"# TYPE ab gauge", b"# EOF", b"ab NaN", b"ab 7 5000", b"ab", b"ab "),
    *(b"1", b"-1e5", b"1,2", b",", b"[", b"null", b"Inf", b"", b"{", b"<p>"),
)
EDIT_BYTES = b' \t\r\n"\\{}=,#<[_.0a5N-+e\xff\x0b'
edits = st.one_of(
    st.tuples(
        st.just("value"), st.integers(0, 20), st.sampled_from([b"1", b"2.5", b"NaN", b"1_0", b"", b"1 5", b"1e5"])
    ),
    st.tuples(st.just("line"), st.integers(0, 20), st.sampled_from(REPLACEMENTS)),
    st.tuples(st.just("insert"), st.integers(0, 20), st.sampled_from(REPLACEMENTS)),
    st.tuples(st.just("delete"), st.integers(0, 20), st.just(b"")),
    st.tuples(st.just("swap"), st.integers(0, 20), st.just(b"")),
    st.tuples(
        st.just("byte"), st.integers(0, 400), st.integers(0, len(EDIT_BYTES) - 1).map(lambda i: EDIT_BYTES[i : i + 1])
    ),
    st.tuples(st.just("truncate"), st.integers(0, 400), st.just(b"")),
)


def edited(body: bytes, kind: str, place: int, text: bytes) -> bytes:
    """The next page of a target whose numbers, lines or bytes have changed."""
    if kind == "byte":
        place %= len(body) + 1
        return body[:place] + text + body[place + 1 :]
    if kind == "truncate":
        return body[: len(body) - place % (len(body) + 1)]
    lines = body.split(b"\n")
    place %= len(lines)
    if kind == "value":
        lines[place] = lines[place][: lines[place].rfind(b" ") + 1] + text
    elif kind == "line":
        lines[place] = text
    elif kind == "insert":
        lines.insert(place, text)
    elif kind == "delete":
        del lines[place]
    else:
        lines[place - 1], lines[place] = lines[place], lines[place - 1]
    return b"\n".join(lines)


@settings(max_examples=500)
@given(pages, st.lists(st.lists(edits, min_size=1, max_size=3), min_size=1, max_size=6), st.booleans())
@example([Line(b"ab 5"), Line(b"a 5")], [[("line", 1, b"1"), ("line", 2, b"1")]], True)
@example([], [[("delete", 0, b"")]], True)
@example([Line(b"a")], [[("delete", 0, b"")], [("insert", 0, b"#")], [("line", 0, b"")]], True)
@example([Line(b"a 5"), Line(b"b 5")], [[("line", 1, b"1,2"), ("line", 2, b"")]], True)
def test_both_ways_of_reading_agree(
    lines: list[Line], scrapes: list[list[tuple[str, int, bytes]]], hinted: bool
) -> None:
    """Scrape after scrape of a changing page, by one parser that knows it and by new ones that do not."""
    parser = PageParser(WANTED)
    body = body_of(lines)
    layout = parser.parse(body).layout
    for changes in scrapes:
        for change in changes:
            body = edited(body, *change)
        known, new = page_or_error(parser, body, layout if hinted else None), page_or_error(PageParser(WANTED), body)
        if isinstance(known, Page) and isinstance(new, Page):
            assert_same(known, new)
            layout = known.layout
        else:
            assert known == new


@given(
    st.binary(max_size=200) | st.lists(st.sampled_from([*REPLACEMENTS, b'a{x="', b'",']), max_size=8).map(b"\n".join)
)
def test_any_bytes_give_a_page_or_a_page_error(body: bytes) -> None:
    """Nothing else comes out, and what comes out fits together."""
    try:
        page = PageParser(WANTED).parse(body)
    except PageError:
        return
    assert page.values.shape == (len(page.layout.samples),)
    assert page.timestamps is None or page.timestamps.shape == page.values.shape
    assert {sample.name for sample in page.layout.samples} <= WANTED
    assert (page.defects.first_bad_line is None) == (page.defects.bad_lines == 0)


@settings(max_examples=300)
@given(
    st.lists(numbers.flatmap(printed) | st.text("0123456789+-.eE,_NanIif []", min_size=1).map(str.encode), min_size=1)
)
def test_many_numbers_are_read_as_each_one_is(texts: list[bytes]) -> None:
    """All at once and one by one, each is the same number, or one is none."""
    one_by_one = [parse_number(text) for text in texts]
    at_once = parse_numbers(b",".join(texts), len(texts))
    if at_once is None:
        assert None in one_by_one
    else:
        np.testing.assert_array_equal(np.array(at_once, dtype=np.float64), np.array(one_by_one, dtype=np.float64))
