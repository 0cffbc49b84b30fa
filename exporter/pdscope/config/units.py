"""Texts with a unit, as people write them, to numbers in base units.

A number without a unit is refused everywhere: 5 could be seconds or milliseconds, and 400 bits or bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from pdscope.config.problems import kind_of, shown
from pdscope.errors import ConfigError

MAX_DURATION_SECONDS = 366 * 86400.0
MAX_BYTES = 1e18
MAX_BYTES_PER_SECOND = 1e18
MAX_FLOP_PER_SECOND = 1e21

_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_LONGEST_TEXT = 64

_SECONDS = {
    "d": Decimal(86400),
    "h": Decimal(3600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("1e-3"),
    "us": Decimal("1e-6"),
}
"""Unit -> seconds, the longest first: the order in which a text may join them."""
_DURATION_PART = re.compile(rf"({_NUMBER}) ?(ms|us|d|h|m|s)")
_DURATION = re.compile(rf"(?:{_DURATION_PART.pattern})+")

_PREFIXES = {
    "": Decimal(1),
    "k": Decimal(10**3),
    "K": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
}
_BINARY_PREFIXES = {
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
}
_QUANTITY = re.compile(rf"({_NUMBER}) ?([A-Za-z/]+)")


class UnitError(ConfigError, ValueError):
    """A text is not the quantity that it should be. Also a ValueError, which is what validators expect."""

    def __init__(self, message: str) -> None:
        super().__init__("", message)


def _units(prefixes: Mapping[str, Decimal], base: Mapping[str, Decimal]) -> dict[str, Decimal]:
    return {prefix + unit: factor * size for prefix, factor in prefixes.items() for unit, size in base.items()}


_BYTE, _BIT = Decimal(1), Decimal("0.125")
_SIZES = _units(_PREFIXES | _BINARY_PREFIXES, {"B": _BYTE})
_BANDWIDTHS = _units(_PREFIXES | _BINARY_PREFIXES, {"B/s": _BYTE, "b/s": _BIT, "bit/s": _BIT}) | _units(
    _PREFIXES, {"bps": _BIT}
)
_FLOPS = _units(_PREFIXES, {"FLOP/s": Decimal(1), "FLOPS": Decimal(1)})

_DURATION_IS = "a duration such as 5s, 500ms or 1h30m"
_BANDWIDTH_IS = "a bandwidth such as 392GB/s (bytes) or 400Gb/s (bits)"
_SIZE_IS = "a size such as 64GiB or 141GB"
_FLOPS_IS = "a compute rate such as 989TFLOP/s"


def parse_duration(text: object) -> float:
    """`5s`, `500ms`, `1m`, `1h30m`, `1.5s` to seconds. Units d, h, m, s, ms, us; the longest first, each once.

    Raises:
        UnitError: it is anything else, zero, or longer than a year.
    """
    value = _text(text, _DURATION_IS)
    if not _DURATION.fullmatch(value):
        raise UnitError(_wrong(value, _DURATION_IS))
    parts = _DURATION_PART.findall(value)
    order = [list(_SECONDS).index(unit) for _, unit in parts]
    if order != sorted(set(order)):
        raise UnitError(f"{shown(value)} is not {_DURATION_IS}: the longest unit comes first, and each but once")
    if any("." in number for number, _ in parts[:-1]):
        raise UnitError(f"{shown(value)} is not {_DURATION_IS}: only the last number may have a fraction")
    seconds = sum((Decimal(number) * _SECONDS[unit] for number, unit in parts), Decimal(0))
    return _bounded(seconds, MAX_DURATION_SECONDS, "366d")


def parse_bandwidth(text: object) -> float:
    """`392GB/s`, `200GiB/s` (bytes) or `400Gb/s`, `400Gbit/s`, `400Gbps` (bits) to bytes per second.

    The case of B and b decides between bytes and bits. `GBps` is refused, because a slip of the shift key would
    change it eightfold without a sign.

    Raises:
        UnitError: it is anything else, zero, or over 1 EB/s.
    """
    return _bounded(_quantity(text, _BANDWIDTHS, _BANDWIDTH_IS), MAX_BYTES_PER_SECOND, "1EB/s")


def parse_size(text: object) -> float:
    """`64GiB`, `141GB` to bytes.

    Raises:
        UnitError: it is anything else (bits too), zero, or over 1 EB.
    """
    return _bounded(_quantity(text, _SIZES, _SIZE_IS), MAX_BYTES, "1EB")


def parse_flops(text: object) -> float:
    """`989TFLOP/s` or `989TFLOPS` to floating-point operations per second.

    Raises:
        UnitError: it is anything else, zero, or over 1000 EFLOP/s.
    """
    return _bounded(_quantity(text, _FLOPS, _FLOPS_IS), MAX_FLOP_PER_SECOND, "1000EFLOP/s")


def duration_text(seconds: float) -> str:
    """The shortest text in one unit that `parse_duration` reads as `seconds`: 5s, 500ms, 90s."""
    if seconds % 3600 == 0:
        return f"{seconds / 3600:.0f}h"
    if seconds == int(seconds):
        return f"{seconds:.0f}s"
    milliseconds = (Decimal(repr(seconds)) * 1000).normalize()
    return f"{milliseconds:f}ms"


def index_ranges(text: str) -> tuple[range, ...] | None:
    """`0-3` or `0,2,4-7` as ranges of device indices; None when the text is a pattern instead.

    Raises:
        UnitError: a range that runs backwards.
    """
    if not re.fullmatch(r"[0-9]{1,6}(?:-[0-9]{1,6})?(?:,[0-9]{1,6}(?:-[0-9]{1,6})?)*", text):
        return None
    ranges = []
    for item in text.split(","):
        first, _, last = item.partition("-")
        ranges.append(range(int(first), int(last or first) + 1))
        if not ranges[-1]:
            raise UnitError(f"{shown(item)} runs backwards")
    return tuple(ranges)


def _text(value: object, wanted: str) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise UnitError(f"has no unit; write {wanted}")
    raise UnitError(f"must be {wanted}, not {kind_of(value)}")


def _wrong(value: str, wanted: str) -> str:
    if re.fullmatch(r"[-+]?[0-9.]+", value):
        return f"{shown(value)} has no unit; write {wanted}"
    return f"{shown(value)} is not {wanted}"


def _quantity(text: object, units: Mapping[str, Decimal], wanted: str) -> Decimal:
    value = _text(text, wanted)
    match = _QUANTITY.fullmatch(value) if len(value) <= _LONGEST_TEXT else None
    if match is None or match[2] not in units:
        raise UnitError(_wrong(value, wanted))
    return Decimal(match[1]) * units[match[2]]


def _bounded(value: Decimal, highest: float, highest_text: str) -> float:
    if value > highest:
        raise UnitError(f"must be at most {highest_text}")
    if (number := float(value)) <= 0:
        raise UnitError("must be greater than 0")
    return number
