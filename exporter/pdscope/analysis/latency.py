"""What the user waits: TTFT by routing kind, ITL of decode alone. Percentiles are never averaged and never added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pdscope.analysis.board import Board
from pdscope.analysis.histograms import Distribution, SummedWait, merge, sum_of_waits
from pdscope.analysis.observed import Observed
from pdscope.analysis.streaming import stream_interval
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, SignalId, instance_scope
from pdscope.model.topology import Deployment, Role, Routing
from pdscope.model.units import Unit, format_quantity

_TTFT = ((0.5, SignalId.TTFT_P50), (0.95, SignalId.TTFT_P95), (0.99, SignalId.TTFT_P99))
_ITL = ((0.5, SignalId.ITL_P50), (0.95, SignalId.ITL_P95), (0.99, SignalId.ITL_P99))

_LONG_ENOUGH_SECONDS = 10.0
"""Of the window, after which a request that runs has had a token."""


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
    _put_doubts(board, observed)
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
    """ITL of the instances that decode; a frontend's when the engines export none.

    Where an instance streams several tokens at once its ITL is the time between such events. Nothing in it says how
    they were spread over its requests, so the time per token of the requests stands for the ITL of all instances: two
    histograms of different things cannot be merged.
    """
    own = _population(observed, Metric.ITL, Role.DECODE, Role.UNIFIED)
    if own is not None:
        return _by_token(observed) or own
    return _population(observed, Metric.ITL, Role.ROUTER, quality=Quality.DERIVED)


def _by_token(observed: Sequence[Observed]) -> Wait | None:
    """TPOT in place of an ITL that is of events; None where each token is an event, or an instance has no TPOT."""
    decoding = [o for o in observed if o.instance.decodes and o.distribution(Metric.ITL) is not None]
    intervals = {o.instance.name: n for o in decoding if (n := stream_interval(o)) is not None}
    if not intervals or any(o.distribution(Metric.TPOT) is None for o in decoding):
        return None
    tokens = _population(decoding, Metric.TPOT, Role.DECODE, Role.UNIFIED, quality=Quality.DERIVED)
    if tokens is None:
        return None
    told = ", ".join(f"{n} on {name}" for name, n in list(intervals.items())[:4])
    return replace(tokens, source=f"stream interval of {told}: {tokens.source}")


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


def _put_doubts(board: Board, observed: Sequence[Observed]) -> None:
    """Histograms whose buckets cannot hold the sum beside them, and requests whose tokens nobody times.

    No quantile is taken from such a histogram, nor from a population that it is part of.
    """
    for o in observed:
        for metric, signal in ((Metric.TTFT, SignalId.TTFT_OUTSIDE), (Metric.ITL, SignalId.ITL_OUTSIDE)):
            found = o.distribution(metric)
            if found is not None and not found.believed:
                low, high = (format_quantity(edge, Unit.SECONDS) for edge in found.mean_bounds)
                mean = format_quantity(found.mean or 0.0, Unit.SECONDS)
                board.put(
                    signal,
                    found.outside,
                    Quality.MEASURED,
                    f"{o.source_of(metric)}: sum by count is {mean}, and its buckets allow a mean of {low} to {high}",
                    scope=instance_scope(o.instance.name),
                    samples=int(found.count),
                )
    _put_untimed(board, [o for o in observed if o.instance.decodes])


def _put_untimed(board: Board, decoding: Sequence[Observed]) -> None:
    """Requests that run all the time on instances without any ITL, where the ITL of others stands for all."""
    timed = {o.instance.name for o in decoding if (d := o.distribution(Metric.ITL)) is not None and d.count > 0}
    running = {o.instance.name: level for o in decoding if (level := o.level(Metric.RUNNING)) is not None}
    untimed = {
        name: level
        for name, level in running.items()
        if name not in timed and level.low >= 1 and level.seconds >= _LONG_ENOUGH_SECONDS
    }
    if timed and untimed:
        board.put(
            SignalId.UNTIMED,
            sum(level.mean for level in untimed.values()),
            Quality.MEASURED,
            f"running on {', '.join(list(untimed)[:4])}, of whose tokens none is timed",
        )


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
