"""Texts with units."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.config import (
    UnitError,
    duration_text,
    index_ranges,
    parse_bandwidth,
    parse_duration,
    parse_flops,
    parse_size,
)
from pdscope.errors import ConfigError

Parser = Callable[[object], float]
PARSERS: tuple[Parser, ...] = (parse_duration, parse_bandwidth, parse_size, parse_flops)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5s", 5),
        ("500ms", 0.5),
        ("250us", 0.00025),
        ("1m", 60),
        ("1h30m", 5400),
        ("1h30m10.5s", 5410.5),
        ("1.5s", 1.5),
        ("2d", 172800),
        ("5 s", 5),
        (" 5s ", 5),
        ("007s", 7),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "bytes_per_second"),
    [
        ("392GB/s", 392e9),
        ("400Gb/s", 50e9),
        ("400Gbit/s", 50e9),
        ("400Gbps", 50e9),
        ("100Mbps", 12.5e6),
        ("60Mb/s", 7.5e6),
        ("7.5MB/s", 7.5e6),
        ("4.8TB/s", 4.8e12),
        ("200GiB/s", 200 * 2**30),
        ("8Gib/s", 2**30),
        ("1kB/s", 1000),
        ("1KB/s", 1000),
        ("1KiB/s", 1024),
        ("12 B/s", 12),
    ],
)
def test_bandwidths(text: str, bytes_per_second: float) -> None:
    assert parse_bandwidth(text) == bytes_per_second


@pytest.mark.parametrize(
    ("text", "size"),
    [("64GiB", 64 * 2**30), ("141GB", 141e9), ("16.06GB", 16_060_000_000), ("1B", 1), ("1.5 TiB", 1.5 * 2**40)],
)
def test_sizes(text: str, size: float) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(("text", "rate"), [("989TFLOP/s", 989e12), ("2.25PFLOPS", 2.25e15), ("5GFLOP/s", 5e9)])
def test_compute_rates(text: str, rate: float) -> None:
    assert parse_flops(text) == rate


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize(
    "value", ["", "5", 5, 5.0, float("nan"), True, None, [], {}, "s", "GB/s", "-5s", "1e3s", "\u0665s"]
)
def test_a_value_without_its_unit_is_refused(parse: Parser, value: object) -> None:
    with pytest.raises(UnitError) as caught:
        parse(value)
    assert "such as" in str(caught.value), "the message shows how to write it"
    assert isinstance(caught.value, ConfigError)


@pytest.mark.parametrize(
    ("parse", "texts"),
    [
        (
            parse_duration,
            ["1s1s", "1s1m", "1ms1s", "1.5m1s", "1h 30m", "1min", "5S", "1,5s", "1:30", "0s", "0h0m", "367d"],
        ),
        (parse_bandwidth, ["1GB", "1Gb", "1gb/s", "1GBps", "1GB/h", "1GB/s/s", "1Gibps", "0GB/s", "2EB/s", "1 GB / s"]),
        (parse_size, ["1Gb", "64G", "64Gi", "1gb", "0GB", "2EB", "64GB/s", "9" * 70 + "B"]),
        (parse_flops, ["989TFLOP", "989TOPS", "989Tflop/s", "0TFLOP/s", "2000EFLOP/s", "1TiFLOP/s"]),
    ],
)
def test_near_misses_are_refused(parse: Parser, texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(UnitError):
            parse(text)


SCALES: dict[Parser, dict[str, str | int]] = {
    parse_duration: {"us": "1e-6", "ms": "1e-3", "s": 1, "m": 60, "h": 3600, "d": 86400},
    parse_size: {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "MiB": 2**20, "GiB": 2**30},
    parse_bandwidth: {"B/s": 1, "GB/s": 10**9, "Gb/s": "125e6", "Mbps": "125e3", "GiB/s": 2**30, "Tbit/s": "125e9"},
    parse_flops: {"FLOP/s": 1, "GFLOP/s": 10**9, "TFLOP/s": 10**12, "PFLOPS": 10**15},
}


@given(st.data(), st.integers(1, 9_999), st.integers(0, 999))
def test_a_quantity_is_its_number_times_its_unit(data: st.DataObject, whole: int, thousandths: int) -> None:
    """Exactly: the result is the float nearest to the decimal that was written."""
    parse = data.draw(st.sampled_from(list(SCALES)))
    unit = data.draw(st.sampled_from(list(SCALES[parse])))
    number = f"{whole}.{thousandths:03}"
    expected = Decimal(number) * Decimal(SCALES[parse][unit])
    if parse is parse_duration and expected > 366 * 86400:
        with pytest.raises(UnitError, match="at most 366d"):
            parse(number + unit)
    else:
        assert parse(number + unit) == float(expected)


@given(st.integers(0, 300), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), st.integers(1, 999))
def test_joined_durations_add_up(days: int, hours: int, minutes: int, seconds: int, milliseconds: int) -> None:
    text = f"{days}d{hours}h{minutes}m{seconds}s{milliseconds}ms"
    exact = Decimal(days * 86400 + hours * 3600 + minutes * 60 + seconds) + Decimal(milliseconds) / 1000
    assert parse_duration(text) == float(exact)


@given(st.floats(1e-6, 366 * 86400.0))
def test_a_written_duration_reads_back(seconds: float) -> None:
    assert parse_duration(duration_text(seconds)) == pytest.approx(seconds, rel=1e-15)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(5.0, "5s"), (0.5, "500ms"), (90.0, "90s"), (3600.0, "1h"), (86400.0, "24h"), (0.0015, "1.5ms")],
)
def test_a_duration_is_written_as_a_person_would(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@given(st.text(max_size=20))
def test_any_text_is_a_positive_number_or_an_error(text: str) -> None:
    for parse in PARSERS:
        with contextlib.suppress(UnitError):
            assert parse(text) > 0


def test_index_ranges() -> None:
    assert index_ranges("0-3") == (range(4),)
    assert index_ranges("0,2,4-7") == (range(1), range(2, 3), range(4, 8))
    assert index_ranges("d1-.*") is None
    assert index_ranges("0-") is None
    with pytest.raises(UnitError, match="backwards"):
        index_ranges("3-0")
