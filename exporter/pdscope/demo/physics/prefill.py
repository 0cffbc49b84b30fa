"""The prefill instance: passes over a token budget, chunks, a prefix cache, and KV that stays until it is fetched."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pdscope.demo.physics.clock import Clock, Level
from pdscope.demo.physics.devices import Activity
from pdscope.demo.physics.draw import Prefill
from pdscope.demo.physics.machine import Machine, Pass
from pdscope.demo.physics.observer import Observer, PrefillPass
from pdscope.demo.physics.request import Chunk, Request
from pdscope.demo.physics.transfer import padded

PREFILL_OCCUPANCY = 0.92


@dataclass(frozen=True, slots=True)
class PrefillState:
    """What a prefill instance holds now; every request of it is in exactly one of the four places.

    Attributes:
        bootstrapping: wait for decode's handshake and memory (SGLang).
        waiting: wait for a pass; `waiting_tokens` is the length of their prompts.
        running: have a part in the pass that runs, or are between two chunks.
        inflight: computed, and their KV not yet released.
        held_tokens: pool tokens of running and inflight requests.
        cached_tokens: pool tokens of prefixes, free to take.
        pool_tokens: all of the pool.
    """

    bootstrapping: int
    waiting: int
    waiting_tokens: int
    running: int
    inflight: int
    held_tokens: int
    cached_tokens: int
    pool_tokens: int


class PrefillInstance:
    """Computes prompts, one pass at a time.

    Args:
        clock: simulated time.
        number: of this instance.
        machine: its devices.
        settings: budget, host work, cache.
        page_tokens: of its pool.
        computed: told of every part of a prompt, with its tokens to send and whether it was the last.
        rejected: told of a prompt that the whole pool could not hold.
        observer: told what happens.
    """

    def __init__(  # noqa: PLR0913 - the parts of one instance
        self,
        clock: Clock,
        number: int,
        machine: Machine,
        settings: Prefill,
        *,
        page_tokens: int,
        computed: Callable[[Request, int, bool], None],
        rejected: Callable[[Request], None],
        observer: Observer,
    ) -> None:
        self._clock = clock
        self.number = number
        self.machine = machine
        self._settings = settings
        self._page_tokens = page_tokens
        self._computed = computed
        self._rejected = rejected
        self._observer = observer
        self._waiting: deque[Request] = deque()
        self._partial: Request | None = None
        self._need: dict[Request, int] = {}
        self._inflight: set[Request] = set()
        self._groups: OrderedDict[int, int] = OrderedDict()
        self._busy = False
        self._to_release: list[Request] = []
        self.pool_tokens = machine.pool_tokens
        self.held_tokens = 0
        self.bootstrapping = Level(clock)
        self.waiting = Level(clock)
        self.running = Level(clock)
        self.inflight = Level(clock)
        self._done_activity = Activity(machine)
        self._pass_activity = Activity(machine)
        self._pass_started_at = 0.0
        self._pass_ends_at = 0.0
        self.passes = 0
        self.computed_tokens = 0
        self.cached_tokens = 0
        self.busy_seconds = 0.0

    @property
    def activity(self) -> Activity:
        """Of its devices up to now: of the pass that runs, the share that has passed."""
        if not self._busy:
            return self._done_activity
        share = (self._clock.now_seconds - self._pass_started_at) / (self._pass_ends_at - self._pass_started_at)
        return self._done_activity.plus(self._pass_activity.split(share))

    def state(self) -> PrefillState:
        """What it holds now."""
        return PrefillState(
            bootstrapping=self.bootstrapping.value,
            waiting=self.waiting.value,
            waiting_tokens=sum(request.prompt_tokens for request in self._waiting),
            running=self.running.value,
            inflight=self.inflight.value,
            held_tokens=self.held_tokens,
            cached_tokens=sum(self._groups.values()),
            pool_tokens=self.pool_tokens,
        )

    def accept(self, request: Request) -> None:
        """`request` may be computed from now on."""
        request.prefill_queued_at = self._clock.now_seconds
        self._observer.stamped(request, "prefill_queued_at")
        self.waiting.add()
        self._waiting.append(request)
        self._start()

    def drop(self, request: Request) -> None:
        """`request` has ended elsewhere: it leaves the queue, or its KV goes as soon as nothing needs it."""
        if request in self._waiting:
            self._waiting.remove(request)
            self.waiting.drop()
        elif request in self._inflight:
            self.release(request)

    def release(self, request: Request) -> None:
        """The KV of `request` is not needed any more; it is noticed, and freed, between two passes.

        Harmless when nothing is held for it.
        """
        if request not in self._inflight:
            return
        if self._busy:
            self._to_release.append(request)
        else:
            self._free(request)
            self._start()

    def _free(self, request: Request) -> None:
        if request not in self._inflight:
            return
        self._inflight.remove(request)
        self.inflight.drop()
        self.held_tokens -= self._need.pop(request)
        request.prefill_released_at = self._clock.now_seconds
        self._observer.stamped(request, "prefill_released_at")

    def _start(self) -> None:
        if self._busy:
            return
        parts = self._choose()
        if not parts:
            return
        now = self._clock.now_seconds
        tokens, pairs, context = 0, 0.0, 0
        for request, size in parts:
            before = request.cached_tokens + request.computed_tokens
            tokens += size
            pairs += size * before + size * (size + 1) / 2
            context += before + size
        work = self.machine.prefill(tokens, pairs, context)
        seconds = self._settings.pass_seconds + work.seconds
        self._busy = True
        self.passes += 1
        self._pass_started_at, self._pass_ends_at = now, now + seconds
        self._pass_activity = Activity(self.machine)
        self._pass_activity.add(work.seconds, work.flop, work.bytes, PREFILL_OCCUPANCY)
        self._clock.at(self._pass_ends_at, partial(self._finish, parts, now, work))

    def _choose(self) -> list[tuple[Request, int]]:
        budget = self._settings.batch_tokens
        parts: list[tuple[Request, int]] = []
        while budget > 0:
            request = self._partial
            if request is None:
                if not self._waiting or not self._admit(self._waiting[0]):
                    break
                request = self._waiting.popleft()
                self.waiting.drop()
                self.running.add()
                request.prefill_started_at = self._clock.now_seconds
                self._observer.stamped(request, "prefill_started_at")
            left = request.prompt_tokens - request.cached_tokens - request.computed_tokens
            size = min(budget, left)
            budget -= size
            parts.append((request, size))
            self._partial = request if size < left else None
        return parts

    def _admit(self, request: Request) -> bool:
        """Takes pool tokens for the head of the queue, from prefixes if need be; False when it has to wait."""
        hit = self._settings.prefix_cache and request.group in self._groups
        cached = min(request.shared_tokens, self._groups[request.group]) if hit else 0
        need = padded(request.prompt_tokens - cached, self._page_tokens)
        if need > self.pool_tokens:
            self._waiting.popleft()
            self.waiting.drop()
            self._rejected(request)
            return bool(self._waiting) and self._admit(self._waiting[0])
        if self.held_tokens + need > self.pool_tokens:
            return False
        if hit:
            self._groups.move_to_end(request.group)
        while self._groups and self.held_tokens + need + sum(self._groups.values()) > self.pool_tokens:
            self._groups.popitem(last=False)
        request.cached_tokens = cached
        self.cached_tokens += cached
        self.held_tokens += need
        self._need[request] = need
        return True

    def _finish(self, parts: list[tuple[Request, int]], started_at: float, work: Pass) -> None:
        now = self._clock.now_seconds
        self._done_activity = self._done_activity.plus(self._pass_activity)
        self._pass_activity = Activity(self.machine)
        self.busy_seconds += now - started_at
        told: list[tuple[Request, Chunk, bool]] = []
        for request, size in parts:
            chunk = Chunk(started_at, now, size)
            request.chunks.append(chunk)
            request.computed_tokens += size
            self.computed_tokens += size
            is_last = request.cached_tokens + request.computed_tokens >= request.prompt_tokens
            if is_last:
                self._computed_whole(request)
            told.append((request, chunk, is_last))
        self._observer.prefill_passed(self.number, PrefillPass(started_at, now, work.seconds, told))
        for request, chunk, is_last in told:
            # What the cache had goes along with the first part: hits save computation, not transfer.
            head = request.cached_tokens if len(request.chunks) == 1 else 0
            self._computed(request, chunk.tokens + head, is_last)
        self._busy = False
        released, self._to_release = self._to_release, []
        for request in released:
            self._free(request)
        self._start()

    def _computed_whole(self, request: Request) -> None:
        request.prefill_ended_at = self._clock.now_seconds
        self._observer.stamped(request, "prefill_ended_at")
        self.running.drop()
        self.inflight.add()
        self._inflight.add(request)
        if self._settings.prefix_cache and request.shared_tokens:
            room = self.pool_tokens - self.held_tokens - sum(self._groups.values())
            if request.group in self._groups or request.shared_tokens <= room:
                known = self._groups.get(request.group, 0)
                self._groups[request.group] = max(known, request.shared_tokens)
                self._groups.move_to_end(request.group)
