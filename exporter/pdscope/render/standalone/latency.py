"""What users wait: the median ITL of decode, and bounds on the median TTFT.

A router that asks decode when prefill has answered makes users wait for both. The median of a sum does not follow from
two histograms; but it is never below the median of one of them, and never above the sum of their upper quartiles. The
daemon's estimate takes the legs as independent and so lies between these bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pdscope.model.metric import Metric
from pdscope.model.topology import Role, Routing
from pdscope.render.alerting.promql import select
from pdscope.render.standalone import engines
from pdscope.render.standalone.book import Book
from pdscope.render.standalone.engines import SGLANG, VLLM, either
from pdscope.render.standalone.parameters import PREFIX, ROUTING
from pdscope.sources.adapter import Adapter

AT_MOST = (("0.75", "0.75"), ("0.6", "0.9"), ("0.9", "0.6"), ("0.55", "0.95"), ("0.95", "0.55"))
"""Quantiles (prefill, decode): more than half of the requests are within both, so the median of the sum is too."""

AT_LEAST = (("0.2", "0.25"), ("0.35", "0.1"), ("0.05", "0.4"))
"""Fewer than half are within either. Prefill's are 0.05 lower, for requests that pass it by."""

PASS_BY = "0.95"
"""Share of requests that come through prefill, from which its quantiles bound the sum from below."""


_WORDS = {"low": "least", "high": "most"}


@dataclass(frozen=True, slots=True)
class Latency:
    """Selectors of what was recorded."""

    ttft_low: str
    ttft_high: str
    ttft_mean: str
    itl: str


def latency(book: Book) -> Latency:
    """Record them."""
    reader = book.reader
    prefill, decode, router = (
        _leg(book, name, roles, adapters)
        for name, roles, adapters in (
            ("prefill", engines.PREFILL, (VLLM,)),
            ("decode", engines.DECODES, engines.ENGINES),
            ("router", engines.ROUTER, engines.ROUTERS),
        )
    )
    in_a_row = _in_a_row(book)
    low, high = _bounds(book, prefill, decode, router, in_a_row)
    mean = _mean(book, prefill, decode, router, in_a_row)
    buckets = f"sum {reader.settings.by('le')} (\n{reader.buckets(Metric.ITL, engines.DECODES)}\n)"
    itl = book.deployment("itl_p50_seconds", _quantile("0.5", buckets), "Median ITL of all that decode.")
    return Latency(low, high, mean, itl)


@dataclass(frozen=True, slots=True)
class _Leg:
    """TTFT as one role measures it, all its workers together."""

    buckets: str
    sums: str
    counts: str

    @property
    def mean(self) -> str:
        return f"{self.sums} / ({self.counts} > 0)"


def _leg(book: Book, name: str, roles: Sequence[Role], adapters: Sequence[Adapter]) -> _Leg:
    reader = book.reader
    by = reader.settings.by("le")
    return _Leg(
        book.deployment(
            f"{name}_ttft_bucket",
            f"sum {by} (\n{reader.buckets(Metric.TTFT, roles, adapters)}\n)",
            f"Rate of the TTFT that {name} measures, by bucket.",
        ),
        book.deployment(
            f"{name}_ttft_sum",
            book.total(reader.sums(Metric.TTFT, roles, adapters)),
            f"Rate of the sum of the TTFT that {name} measures.",
        ),
        book.deployment(
            f"{name}_ttft_count",
            book.total(reader.counts(Metric.TTFT, roles, adapters)),
            f"Rate of the requests whose TTFT {name} measures.",
        ),
    )


def _in_a_row(book: Book) -> str:
    """1 for deployments whose legs are asked one after the other: as told, else as the engine's routers do it."""
    reader = book.reader
    by, on = reader.settings.by(), "on (deployment)"
    vllm, sglang = (reader.mean(Metric.RUNNING, engines.DECODE, (adapter,)) for adapter in (VLLM, SGLANG))
    told = {kind: select(ROUTING, routing=kind) for kind in Routing}
    return book.deployment(
        "legs_in_a_row",
        f"(max {by} ({vllm}) * 0 + 1 unless {on} {told[Routing.CONCURRENT]})\n"
        f"or\n(max {by} ({sglang}) * 0 + 1 and {on} {told[Routing.SEQUENTIAL]})",
        "1 where users wait for prefill and then for decode; absent where decode's TTFT holds both.",
    )


def _bounds(book: Book, prefill: _Leg, decode: _Leg, router: _Leg, in_a_row: str) -> tuple[str, str]:
    """Selectors of the lower and the upper bound of the median TTFT."""
    settings = book.reader.settings
    on = settings.on()
    both = f"and {on} {in_a_row}"
    whole = f"{both} and {on} ({prefill.counts} >= {PASS_BY} * {decode.counts})"
    half = _quantile("0.5", decode.buckets)
    sides = [("high", f"{p}+{d}", _sum(prefill, p, decode, d), both) for p, d in AT_MOST]
    sides += [("low", f"{p}+{d}", _sum(prefill, p, decode, d), whole) for p, d in AT_LEAST]
    sides += [("low", "decode 0.5", half, both), ("low", "prefill 0.45", _quantile("0.45", prefill.buckets), whole)]
    for bound, quantiles, value, condition in sides:
        book.deployment(
            "ttft_p50_bound_seconds",
            f"{value}\n{condition}",
            f"The median TTFT of two legs in a row is at {_WORDS[bound]} this.",
            bound=bound,
            quantiles=quantiles,
        )
    exact = [_quantile("0.5", router.buckets), f"({half} unless {on} {in_a_row})"]
    low, high = (
        book.deployment(
            f"ttft_p50_{bound}_seconds",
            either([*exact, f'{joined} {settings.by()} ({PREFIX}ttft_p50_bound_seconds{{bound="{bound}"}})']),
            f"The median TTFT that users wait is at {_WORDS[bound]} this; with one leg, or a router that measures it, "
            "it is exactly this.",
        )
        for bound, joined in (("low", "max"), ("high", "min"))
    )
    return low, high


def _mean(book: Book, prefill: _Leg, decode: _Leg, router: _Leg, in_a_row: str) -> str:
    """Means may be added. Where prefill has answered more than decode has, as many of them as decode has count."""
    on = book.reader.settings.on()
    first = f"{prefill.sums} / clamp_min({prefill.counts} / ({decode.counts} > 0), 1)"
    return book.deployment(
        "ttft_mean_seconds",
        either(
            [
                router.mean,
                f"(({first} + {decode.sums}) / ({decode.counts} > 0) and {on} {in_a_row})",
                f"({decode.mean} unless {on} {in_a_row})",
            ]
        ),
        "Mean TTFT that users wait.",
    )


def _sum(first: _Leg, q_first: str, second: _Leg, q_second: str) -> str:
    return f"({_quantile(q_first, first.buckets)} + {_quantile(q_second, second.buckets)})"


def _quantile(q: str, buckets: str) -> str:
    """Absent, and not NaN, where nothing was observed."""
    return f"(histogram_quantile({q}, {buckets}) >= 0)"
