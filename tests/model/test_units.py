"""Numbers as text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.model.units import Unit, format_quantity


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, Unit.SECONDS, "0 ms"),
        (12.5, Unit.SECONDS, "12.5 s"),
        (1.0, Unit.SECONDS, "1 s"),
        (0.0425, Unit.SECONDS, "42.5 ms"),
        (0.001, Unit.SECONDS, "1 ms"),
        (0.000085, Unit.SECONDS, "85 us"),
        (-2.5, Unit.SECONDS, "-2.5 s"),
        (0.0, Unit.BYTES, "0 B"),
        (512, Unit.BYTES, "512 B"),
        (999, Unit.BYTES, "999 B"),
        (1e3, Unit.BYTES, "1 kB"),
        (1e6, Unit.BYTES, "1 MB"),
        (1e9, Unit.BYTES, "1 GB"),
        (1e12, Unit.BYTES, "1 TB"),
        (131_072, Unit.BYTES, "131 kB"),
        (287_834_112, Unit.BYTES, "288 MB"),
        (29.9e9, Unit.BYTES_PER_SECOND, "29.9 GB/s"),
        (22.4e9, Unit.BYTES_PER_SECOND, "22.4 GB/s"),
        (4.8e12, Unit.BYTES_PER_SECOND, "4.8 TB/s"),
        (70_272, Unit.BYTES_PER_TOKEN, "70,272 B/token"),
        (4096, Unit.TOKENS, "4,096 tokens"),
        (1812.4, Unit.TOKENS_PER_SECOND, "1812 tokens/s"),
        (33, Unit.REQUESTS, "33 requests"),
        (0.5, Unit.REQUESTS_PER_SECOND, "0.5 requests/s"),
        (0.0166667, Unit.PER_SECOND, "0.0167/s"),
        (0.96, Unit.RATIO, "96 %"),
        (1.0533, Unit.RATIO, "105 %"),
        (0.0004, Unit.RATIO, "0.04 %"),
        (13, Unit.COUNT, "13"),
    ],
)
def test_as_an_engineer_would_write_it(value: float, unit: Unit, text: str) -> None:
    """Three digits and the unit at hand."""
    assert format_quantity(value, unit) == text


FACTORS = {"s": 1, "ms": 1e-3, "us": 1e-6, "%": 1e-2, "/s": 1}
PREFIXES = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
FACTORS |= {f"{p}B{per}": factor for p, factor in PREFIXES.items() for per in ("", "/s")}


@given(
    st.floats(1e-6, 1e15) | st.floats(-1e15, -1e-6) | st.just(0.0),
    st.sampled_from([Unit.SECONDS, Unit.BYTES, Unit.BYTES_PER_SECOND, Unit.RATIO, Unit.PER_SECOND]),
)
def test_the_text_says_the_number(value: float, unit: Unit) -> None:
    """Read back, it is the value to three digits."""
    text = format_quantity(value, unit)
    match = re.fullmatch(r"(-?[0-9.]+) ?([a-zA-Z/%]+)", text)
    assert match, text
    assert float(match[1]) * FACTORS[match[2]] == pytest.approx(value, rel=0.0051, abs=1e-14)


@given(st.floats(-1e300, 1e300), st.sampled_from(Unit))
def test_any_finite_number_has_a_text(value: float, unit: Unit) -> None:
    """Without an exponent: nobody reads `1e+09 B`."""
    text = format_quantity(value, unit)
    assert re.match(r"-?[0-9]", text)
    assert not re.match(r"[-0-9.,]*e", text)


def test_the_largest_number_has_a_text_too() -> None:
    """Nothing that a page can say keeps a report from being written."""
    assert format_quantity(1.7e308, Unit.RATIO) == "inf %"
    assert format_quantity(-0.0, Unit.BYTES) == "0 B"
