"""Windows, instances and deployments for tests of the pure core: thirteen scrapes, five seconds apart, up to `NOW`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdscope.analysis.histograms import Distribution
from pdscope.analysis.observed import Observed
from pdscope.model.metric import Metric
from pdscope.model.scrape import FailureReason, Schema, Scrape, SeriesKey
from pdscope.model.topology import (
    Attention,
    Deployment,
    EngineProfile,
    Instance,
    Interconnect,
    KvShape,
    ModelFacts,
    Role,
    Routing,
    Slo,
)
from pdscope.model.window import HistogramWindow, Window

NOW = 1_800_000_000.0
SCRAPES = 13
STEP_SECONDS = 5.0
SPAN_SECONDS = (SCRAPES - 1) * STEP_SECONDS

INF = math.inf
NAN = math.nan

LLAMA_8B = KvShape(Attention.GQA, layers=32, bytes_per_element=2, kv_heads=8, head_dim=128)
DEEPSEEK_V3 = KvShape(Attention.MLA, layers=61, bytes_per_element=2, latent_dim=576)

Column = float | Sequence[float] | NDArray[np.float64]
"""Values by scrape; one number stands for a gauge that does not move."""


def times(scrapes: int = SCRAPES, end: float = NOW) -> NDArray[np.float64]:
    """Unix seconds of the scrapes, the last at `end`."""
    return end - STEP_SECONDS * np.arange(scrapes - 1, -1, -1, dtype=np.float64)


def rising(per_second: float, start: float = 5000.0, scrapes: int = SCRAPES) -> NDArray[np.float64]:
    """A counter with a history of `start`."""
    return start + per_second * STEP_SECONDS * np.arange(scrapes, dtype=np.float64)


def ramp(each: float, start: float = 0.0) -> NDArray[np.float64]:
    """A gauge that moves by `each` from scrape to scrape."""
    return start + each * np.arange(SCRAPES, dtype=np.float64)


def counts(bounds: Sequence[float], observations: Iterable[float]) -> NDArray[np.float64]:
    """How many observations each bucket holds (not cumulative), as a client library counts them."""
    filled = np.zeros(len(bounds))
    np.add.at(filled, np.searchsorted(bounds, np.fromiter(observations, np.float64), side="left"), 1.0)
    return filled


def distribution(bounds: Sequence[float], observations: Sequence[float], seconds: float = SPAN_SECONDS) -> Distribution:
    """What a window of these observations is reduced to."""
    return Distribution(tuple(bounds), counts(bounds, observations), float(np.sum(observations)), seconds)


def histogram(
    bounds: Sequence[float],
    observations: Sequence[float],
    *,
    history: Sequence[float] = (),
    scrapes: int = SCRAPES,
) -> HistogramWindow:
    """A histogram that holds `history` at the first scrape and has gained all `observations` at the last."""
    rows, sums = [], []
    for scrape in range(scrapes):
        seen = [*history, *observations[: len(observations) * scrape // max(1, scrapes - 1)]]
        rows.append(np.cumsum(counts(bounds, seen)))
        sums.append(float(np.sum(seen)))
    return HistogramWindow(tuple(bounds), np.array(rows), np.array(sums))


def window(
    scalars: Mapping[Metric, Column] | None = None,
    histograms: Mapping[Metric, HistogramWindow] | None = None,
    *,
    target: str = "d0",
    source: str = "engine",
    end: float = NOW,
    scrapes: int = SCRAPES,
    lazy: Iterable[Metric] = (),
) -> Window:
    """The window of one source."""
    columns = {
        SeriesKey(metric): np.broadcast_to(np.asarray(column, dtype=np.float64), (scrapes,))
        for metric, column in (scalars or {}).items()
    }
    return Window(
        target=target,
        source=source,
        times=times(scrapes, end),
        scalars=columns,
        histograms={SeriesKey(metric): h for metric, h in (histograms or {}).items()},
        facts={},
        lazy=frozenset(lazy),
    )


def page(
    at: float,
    scalars: Mapping[Metric, float] | Mapping[SeriesKey, float],
    histograms: Mapping[Metric, tuple[Sequence[float], Sequence[float], float]] | None = None,
    *,
    lazy: Iterable[Metric] = (),
) -> Scrape:
    """A good scrape with a schema of its own; a histogram is (bounds, cumulative counts, sum)."""
    keys = tuple(key if isinstance(key, SeriesKey) else SeriesKey(key) for key in scalars)
    filled = histograms or {}
    schema = Schema(keys, {SeriesKey(m): tuple(bounds) for m, (bounds, _, _) in filled.items()}, frozenset(lazy))
    numbers = [*scalars.values()]
    for _, cumulative, total in filled.values():
        numbers += [*cumulative, total]
    return Scrape("d0", "engine", at, schema, np.array(numbers, dtype=np.float64))


def failure(at: float) -> Scrape:
    """A scrape that brought nothing."""
    return Scrape("d0", "engine", at, reason=FailureReason.TIMEOUT)


SGLANG = EngineProfile("sglang", Routing.CONCURRENT, prefill_finish_includes_transfer=True, dp_splits_tp=True)
VLLM = EngineProfile("vllm", Routing.SEQUENTIAL, default_page_tokens=16)
GATEWAY = EngineProfile("gateway")


def instance(name: str, role: Role, profile: EngineProfile | None = None, **facts: Any) -> Instance:
    """An instance on a host of its own; an engine that is asked concurrently, or a router that does not say how."""
    used = profile or (GATEWAY if role is Role.ROUTER else SGLANG)
    return Instance(name, role, used.name, f"http://{name}:30000", used, **facts)


def deployment(
    *instances: Instance,
    kv: KvShape | None = LLAMA_8B,
    file_kv: KvShape | None = None,
    slo: Slo | None = None,
    interconnect: Interconnect | None = None,
    routing: Routing | None = None,
) -> Deployment:
    """A deployment named `pd`; by default one prefill and one decode instance that are asked concurrently."""
    return Deployment(
        name="pd",
        model=ModelFacts("model", kv=kv, file_kv=file_kv),
        instances=instances or (instance("p0", Role.PREFILL), instance("d0", Role.DECODE)),
        slo=slo or Slo(),
        interconnect=interconnect,
        routing=routing,
    )


def observed(of: Deployment, windows: Mapping[str, Window | Sequence[Window]]) -> list[Observed]:
    """What is known of every instance at `NOW`."""
    found = []
    for one in of.instances:
        own = windows.get(one.name, ())
        found.append(Observed(one, [own] if isinstance(own, Window) else list(own), NOW))
    return found
