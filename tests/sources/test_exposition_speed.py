"""What reading costs, in CPU time and as ratios: absolute figures depend on the machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pdscope.sources import exposition
from pdscope.sources.exposition import PageParser

RECORDED = Path(__file__).parents[1] / "fixtures" / "expositions"

pytestmark = pytest.mark.bench


def cpu_seconds(call: Callable[[], object], runs: int) -> float:
    """The least of several runs."""
    times = []
    for _ in range(runs):
        start = process_time()
        call()
        times.append(process_time() - start)
    return min(times)


def test_fifty_times_faster_than_the_official_parser() -> None:
    """On a loaded SGLang decode instance with every sample wanted, once the layout is known."""
    body = (RECORDED / "sglang-0.5.23-decode.prom").read_bytes()
    names = re.findall(rb"^[a-zA-Z_:][a-zA-Z0-9_:]*", body, re.MULTILINE)
    parser = PageParser(frozenset(name.decode() for name in names))
    layout = parser.parse(body).layout
    assert len(layout.samples) == 1679

    text = body.decode()
    official = cpu_seconds(lambda: list(text_string_to_metric_families(text)), 3)
    ours = cpu_seconds(lambda: parser.parse(body, layout), 30)
    assert official / ours >= 50


def test_a_page_of_a_vulnerability_scan() -> None:
    """E23: 20,000 series that nobody wants hold up the event loop for less than half of the official parser."""
    body = b"".join(
        b'http_request_duration_seconds_bucket{endpoint="/%x/../../etc/passwd",le="0.5",method="GET"} %d\n' % (n, n)
        for n in range(20_000)
    )
    wanted = frozenset({"sglang:num_running_reqs"})
    page = PageParser(wanted).parse(body + b"sglang:num_running_reqs 5\n")
    assert page.values.tolist() == [5]
    assert page.defects.bad_lines == 0

    text = body.decode()
    official = cpu_seconds(lambda: list(text_string_to_metric_families(text)), 1)
    assert cpu_seconds(lambda: PageParser(wanted).parse(body), 3) <= official / 2


HOSTILE = {
    "one name": lambda n: b"a" * n,
    "one number": lambda n: b"a " + b"1" * n,
    "blanks": lambda n: b"a" + b" " * n,
    "blanks after the value": lambda n: b"a 1" + b" " * n + b"x",
    "blanks between": lambda n: b"a 1 " + b" 1" * (n // 2),
    "one label value": lambda n: b'a{x="' + b"y" * n,
    "escapes": lambda n: b'a{x="' + b"\\\\" * (n // 2) + b'"',
    "escaped quotes": lambda n: b'a{x="' + b'\\"' * (n // 2),
    "many labels": lambda n: b"a{" + b'x="1",' * (n // 6) + b"!",
    "many quoted": lambda n: b"a{" + b'"x",' * (n // 4) + b"!",
    "many names": lambda n: b"{" + b'"x" ' * (n // 4) + b"} 1",
    "braces": lambda n: b"a" + b"{" * n,
    "exemplar": lambda n: b"a 1 # {" + b'x="1",' * (n // 6) + b"!",
    "type": lambda n: b"# TYPE a gauge" + b" " * n + b"!",
    "type in quotes": lambda n: b'# TYPE "' + b'\\"' * (n // 2),
    "hashes": lambda n: b"#" * n + b"\n" + b"a 1" + b" #" * (n // 2),
    "short lines": lambda n: b"a\n" * (n // 16),
    "carriage returns": lambda n: b"a 1" + b"\r" * n,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_line_costs_its_length(kind: str) -> None:
    """Eight times the length costs about eight times as much, not 64 times; whatever stands in it."""

    def read(size: int) -> None:
        PageParser(frozenset({"a"})).parse(b"b 1\n" + HOSTILE[kind](size))

    short, long = 2**17, 2**20
    assert cpu_seconds(lambda: read(long), 2) <= max(0.05, 24 * cpu_seconds(lambda: read(short), 3))


def test_a_new_layout_is_learnt_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scrape that lost one line of thousands is read in full once, and by its layout from then on."""
    lines = [b'a{path="/%d"} 1' % line for line in range(5000)]
    parser = PageParser(frozenset({"a"}))
    layout = parser.parse(b"\n".join(lines)).layout
    shorter = parser.parse(b"\n".join(lines[1:]), layout)
    assert len(shorter.values) == 4999
    monkeypatch.delattr(exposition, "read_in_full")
    assert parser.parse(b"\n".join(lines[1:]), shorter.layout).layout is shorter.layout
    assert parser.parse(b"\n".join(lines), shorter.layout).layout is layout
