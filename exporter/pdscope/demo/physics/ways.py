"""How a request goes through a deployment: SGLang pushes, vLLM pulls, a unified instance does neither."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from pdscope.demo.physics.clock import Appointment
from pdscope.demo.physics.request import End, Request

if TYPE_CHECKING:
    from pdscope.demo.physics.simulation import Simulation


class Way(Protocol):
    """Reacts to what the instances report."""

    def start(self, request: Request) -> None:
        """The router has passed `request` on."""

    def computed(self, request: Request, tokens: int, is_last: bool) -> None:  # noqa: FBT001 - a callback
        """Prefill has computed a part of it: so many tokens can be sent."""

    def rejected(self, request: Request) -> None:
        """Prefill's pool could never hold it."""

    def allocated(self, request: Request) -> None:
        """Decode has memory for it."""

    def over(self, request: Request, is_whole: bool) -> None:  # noqa: FBT001 - a callback
        """Decode has given its last token, or can never hold it."""


class UnifiedWay:
    """One instance computes the prompt and the answer."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def start(self, request: Request) -> None:
        """To the tokenizer of the instance."""
        router = self._simulation.router
        router.tokenize(request, router.decode_tokenizers[request.decode], partial(self._offer, request))

    def computed(self, request: Request, tokens: int, is_last: bool) -> None:  # noqa: ARG002, FBT001 - a callback
        """Cannot be."""
        raise AssertionError(f"request {request.number}: there is no prefill instance")

    def rejected(self, request: Request) -> None:
        """Cannot be."""
        raise AssertionError(f"request {request.number}: there is no prefill instance")

    def allocated(self, request: Request) -> None:
        """Cannot be."""
        raise AssertionError(f"request {request.number}: its KV does not come from elsewhere")

    def over(self, request: Request, is_whole: bool) -> None:  # noqa: FBT001 - a callback
        """It has its last token, or can never have memory."""
        self._simulation.end(request, End.FINISHED if is_whole else End.TOO_LONG)

    def _offer(self, request: Request) -> None:
        request.decode_arrived_at = self._simulation.now_seconds
        self._simulation.observer.stamped(request, "decode_arrived_at")
        self._simulation.decodes[request.decode].offer(request)


class ApartWay:
    """What both ways with prefill and decode apart have in common."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._connected: dict[tuple[int, int], float] = {}
        self._timers: dict[Request, Appointment] = {}
        self._on_prefill: set[Request] = set()

    def _stamp(self, request: Request, stamp: str) -> None:
        setattr(request, stamp, self._simulation.now_seconds)
        self._simulation.observer.stamped(request, stamp)

    def _reaches_prefill(self, request: Request, refused: Callable[[Request], None]) -> bool:
        """Whether the prefill instance of `request` lives; else `refused` is called once that is noticed."""
        if request.prefill not in self._simulation.draw.deployment.dead_prefills:
            return True
        self._simulation.clock.after(self._simulation.draw.link.failure_seconds, partial(refused, request))
        return False

    def _handshake_seconds(self, request: Request) -> float:
        """What is left of the pair's set-up, which the first request began, and this request's own messages."""
        link, now = self._simulation.draw.link, self._simulation.now_seconds
        ready_at = self._connected.setdefault((request.prefill, request.decode), now + link.handshake_seconds)
        return max(0.0, ready_at - now) + link.bootstrap_seconds

    def _set_timer(self, request: Request, seconds: float, end: End) -> None:
        self._stop_timer(request)
        self._timers[request] = self._simulation.clock.after(seconds, partial(self._expired, request, end))

    def _stop_timer(self, request: Request) -> None:
        timer = self._timers.pop(request, None)
        if timer is not None:
            timer.cancel()

    def _expired(self, request: Request, end: End) -> None:
        """The timer of `request` has run down; each engine has its own way of giving up."""
        raise AssertionError(f"request {request.number}: nobody waits for {end}")

    def _leave_prefill(self, request: Request) -> None:
        """Prefill may forget `request`; only once."""
        if request in self._on_prefill:
            self._on_prefill.remove(request)
            self._simulation.prefills[request.prefill].release(request)
            self._simulation.router.leave_prefill(request)
