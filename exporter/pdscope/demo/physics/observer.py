"""What an observer of an instance is told; a page of an engine is an observer that fills the engine's own families."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pdscope.demo.physics.machine import Floats
from pdscope.demo.physics.request import Chunk, Request


@dataclass(frozen=True, slots=True)
class PrefillPass:
    """One pass of a prefill instance: the part of each prompt, and whether it was its last."""

    started_at: float
    ended_at: float
    kernel_seconds: float
    parts: Sequence[tuple[Request, Chunk, bool]]


@dataclass(frozen=True, slots=True)
class DecodeSteps:
    """Consecutive steps of one batch, one or more, with nothing but growing context between them.

    Attributes:
        started_at: of the first.
        ended_at: of each, on the devices; shape (steps,).
        delivered_at: of each, out of the detokenizer; shape (steps,).
        gap_seconds: since the delivery before: what each request of the batch sees; shape (steps,).
        kernel_seconds: of each, shape (steps,).
        requests: in the batch; each got one token a step.
        context_tokens: of the batch before the first step; it grows by one a request and step.
        is_graph: whether a captured graph was replayed.
        prefill_tokens: prompt tokens that ran along (unified instances, recomputation), 0 otherwise.
    """

    started_at: float
    ended_at: Floats
    delivered_at: Floats
    gap_seconds: Floats
    kernel_seconds: Floats
    requests: int
    context_tokens: int
    is_graph: bool
    prefill_tokens: int


class Observer:
    """Does nothing; override what is wanted. All requests of an instance come here, in the order of events.

    Steps are told when they are settled, at the latest when the instance is looked at: `ended_at` is the truth.
    """

    def prefill_passed(self, instance: int, done: PrefillPass) -> None:
        """A prefill pass has ended on prefill instance `instance`."""

    def stepped(self, instance: int, steps: DecodeSteps) -> None:
        """Steps have ended on decode (or unified) instance `instance`."""

    def stamped(self, request: Request, stamp: str) -> None:
        """The attribute `stamp` of `request` has just been set; the name is one of `Request`'s."""

    def preempted(self, request: Request) -> None:
        """Decode has taken the memory of `request` back (vLLM: preemption, SGLang: retraction)."""

    def resumed(self, request: Request, gap_seconds: float) -> None:
        """It is back in the batch, after so long without a token."""

    def lease_expired(self, request: Request) -> None:
        """Prefill has given up the KV of `request` (vLLM)."""

    def read_late(self, request: Request) -> None:
        """Decode has read KV whose lease had expired: the answer may be wrong (vLLM)."""

    def ended(self, request: Request) -> None:
        """`request` is over: see its `end`."""


class Observers(Observer):
    """Tells several."""

    def __init__(self) -> None:
        self.members: list[Observer] = []

    def prefill_passed(self, instance: int, done: PrefillPass) -> None:
        """Tells all of them."""
        for member in self.members:
            member.prefill_passed(instance, done)

    def stepped(self, instance: int, steps: DecodeSteps) -> None:
        """Tells all of them."""
        for member in self.members:
            member.stepped(instance, steps)

    def stamped(self, request: Request, stamp: str) -> None:
        """Tells all of them."""
        for member in self.members:
            member.stamped(request, stamp)

    def preempted(self, request: Request) -> None:
        """Tells all of them."""
        for member in self.members:
            member.preempted(request)

    def resumed(self, request: Request, gap_seconds: float) -> None:
        """Tells all of them."""
        for member in self.members:
            member.resumed(request, gap_seconds)

    def lease_expired(self, request: Request) -> None:
        """Tells all of them."""
        for member in self.members:
            member.lease_expired(request)

    def read_late(self, request: Request) -> None:
        """Tells all of them."""
        for member in self.members:
            member.read_late(request)

    def ended(self, request: Request) -> None:
        """Tells all of them."""
        for member in self.members:
            member.ended(request)
