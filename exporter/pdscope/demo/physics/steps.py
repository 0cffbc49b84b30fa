"""Steps that give each request of a batch a token: planned many at a time, settled when looked at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdscope.demo.physics.clock import Clock
from pdscope.demo.physics.devices import Activity
from pdscope.demo.physics.draw import Decode
from pdscope.demo.physics.machine import Floats, Machine, Pass
from pdscope.demo.physics.observer import DecodeSteps, Observer
from pdscope.demo.physics.prefill import PREFILL_OCCUPANCY

_MOST_STEPS = 64
_DECODE_OCCUPANCY = 0.7


@dataclass(slots=True)
class _Plan:
    started_at: float
    ends_at: Floats
    delivered_at: Floats
    gap_seconds: Floats
    kernel_seconds: Floats
    flop: Floats
    bytes: Floats
    requests: int
    context_tokens: int
    is_graph: bool
    prefill_tokens: int
    prefill: Pass | None
    done: int = 0


class Stepper:
    """Runs the steps of one instance; knows the size of the batch and of its context, not its requests.

    Args:
        clock: simulated time.
        number: of the instance.
        machine: its devices.
        settings: host work, graphs, jitter.
        detokenize_seconds_per_token: of the one process that turns its tokens into text.
        seed: of the jitter.
        observer: told of settled steps.
    """

    def __init__(
        self,
        clock: Clock,
        number: int,
        machine: Machine,
        settings: Decode,
        *,
        detokenize_seconds_per_token: float,
        seed: int,
        observer: Observer,
    ) -> None:
        self._clock = clock
        self._number = number
        self.machine = machine
        self._settings = settings
        self._detokenize_seconds = detokenize_seconds_per_token
        self._jitter = np.random.default_rng((seed, number))
        self._observer = observer
        self._plan: _Plan | None = None
        self._delivered_at = 0.0
        self._detokenizer_work_seconds = 0.0
        self.activity = Activity(machine)
        self.host_debt_seconds = 0.0
        self.context_tokens = 0
        self.requests = 0
        self.steps = 0
        self.graph_steps = 0
        self.tokens = 0
        self.busy_seconds = 0.0
        self.moments = [0.0] * 5
        self.context_token_steps = 0

    @property
    def is_stepping(self) -> bool:
        """Whether a step is under way."""
        return self._plan is not None

    @property
    def delivered_at(self) -> float:
        """When the last token so far was out of the detokenizer."""
        return self._delivered_at

    @property
    def detokenizer_busy_seconds(self) -> float:
        """What the detokenizer has worked by now: of what was handed to it, all but what still waits there."""
        waiting_seconds = max(0.0, self._delivered_at - self._clock.now_seconds)
        return max(0.0, self._detokenizer_work_seconds - waiting_seconds)

    def deliver(self, at_seconds: float, tokens: int = 1) -> float:
        """Sends `tokens` tokens that were ready at `at_seconds` through the detokenizer; when they are out."""
        work_seconds = tokens * self._detokenize_seconds
        self._delivered_at = max(self._delivered_at, at_seconds) + work_seconds
        self._detokenizer_work_seconds += work_seconds
        return self._delivered_at

    def begin(self, most_steps: int, prefill: Pass | None, prefill_tokens: int, prefill_host_seconds: float) -> float:
        """Plans steps of the present batch, as many as can pass with nothing but growing context.

        Args:
            most_steps: after so many, something changes.
            prefill: prompt work that runs along, in one step alone.
            prefill_tokens: of it.
            prefill_host_seconds: its host work.

        Returns:
            When the last of them ends.
        """
        count = 1 if prefill else max(1, min(most_steps, _MOST_STEPS))
        settings, batch = self._settings, self.requests
        context = self.context_tokens + batch * np.arange(count, dtype=np.float64)
        is_graph = prefill is None and batch <= settings.graph_ceiling
        if batch:
            kernels, flop, read = self.machine.decode(batch, context)
            host = settings.host_seconds + settings.host_seconds_per_request * batch
        else:
            kernels, flop, read = np.zeros((3, count))
            host = 0.0
        if batch and settings.jitter > 0.0:
            # Slower than the devices can is possible, faster is not: the jitter is one-sided.
            kernels = kernels * (1.0 + np.abs(self._jitter.normal(0.0, settings.jitter, count)))
        paced = kernels
        if batch and not is_graph and prefill is None:
            paced = np.maximum(kernels, settings.launch_seconds_per_layer * self.machine.model.layers)
        seconds = paced + host
        if prefill is not None:
            seconds = seconds + prefill.seconds + prefill_host_seconds
        seconds[0] += self.host_debt_seconds
        self.host_debt_seconds = 0.0
        now = self._clock.now_seconds
        ends = now + np.cumsum(seconds)
        # All at once: sums of parts would round otherwise when somebody looks in between.
        delivered, gaps = self._delivered(ends, batch)
        self._plan = _Plan(
            started_at=now,
            ends_at=ends,
            delivered_at=delivered,
            gap_seconds=gaps,
            kernel_seconds=kernels,
            flop=flop,
            bytes=read,
            requests=batch,
            context_tokens=self.context_tokens,
            is_graph=is_graph,
            prefill_tokens=prefill_tokens,
            prefill=prefill,
        )
        return float(ends[-1])

    def cut(self) -> float:
        """Something is waiting: the plan ends with the step under way. When that is."""
        self.settle()
        plan = self._plan
        if plan is None:
            return self._clock.now_seconds
        last = min(plan.done, len(plan.ends_at) - 1)
        plan.ends_at = plan.ends_at[: last + 1]
        return float(plan.ends_at[-1])

    def finish(self) -> None:
        """The last planned step has ended."""
        self.settle()
        self._plan = None

    def idle(self) -> None:
        """A batch begins after a pause: gaps are counted from now."""
        self._delivered_at = max(self._delivered_at, self._clock.now_seconds)

    def settle(self) -> int:
        """Counts the steps that have ended by now; how many there were. Looking does not change what will be."""
        plan = self._plan
        if plan is None:
            return 0
        until = int(np.searchsorted(plan.ends_at, self._clock.now_seconds, side="right"))
        first, count = plan.done, until - plan.done
        if count <= 0:
            return 0
        plan.done = until
        started_at = plan.started_at if first == 0 else float(plan.ends_at[first - 1])
        ends = plan.ends_at[first:until]
        kernels = plan.kernel_seconds[first:until]
        batch = plan.requests
        self._count(plan, first, until, float(ends[-1]) - started_at)
        delivered, gaps = plan.delivered_at[first:until], plan.gap_seconds[first:until]
        if batch:
            self._delivered_at = float(delivered[-1])
            self._detokenizer_work_seconds += count * batch * self._detokenize_seconds
        steps = DecodeSteps(
            started_at=started_at,
            ended_at=ends,
            delivered_at=delivered,
            gap_seconds=gaps,
            kernel_seconds=kernels,
            requests=batch,
            context_tokens=plan.context_tokens + batch * first,
            is_graph=plan.is_graph,
            prefill_tokens=plan.prefill_tokens,
        )
        self._observer.stepped(self._number, steps)
        return count

    def _count(self, plan: _Plan, first: int, until: int, seconds: float) -> None:
        count, batch = until - first, plan.requests
        taken = slice(first, until)
        self.activity.add(
            float(plan.kernel_seconds[taken].sum()),
            float(plan.flop[taken].sum()),
            float(plan.bytes[taken].sum()),
            _DECODE_OCCUPANCY,
        )
        if plan.prefill is not None:
            work = plan.prefill
            self.activity.add(work.seconds, work.flop, work.bytes, PREFILL_OCCUPANCY)
        self.context_token_steps += (
            count * plan.context_tokens + batch * (until * (until - 1) - first * (first - 1)) // 2
        )
        self.context_tokens += batch * count
        self.steps += count
        self.graph_steps += count if plan.is_graph else 0
        self.tokens += batch * count
        self.busy_seconds += seconds
        if batch:
            for index, value in enumerate((count, batch * count, seconds, batch**2 * count, batch * seconds)):
                self.moments[index] += value

    def _delivered(self, ends: Floats, batch: int) -> tuple[Floats, Floats]:
        """A single server in the way of the tokens: when each step's are out, and the gaps between steps."""
        cost = batch * self._detokenize_seconds
        order = np.arange(1, len(ends) + 1, dtype=np.float64)
        ready = np.maximum(ends - cost * (order - 1.0), self._delivered_at)
        delivered = np.maximum.accumulate(ready) + cost * order
        gaps = np.diff(delivered, prepend=self._delivered_at)
        return delivered, gaps
