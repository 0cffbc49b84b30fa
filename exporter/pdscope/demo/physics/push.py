"""SGLang's way: decode allocates first, prefill computes then and pushes chunk by chunk."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pdscope.demo.physics.request import End, Request
from pdscope.demo.physics.transfer import Transfer
from pdscope.demo.physics.ways import ApartWay

if TYPE_CHECKING:
    from pdscope.demo.physics.simulation import Simulation


class PushWay(ApartWay):
    """SGLang: both legs at once; decode allocates first, prefill computes then and pushes chunk by chunk."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self._pending: dict[Request, int] = {}
        self._unsent: dict[Request, int] = {}
        self._bootstrapping: set[Request] = set()

    def start(self, request: Request) -> None:
        """Both legs at once."""
        self._on_prefill.add(request)
        router = self._simulation.router
        router.tokenize(request, router.prefill_tokenizers[request.prefill], partial(self._at_prefill, request))
        router.tokenize(request, router.decode_tokenizers[request.decode], partial(self._at_decode, request))

    def _at_prefill(self, request: Request) -> None:
        if request.is_over or not self._reaches_prefill(request, self._refused):
            return
        self._stamp(request, "prefill_arrived_at")
        prefill = self._simulation.prefills[request.prefill]
        prefill.bootstrapping.add()
        self._bootstrapping.add(request)
        self._set_timer(request, self._simulation.draw.link.bootstrap_timeout_seconds, End.BOOTSTRAP_TIMEOUT)
        self._compute_if_met(request)

    def _refused(self, request: Request) -> None:
        if not request.is_over:
            self._give_up(request, End.TRANSFER_FAILED)

    def _at_decode(self, request: Request) -> None:
        if request.is_over:
            return
        self._stamp(request, "decode_arrived_at")
        self._simulation.decodes[request.decode].greet(request)
        self._simulation.clock.after(self._handshake_seconds(request), partial(self._greeted, request))

    def _greeted(self, request: Request) -> None:
        if request.is_over:
            return
        self._stamp(request, "handshaken_at")
        self._simulation.decodes[request.decode].offer(request)

    def allocated(self, request: Request) -> None:
        """Prefill learns where to send: now it may compute, when its own leg has come so far."""
        self._compute_if_met(request)

    def _compute_if_met(self, request: Request) -> None:
        if request not in self._bootstrapping or request.allocated_at != request.allocated_at:
            return
        self._leave_bootstrap(request)
        self._set_timer(request, self._simulation.draw.link.waiting_timeout_seconds, End.WAITING_TIMEOUT)
        self._pending[request] = 0
        self._simulation.prefills[request.prefill].accept(request)

    def _leave_bootstrap(self, request: Request) -> None:
        if request in self._bootstrapping:
            self._bootstrapping.remove(request)
            self._simulation.prefills[request.prefill].bootstrapping.drop()

    def computed(self, request: Request, tokens: int, is_last: bool) -> None:  # noqa: FBT001 - a callback
        """Sends the part; whole pages at once, the rest of the prompt with its last part."""
        if request.is_over:
            if is_last and not self._pending.get(request):
                self._leave_prefill(request)
            return
        link = self._simulation.draw.link
        if request.is_orphan:
            if is_last:
                self._set_timer(request, link.lease_seconds, End.ORPHANED)
            return
        unsent = self._unsent.pop(request, 0) + tokens
        rest = 0 if is_last else unsent % link.page_tokens
        if rest:
            self._unsent[request] = rest
        if is_last:
            self._stamp(request, "transfer_posted_at")
        elif unsent == rest:
            return
        self._pending[request] += 1
        transfer = Transfer(request, unsent - rest, is_last, self._arrived, self._failed)
        self._simulation.transfers[request.prefill].submit(transfer, request.decode)

    def _arrived(self, transfer: Transfer) -> None:
        request = transfer.request
        self._pending[request] -= 1
        if request.prefill_ended_at != request.prefill_ended_at or self._pending[request]:
            return  # more of it is to come
        if not request.is_over:
            self._stop_timer(request)
            self._stamp(request, "transferred_at")
            self._simulation.decodes[request.decode].receive(request)
        self._leave_prefill(request)

    def _failed(self, transfer: Transfer) -> None:
        request = transfer.request
        self._pending[request] -= 1
        if not request.is_over:
            self._give_up(request, End.TRANSFER_FAILED)
        elif request.prefill_ended_at == request.prefill_ended_at and not self._pending[request]:
            self._leave_prefill(request)

    def rejected(self, request: Request) -> None:
        """Prefill could never hold it."""
        if not request.is_over:
            self._give_up(request, End.TOO_LONG)

    def over(self, request: Request, is_whole: bool) -> None:  # noqa: FBT001 - a callback
        """Decode has finished it, or can never hold it."""
        self._stop_timer(request)
        self._leave_bootstrap(request)
        self._leave_prefill(request)
        self._simulation.end(request, End.FINISHED if is_whole else End.TOO_LONG)

    def _expired(self, request: Request, end: End) -> None:
        self._give_up(request, end)

    def _give_up(self, request: Request, end: End) -> None:
        self._stop_timer(request)
        self._leave_bootstrap(request)
        self._simulation.end(request, end)
        self._simulation.decodes[request.decode].drop(request)
        self._simulation.prefills[request.prefill].drop(request)
        under_way = request.prefill_started_at == request.prefill_started_at
        computed = request.prefill_ended_at == request.prefill_ended_at
        if not under_way or (computed and not self._pending.get(request)):
            self._leave_prefill(request)
