"""Queries over the engines' own series, spelt as their adapters have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pdscope.model.metric import Across, Kind, Metric
from pdscope.model.topology import Role
from pdscope.render.dashboards.query import RATE_WINDOW, Query
from pdscope.sources.adapter import Adapter, Series
from pdscope.sources.engines import sglang, vllm

ENGINES: Final[Sequence[Adapter]] = (sglang.METRICS, *vllm.ADAPTERS)
"""Those whose pages the board reads, in the order of its lines."""

TARGET = ("deployment", "role", "worker")
"""Labels that /sd, or the scrape configuration, puts on an engine's series."""

_SCOPE = ",".join(f'{label}=~"${label}"' for label in TARGET)
ROLES = "|".join(role for role in Role if role is not Role.ROUTER)
"""A gateway prints its workers' series again, so a router's page is never read as an engine's."""

_FOLD = {Across.SUM: "sum", Across.MAX: "max", Across.MEAN: "avg"}
_BY_ROLE = "deployment, role"
_BY_WORKER = "deployment, role, worker"


def gauges(metric: Metric, legend: str, *, never_on: Role | None = None) -> tuple[Query, ...]:
    """A gauge of each worker, over its data-parallel ranks.

    Args:
        metric: a gauge.
        legend: template.
        never_on: role that has nothing there, though an engine prints a zero for it.
    """
    more = f',role!="{never_on}"' if never_on else ""
    fold = f"{_FOLD[metric.spec.across]} by ({_BY_WORKER})"
    return tuple(
        Query(_scaled(f"{fold} ({_once(adapter, metric, _gauge(adapter, one, more))})", one), legend)
        for adapter, one in _series(metric)
    )


def rates(metric: Metric, legend: str, *, by_worker: bool = False) -> tuple[Query, ...]:
    """What a counter, or the sum of a histogram, grows by in a second.

    Tensor-parallel ranks that repeat one figure count once.
    """
    suffix = "_sum" if metric.spec.kind is Kind.HISTOGRAM else ""
    by = _BY_WORKER if by_worker else _BY_ROLE
    return tuple(
        Query(
            _scaled(f"sum by ({by}) ({_once(adapter, metric, _rate(one, suffix))})", one),
            legend,
        )
        for adapter, one in _series(metric)
    )


def quantile(metric: Metric, q: float, legend: str) -> tuple[Query, ...]:
    """A percentile of each role: over the summed buckets of its workers, never the mean of their percentiles.

    Without an event there is no percentile: Prometheus says NaN then, and the comparison takes it out.
    """
    return tuple(
        Query(
            _scaled(f"histogram_quantile({q:g}, sum by ({_BY_ROLE}, le) ({_rate(one, '_bucket')})) >= 0", one),
            legend,
        )
        for _, one in _series(metric)
    )


def spelling(name: str) -> str:
    """A pattern of both spellings of a name: with a colon, and with the underscore that some gateways make of it."""
    return name.replace(":", "[:_]", 1)


def anything() -> str:
    """Selects something that each engine always prints, for the choice of deployments."""
    names = "|".join(spelling(one.name) for _, one in _series(Metric.RUNNING))
    return f'__name__=~"{names}"'


def _series(metric: Metric) -> tuple[tuple[Adapter, Series], ...]:
    """The present spelling of each engine that has the metric."""
    return tuple((adapter, adapter.series[metric][0]) for adapter in ENGINES if metric in adapter.series)


def _selector(one: Series, suffix: str = "", more: str = "") -> str:
    # An adapter lets a label be absent, since labels came with later versions.
    where = "".join(f',{label}=~"{value}|"' for label, value in one.where.items())
    return f'{{__name__=~"{spelling(one.name)}{suffix}"{where}{more},{_SCOPE}}}'


def _gauge(adapter: Adapter, one: Series, more: str) -> str:
    return _selector(one, more="".join(f',{label}=""' for label in adapter.totals) + more)


def _rate(one: Series, suffix: str) -> str:
    return f"rate({_selector(one, suffix)}[{RATE_WINDOW}])"


def _once(adapter: Adapter, metric: Metric, expr: str) -> str:
    if not adapter.repeated or metric in adapter.summed:
        return expr
    return f"max without ({', '.join(adapter.repeated)}) ({expr})"


def _scaled(expr: str, one: Series) -> str:
    return expr if one.scale == 1.0 else f"({expr}) * {one.scale:.10g}"
