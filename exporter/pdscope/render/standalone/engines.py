"""Expressions on the engines' own series: names, labels, older names and spellings are those of the adapters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pdscope.model.metric import Across, Kind, Metric
from pdscope.model.topology import Role
from pdscope.render.alerting.settings import Settings
from pdscope.sources.adapter import Adapter, Series, spellings
from pdscope.sources.engines import llm_d, sglang, smg, vllm, vllm_router

SGLANG = sglang.METRICS
"""Its `/v1/loads` is JSON, which Prometheus does not read."""

VLLM = vllm.ADAPTERS[0]
ENGINES = (SGLANG, VLLM)
ROUTERS = (*smg.ADAPTERS, *vllm_router.ADAPTERS, *llm_d.ADAPTERS)

OWN_LABELS = frozenset({"deployment", "role", "le", "bound", "verdict", "stage", "severity", "routing", "threshold"})
"""Labels with a meaning of their own in the rules: no label of a target may stand for another one of these names."""

_LATER_LABELS = frozenset({"is_streaming"})
"""Labels that came after their series: a series without them is meant as well."""

PREFILL, DECODE, ROUTER = (Role.PREFILL,), (Role.DECODE,), (Role.ROUTER,)
PREFILLS = (Role.PREFILL, Role.UNIFIED)
DECODES = (Role.DECODE, Role.UNIFIED)
ALL = (Role.PREFILL, Role.DECODE, Role.UNIFIED)


@dataclass(frozen=True, slots=True)
class Reader:
    """How to read series: of which workers, over which time.

    Attributes:
        settings: whose labels make a deployment, and what scales its times.
        worker: label that tells instances apart.
        window_seconds: over which rates and means are taken.
    """

    settings: Settings
    worker: str
    window_seconds: float

    @property
    def window(self) -> str:
        """As a range."""
        return self.settings.span(self.window_seconds)

    @property
    def newer_half(self) -> str:
        """As a range."""
        return self.settings.span(self.window_seconds / 2)

    def by_worker(self, *labels: str) -> str:
        """`by (…)` of one instance."""
        return self.settings.by(self.worker, *labels)

    def mean(self, metric: Metric, roles: Sequence[Role], adapters: Sequence[Adapter] = ENGINES) -> str:
        """A gauge, its mean over the window, by worker."""
        return self._gauge(metric, roles, adapters, lambda s: f"avg_over_time({s}[{self.window}])")

    def standing(self, metric: Metric, roles: Sequence[Role], adapters: Sequence[Adapter] = ENGINES) -> str:
        """A gauge, the least of the newer half of the window, by worker: what was there all the time."""
        return self._gauge(metric, roles, adapters, lambda s: f"min_over_time({s}[{self.newer_half}])")

    def growth(self, metric: Metric, roles: Sequence[Role], adapters: Sequence[Adapter] = ENGINES) -> str:
        """A gauge, its net growth a second, by worker. Not `delta`: VictoriaMetrics counts a new gauge from 0."""
        return self._gauge(metric, roles, adapters, lambda s: f"deriv({s}[{self.window}])")

    def rate(self, metric: Metric, roles: Sequence[Role], adapters: Sequence[Adapter] = ENGINES) -> str:
        """A counter, its rate, by worker."""
        return self._summed(metric, "", roles, adapters)

    def sums(self, metric: Metric, roles: Sequence[Role], adapters: Sequence[Adapter] = ENGINES) -> str:
        """A histogram, the rate of its sum in base units, by worker."""
        return self._summed(metric, "_sum", roles, adapters)

    def counts(self, metric: Metric, roles: Sequence[Role], adapters: Sequence[Adapter] = ENGINES) -> str:
        """A histogram, the rate of its count, by worker."""
        return self._summed(metric, "_count", roles, adapters)

    def buckets(self, metric: Metric, roles: Sequence[Role], adapters: Sequence[Adapter] = ENGINES) -> str:
        """A histogram, the rates of its buckets, by worker and `le`."""
        return self._summed(metric, "_bucket", roles, adapters, "le")

    def _gauge(
        self, metric: Metric, roles: Sequence[Role], adapters: Sequence[Adapter], over: Callable[[str], str]
    ) -> str:
        joined = {Across.SUM: "sum", Across.MAX: "max", Across.MEAN: "avg"}[metric.spec.across]
        return self._engines(metric, "", roles, adapters, over, joined)

    def _summed(
        self, metric: Metric, suffix: str, roles: Sequence[Role], adapters: Sequence[Adapter], *labels: str
    ) -> str:
        joined = "avg" if metric.spec.across is Across.MEAN else "sum"
        return self._engines(metric, suffix, roles, adapters, lambda s: f"rate({s}[{self.window}])", joined, *labels)

    def _engines(
        self,
        metric: Metric,
        suffix: str,
        roles: Sequence[Role],
        adapters: Sequence[Adapter],
        over: Callable[[str], str],
        joined: str,
        *labels: str,
    ) -> str:
        parts = [
            f"{joined} {self.by_worker(*labels)} ({self._of_ranks(adapter, metric, series, suffix, roles, over)})"
            f"{_scaled(series, suffix)}"
            for adapter in adapters
            for series in adapter.series.get(metric, ())
        ]
        if not parts:
            raise ValueError(f"none of {', '.join(a.name for a in adapters)} has {metric.name}")
        return either(parts)

    def _of_ranks(
        self,
        adapter: Adapter,
        metric: Metric,
        series: Series,
        suffix: str,
        roles: Sequence[Role],
        over: Callable[[str], str],
    ) -> str:
        """All series of the name that say something of their own; ranks that repeat each other are one."""
        matchers = self._matchers(adapter, metric, series, roles)
        inner = " or ".join(over(f"{name}{suffix}{{{matchers}}}") for name in spellings(series.name))
        if not adapter.repeated or metric in adapter.summed:
            return inner
        return f"max without ({', '.join(adapter.repeated)}) ({inner})"

    def _matchers(self, adapter: Adapter, metric: Metric, series: Series, roles: Sequence[Role]) -> str:
        role = f'role="{roles[0]}"' if len(roles) == 1 else f'role=~"{"|".join(roles)}"'
        found = ['deployment!=""', f'{self.worker}!=""', role]
        for label, value in series.where.items():
            found.append(f'{label}=~"{value}|"' if label in _LATER_LABELS else f'{label}="{value}"')
        if metric.spec.kind is Kind.GAUGE:
            found += [f'{label}=""' for label in adapter.totals]
        return ",".join(found)


def either(parts: Sequence[str]) -> str:
    """The first that has a value, for each set of labels."""
    return "\nor\n".join(parts)


def _scaled(series: Series, suffix: str) -> str:
    scale = 1.0 if suffix == "_count" else series.scale
    return f" * {scale:.12g}" if scale != 1.0 else ""
