"""The decode instance: memory and slots first, then a batch; unified instances and recomputation prefill here too."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from pdscope.demo.physics.batch import Batch
from pdscope.demo.physics.clock import Appointment, Clock, Level
from pdscope.demo.physics.decode_state import DecodeState
from pdscope.demo.physics.draw import Decode, Engine
from pdscope.demo.physics.local import LocalPrefill
from pdscope.demo.physics.observer import Observer
from pdscope.demo.physics.pool import Pool
from pdscope.demo.physics.request import Request
from pdscope.demo.physics.steps import Stepper

_HEADROOM_STEPS = {"sglang": 20, "vllm": 1}
"""Once the pool is full, room is made for that many steps of the batch."""


class DecodeInstance:
    """Admits by memory and slots in order of arrival; takes memory back from the youngest when the pool is full.

    Args:
        clock: simulated time.
        number: of this instance.
        engine: whose rules.
        settings: slots and reserve.
        pool: its KV memory.
        local: prefill work on this instance.
        is_unified: prompts are computed here, none arrive.
        stepper: its batch.
        allocated: told when a request has memory here and its KV is to be brought.
        over: told when a request has its last token (True), or can never have memory (False).
        observer: told what happens.
    """

    def __init__(  # noqa: PLR0913 - the parts of one instance
        self,
        clock: Clock,
        number: int,
        engine: Engine,
        settings: Decode,
        *,
        pool: Pool,
        local: LocalPrefill,
        is_unified: bool,
        stepper: Stepper,
        allocated: Callable[[Request], None],
        over: Callable[[Request, bool], None],
        observer: Observer,
    ) -> None:
        self._clock = clock
        self.number = number
        self._engine = engine
        self._settings = settings
        self.pool = pool
        self.local_prefill = local
        self._is_unified = is_unified
        self.stepper = stepper
        self._allocated = allocated
        self._over = over
        self._observer = observer
        self._queue: deque[Request] = deque()
        self._ready: deque[Request] = deque()
        self._retracted: deque[Request] = deque()
        self.batch = Batch(pool, stepper)
        self._fresh: list[Request] = []
        self._stopped_at: dict[Request, float] = {}
        self._place: dict[Request, Level] = {}
        self._wake: Appointment | None = None
        self.handshaking = Level(clock)
        self.queued = Level(clock)
        self.transferring = Level(clock)
        self.ready = Level(clock)
        self.local = Level(clock)
        self.running = Level(clock)
        self.retracted = Level(clock)
        self.preemptions = 0
        self.preempted_prompt_tokens = 0
        self.preempted_output_tokens = 0

    @property
    def held_tokens(self) -> int:
        """Pool tokens in use, as of the last settled step."""
        return self.batch.used_tokens

    def state(self) -> DecodeState:
        """What it holds now; settles the steps that have ended."""
        self.stepper.settle()
        pending = sum(
            self.pool.held(request)
            for request, place in self._place.items()
            if place in (self.transferring, self.ready, self.local)
        )
        return DecodeState(
            handshaking=self.handshaking.value,
            queued=self.queued.value,
            transferring=self.transferring.value,
            ready=self.ready.value,
            local=self.local.value,
            running=self.running.value,
            retracted=self.retracted.value,
            context_tokens=self.stepper.context_tokens,
            held_tokens=self.held_tokens,
            pending_tokens=pending,
            pool_tokens=self.pool.tokens,
            slots=self._settings.slots,
        )

    def greet(self, request: Request) -> None:
        """`request` has arrived and shakes hands (SGLang)."""
        self._move(request, self.handshaking)

    def offer(self, request: Request) -> None:
        """`request` may have memory and a slot from now on."""
        self._move(request, self.queued)
        self._queue.append(request)
        self._kick()

    def receive(self, request: Request) -> None:
        """The KV of `request` is here."""
        self._move(request, self.ready)
        self._ready.append(request)
        self._kick()

    def compute_here(self, request: Request) -> None:
        """The KV of `request` will not come: its prompt is computed here (vLLM)."""
        self._move(request, self.local)
        self.local_prefill.add(request, request.prompt_tokens)
        self._kick()

    def drop(self, request: Request) -> None:
        """`request` has ended elsewhere, before it ran: its memory is free."""
        if request in self._queue:
            self._queue.remove(request)
        elif request in self._ready:
            self._ready.remove(request)
        self._move(request, None)
        self.pool.release(request)
        self._kick()

    def _move(self, request: Request, place: Level | None) -> None:
        before = self._place.pop(request, None)
        if before is not None:
            before.drop()
        if place is not None:
            place.add()
            self._place[request] = place

    def _kick(self) -> None:
        if not self.stepper.is_stepping:
            self._boundary()
            return
        self.stepper.settle()
        joins = self._ready and self.running.value < self._settings.slots
        if joins or self.local_prefill.is_waiting or (self._queue and self._fits(self._queue[0])):
            self._schedule(self.stepper.cut())

    def _schedule(self, when_seconds: float) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self._wake = self._clock.at(max(when_seconds, self._clock.now_seconds), self._boundary)

    def _boundary(self) -> None:
        """Between two steps: who is done leaves, who can comes in, and the next steps begin."""
        was_running = self.stepper.is_stepping
        self.stepper.finish()
        self._first_tokens()
        for request in self.local_prefill.completed():
            self._join(request, request.generated_tokens + 1)
        self._retire()
        self._make_room()
        self._admit()
        self._join_ready()
        self._make_room()
        if not self.batch and not self.local_prefill.is_waiting:
            return
        if not was_running:
            self.stepper.idle()
        # A first token that a step gives is stamped when it ends.
        most = 1 if self._fresh else self.batch.most_steps()
        self._schedule(self.stepper.begin(most, *self.local_prefill.next_pass()))

    def _first_tokens(self) -> None:
        for request in self._fresh:
            request.first_computed_at = self._clock.now_seconds
            request.first_token_at = self.stepper.delivered_at
            self._observer.stamped(request, "first_token_at")
        self._fresh.clear()

    def _retire(self) -> None:
        for request in self.batch.finished():
            request.finished_at = self.stepper.delivered_at
            self._observer.stamped(request, "finished_at")
            self._move(request, None)
            self._over(request, True)  # noqa: FBT003 - a callback

    def _make_room(self) -> None:
        """Takes memory back from the youngest until the batch can step; the last one alone must end."""
        if not self.batch or self.batch.room_tokens >= len(self.batch):
            return
        while self.batch and self.batch.room_tokens < len(self.batch) * _HEADROOM_STEPS[self._engine]:
            request = self.batch.youngest
            alone = len(self.batch) == 1
            if alone and self.batch.room_tokens >= 1:
                return
            self.batch.leave(request)
            if alone:
                self._move(request, None)
                self._over(request, False)  # noqa: FBT003 - a callback
                return
            self._stopped_at[request] = self.stepper.delivered_at
            request.preemptions += 1
            self.preemptions += 1
            self.preempted_prompt_tokens += request.prompt_tokens
            self.preempted_output_tokens += request.generated_tokens
            if request in self._fresh:
                self._fresh.remove(request)
            if self._engine == "sglang" and not self._is_unified:
                self._retracted.append(request)
                self._move(request, self.retracted)
            else:
                self._queue.appendleft(request)
                self._move(request, self.queued)
            self._observer.preempted(request)

    def _fits(self, request: Request) -> bool:
        need = self.pool.need(request)
        active = self.transferring.value + self.ready.value + self.local.value + self.running.value
        if self._engine == "sglang":
            need += self._settings.reserved_tokens * (active + 1)
            slots_taken = active
        else:
            need += len(self.batch) + 1  # what runs grows first
            slots_taken = self.running.value + self.local.value
        return slots_taken < self._settings.slots and need <= self.batch.room_tokens

    def _admit(self) -> None:
        while self._retracted and self._fits(self._retracted[0]):
            request = self._retracted.popleft()
            self.stepper.host_debt_seconds += self.local_prefill.copy_seconds(request)
            self.pool.hold(request)
            self._join(request, request.generated_tokens)
        while self._queue and not self._retracted:
            request = self._queue[0]
            if not self._fits(request):
                if self.held_tokens > 0:
                    return
                self._queue.popleft()
                self._move(request, None)
                self._over(request, False)  # noqa: FBT003 - a callback
                continue
            self._queue.popleft()
            self.pool.hold(request)
            if self._is_unified or request.preemptions:
                self._move(request, self.local)
                self.local_prefill.add(request, request.prompt_tokens + request.generated_tokens)
            else:
                self._move(request, self.transferring)
            if not request.preemptions:
                request.allocated_at = self._clock.now_seconds
                self._observer.stamped(request, "allocated_at")
                if not self._is_unified:
                    self._allocated(request)

    def _join_ready(self) -> None:
        for request in self._ready:
            if request.transfer_seen_at != request.transfer_seen_at:  # NaN: it has just been noticed
                request.transfer_seen_at = self._clock.now_seconds
                self._observer.stamped(request, "transfer_seen_at")
        while self._ready and len(self.batch) < self._settings.slots:
            # SGLang's prefill has sampled the first token and sends it along; vLLM's decode computes it again.
            self._join(self._ready.popleft(), 1 if self._engine == "sglang" else 0)

    def _join(self, request: Request, generated: int) -> None:
        now = self._clock.now_seconds
        self._move(request, self.running)
        self.batch.join(request, generated)
        if request.joined_at != request.joined_at:
            request.joined_at = now
            self._observer.stamped(request, "joined_at")
        stopped_at = self._stopped_at.pop(request, None)
        if stopped_at is not None and generated > request.generated_tokens:
            self.stepper.deliver(now)
        if stopped_at is not None:
            self._observer.resumed(request, now - stopped_at)
        if request.first_token_at == request.first_token_at:
            return
        if generated:
            request.first_computed_at = now
            request.first_token_at = self.stepper.deliver(now)
            self._observer.stamped(request, "first_token_at")
        else:
            self._fresh.append(request)
