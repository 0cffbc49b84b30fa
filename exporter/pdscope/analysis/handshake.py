"""How long a hand-over takes to begin: handshakes as engines time them, or what fetches last beyond their transfer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pdscope.analysis.board import Board
from pdscope.analysis.observed import Observed, merged
from pdscope.analysis.traffic import total_rate
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, SignalId, worst
from pdscope.model.topology import Role

_SURE = 2.0
"""Standard errors by which a sampled gauge may be off; its samples are counts, so their variance is their mean."""
_GROWS = 2.0
"""Newest by oldest value of a gauge from which Little's law, which is of steady states, says nothing."""
_STEPS_OF_A_FETCH = 2.0
"""Engine steps in which a fetch shows without need: one until its end is seen, one until that is reported."""


@dataclass(frozen=True, slots=True)
class _Setup:
    seconds: float
    quality: Quality
    source: str


def put_setup(board: Board, observed: Sequence[Observed]) -> None:
    """Time from decode's readiness to the first byte, its share of the hand-over and of TTFT."""
    setup = _handshake(observed) or _unexplained_fetch(board, observed)
    if setup is None:
        return
    board.put(SignalId.SETUP_TIME, setup.seconds, setup.quality, setup.source)
    moving, ttft = board.value(SignalId.TRANSFER_TIME), board.value(SignalId.TTFT_MEAN)
    if moving is not None and setup.seconds + moving > 0:
        board.put(
            SignalId.SETUP_SHARE,
            setup.seconds / (setup.seconds + moving),
            setup.quality,
            f"{setup.source}, by itself and the transfer",
        )
    if ttft:
        quality = worst(setup.quality, board.quality(SignalId.TTFT_MEAN))
        board.put(SignalId.SETUP_TTFT_SHARE, min(1.0, setup.seconds / ttft), quality, f"{setup.source}, by mean TTFT")


def _handshake(observed: Sequence[Observed]) -> _Setup | None:
    """SGLang: decode's own handshake; prefill's holds decode's wait for memory, which is taken off."""
    own = merged([o for o in observed if o.instance.role is Role.DECODE], Metric.HANDSHAKE_TIME)
    if own is not None and own.mean is not None:
        return _Setup(own.mean, Quality.MEASURED, "handshake as decode times it, mean")
    theirs = merged([o for o in observed if o.instance.role is Role.PREFILL], Metric.HANDSHAKE_TIME)
    # prefill observes an allocation of its own, which takes no time: it would halve the mean
    waited = merged([o for o in observed if o.instance.role is Role.DECODE], Metric.ALLOCATION_TIME)
    if theirs is None or theirs.mean is None or waited is None or waited.mean is None:
        return None
    seconds = max(0.0, theirs.mean - waited.mean)
    return _Setup(seconds, Quality.DERIVED, "handshake as prefill times it, less the wait for allocation, means")


def _unexplained_fetch(board: Board, observed: Sequence[Observed]) -> _Setup | None:
    """vLLM: by Little's law fetches in progress last longer than their transfers; the rest is the handshake.

    A gauge that is sampled a few times is coarse, so only what its sampling error leaves counts, and the steps in which
    a fetch that is over still shows do not.
    """
    active = [v for o in observed if (v := o.level(Metric.KV_FETCH_ACTIVE)) is not None]
    done = total_rate(observed, Metric.REQUESTS_FINISHED, Role.DECODE)
    moving = board.value(SignalId.TRANSFER_TIME)
    if not active or done is None or done.per_second <= 0 or moving is None:
        return None
    if sum(v.last for v in active) > _GROWS * max(1.0, sum(v.first for v in active)):
        return None  # what piles up is not held back by what it takes to begin
    rate = max(done.per_second, board.value(SignalId.ARRIVALS_PER_SECOND) or 0.0)
    mean = sum(v.mean for v in active)
    least = mean - _SURE * math.sqrt(sum(v.mean / v.samples for v in active))
    unseen = _STEPS_OF_A_FETCH * (board.value(SignalId.ITL_P50) or 0.0)
    seconds = max(0.0, least / rate - moving - unseen)
    source = f"at least {max(0.0, least):.3g} of {mean:.3g} fetches in progress by requests/s, less the transfer"
    return _Setup(seconds, Quality.ESTIMATED, f"{source} (Little's law)")
