"""The prefill instance of the first model: it computes prompts in batches; time comes from tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from pdscope.demo.agenda import Agenda, IdleClock
from pdscope.demo.link import Link
from pdscope.demo.scenario import Machines
from pdscope.demo.timeline import Batch, PrefillState, PrefillWatcher, Request


class PrefillServer:
    """Computes prompts in batches, one batch at a time, and hands their KV to the link.

    Args:
        agenda: simulated time.
        machines: what the work costs.
        shared_tokens: head of every prompt that is in the cache once the first prompt has been computed.
        link: where the KV goes.
        delivered: called when the KV of a request is on the decode instance.
    """

    def __init__(
        self,
        agenda: Agenda,
        machines: Machines,
        shared_tokens: int,
        link: Link,
        delivered: Callable[[Request], None],
    ) -> None:
        self._agenda = agenda
        self._machines = machines
        self._shared_tokens = shared_tokens
        self._link = link
        self._delivered = delivered
        self._watchers: list[PrefillWatcher] = []
        self._idle = IdleClock(agenda)
        self._bootstrapping = 0
        self._waiting: deque[Request] = deque()
        self._batch: Batch | None = None
        self._inflight = 0
        self._prefix_is_cached = False
        self._held_tokens = 0
        self._cached_tokens = 0

    def watch(self, watcher: PrefillWatcher) -> None:
        """Tells `watcher` of everything from now on."""
        self._watchers.append(watcher)

    def state(self) -> PrefillState:
        """What the instance holds now."""
        waiting_tokens = sum(request.prompt_tokens for request in self._waiting)
        return PrefillState(
            bootstrapping=self._bootstrapping,
            waiting=len(self._waiting),
            running=len(self._batch.requests) if self._batch else 0,
            inflight=self._inflight,
            waiting_tokens=waiting_tokens,
            waiting_uncached_tokens=waiting_tokens - self._cached_head_tokens() * len(self._waiting),
            held_tokens=self._held_tokens,
            cached_tokens=self._cached_tokens,
            idle_seconds=self._idle.seconds,
        )

    def accept(self, request: Request) -> None:
        """Takes a request that has just arrived; it waits for decode first."""
        self._idle.enter()
        self._bootstrapping += 1
        for watcher in self._watchers:
            watcher.accepted(request)

    def bootstrapped(self, request: Request) -> None:
        """Decode has memory for `request`: it may be computed."""
        self._bootstrapping -= 1
        self._waiting.append(request)
        self._start_batch()

    def _start_batch(self) -> None:
        if self._batch or not self._waiting:
            return
        chosen: list[Request] = []
        tokens = 0
        cached = self._cached_head_tokens()
        while self._waiting:
            request = self._waiting[0]
            if chosen and tokens + request.prompt_tokens - cached > self._machines.prefill_batch_tokens:
                break
            self._waiting.popleft()
            request.cached_tokens = cached
            tokens += request.uncached_tokens
            chosen.append(request)
        now = self._agenda.now_seconds
        duration = self._machines.prefill_batch_seconds + tokens * self._machines.prefill_seconds_per_token
        self._batch = Batch(tuple(chosen), now, now + duration)
        for request in chosen:
            request.prefill_started_at = now
            self._held_tokens += self._pool_tokens(request)
        self._cached_tokens = min(self._cached_tokens, self._machines.pool_tokens - self._held_tokens)
        self._agenda.at(self._batch.finished_at, partial(self._finish_batch, self._batch))
        for watcher in self._watchers:
            watcher.batch_started(self._batch)

    def _finish_batch(self, batch: Batch) -> None:
        self._batch = None
        self._prefix_is_cached = True
        self._inflight += len(batch.requests)
        for request in batch.requests:
            request.prefill_finished_at = batch.finished_at
            self._link.send(request.kv_bytes, partial(self._confirm, request))
        for watcher in self._watchers:
            watcher.batch_finished(batch)
        self._start_batch()

    def _confirm(self, request: Request) -> None:
        request.transferred_at = self._agenda.now_seconds
        self._inflight -= 1
        self._idle.leave()
        released = self._pool_tokens(request)
        self._held_tokens -= released
        self._cached_tokens += released
        for watcher in self._watchers:
            watcher.transferred(request)
        self._delivered(request)

    def _cached_head_tokens(self) -> int:
        return self._shared_tokens if self._prefix_is_cached else 0

    def _pool_tokens(self, request: Request) -> int:
        """Pool tokens that are this request's own: its shared head belongs to the cache."""
        return self._machines.pages(request.uncached_tokens) * self._machines.page_tokens
