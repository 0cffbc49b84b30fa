"""The seam between a model and the pages of an engine.

A model moves `Request`s through a prefill and a decode instance, stamps them, and tells the watchers of each
instance. A page is a watcher: it turns what it is told into the series of one engine. Neither knows how the other
works.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Protocol


@dataclass(slots=True, eq=False)
class Request:
    """One request and its way through both instances; times in simulated seconds, NaN until they have come.

    Attributes:
        number: unique in a simulation, by arrival.
        prompt_tokens: length of the prompt.
        output_tokens: length of the answer that will be given.
        is_streaming: whether the client asked for a stream.
        kv_bytes: size of its KV cache on the link, whole pages, all ranks.
        arrived_at: at both HTTP servers (the router asks both legs at once).
        cached_tokens: head of the prompt that prefill found in its cache, known from `prefill_started_at` on.
        queued_at: in the decode scheduler's queue, tokenised.
        handshaken_at: the two legs know each other.
        allocated_at: decode has memory for it, so prefill may begin.
        prefill_started_at: start of its prefill batch.
        prefill_finished_at: end of its prefill batch; the transfer is asked for.
        transferred_at: the transfer is confirmed, on both sides.
        joined_at: in decode's batch.
        first_token_at: first token out.
        finished_at: last token out.
        generated_tokens: tokens given so far.
    """

    number: int
    prompt_tokens: int
    output_tokens: int
    is_streaming: bool
    kv_bytes: int
    arrived_at: float
    cached_tokens: int = 0
    queued_at: float = nan
    handshaken_at: float = nan
    allocated_at: float = nan
    prefill_started_at: float = nan
    prefill_finished_at: float = nan
    transferred_at: float = nan
    joined_at: float = nan
    first_token_at: float = nan
    finished_at: float = nan
    generated_tokens: int = 0

    @property
    def uncached_tokens(self) -> int:
        """Prompt tokens that prefill has to compute."""
        return self.prompt_tokens - self.cached_tokens


@dataclass(frozen=True, slots=True)
class Batch:
    """One pass of an engine over some requests: a prefill batch or a decode step."""

    requests: Sequence[Request]
    started_at: float
    finished_at: float

    @property
    def seconds(self) -> float:
        """How long it ran."""
        return self.finished_at - self.started_at


@dataclass(frozen=True, slots=True)
class PrefillState:
    """What a prefill instance holds at one moment; every request of it is in exactly one of the four places.

    Attributes:
        bootstrapping: requests that wait for decode's handshake and allocation.
        waiting: requests that wait for computation.
        running: requests of the batch that runs.
        inflight: requests computed whose KV has not been confirmed.
        waiting_tokens: prompt tokens of the waiting requests.
        waiting_uncached_tokens: the part of them that is not in the cache.
        held_tokens: pool tokens of running and inflight requests, whole pages.
        cached_tokens: pool tokens of finished requests, kept for their prefixes and free to take.
        idle_seconds: time without any request so far.
    """

    bootstrapping: int
    waiting: int
    running: int
    inflight: int
    waiting_tokens: int
    waiting_uncached_tokens: int
    held_tokens: int
    cached_tokens: int
    idle_seconds: float


@dataclass(frozen=True, slots=True)
class DecodeState:
    """What a decode instance holds at one moment; every request of it is in exactly one of the four places.

    Attributes:
        allocating: requests in handshake or waiting for memory or a slot.
        allocating_tokens: prompt tokens of those whose handshake is done.
        transferring: requests with memory whose KV has not arrived: prefill's work on them is inside.
        ready: requests whose KV has arrived and that are not in the batch yet.
        running: requests in the batch.
        context_tokens: sum of the running requests' contexts.
        held_tokens: pool tokens of all requests with memory, whole pages.
        pending_tokens: the part of `held_tokens` whose requests do not run yet.
        idle_seconds: time without any request so far.
    """

    allocating: int
    allocating_tokens: int
    transferring: int
    ready: int
    running: int
    context_tokens: int
    held_tokens: int
    pending_tokens: int
    idle_seconds: float


class PrefillWatcher(Protocol):
    """Is told what happens on a prefill instance, when it happens."""

    def accepted(self, request: Request, /) -> None:
        """The request has arrived."""

    def batch_started(self, batch: Batch) -> None:
        """A prefill batch begins; its `finished_at` is when it will end."""

    def batch_finished(self, batch: Batch) -> None:
        """A prefill batch has ended."""

    def transferred(self, request: Request) -> None:
        """The transfer is confirmed, and with it this leg of the request is over."""


class DecodeWatcher(Protocol):
    """Is told what happens on a decode instance, when it happens."""

    def accepted(self, request: Request, /) -> None:
        """The request has arrived."""

    def allocated(self, request: Request) -> None:
        """The request has memory."""

    def received(self, request: Request) -> None:
        """Its KV has arrived."""

    def joined(self, request: Request) -> None:
        """It is in the batch, and its first token is on the way out."""

    def stepped(self, step: Batch) -> None:
        """A decode step has given each request of its batch one more token."""

    def finished(self, request: Request) -> None:
        """Its last token is out."""


class PrefillInstance(Protocol):
    """A simulated prefill instance as a page sees it."""

    def watch(self, watcher: PrefillWatcher) -> None:
        """Tells `watcher` of everything from now on."""

    def state(self) -> PrefillState:
        """What it holds now."""


class DecodeInstance(Protocol):
    """A simulated decode instance as a page sees it."""

    def watch(self, watcher: DecodeWatcher) -> None:
        """Tells `watcher` of everything from now on."""

    def state(self) -> DecodeState:
        """What it holds now."""
