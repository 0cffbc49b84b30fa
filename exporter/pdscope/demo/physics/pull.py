"""vLLM's way: prefill computes and keeps, the router brings the request to decode, which allocates and pulls."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pdscope.demo.physics.request import End, Request
from pdscope.demo.physics.transfer import Transfer
from pdscope.demo.physics.ways import ApartWay

if TYPE_CHECKING:
    from pdscope.demo.physics.simulation import Simulation


class PullWay(ApartWay):
    """One leg after the other; what nobody reads within a lease is given up."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self._lost: set[Request] = set()

    def start(self, request: Request) -> None:
        """To prefill first."""
        self._on_prefill.add(request)
        router = self._simulation.router
        router.tokenize(request, router.prefill_tokenizers[request.prefill], partial(self._at_prefill, request))

    def _at_prefill(self, request: Request) -> None:
        if not self._reaches_prefill(request, self._refused):
            return
        self._stamp(request, "prefill_arrived_at")
        self._simulation.prefills[request.prefill].accept(request)

    def _refused(self, request: Request) -> None:
        self._leave_prefill(request)
        self._simulation.end(request, End.TRANSFER_FAILED)

    def computed(self, request: Request, tokens: int, is_last: bool) -> None:  # noqa: ARG002, FBT001 - a callback
        """Only the whole prompt matters: its lease begins, and prefill answers the router."""
        if not is_last:
            return
        link = self._simulation.draw.link
        self._set_timer(request, link.lease_seconds, End.ORPHANED if request.is_orphan else End.LEASE_EXPIRED)
        if not request.is_orphan:
            router = self._simulation.router
            router.tokenize(request, router.decode_tokenizers[request.decode], partial(self._at_decode, request))

    def _at_decode(self, request: Request) -> None:
        self._stamp(request, "decode_arrived_at")
        if self._simulation.draw.link.lease_renewed:
            self._stop_timer(request)
        self._simulation.decodes[request.decode].offer(request)

    def allocated(self, request: Request) -> None:
        """Decode has blocks: the two engines shake hands, then it reads."""
        self._simulation.clock.after(self._handshake_seconds(request), partial(self._pull, request))

    def _pull(self, request: Request) -> None:
        self._stamp(request, "handshaken_at")
        policy = self._simulation.draw.link.loss_policy
        if request in self._lost:
            if policy == "late_read":
                self._simulation.observer.read_late(request)
            else:
                self._lose(request, End.LEASE_EXPIRED)
                return
        self._stop_timer(request)
        self._stamp(request, "transfer_posted_at")
        transfer = Transfer(request, request.prompt_tokens, True, self._arrived, self._failed)  # noqa: FBT003
        self._simulation.transfers[request.decode].submit(transfer, 0)

    def _arrived(self, transfer: Transfer) -> None:
        request = transfer.request
        self._stamp(request, "transferred_at")
        self._leave_prefill(request)
        self._simulation.decodes[request.decode].receive(request)

    def _failed(self, transfer: Transfer) -> None:
        self._leave_prefill(transfer.request)
        self._lose(transfer.request, End.TRANSFER_FAILED)

    def _lose(self, request: Request, end: End) -> None:
        """There is no KV to read: the request fails, or decode computes it again."""
        decode = self._simulation.decodes[request.decode]
        if self._simulation.draw.link.loss_policy == "recompute":
            decode.compute_here(request)
            return
        self._simulation.end(request, end)
        decode.drop(request)

    def rejected(self, request: Request) -> None:
        """Prefill could never hold it."""
        self._leave_prefill(request)
        self._simulation.end(request, End.TOO_LONG)

    def over(self, request: Request, is_whole: bool) -> None:  # noqa: FBT001 - a callback
        """Decode has finished it, or can never hold it."""
        self._stop_timer(request)
        self._leave_prefill(request)
        self._simulation.end(request, End.FINISHED if is_whole else End.TOO_LONG)

    def _expired(self, request: Request, end: End) -> None:
        del self._timers[request]
        self._leave_prefill(request)
        self._simulation.observer.lease_expired(request)
        if end is End.ORPHANED:
            self._simulation.end(request, end)
        else:
            self._lost.add(request)
