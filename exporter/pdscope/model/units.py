"""Units, and the one place where a number becomes text for a person."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import StrEnum


class Unit(StrEnum):
    """Base units. Everything inside pdscope is kept in these; adapters convert at the edge, once."""

    SECONDS = "seconds"
    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes_per_second"
    BYTES_PER_TOKEN = "bytes_per_token"
    TOKENS = "tokens"
    TOKENS_PER_SECOND = "tokens_per_second"
    REQUESTS = "requests"
    REQUESTS_PER_SECOND = "requests_per_second"
    PER_SECOND = "per_second"
    RATIO = "ratio"
    COUNT = "count"
    HERTZ = "hertz"
    WATTS = "watts"
    FLOP = "flop"
    FLOP_PER_SECOND = "flop_per_second"


_DECIMAL = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def _scaled(value: float, unit: str) -> str:
    for factor, prefix in _DECIMAL:
        if abs(value) >= factor:
            return f"{_short(value / factor)} {prefix}{unit}"
    return f"{_short(value)} {unit}"


def _short(value: float) -> str:
    if value == 0:
        return "0"
    if not math.isfinite(value):  # a share of 1e308 overflows as a percentage
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{min(digits, 9)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _seconds(value: float) -> str:
    if abs(value) >= 1:
        return f"{_short(value)} s"
    if abs(value) >= 1e-3 or value == 0:
        return f"{_short(value * 1e3)} ms"
    return f"{_short(value * 1e6)} us"


def _suffixed(suffix: str, factor: float = 1.0) -> Callable[[float], str]:
    return lambda value: f"{_short(value * factor)}{suffix}"


def _decimal(unit: str) -> Callable[[float], str]:
    return lambda value: _scaled(value, unit)


_FORMATS: Mapping[Unit, Callable[[float], str]] = {
    Unit.SECONDS: _seconds,
    Unit.BYTES: _decimal("B"),
    Unit.BYTES_PER_SECOND: _decimal("B/s"),
    Unit.BYTES_PER_TOKEN: lambda value: f"{value:,.0f} B/token",
    Unit.TOKENS: lambda value: f"{value:,.0f} tokens",
    Unit.TOKENS_PER_SECOND: _suffixed(" tokens/s"),
    Unit.REQUESTS: _suffixed(" requests"),
    Unit.REQUESTS_PER_SECOND: _suffixed(" requests/s"),
    Unit.PER_SECOND: _suffixed("/s"),
    Unit.RATIO: _suffixed(" %", 100),
    Unit.COUNT: _short,
    Unit.HERTZ: _decimal("Hz"),
    Unit.WATTS: _suffixed(" W"),
    Unit.FLOP: _decimal("FLOP"),
    Unit.FLOP_PER_SECOND: _decimal("FLOP/s"),
}


def format_quantity(value: float, unit: Unit) -> str:
    """Three significant digits with the unit an engineer would write: `29.9 GB/s`, `12.5 s`, `96 %`.

    Args:
        value: finite, in the base unit `unit`.
        unit: the base unit.
    """
    return _FORMATS[unit](value)
