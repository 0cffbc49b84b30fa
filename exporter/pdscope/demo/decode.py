"""The decode instance of the first model: a batch that gives a token to each of its requests a step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random

from pdscope.demo.agenda import Agenda, IdleClock
from pdscope.demo.scenario import Machines
from pdscope.demo.timeline import Batch, DecodeState, DecodeWatcher, Request


class DecodeBatch:
    """Gives every request it runs one token a step; admits by memory and slots, in order of arrival.

    Args:
        agenda: simulated time.
        machines: what the work costs.
        random: the jitter of the steps.
        allocated: called when a request has memory here, so that prefill may begin.
        left: called when a request has its last token.
    """

    def __init__(
        self,
        agenda: Agenda,
        machines: Machines,
        random: Random,
        allocated: Callable[[Request], None],
        left: Callable[[], None],
    ) -> None:
        self._agenda = agenda
        self._machines = machines
        self._random = random
        self._allocated = allocated
        self._left = left
        self._watchers: list[DecodeWatcher] = []
        self._idle = IdleClock(agenda)
        self._queue: deque[Request] = deque()
        self._transferring = 0
        self._ready: list[Request] = []
        self._running: list[Request] = []
        self._stepping = False
        self._context_tokens = 0
        self._held_tokens = 0
        self._pending_tokens = 0

    def watch(self, watcher: DecodeWatcher) -> None:
        """Tells `watcher` of everything from now on."""
        self._watchers.append(watcher)

    def state(self) -> DecodeState:
        """What the instance holds now."""
        return DecodeState(
            allocating=self._idle.held - self._admitted(),
            allocating_tokens=sum(request.prompt_tokens for request in self._queue),
            transferring=self._transferring,
            ready=len(self._ready),
            running=len(self._running),
            context_tokens=self._context_tokens,
            held_tokens=self._held_tokens,
            pending_tokens=self._pending_tokens,
            idle_seconds=self._idle.seconds,
        )

    def accept(self, request: Request) -> None:
        """Takes a request that has just arrived; it shakes hands with prefill first."""
        self._idle.enter()
        request.queued_at = self._agenda.now_seconds + self._machines.tokenize_seconds
        request.handshaken_at = request.queued_at + self._machines.handshake_seconds
        self._agenda.at(request.handshaken_at, partial(self._enqueue, request))
        for watcher in self._watchers:
            watcher.accepted(request)

    def receive(self, request: Request) -> None:
        """The KV of `request` is here."""
        self._transferring -= 1
        self._ready.append(request)
        for watcher in self._watchers:
            watcher.received(request)
        if not self._stepping:
            self._start_step()

    def _enqueue(self, request: Request) -> None:
        self._queue.append(request)
        self._allocate()

    def _admitted(self) -> int:
        return self._transferring + len(self._ready) + len(self._running)

    def _allocate(self) -> None:
        while self._queue and self._fits(self._queue[0]):
            request = self._queue.popleft()
            request.allocated_at = self._agenda.now_seconds
            self._transferring += 1
            tokens = self._pool_tokens(request)
            self._held_tokens += tokens
            self._pending_tokens += tokens
            for watcher in self._watchers:
                watcher.allocated(request)
            self._allocated(request)

    def _fits(self, request: Request) -> bool:
        admitted = self._admitted()
        free = self._machines.pool_tokens - self._held_tokens
        reserved = self._machines.decode_reserved_tokens * (admitted + 1)
        return admitted < self._machines.decode_slots and self._pool_tokens(request) + reserved <= free

    def _start_step(self) -> None:
        now = self._agenda.now_seconds
        joining, self._ready = self._ready, []
        for request in joining:
            request.joined_at = now
            request.first_token_at = now + self._machines.first_output_seconds
            prompt_pool_tokens = self._pool_tokens(request)
            request.generated_tokens = 1
            self._pending_tokens -= prompt_pool_tokens
            self._held_tokens += self._pool_tokens(request) - prompt_pool_tokens
            self._context_tokens += request.prompt_tokens + 1
        self._running += joining
        for request in joining:
            for watcher in self._watchers:
                watcher.joined(request)
        self._stepping = bool(self._running)
        if self._stepping:
            self._agenda.after(self._step_seconds(), partial(self._finish_step, now))

    def _step_seconds(self) -> float:
        seconds = (
            self._machines.decode_step_seconds
            + self._context_tokens * self._machines.decode_seconds_per_context_token
            + len(self._running) * self._machines.decode_seconds_per_request
        )
        return seconds * max(0.5, self._random.gauss(1.0, self._machines.decode_step_jitter))

    def _finish_step(self, started_at: float) -> None:
        step = Batch(tuple(self._running), started_at, self._agenda.now_seconds)
        for request in step.requests:
            before = self._pool_tokens(request)
            request.generated_tokens += 1
            self._held_tokens += self._pool_tokens(request) - before
        self._context_tokens += len(step.requests)
        for watcher in self._watchers:
            watcher.stepped(step)
        self._retire([request for request in step.requests if request.generated_tokens >= request.output_tokens])
        self._allocate()
        self._start_step()

    def _retire(self, done: list[Request]) -> None:
        for request in done:
            request.finished_at = self._agenda.now_seconds
            self._running.remove(request)
            self._context_tokens -= request.prompt_tokens + request.generated_tokens
            self._held_tokens -= self._pool_tokens(request)
            self._idle.leave()
        for request in done:
            for watcher in self._watchers:
                watcher.finished(request)
            self._left()

    def _pool_tokens(self, request: Request) -> int:
        context = request.prompt_tokens + request.generated_tokens
        return self._machines.pages(context) * self._machines.page_tokens
