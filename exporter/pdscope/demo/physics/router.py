"""The way to an instance: the router's own queue, the choice of instances, and a tokenizer at each of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pdscope.demo.physics.clock import Clock, Level
from pdscope.demo.physics.draw import Frontend
from pdscope.demo.physics.request import Request

_HASH = 2654435761
"""Knuth's multiplier: groups of neighbouring numbers go to unlike places."""


class Server:
    """One process that serves one thing after the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._free_at = 0.0
        self.busy_seconds = 0.0
        self.waiting = Level(clock)

    def serve(self, seconds: float, then: Callable[[], None]) -> None:
        """Calls `then` when `seconds` of work have been done, after all that came before."""
        start = max(self._clock.now_seconds, self._free_at)
        self._free_at = start + seconds
        self.busy_seconds += seconds
        self.waiting.add()
        self._clock.at(self._free_at, partial(self._done, then))

    def _done(self, then: Callable[[], None]) -> None:
        self.waiting.drop()
        then()


class Router:
    """Chooses the least loaded instance of each role, or, for a share of the requests, the one of their prefix.

    Args:
        clock: simulated time.
        settings: its cost, and the share.
        prefill: how many prefill instances; `decode` likewise (unified instances count as decode).
    """

    def __init__(self, clock: Clock, settings: Frontend, prefill: int, decode: int) -> None:
        self._settings = settings
        self.server = Server(clock)
        self.prefill_tokenizers = [Server(clock) for _ in range(prefill)]
        self.decode_tokenizers = [Server(clock) for _ in range(decode)]
        self.prefill_load = [Level(clock) for _ in range(prefill)]
        self.decode_load = [Level(clock) for _ in range(decode)]
        self.routed = 0

    def route(self, request: Request, then: Callable[[], None]) -> None:
        """Chooses the instances of `request`; `then` is called when the router has passed it on."""
        self.server.serve(self._settings.router_seconds, partial(self._choose, request, then))

    def tokenize(self, request: Request, server: Server, then: Callable[[], None]) -> None:
        """Tokenises the prompt at `server`."""
        server.serve(request.prompt_tokens * self._settings.tokenize_seconds_per_token, then)

    def leave_prefill(self, request: Request) -> None:
        """Its prefill leg is over."""
        self.prefill_load[request.prefill].drop()

    def leave_decode(self, request: Request) -> None:
        """Its decode leg is over."""
        self.decode_load[request.decode].drop()

    def _choose(self, request: Request, then: Callable[[], None]) -> None:
        # Whether a request has affinity is fixed by its number, so that a run with another share differs in it alone.
        sticks = (request.number * _HASH % 2**32) / 2**32 < self._settings.affinity
        key = request.group * _HASH % 2**32 >> 8 if sticks else None
        if self.prefill_load:
            request.prefill = _pick(self.prefill_load, key, request.number)
            self.prefill_load[request.prefill].add()
        request.decode = _pick(self.decode_load, key, request.number)
        self.decode_load[request.decode].add()
        self.routed += 1
        then()


def _pick(loads: list[Level], key: int | None, number: int) -> int:
    if key is not None:
        return key % len(loads)
    turned = [(index + number) % len(loads) for index in range(len(loads))]
    return min(turned, key=lambda index: loads[index].value)
