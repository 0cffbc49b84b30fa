"""What the user waits: TTFT by routing kind, ITL of decode alone. Percentiles are never averaged and never added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pdscope.analysis.board import Board
from pdscope.analysis.histograms import Distribution, SummedWait, merge, sum_of_waits
from pdscope.analysis.observed import Observed
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Deployment, Role, Routing

_TTFT = ((0.5, SignalId.TTFT_P50), (0.95, SignalId.TTFT_P95), (0.99, SignalId.TTFT_P99))
_ITL = ((0.5, SignalId.ITL_P50), (0.95, SignalId.ITL_P95), (0.99, SignalId.ITL_P99))


@dataclass(frozen=True, slots=True)
class Wait:
    """A latency with its origin: either one population, or two legs in a row."""

    spread: Distribution | SummedWait
    mean: float | None
    count: float
    quality: Quality
    source: str
    age_seconds: float


def put_latency(board: Board, deployment: Deployment, observed: Sequence[Observed]) -> None:
    """TTFT, ITL, their means and the share of requests (tokens) within the p50 SLO."""
    ttft = user_ttft(deployment, observed)
    if ttft is not None:
        _put(board, ttft, _TTFT, SignalId.TTFT_MEAN)
        _attainment(board, ttft, SignalId.TTFT_ATTAINMENT, deployment.slo.ttft_p50_seconds)
    itl = user_itl(observed)
    if itl is not None:
        _put(board, itl, _ITL, SignalId.ITL_MEAN)
        _attainment(board, itl, SignalId.ITL_ATTAINMENT, deployment.slo.itl_p50_seconds)


def user_ttft(deployment: Deployment, observed: Sequence[Observed]) -> Wait | None:
    """The TTFT that the user waits, by the best source there is.

    A router's or frontend's histogram contains everything. Without one, decode's holds prefill and transfer when the
    router asks both legs at once; when it asks one after the other, both legs add up and are convolved as independent.
    """
    router = _population(observed, Metric.TTFT, Role.ROUTER)
    if router is not None and router.count > 0:
        return router
    return engine_ttft(deployment, observed)


def engine_ttft(deployment: Deployment, observed: Sequence[Observed]) -> Wait | None:
    """The same as the engines alone know it: without whatever stands in front of them."""
    served = _population(observed, Metric.TTFT, Role.DECODE, Role.UNIFIED)
    if served is None or not deployment.of_role(Role.PREFILL) or _routing(deployment) is not Routing.SEQUENTIAL:
        return served
    return _both_legs(observed, served)


def _both_legs(observed: Sequence[Observed], second: Wait) -> Wait | None:
    first = _population(observed, Metric.TTFT, Role.PREFILL)
    if not isinstance(second.spread, Distribution):
        return None
    if first is None or not isinstance(first.spread, Distribution):
        return None  # half of a sum is not an estimate of it
    if second.count <= 0:
        return second
    share = min(1.0, first.count / second.count)
    cloud = sum_of_waits(first.spread, second.spread, share)
    if cloud is None:
        return None
    before = first.mean if share > 0 else 0.0
    mean = None if before is None or second.mean is None else second.mean + share * before
    return Wait(
        spread=cloud,
        mean=mean,
        count=second.count,
        quality=Quality.ESTIMATED,
        source=f"{first.source} + {second.source}, legs in a row taken as independent",
        age_seconds=max(first.age_seconds, second.age_seconds),
    )


def user_itl(observed: Sequence[Observed]) -> Wait | None:
    """ITL of the instances that decode; a frontend's when the engines export none."""
    own = _population(observed, Metric.ITL, Role.DECODE, Role.UNIFIED)
    if own is not None:
        return own
    return _population(observed, Metric.ITL, Role.ROUTER, quality=Quality.DERIVED)


def _routing(deployment: Deployment) -> Routing | None:
    if deployment.routing is not None:
        return deployment.routing
    for role in (Role.ROUTER, Role.DECODE):
        for instance in deployment.of_role(role):
            if instance.profile.routing is not None:
                return instance.profile.routing
    return None


def _population(
    observed: Sequence[Observed], metric: Metric, *roles: Role, quality: Quality = Quality.MEASURED
) -> Wait | None:
    members = [(o, d) for o in observed if o.instance.role in roles and (d := o.distribution(metric)) is not None]
    merged = merge([d for _, d in members])
    if merged is None:
        return None
    names = ", ".join(o.instance.name for o, _ in members[:4]) + (" ..." if len(members) > 4 else "")
    source = f"{metric.name} histogram of {names} over {merged.seconds:.0f} s"
    ages = [o.age_seconds for o, _ in members if o.age_seconds is not None]
    return Wait(merged, merged.mean, merged.count, quality, source, max(ages, default=0.0))


def _put(board: Board, wait: Wait, quantiles: Sequence[tuple[float, SignalId]], mean: SignalId) -> None:
    samples = int(wait.count)
    for q, signal in quantiles:
        board.put_quantile(
            signal, wait.spread.quantile(q), wait.quality, wait.source, samples=samples, age_seconds=wait.age_seconds
        )
    # the mean is exact even where buckets are coarse; of two legs in a row it is the sum of the means
    quality = Quality.DERIVED if wait.quality is Quality.ESTIMATED else wait.quality
    board.put(mean, wait.mean, quality, wait.source, samples=samples, age_seconds=wait.age_seconds)


def _attainment(board: Board, wait: Wait, signal: SignalId, limit: float | None) -> None:
    if limit is not None and wait.count > 0:
        board.put(
            signal,
            wait.spread.share_within(limit),
            wait.quality,
            wait.source,
            samples=int(wait.count),
            age_seconds=wait.age_seconds,
        )
