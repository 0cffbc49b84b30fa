"""The first model: a prefill and a decode instance behind a gateway, deterministic for a scenario and a seed."""

from __future__ import annotations

from math import log
from random import Random

from pdscope.demo.agenda import Agenda
from pdscope.demo.decode import DecodeBatch
from pdscope.demo.link import Link
from pdscope.demo.prefill import PrefillServer
from pdscope.demo.scenario import Scenario
from pdscope.demo.timeline import DecodeInstance, PrefillInstance, Request


class Simulation:
    """A deployment in simulated time. Nothing happens but in `advance`.

    Args:
        scenario: what is asked and what serves it.
        seed: of the traffic and of the jitter. With the same workload the same seed asks the same of every
            scenario.
    """

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario = scenario
        self._agenda = Agenda()
        self._traffic = Random(f"{seed}/traffic")
        self._population = 0
        self._arrived = 0
        self._refused = 0
        machines = scenario.machines
        link = Link(self._agenda, scenario.link_bytes_per_second, machines.link_latency_seconds)
        self._decode = DecodeBatch(
            self._agenda, machines, Random(f"{seed}/steps"), allocated=self._bootstrap, left=self._leave
        )
        self._prefill = PrefillServer(
            self._agenda, machines, scenario.workload.shared_prompt_tokens, link, delivered=self._decode.receive
        )
        self._await_next()

    @property
    def prefill(self) -> PrefillInstance:
        """The prefill instance, to be watched."""
        return self._prefill

    @property
    def decode(self) -> DecodeInstance:
        """The decode instance, to be watched."""
        return self._decode

    @property
    def now_seconds(self) -> float:
        """Simulated seconds since the start."""
        return self._agenda.now_seconds

    @property
    def population(self) -> int:
        """Requests that the gateway has let in and that have not had their last token."""
        return self._population

    @property
    def arrived(self) -> int:
        """Requests that have come to the gateway."""
        return self._arrived

    @property
    def refused(self) -> int:
        """Requests that the gateway has turned away at its concurrency limit."""
        return self._refused

    def advance(self, to_seconds: float) -> None:
        """Lets everything happen up to and including `to_seconds`.

        Raises:
            ValueError: `to_seconds` has passed.
        """
        self._agenda.run(to_seconds)

    def _await_next(self) -> None:
        rate = self.scenario.workload.arrivals_per_second
        self._agenda.after(self._traffic.expovariate(rate), self._arrive)

    def _arrive(self) -> None:
        request = self._draw_request()
        self._arrived += 1
        if self._population >= self.scenario.workload.concurrency_limit:
            self._refused += 1
        else:
            self._population += 1
            self._prefill.accept(request)
            self._decode.accept(request)
        self._await_next()

    def _draw_request(self) -> Request:
        workload, machines = self.scenario.workload, self.scenario.machines
        own_tokens = self._lognormal(workload.own_prompt_tokens_mean, workload.own_prompt_sigma)
        prompt_tokens = min(workload.shared_prompt_tokens + max(1, own_tokens), workload.prompt_tokens_limit)
        output_tokens = self._lognormal(workload.output_tokens_mean, workload.output_sigma)
        return Request(
            number=self._arrived,
            prompt_tokens=prompt_tokens,
            output_tokens=min(max(2, output_tokens), workload.output_tokens_limit),
            is_streaming=self._traffic.random() < workload.streaming_share,
            kv_bytes=machines.pages(prompt_tokens) * machines.page_tokens * machines.kv_bytes_per_token,
            arrived_at=self._agenda.now_seconds,
        )

    def _lognormal(self, mean: float, sigma: float) -> int:
        return round(self._traffic.lognormvariate(log(mean) - sigma**2 / 2, sigma))

    def _bootstrap(self, request: Request) -> None:
        self._prefill.bootstrapped(request)

    def _leave(self) -> None:
        self._population -= 1
