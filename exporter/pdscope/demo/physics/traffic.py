"""Arrivals and lengths: Poisson with bursts, or a closed loop; lognormal prompts and answers; groups of prefixes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from math import inf, log
from random import Random

from pdscope.demo.physics.clock import Clock
from pdscope.demo.physics.draw import Traffic
from pdscope.demo.physics.request import Request

_LOOK_SECONDS = 1.0
"""So often somebody who waits longer than that looks whether the rate is another now."""


class Users:
    """Sends requests. In open arrivals neither moments nor lengths hang on what the deployment does with them.

    Args:
        clock: simulated time.
        traffic: what is asked.
        seed: of everything here.
        send: takes a request that has just come into being.
    """

    def __init__(self, clock: Clock, traffic: Traffic, seed: int, send: Callable[[Request], None]) -> None:
        self._clock = clock
        self._traffic = traffic
        self._send = send
        self._arrivals = Random(f"{seed} arrivals")
        self._lengths = Random(f"{seed} lengths")
        self._popularity = list(accumulate(1.0 / (rank + 1) for rank in range(max(1, traffic.groups))))
        self._phase_ends_at = 0.0
        self._factor = 1.0
        self._in_burst = True
        self._next_at = self._drawn_rate = 0.0
        self.sent = 0

    def start(self) -> None:
        """Begins at the present."""
        users = self._traffic.concurrency
        if users is None:
            self._expect()
            return
        for _ in range(users):
            self._clock.after(self._arrivals.random() * 0.5, self._ask)

    def answered(self) -> None:
        """One request is over: in a closed loop, its user asks again."""
        if self._traffic.concurrency is not None:
            self._clock.after(0.0, self._ask)

    def _expect(self) -> None:
        """Draws the moment of the next request."""
        self._next_at = self._next_arrival()
        self._drawn_rate = self._rate
        self._wait()

    def _wait(self) -> None:
        self._clock.at(min(self._next_at, self._clock.now_seconds + _LOOK_SECONDS), self._look)

    def _look(self) -> None:
        """Arrivals have no memory, so another rate in the meantime is another draw from now on."""
        if self._rate != self._drawn_rate:
            self._expect()
        elif self._clock.now_seconds < self._next_at:
            self._wait()
        else:
            self._ask()
            self._expect()

    @property
    def _rate(self) -> float:
        """Requests a second in the present phase."""
        return self._traffic.requests_per_second * self._factor

    def _next_arrival(self) -> float:
        now = self._clock.now_seconds
        if self._traffic.requests_per_second <= 0.0:
            return inf
        while True:
            if now >= self._phase_ends_at:
                self._switch(now)
            arrival = now + self._arrivals.expovariate(self._rate) if self._rate > 0.0 else self._phase_ends_at
            if arrival < self._phase_ends_at:
                return arrival
            now = self._phase_ends_at

    def _switch(self, now: float) -> None:
        traffic = self._traffic
        factor, share = traffic.burst_factor, traffic.burst_share
        if factor <= 1.0:
            self._phase_ends_at = inf
            return
        self._in_burst = not self._in_burst
        mean_seconds = traffic.burst_seconds if self._in_burst else traffic.burst_seconds * (1.0 - share) / share
        calm = max(0.0, (1.0 - factor * share) / (1.0 - share))
        self._factor = factor if self._in_burst else calm
        self._phase_ends_at = now + self._arrivals.expovariate(1.0 / mean_seconds)

    def _ask(self) -> None:
        traffic, lengths = self._traffic, self._lengths
        prompt = self._length(traffic.prompt_tokens, traffic.prompt_sigma, traffic.prompt_limit)
        output = self._length(traffic.output_tokens, traffic.output_sigma, traffic.output_limit)
        group = lengths.choices(range(len(self._popularity)), cum_weights=self._popularity)[0]
        request = Request(
            number=self.sent,
            prompt_tokens=prompt,
            output_tokens=output,
            group=group,
            shared_tokens=min(traffic.shared_tokens, prompt - 1),
            is_orphan=lengths.random() < traffic.orphan_share,
            arrived_at=self._clock.now_seconds,
        )
        self.sent += 1
        self._send(request)

    def _length(self, mean: float, sigma: float, limit: int) -> int:
        drawn = self._lengths.lognormvariate(log(mean) - sigma * sigma / 2.0, sigma)
        return max(2, min(limit, round(drawn)))
