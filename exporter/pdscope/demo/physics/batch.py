"""Who is in the batch of a decode instance: tokens follow from the steps, so a step touches no request."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from pdscope.demo.physics.pool import Pool
from pdscope.demo.physics.request import Request
from pdscope.demo.physics.steps import Stepper


class Batch:
    """The running requests, youngest last.

    Args:
        pool: what they hold grows with every step.
        stepper: counts the steps.
    """

    def __init__(self, pool: Pool, stepper: Stepper) -> None:
        self._pool = pool
        self._stepper = stepper
        self._base: dict[Request, int] = {}
        self._finishing: list[tuple[int, int, Request]] = []

    def __len__(self) -> int:
        return len(self._base)

    @property
    def youngest(self) -> Request:
        """Who came last."""
        return next(reversed(self._base))

    @property
    def room_tokens(self) -> int:
        """Free tokens of the pool, as of the last settled step."""
        return self._pool.tokens - self.used_tokens

    @property
    def used_tokens(self) -> int:
        """Tokens of the pool in use, as of the last settled step."""
        return self._pool.used(len(self._base), self._stepper.steps)

    def most_steps(self) -> int:
        """Steps until the first request is done or the pool is full."""
        if not self._base:
            return 1
        steps = self.room_tokens // len(self._base)
        return min(steps, self._finishing[0][0] - self._stepper.steps) if self._finishing else steps

    def join(self, request: Request, generated: int) -> None:
        """`request` is in the next step, with `generated` tokens so far."""
        steps = self._stepper.steps
        self._base[request] = generated - steps
        self._stepper.requests += 1
        self._stepper.context_tokens += request.prompt_tokens + generated
        self._pool.start(request, generated, steps)
        heapq.heappush(self._finishing, (steps + request.output_tokens - generated, request.number, request))

    def leave(self, request: Request) -> None:
        """`request` goes, and its memory is free; `generated_tokens` says how far it came."""
        request.generated_tokens = self._base.pop(request) + self._stepper.steps
        self._stepper.requests -= 1
        self._stepper.context_tokens -= request.prompt_tokens + request.generated_tokens
        self._pool.stop(request)
        self._pool.release(request)

    def finished(self) -> Iterator[Request]:
        """Those that have their last token; each has left when it is handed out."""
        while self._finishing and self._finishing[0][0] <= self._stepper.steps:
            at_step, _, request = heapq.heappop(self._finishing)
            # It may have been preempted since: then it has another entry, or none.
            if request in self._base and self._base[request] + at_step == request.output_tokens:
                self.leave(request)
                yield request
