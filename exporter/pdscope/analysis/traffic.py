"""How much is asked and served. Each figure is taken on one role: prefill and decode both count every request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pdscope.analysis.board import Board
from pdscope.analysis.histograms import merge
from pdscope.analysis.observed import Observed
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Deployment, Role

_SERVING = (Role.DECODE, Role.UNIFIED)


@dataclass(frozen=True, slots=True)
class Total:
    """Rates of several instances added."""

    gain: float
    per_second: float
    age_seconds: float
    source: str


def total_rate(observed: Sequence[Observed], metric: Metric, *roles: Role) -> Total | None:
    """Sum of the rates of a counter over all instances of the roles; None when none of them has it."""
    rates = [rate for o in observed if o.instance.role in roles and (rate := o.rate(metric)) is not None]
    if not rates:
        return None
    source = rates[0].source if len(rates) == 1 else f"{rates[0].source} and {len(rates) - 1} more"
    return Total(
        sum(r.gain for r in rates), sum(r.per_second for r in rates), max(r.age_seconds for r in rates), source
    )


def put_traffic(board: Board, deployment: Deployment, observed: Sequence[Observed]) -> None:
    """Requests, prompt length, tokens and arrivals of the deployment."""
    served = total_rate(observed, Metric.REQUESTS_FINISHED, *_SERVING)
    finished = served or total_rate(observed, Metric.REQUESTS_FINISHED, Role.ROUTER)
    if finished is not None:
        quality = Quality.MEASURED if served is not None else Quality.DERIVED
        board.put(
            SignalId.REQUESTS_PER_SECOND,
            finished.per_second,
            quality,
            finished.source,
            age_seconds=finished.age_seconds,
        )
        board.put(SignalId.REQUESTS_FINISHED, finished.gain, quality, finished.source, age_seconds=finished.age_seconds)
    _put_prompt_length(board, observed)
    tokens = total_rate(observed, Metric.GENERATED_TOKENS, *_SERVING)
    made = tokens or total_rate(observed, Metric.GENERATED_TOKENS, Role.ROUTER)
    if made is not None:
        quality = Quality.MEASURED if tokens is not None else Quality.DERIVED
        board.put(
            SignalId.GENERATION_TOKENS_PER_SECOND, made.per_second, quality, made.source, age_seconds=made.age_seconds
        )
    _put_arrivals(board, deployment, observed)


def _put_prompt_length(board: Board, observed: Sequence[Observed]) -> None:
    for roles, quality in (
        (_SERVING, Quality.MEASURED),
        ((Role.ROUTER,), Quality.MEASURED),
        ((Role.PREFILL,), Quality.DERIVED),
    ):
        members = [o for o in observed if o.instance.role in roles]
        lengths = merge([d for o in members if (d := o.distribution(Metric.PROMPT_LENGTH)) is not None])
        if lengths is not None and lengths.mean is not None:
            source = f"mean of PROMPT_LENGTH of {', '.join(sorted({o.instance.role for o in members}))}"
            board.put(SignalId.PROMPT_TOKENS_PER_REQUEST, lengths.mean, quality, source, samples=int(lengths.count))
            return
        tokens = total_rate(members, Metric.PROMPT_TOKENS, *roles)
        requests = total_rate(members, Metric.REQUESTS_FINISHED, *roles)
        if tokens is not None and requests is not None and requests.gain > 0:
            board.put(
                SignalId.PROMPT_TOKENS_PER_REQUEST,
                tokens.gain / requests.gain,
                Quality.DERIVED,
                f"{tokens.source} by {requests.source}",
                samples=int(requests.gain),
            )
            return


def _put_arrivals(board: Board, deployment: Deployment, observed: Sequence[Observed]) -> None:
    """What arrives, which under overload is more than what finishes.

    The router's arrivals where known; else what prefill finishes plus the growth of its transfer queue (where a request
    counts as finished only once its KV has left); else what decode finishes.
    """
    arrived = total_rate(observed, Metric.REQUESTS_ARRIVED, Role.ROUTER)
    if arrived is not None:
        board.put(
            SignalId.ARRIVALS_PER_SECOND,
            arrived.per_second,
            Quality.MEASURED,
            arrived.source,
            age_seconds=arrived.age_seconds,
        )
        return
    if deployment.of_role(Role.PREFILL) and _put_arrivals_of_prefill(board, observed):
        return
    served = board.value(SignalId.REQUESTS_PER_SECOND)
    board.put(SignalId.ARRIVALS_PER_SECOND, served, Quality.ESTIMATED, "what finishes, for lack of arrivals")


def _put_arrivals_of_prefill(board: Board, observed: Sequence[Observed]) -> bool:
    """What prefill has taken on; False where it counts neither what it finishes nor what arrives."""
    counted = total_rate(observed, Metric.REQUESTS_FINISHED, Role.PREFILL)
    growth = 0.0
    if counted is not None:
        growth = sum(_transfer_growth(o) for o in observed if o.instance.role is Role.PREFILL)
    else:
        counted = total_rate(observed, Metric.REQUESTS_ARRIVED, Role.PREFILL)
    if counted is None:
        return False
    source = counted.source + (f" and growth of its transfer queue ({growth:+.3g}/s)" if growth else "")
    board.put(
        SignalId.ARRIVALS_PER_SECOND,
        max(0.0, counted.per_second + growth),
        Quality.DERIVED,
        source,
        age_seconds=counted.age_seconds,
    )
    return True


def _transfer_growth(o: Observed) -> float:
    if not o.instance.profile.prefill_finish_includes_transfer:
        return 0.0
    level = o.level(Metric.PREFILL_TRANSFER_QUEUE)
    return (level.growth_per_second or 0.0) if level is not None else 0.0
