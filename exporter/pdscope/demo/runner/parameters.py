"""What can be changed while a deployment runs: the causes of a draw by name, each with the range that makes sense."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pdscope.demo.physics.draw import Draw
from pdscope.errors import UsageError

Value = float | int | None


@dataclass(frozen=True, slots=True)
class Parameter:
    """One cause.

    Attributes:
        part: of the draw, such as `link`; `field` of that part.
        low: least value; `high` the greatest.
        is_live: the running deployment reads it whenever it needs it; any other takes a restart of its engines.
        is_whole: an integer.
        is_optional: null is "no limit", or "what the hardware has".
    """

    part: str
    field: str
    low: float
    high: float
    is_live: bool = True
    is_whole: bool = False
    is_optional: bool = False

    @property
    def name(self) -> str:
        """As in the control interface, such as `link.latency_seconds`."""
        return f"{self.part}.{self.field}"

    def of(self, draw: Draw) -> Value:
        """Its value in `draw`."""
        value: Value = getattr(getattr(draw, self.part), self.field)
        return value

    def read(self, value: object) -> Value:
        """`value` as this parameter takes it.

        Args:
            value: decoded JSON.

        Raises:
            UsageError: wrong type, or out of range.
        """
        if value is None and self.is_optional:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise UsageError(f"{self.name}: takes a number{' or null' if self.is_optional else ''}")
        if not self.low <= value <= self.high:
            raise UsageError(f"{self.name}: takes {self.low:g} to {self.high:g}")
        if self.is_whole and value != int(value):
            raise UsageError(f"{self.name}: takes a whole number")
        return int(value) if self.is_whole else float(value)


def _seconds(part: str, field: str, high: float = 100.0, *, is_live: bool = True) -> Parameter:
    return Parameter(part, field, 0.0, high, is_live=is_live)


def _share(part: str, field: str, low: float = 0.0, *, is_live: bool = True) -> Parameter:
    return Parameter(part, field, low, 1.0, is_live=is_live)


def _count(part: str, field: str, high: float, *, is_live: bool = True, is_optional: bool = False) -> Parameter:
    return Parameter(part, field, 1, high, is_live=is_live, is_whole=True, is_optional=is_optional)


_BANDWIDTH = (1e6, 1e13)

_ALL = (
    Parameter("link", "path_bytes_per_second", *_BANDWIDTH, is_optional=True),
    Parameter("link", "nic_bytes_per_second", *_BANDWIDTH, is_live=False, is_optional=True),
    Parameter("link", "shared_bytes_per_second", *_BANDWIDTH, is_live=False, is_optional=True),
    _seconds("link", "descriptor_seconds", 0.01),
    Parameter("link", "contiguous_pages", 1.0, 1e6),
    _count("link", "page_tokens", 1024, is_live=False),
    _seconds("link", "bootstrap_seconds"),
    _seconds("link", "latency_seconds"),
    _count("link", "threads", 64, is_live=False),
    _count("link", "queues", 64, is_live=False),
    _seconds("link", "lease_seconds", 1e6),
    _count("prefill", "batch_tokens", 1_000_000),
    _seconds("prefill", "pass_seconds", 10.0),
    Parameter("prefill", "compute_factor", 0.01, 1.0, is_live=False),
    _share("prefill", "slow_rank", 0.01, is_live=False),
    _count("prefill", "pool_tokens", 1e9, is_live=False, is_optional=True),
    _count("decode", "slots", 100_000),
    Parameter("decode", "reserved_tokens", 0, 1e9, is_whole=True),
    _count("decode", "pool_tokens", 1e9, is_live=False, is_optional=True),
    _count("decode", "graph_ceiling", 100_000),
    _seconds("decode", "launch_seconds_per_layer", 0.1),
    _seconds("decode", "host_seconds", 10.0),
    _seconds("decode", "host_seconds_per_request", 1.0),
    Parameter("decode", "hbm_factor", 0.01, 1.0, is_live=False),
    _share("decode", "slow_rank", 0.01, is_live=False),
    _seconds("frontend", "router_seconds", 10.0),
    _seconds("frontend", "tokenize_seconds_per_token", 0.01),
    _seconds("frontend", "detokenize_seconds_per_token", 0.1, is_live=False),
    _share("frontend", "affinity"),
    Parameter("traffic", "requests_per_second", 0.0, 1000.0),
    _count("traffic", "concurrency", 10_000, is_live=False, is_optional=True),
    Parameter("traffic", "prompt_tokens", 2.0, 1e6),
    Parameter("traffic", "prompt_sigma", 0.0, 3.0),
    Parameter("traffic", "output_tokens", 2.0, 1e5),
    Parameter("traffic", "output_sigma", 0.0, 3.0),
    _share("traffic", "orphan_share"),
)
PARAMETERS = {parameter.name: parameter for parameter in _ALL}
"""By name."""


def find(name: str) -> Parameter:
    """The parameter of that name.

    Raises:
        UsageError: there is none.
    """
    try:
        return PARAMETERS[name]
    except KeyError:
        raise UsageError(f"there is no parameter {name[:80]!r}") from None
