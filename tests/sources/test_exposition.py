"""The format as specified, and what a page yields: samples, timestamps, defects, layouts."""

from __future__ import annotations

import gc
import math
import weakref

import numpy as np
import pytest

from pdscope.errors import PageError
from pdscope.sources import exposition
from pdscope.sources.exposition import Layout, Page, PageDefects, PageParser, SampleId

NO_DEFECTS = PageDefects(bad_lines=0, nan_samples=0, duplicate_samples=0, first_bad_line=None)


def parse(body: bytes, *wanted: str) -> Page:
    return PageParser(frozenset(wanted or {"a"})).parse(body)


def samples(page: Page) -> dict[SampleId, float]:
    return dict(zip(page.layout.samples, page.values.tolist(), strict=True))


def labels(line: bytes) -> dict[str, str]:
    """Labels of the only sample of a page."""
    (sample,) = parse(line).layout.samples
    return dict(sample.labels)


def refuse_to_read(*_: object) -> None:
    raise AssertionError("the page is read in full")


# --------------------------------------------------------------------------------------------- lines


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"0", 0.0),
        (b"42", 42.0),
        (b"-1", -1.0),
        (b"+5", 5.0),
        (b".5", 0.5),
        (b"5.", 5.0),
        (b"1e+06", 1e6),
        (b"1.5E-3", 0.0015),
        (b"18446744073709551616", 2.0**64),
        (b"9007199254740993", 9007199254740992.0),
        (b"1e400", math.inf),
        (b"Inf", math.inf),
        (b"+Inf", math.inf),
        (b"-Inf", -math.inf),
        (b"inf", math.inf),
        (b"-infinity", -math.inf),
        (b"NaN", math.nan),
        (b"Nan", math.nan),
        (b"nan", math.nan),
        (b"-nan", math.nan),
    ],
)
def test_numbers(text: bytes, number: float) -> None:
    """Read in full and by layout, a number is the same."""
    parser = PageParser(frozenset({"a", "b"}))
    in_full = parser.parse(b"a " + text + b"\nb 1\n")
    learnt = parser.parse(b"a 3\nb 4\n")
    by_layout = parser.parse(b"a " + text + b"\nb 5\n", learnt.layout)
    np.testing.assert_array_equal(in_full.values, [number, 1])
    np.testing.assert_array_equal(by_layout.values, [number, 5])


@pytest.mark.parametrize(
    "text",
    [
        *(b"1_0", b"0x10", b"0x1p-2", b"1e", b"--1", b"1,5", b"one", b"e5", b"[1]", b"null", b"true", b'"1"'),
        *(b"1\x0b", b"\x0c1", b"1\x00", "\u0661".encode(), b"nan(0)", b"1.2.3", b"", b"infinit"),
    ],
)
def test_no_numbers(text: bytes) -> None:
    """What is no number costs its line, read in full and by layout."""
    parser = PageParser(frozenset({"a", "b"}))
    body = b"a " + text + b"\nb 2\n"
    hint = parser.parse(b"a 3\nb 4\n").layout
    for page in (parse(body, "a", "b"), parser.parse(body, hint)):
        assert samples(page) == {SampleId("b", ()): 2.0}
        assert page.defects == PageDefects(1, 0, 0, first_bad_line=1)


@pytest.mark.parametrize(
    "line",
    [
        b'a{x="1",y="2"} 5',
        b'a{x="1",y="2",} 5',
        b'a{y="2",x="1"} 5',
        b' a { x = "1" , y = "2" , } 5 ',
        b'\ta\t{\tx\t=\t"1"\t,\ty\t=\t"2"\t}\t5\t',
        b'a{x="1",y="2"}5',
        b'a{x="1",y="2"} 5.0\r',
        b'{"a",x="1",y="2"} 5',
        b'{x="1","a",y="2"} 5',
        b'a{"x"="1","y"="2"} 5',
        b'a{x="1",y="2"} 5 # {trace_id="abc # {} 7"} 0.67',
        b'a{x="1",y="2"} 5 # {} 0.67 1520879607.789',
    ],
)
def test_one_sample_in_many_spellings(line: bytes) -> None:
    """Blanks, order of labels, trailing comma, quoted names and exemplars change nothing."""
    for body in (line, line + b"\n", b"# TYPE a gauge\n" + line + b"\n"):
        page = parse(body)
        assert samples(page) == {SampleId("a", (("x", "1"), ("y", "2"))): 5.0}
        assert page.defects == NO_DEFECTS
        assert page.timestamps is None


@pytest.mark.parametrize(
    "line",
    [
        b"a",
        b"a ",
        b"5",
        b"a{} ",
        b"1a 5",
        b"a-b 5",
        b"a b 5",
        b'a{x="1" 5',
        b'a{x="1} 5',
        b"a{x=1} 5",
        b"a{x} 5",
        b'a{="1"} 5',
        b'a{x:y="1"} 5',
        b'a{,x="1"} 5',
        b'a{x="1",,y="2"} 5',
        b'a{x="1"y="2"} 5',
        b'a{x="1",x="2"} 5',
        b'a{x="1"}{y="2"} 5',
        b'a{x="\xff"} 5',
        b'a{__name__="b"} 5',
        b'{x="1"} 5',
        b'{"a","a"} 5',
        b'{"\xff"} 5',
        b'{"a","\xff"="1"} 5',
        b'a{"a"} 5',
        b"{} 5",
        b"a 5 6 7",
        b"a 5 nan",
        b"a 5 Inf",
        b"a 5 soon",
        b"a 5 #",
        b"a 5 # {}",
        b"a 5 # {} x",
        b"a 5 # {} 1 x",
        b"# TYPE a",
        b"# TYPE",
        b"# TYPE a gauge counter",
        b"# TYPE 1a gauge",
        b'# TYPE "\xff" gauge',
    ],
)
def test_a_bad_line_costs_that_line(line: bytes) -> None:
    """It is counted and named; all others are read."""
    page = parse(b"a 1\n" + line + b'\na{x="2"} 2\n\n' + line)
    assert samples(page) == {SampleId("a", ()): 1.0, SampleId("a", (("x", "2"),)): 2.0}
    assert page.defects == PageDefects(bad_lines=2, nan_samples=0, duplicate_samples=0, first_bad_line=2)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"", ""),
        (b'say \\"hi\\"', 'say "hi"'),
        (b"C:\\\\dir\\\\new", "C:\\dir\\new"),
        (b"two\\nlines", "two\nlines"),
        (b"\\\\n", "\\n"),
        (b"\\d+", "\\d+"),
        (b"a b\t# {x} , = }{", "a b\t# {x} , = }{"),
        ("größe 模型 😀".encode(), "größe 模型 😀"),
        (b"\r", "\r"),
        (b"/../../etc/passwd", "/../../etc/passwd"),
        (b"/${jndi:ldap://localhost}", "/${jndi:ldap://localhost}"),
        (b"<script>alert(1)</script>", "<script>alert(1)</script>"),
    ],
)
def test_label_values(raw: bytes, value: str) -> None:
    """They hold anything; three escapes are undone, others stay."""
    assert labels(b'a{x="' + raw + b'",le="0.5"} 1') == {"le": "0.5", "x": value}


def test_labels_are_sorted_by_name() -> None:
    """Two spellings of a sample are one sample."""
    (sample,) = parse(b'a{z="1",le="+Inf",B="2"} 1').layout.samples
    assert sample.labels == (("B", "2"), ("le", "+Inf"), ("z", "1"))


def test_quoted_utf8_names() -> None:
    """A name of Prometheus 3 that needs quotes can be wanted and declared."""
    page = parse('# TYPE "größe.a" counter\n{"größe.a","le.x"="1"} 5\n{"größe.b"} 6\n'.encode(), "größe.a")
    assert samples(page) == {SampleId("größe.a", (("le.x", "1"),)): 5.0}
    assert dict(page.layout.types) == {"größe.a": "counter"}
    assert page.defects == NO_DEFECTS


def test_only_exact_names_are_wanted() -> None:
    """Neither what begins nor what ends like a wanted name is one."""
    body = b"a 1\na_total 2\nab 3\nba 4\na_created 5\na_bucket 6\nA 7\n"
    assert samples(parse(body)) == {SampleId("a", ()): 1.0}


# --------------------------------------------------------------------------------------------- pages


def test_types_as_printed_and_the_first_of_two() -> None:
    """Types of all families, with their own words."""
    page = parse(b"# TYPE a gauge\na 1\n#\tTYPE b histogram\n# TYPE a counter\n#TYPE c unknown\n# TYPES d e\n")
    assert dict(page.layout.types) == {"a": "gauge", "b": "histogram", "c": "unknown"}
    assert page.defects == NO_DEFECTS


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        (b"a 1 1520879607789\n", 1520879607.789),
        (b"a 1 1000\n", 1.0),
        (b"a 1 -1000\n", -1.0),
        (b"a 1 1520879607.5\n# EOF\n", 1520879607.5),
        (b"a 1 1520879607\n# EOF", 1520879607.0),
        (b"a 1 1520879607789\n# EOF\n\n", 1520879607.789),
        (b"a 1 1000\n# EOF\nb 1\n", 1.0),
        (b"a 1 1520879607.5 # {} 1\n# EOF\n", 1520879607.5),
    ],
)
def test_timestamps_are_seconds(body: bytes, seconds: float) -> None:
    """Milliseconds in 0.0.4, seconds in OpenMetrics, and never a time that cannot be meant."""
    page = parse(body)
    assert page.timestamps is not None
    assert page.timestamps.tolist() == [seconds]


def test_timestamps_of_some() -> None:
    """NaN where a sample has none, also when another page of the layout has some."""
    parser = PageParser(frozenset({"a", "b"}))
    without = parser.parse(b"a 1\nb 2\n")
    some = parser.parse(b"a 1\nb 2 5000\n", without.layout)
    assert without.timestamps is None
    assert some.timestamps is not None
    np.testing.assert_array_equal(some.timestamps, [math.nan, 5.0])
    assert some.layout is without.layout
    assert parser.parse(b"a 1\nb 2\n", some.layout).timestamps is None


def test_duplicates_keep_the_first_place_and_the_last_value() -> None:
    """Read in full and by layout; the order of labels does not make another sample."""
    parser = PageParser(frozenset({"a", "b"}))
    body = b'a{x="1",y="2"} %d\nb %d\na{y="2",x="1"} %d 7000\nb %d\n'
    first = parser.parse(body % (1, 2, 3, 4))
    assert first.layout.samples == (SampleId("a", (("x", "1"), ("y", "2"))), SampleId("b", ()))
    assert first.values.tolist() == [3, 4]
    assert first.timestamps is not None
    np.testing.assert_array_equal(first.timestamps, [7.0, math.nan])
    body = body.replace(b" 7000", b"")
    for page in (parser.parse(body % (1, 2, 3, 4), first.layout), parser.parse(body % (5, 6, 7, 8), first.layout)):
        assert page.defects == PageDefects(0, 0, duplicate_samples=2, first_bad_line=None)
    assert page.values.tolist() == [7, 8]


def test_nan_is_counted_among_the_wanted_samples() -> None:
    """Once for each sample, whatever unwanted ones say."""
    page = parse(b"a NaN\nb NaN\na{x='1'} NaN\na 1\na{x=\"1\"} -nan\n")
    assert page.defects == PageDefects(bad_lines=1, nan_samples=1, duplicate_samples=1, first_bad_line=3)


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_newlines_and_a_truncated_end(newline: bytes) -> None:
    """A last line counts if it is whole as far as one can tell."""
    lines = [b"# TYPE a gauge", b"a 1", b'a{x="1"} 2', b'a{x="2"} 34']
    whole = newline.join(lines)
    assert parse(whole).values.tolist() == [1, 2, 34]
    assert parse(whole + newline).values.tolist() == [1, 2, 34]
    assert parse(whole[:-1]).values.tolist() == [1, 2, 3]
    cut = parse(whole[:-4])
    assert cut.values.tolist() == [1, 2]
    assert cut.defects == PageDefects(1, 0, 0, first_bad_line=4)
    assert parse(whole + newline[:1]).values.tolist() == [1, 2, 34]


@pytest.mark.parametrize("body", [b"", b"\n", b" \r\n\t\n"])
def test_an_empty_body_is_an_empty_page(body: bytes) -> None:
    """It is up to the reader what that means."""
    page = parse(body)
    assert page.layout.samples == ()
    assert page.values.shape == (0,)
    assert page.timestamps is None
    assert page.defects == NO_DEFECTS


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<!DOCTYPE html>\n<style>\n#a { color: red }\n</style>\na 5\n", "HTML or XML"),
        (b"\n  <html><body>502 Bad Gateway</body></html>", "HTML or XML"),
        (b"[]", "JSON"),
        (b'[\n{"a": 1}\n]\n', "JSON"),
        (b'{"detail": "Not Found"}', "JSON"),
        (b"{\n}\n", "JSON"),
        (b"Not Found", "no Prometheus exposition"),
        (b"404 page not found\n", "no Prometheus exposition"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00", "no Prometheus exposition"),
    ],
)
def test_a_body_that_is_no_exposition(body: bytes, kind: str) -> None:
    """The error says what it is and how it begins, without control characters."""
    with pytest.raises(PageError, match=f"the page is {kind}: it begins with '") as error:
        parse(body)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 400


def test_a_warning_before_the_page_costs_its_lines() -> None:
    """Declared families prove an exposition, however it begins."""
    page = parse(b"<br />\n<b>Warning</b>: division by zero\n# TYPE a gauge\na 1\n")
    assert page.values.tolist() == [1]
    assert page.defects == PageDefects(2, 0, 0, first_bad_line=1)


# ------------------------------------------------------------------------------------------- layouts


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_few_wanted_samples(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """None, one and several are read by layout."""
    names = [f"n{index}" for index in range(count)]
    parser = PageParser(frozenset(names))
    body = b"".join(b"n%d %%d\n" % index for index in range(5))
    layout = parser.parse(body % (0, 1, 2, 3, 4)).layout
    monkeypatch.setattr(exposition, "read_in_full", refuse_to_read)
    page = parser.parse(body % (5, 6, 7, 8, 9), layout)
    assert page.layout is layout
    assert page.values.tolist() == [5.0, 6.0, 7.0][:count]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a 1\nother 1\n# HELP a x\n\n", b'a 2\nother{x="1"} NaN 5000\n# HELP a y\n\n'),
        (b"a 1\nother 1\n# HELP a x\n\n", b"a 2\n# comment\nother 5\n#\n"),
        (b"a 1\nbad bad\n# TYPE a gauge\n", b"a 2.5e1\nbad bad\n# TYPE a gauge\n"),
    ],
)
def test_what_nobody_wants_may_change(before: bytes, after: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that are valid before and after, and not of interest, do not send the reader back to the start."""
    parser = PageParser(frozenset({"a"}))
    layout = parser.parse(before).layout
    expected = parse(after)
    monkeypatch.setattr(exposition, "read_in_full", refuse_to_read)
    page = parser.parse(after, layout)
    assert page.layout is layout
    assert page.values.tolist() == expected.values.tolist()
    assert page.defects == expected.defects


@pytest.mark.parametrize(
    "after",
    [
        b"5\n# TYPE a gauge\nother 1\n\n",
        b"a 1\n# TYPE a gauge\nother 1\n5\n",
        b"a 1\n# TYPE a gauge\n5\n\n",
        b"a 1\n5\nother 1\n\n",
        b"a 1\n\nother 1\n# TYPE a gauge\n",
        b"a 1\n# TYPE a counter\nother 1\n\n",
        b"a 1\n# TYPE a gauge\na 2\n\n",
        b"a 1\n# TYPE a gauge\nother 1\na 2\n",
        b'a 1\n# TYPE a gauge\na{x="1"} 2\n\n',
        b"a 1\n# TYPE a gauge\nother\n\n",
        b"a\n# TYPE a gauge\nother 1\n2\n",
        b"a \n# TYPE a gauge\nother 1\n\n",
        b"a \n# TYPE a gauge5\nother 1\n\n",
        b"a \n# TYPE a gauge\nother 1\n5\n",
        b"other 1\n# TYPE a gauge\na 1\n\n",
        b"a_b 1\n# TYPE a gauge\nother 1\n\n",
        b"a 1\n# TYPE a gauge\nother 1_0\n\n",
        b"a 1 # {} 1\n# TYPE a gauge\nother 1\n\n",
        b"a 1\n# TYPE a gauge\n# TYPE other gauge\n\n",
        b"a 1\n# TYPE a gauge\nother 1,2\n\n",
        b"a 1\n# TYPE a gauge extra\nother 1\n\n",
    ],
)
def test_a_line_that_changes_its_meaning_is_noticed(after: bytes) -> None:
    """By layout a page is what it is when read in full, defects included."""
    parser = PageParser(frozenset({"a"}))
    page = parser.parse(after, parser.parse(b"a 1\n# TYPE a gauge\nother 1\n\n").layout)
    expected = parse(after)
    assert page.layout.samples == expected.layout.samples
    assert page.layout.types == expected.layout.types
    assert page.values.tolist() == expected.values.tolist()
    assert page.defects == expected.defects


def test_a_page_that_turns_into_something_else() -> None:
    """As many lines of HTML are no page of that layout."""
    parser = PageParser(frozenset({"a"}))
    layout = parser.parse(b"a 1\nb 2\n").layout
    with pytest.raises(PageError):
        parser.parse(b"<p>\n</p>\n", layout)
    assert parser.parse(b"a 3\nb 2\n", layout).values.tolist() == [3]


def test_a_blank_line_in_place_of_a_declaration() -> None:
    """A line that lost everything is not the line that it was."""
    parser = PageParser(frozenset({"a"}))
    layout = parser.parse(b"# TYPE a gauge\n").layout
    page = parser.parse(b"\n", layout)
    assert page.layout.types == {}
    assert page.layout is not layout


def test_equal_pages_share_a_layout() -> None:
    """Of a fleet of equal engines there is one layout, with and without a hint, whatever stands between."""
    parser = PageParser(frozenset({"a", "b"}))
    one = parser.parse(b'# TYPE a gauge\na 1\nother{pid="1"} 1\nb 2\n')
    two = parser.parse(b'# TYPE a gauge\na 2\nother{pid="2"} 1\nb 3\n')
    three = parser.parse(b"# TYPE a gauge\na 2\nbad\nb 3\n", two.layout)
    assert one.layout is two.layout is three.layout
    assert three.defects.bad_lines == 1
    assert parser.parse(b'# TYPE a gauge\nother{pid="1"} 1\na 1\nb 2\n').layout is not one.layout
    assert parser.parse(b'# TYPE a counter\na 1\nother{pid="1"} 1\nb 2\n').layout is not one.layout


def test_a_hint_of_another_reader_is_not_trusted() -> None:
    """After a reload of the configuration other samples are wanted."""
    body = b"a 1\nb 2\n"
    layout = PageParser(frozenset({"a"})).parse(body).layout
    page = PageParser(frozenset({"b"})).parse(body, layout)
    assert samples(page) == {SampleId("b", ()): 2.0}


def test_layouts_are_bounded_but_hints_live_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser keeps the layouts last in use; what a target holds is known as long as it holds it."""
    parser = PageParser(frozenset({"a"}), max_layouts=2)
    held = parser.parse(b'a{x="held"} 1\n').layout
    dropped = weakref.ref(parser.parse(b'a{x="dropped"} 1\n').layout)
    parser.parse(b'a{x="2"} 1\n')
    parser.parse(b'a{x="3"} 1\n')
    gc.collect()
    assert dropped() is None
    assert len(parser._layouts) == len(parser._entries) - 1 == 2
    monkeypatch.setattr(exposition, "read_in_full", refuse_to_read)
    assert parser.parse(b'a{x="held"} 2\n', held).layout is held
    assert parser.parse(b'a{x="2"} 2\n').values.tolist() == [2]


def test_layouts_last_in_use_are_kept_and_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many layouts with as many lines only a few are tried without a hint."""
    parser = PageParser(frozenset({"a"}), max_layouts=10)
    layouts = [parser.parse(b'a{x="%d"} 1\n' % number).layout for number in range(10)]
    assert parser.parse(b'a{x="0"} 2\n', layouts[0]).layout is layouts[0]
    newest = parser.parse(b'a{x="10"} 1\n').layout
    assert set(parser._layouts.values()) == {layouts[0], *layouts[2:], newest}
    monkeypatch.setattr(exposition, "read_in_full", refuse_to_read)
    assert parser.parse(b'a{x="10"} 2\n').layout is newest
    assert parser.parse(b'a{x="0"} 2\n').layout is layouts[0]


def test_more_lines_are_another_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two targets whose pages differ in their last lines only do not push each other out."""
    parser = PageParser(frozenset({"a"}))
    short, long = parser.parse(b"a 1\n").layout, parser.parse(b"a 1\nother 1\n").layout
    monkeypatch.setattr(exposition, "read_in_full", refuse_to_read)
    assert parser.parse(b"a 2\n", short).layout is short
    assert parser.parse(b"a 2\nother 1\n", long).layout is long


def test_layouts_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that grows with every scrape does not stay in memory in all its sizes."""
    monkeypatch.setattr(exposition, "_MAX_STRUCTURE_BYTES", 10_000)
    parser = PageParser(frozenset({"a"}))
    for lines in range(1, 100):
        parser.parse(b"".join(b'a{path="/%d"} 1\n' % line for line in range(lines)))
    assert 1 <= len(parser._layouts) < 10
    assert sum(parser._entries[layout].structure.head_bytes for layout in parser._layouts.values()) <= 10_000


def test_what_the_reader_remembers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """New series with every scrape do not add up, and forgetting changes nothing."""
    monkeypatch.setattr("pdscope.sources._text._MEMORY_BYTES", 10_000)
    parser = PageParser(frozenset({"a"}))
    for scrape in range(100):
        page = parser.parse(b"".join(b'a{x="%d"} %d\n' % (scrape, line) for line in range(10, 30)))
        assert page.values.tolist() == [29.0]
        page = parser.parse(b"".join(b'a{x="%d-%d"} %d\n' % (scrape, line, line) for line in range(20)))
        assert page.values.tolist() == list(range(20))
    assert len(parser._reader._heads) < 100
    assert len(parser._reader._labels) < 100


def test_a_layout_is_compared_by_identity() -> None:
    """Plans are kept beside it with weak keys."""
    one, two = Layout((), {}), Layout((), {})
    assert one != two
    plans = weakref.WeakKeyDictionary({one: 1, two: 2})
    assert plans[one] == 1
    del two
    gc.collect()
    assert len(plans) == 1
