"""A run, summed up: latencies, throughput, how busy each resource was, and whether the SLO held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan

import numpy as np

from pdscope.demo.physics.draw import Draw, Slo
from pdscope.demo.physics.machine import Floats
from pdscope.demo.physics.observer import DecodeSteps, Observer
from pdscope.demo.physics.request import End, Request
from pdscope.demo.physics.simulation import Simulation


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to, warm-up left out.

    Attributes:
        draw: its causes; `seconds` that were judged.
        ttft_seconds: of every request that arrived in time to be judged, sorted. One without a first token counts
            with the time it has waited so far, a failed one as infinite: an overload cannot hide its victims.
        itl_seconds: gaps between tokens at the user, sorted, with the weight of each in `itl_weights`.
        finished: requests; `failed` by their end.
        output_tokens_per_second: given; `input_tokens_per_second` computed by prefill.
        transferred_bytes_per_second: over the link.
        utilisation: share of each resource, of its kind the busiest: `prefill` and `decode` time with a pass or step,
            `prefill_tensor` and `decode_dram` against the peak, `nic` of prefill, `decode_slots` and `router`. A
            pass or step that ends within the time counts whole, so a busy one may read a little over 1.
        preemptions: requests that decode took memory from.
        simulation: as it stands at the end, for counters and requests.
    """

    draw: Draw
    seconds: float
    ttft_seconds: Floats
    itl_seconds: Floats
    itl_weights: Floats
    finished: int
    failed: Mapping[End, int]
    output_tokens_per_second: float
    input_tokens_per_second: float
    transferred_bytes_per_second: float
    utilisation: Mapping[str, float]
    preemptions: int
    simulation: Simulation

    def ttft(self, quantile: float) -> float:
        """That quantile in seconds; NaN without requests."""
        if not len(self.ttft_seconds):
            return float("nan")
        return float(self.ttft_seconds[min(len(self.ttft_seconds) - 1, int(quantile * len(self.ttft_seconds)))])

    def itl(self, quantile: float) -> float:
        """That quantile in seconds; NaN without tokens."""
        if not len(self.itl_seconds):
            return float("nan")
        sums = np.cumsum(self.itl_weights)
        return float(self.itl_seconds[min(len(sums) - 1, int(np.searchsorted(sums, quantile * sums[-1])))])

    @property
    def violation(self) -> float:
        """By how much the worst limit of the SLO is exceeded: 0 when it holds, 1 for twice the limit."""
        slo: Slo = self.draw.slo
        total = self.finished + sum(self.failed.values())
        excesses = [0.0]
        for limit, value in (
            (slo.ttft_p50_seconds, self.ttft(0.5)),
            (slo.ttft_p95_seconds, self.ttft(0.95)),
            (slo.itl_p50_seconds, self.itl(0.5)),
            (slo.itl_p95_seconds, self.itl(0.95)),
        ):
            if limit is not None and not isnan(value):  # NaN: nothing to judge
                excesses.append(value / limit - 1.0)
        if total:
            excesses.append(sum(self.failed.values()) / total / slo.failed_share - 1.0)
        return max(excesses)


class _Gaps(Observer):
    """Collects the gaps between tokens from `since_seconds` on."""

    def __init__(self, since_seconds: float) -> None:
        self._since_seconds = since_seconds
        self.gaps: list[Floats] = []
        self.weights: list[Floats] = []
        self.tokens = 0

    def stepped(self, instance: int, steps: DecodeSteps) -> None:  # noqa: ARG002 - all instances alike
        if steps.requests and steps.started_at >= self._since_seconds:
            self.gaps.append(steps.gap_seconds)
            self.weights.append(np.full(len(steps.gap_seconds), float(steps.requests)))
            self.tokens += steps.requests * len(steps.gap_seconds)

    def resumed(self, request: Request, gap_seconds: float) -> None:  # noqa: ARG002 - one gap is like another
        self.gaps.append(np.array([gap_seconds]))
        self.weights.append(np.ones(1))


class _Marks:
    """Cumulative busy seconds and bytes at one moment."""

    def __init__(self, simulation: Simulation) -> None:
        self.prefill = [one.busy_seconds for one in simulation.prefills]
        self.prefill_tokens = sum(one.computed_tokens for one in simulation.prefills)
        self.local_tokens = sum(one.local_prefill.tokens for one in simulation.decodes)
        self.decode = [one.stepper.busy_seconds for one in simulation.decodes]
        self.flop = [rank.tensor_seconds for one in simulation.prefills for rank in one.activity.ranks(0.0, 0.0)[:1]]
        self.dram = [
            rank.dram_seconds for one in simulation.decodes for rank in one.stepper.activity.ranks(0.0, 0.0)[:1]
        ]
        self.sent = [simulation.network.sent_bytes(("prefill", one.number)) for one in simulation.prefills]
        self.slots = [one.running.area for one in simulation.decodes]
        self.router = simulation.router.server.busy_seconds


def run(draw: Draw, seconds: float = 60.0) -> Outcome:
    """Runs a draw, without HTTP and without a wall clock.

    Args:
        draw: its causes.
        seconds: to judge, after the warm-up of the draw.

    Raises:
        UsageError: the draw does not make a deployment.
    """
    simulation = Simulation(draw)
    gaps = _Gaps(draw.warm_up_seconds)
    simulation.watch(gaps)
    simulation.run(draw.warm_up_seconds)
    before = _Marks(simulation)
    simulation.run(draw.warm_up_seconds + seconds)
    after = _Marks(simulation)
    ends = Counter(one.end for one in simulation.requests if one.end and one.ended_at >= draw.warm_up_seconds)
    finished = ends.pop(End.FINISHED, 0)
    ends.pop(End.ORPHANED, 0)  # nobody waits for them
    values = np.concatenate(gaps.gaps) if gaps.gaps else np.zeros(0)
    weights = np.concatenate(gaps.weights) if gaps.weights else np.zeros(0)
    order = np.argsort(values, kind="stable")
    tokens = after.prefill_tokens - before.prefill_tokens + after.local_tokens - before.local_tokens
    return Outcome(
        draw=draw,
        seconds=seconds,
        ttft_seconds=_ttfts(simulation, draw.warm_up_seconds),
        itl_seconds=values[order],
        itl_weights=weights[order],
        finished=finished,
        failed=dict(ends),
        output_tokens_per_second=gaps.tokens / seconds,
        input_tokens_per_second=tokens / seconds,
        transferred_bytes_per_second=(sum(after.sent) - sum(before.sent)) / seconds,
        utilisation=_utilisation(simulation, before, after, seconds),
        preemptions=sum(one.preemptions for one in simulation.decodes),
        simulation=simulation,
    )


def _ttfts(simulation: Simulation, since_seconds: float) -> Floats:
    now = simulation.now_seconds
    values: list[float] = []
    for one in simulation.requests:
        if one.arrived_at < since_seconds or one.is_orphan:
            continue
        if one.first_token_at <= now:
            values.append(one.ttft_seconds)
        elif one.is_over:
            values.append(float("inf"))
        elif now - one.arrived_at > 0.5 * (simulation.draw.slo.ttft_p50_seconds or 1.0):
            values.append(now - one.arrived_at)  # it waits; one that has hardly come says nothing yet
    return np.sort(np.array(values, dtype=np.float64))


def _utilisation(simulation: Simulation, before: _Marks, after: _Marks, seconds: float) -> dict[str, float]:
    def busiest(start: list[float], end: list[float], capacity: list[float]) -> float:
        return max(((b - a) / c / seconds for a, b, c in zip(start, end, capacity, strict=True)), default=0.0)

    ones = [1.0] * len(simulation.prefills)
    decodes = [1.0] * len(simulation.decodes)
    nics = [one.machine.nic_bytes_per_second for one in simulation.prefills]
    slots = [float(simulation.draw.decode.slots)] * len(simulation.decodes)
    return {
        "prefill": busiest(before.prefill, after.prefill, ones),
        "prefill_tensor": busiest(before.flop, after.flop, ones),
        "decode": busiest(before.decode, after.decode, decodes),
        "decode_dram": busiest(before.dram, after.dram, decodes),
        "nic": busiest(before.sent, after.sent, nics),
        "decode_slots": busiest(before.slots, after.slots, slots),
        "router": (after.router - before.router) / seconds,
    }
