"""Transfer queues and threads: posting costs time for each descriptor before a byte moves."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pdscope.demo.physics.clock import Clock, Level
from pdscope.demo.physics.draw import Link
from pdscope.demo.physics.models import ModelShape
from pdscope.demo.physics.network import Network
from pdscope.demo.physics.request import Request


def padded(tokens: int, page_tokens: int) -> int:
    """Tokens that the pages of `tokens` tokens have room for."""
    return -(-tokens // page_tokens) * page_tokens


@dataclass(frozen=True, slots=True)
class Transfer:
    """Some tokens of a prompt on their way.

    Attributes:
        request: whose they are.
        tokens: whole pages of them are sent.
        is_last: nothing of this prompt comes after it.
        arrived: called with the transfer when all is there and confirmed.
        failed: called instead when the pair of instances cannot talk.
    """

    request: Request
    tokens: int
    is_last: bool
    arrived: Callable[[Transfer], None]
    failed: Callable[[Transfer], None]


class TransferEngine:
    """The transfer side of one instance: of prefill where KV is pushed, of decode where it is pulled.

    Args:
        clock: simulated time.
        link: costs, pages, failing pairs.
        model: layers and bytes of a page.
        network: carries the bytes.
        lanes: queues; `threads` of each. A queue is served in order.
        holds_thread: a thread waits for the last byte (Mooncake) or only posts (NIXL).
        posted: told how long a post kept the caller's CPU.
    """

    def __init__(  # noqa: PLR0913 - the parts of one instance
        self,
        clock: Clock,
        link: Link,
        model: ModelShape,
        network: Network,
        *,
        lanes: int,
        threads: int,
        holds_thread: bool,
        posted: Callable[[float], None],
    ) -> None:
        self._clock = clock
        self._link = link
        self._model = model
        self._network = network
        self._holds_thread = holds_thread
        self._posted = posted
        self._queues: list[deque[Transfer]] = [deque() for _ in range(lanes)]
        self._idle_threads = [threads] * lanes
        self.queued = Level(clock)
        self.posting = Level(clock)
        self.moving = Level(clock)
        self.transfers = 0
        self.failures = 0
        self.bytes = 0
        self.descriptors = 0
        self.post_seconds = 0.0

    def submit(self, transfer: Transfer, lane: int) -> None:
        """Queues `transfer` in the lane of that number, counted round."""
        lane %= len(self._queues)
        self.queued.add()
        self._queues[lane].append(transfer)
        self._serve(lane)

    def size_bytes(self, tokens: int) -> int:
        """Bytes of whole pages, all ranks."""
        return padded(tokens, self._link.page_tokens) * self._model.kv_bytes_per_token

    def descriptor_count(self, tokens: int) -> int:
        """Descriptors that each rank posts for `tokens` tokens."""
        pages = padded(tokens, self._link.page_tokens) // self._link.page_tokens
        runs = max(1, round(pages / self._link.contiguous_pages))
        return runs * self._model.layers * self._model.kv_tensors

    def _serve(self, lane: int) -> None:
        queue = self._queues[lane]
        while queue and self._idle_threads[lane]:
            transfer = queue.popleft()
            self._idle_threads[lane] -= 1
            self.queued.drop()
            self.posting.add()
            descriptors = self.descriptor_count(transfer.tokens)
            seconds = descriptors * self._link.descriptor_seconds
            self.descriptors += descriptors
            self.post_seconds += seconds
            transfer.request.descriptors += descriptors
            transfer.request.post_seconds += seconds
            self._posted(seconds)
            self._clock.after(seconds, partial(self._move, transfer, lane))

    def _move(self, transfer: Transfer, lane: int) -> None:
        request = transfer.request
        self.posting.drop()
        self.moving.add()
        if not self._holds_thread:
            self._release(lane)
        if (request.prefill, request.decode) in self._link.failing_pairs:
            self._clock.after(self._link.failure_seconds, partial(self._fail, transfer, lane))
            return
        if request.transfer_started_at != request.transfer_started_at:  # NaN: this is its first one
            request.transfer_started_at = self._clock.now_seconds
        source, target = ("prefill", request.prefill), ("decode", request.decode)
        self._network.send(source, target, self.size_bytes(transfer.tokens), partial(self._moved, transfer, lane))

    def _moved(self, transfer: Transfer, lane: int) -> None:
        if self._holds_thread:
            self._release(lane)
        self._clock.after(self._link.latency_seconds, partial(self._confirm, transfer))

    def _confirm(self, transfer: Transfer) -> None:
        size = self.size_bytes(transfer.tokens)
        self.moving.drop()
        self.transfers += 1
        self.bytes += size
        transfer.request.transfer_bytes += size
        transfer.arrived(transfer)

    def _fail(self, transfer: Transfer, lane: int) -> None:
        self.moving.drop()
        self.failures += 1
        if self._holds_thread:
            self._release(lane)
        transfer.failed(transfer)

    def _release(self, lane: int) -> None:
        self._idle_threads[lane] += 1
        self._serve(lane)
