"""Simulated deployments, one a scenario, that can be scraped over HTTP, and the configuration that points at them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import yaml

from pdscope.demo.http_server import listen
from pdscope.demo.scenario import KV, MODEL_NAME, SCENARIOS, Scenario
from pdscope.demo.sglang_decode import SglangDecode
from pdscope.demo.sglang_http import SglangHttp
from pdscope.demo.sglang_prefill import SglangPrefill
from pdscope.demo.sglang_server import SglangServer
from pdscope.demo.simulation import Simulation
from pdscope.errors import UsageError

WARM_UP_SECONDS = 120.0
"""Simulated before the first scrape, so that queues stand where they belong."""
_SCRAPE_SECONDS = 2
_WINDOW_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A simulated server: the name, role and engine of its instance in the configuration, and where it listens."""

    name: str
    role: str
    engine: str
    url: str


class DemoDeployment:
    """An async context manager that serves scenarios side by side, each as a deployment of its own, all at once.

    Simulated time follows `clock` from the moment of entering on; a server catches up when it is asked.

    Args:
        scenarios: names out of `SCENARIOS`; none means all.
        seed: of traffic and jitter.
        clock: monotonic seconds.
        switch_seconds: how long `current` stays with one scenario.
        speed: simulated seconds a second of `clock`.
        wall_clock: unix seconds, shown by `/v1/loads`.

    Raises:
        UsageError: there is no scenario of that name, or it is named twice.
    """

    def __init__(
        self,
        scenarios: Sequence[str] = (),
        *,
        seed: int = 0,
        clock: Callable[[], float],
        switch_seconds: float = 120.0,
        speed: float = 1.0,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._scenarios = _chosen(scenarios)
        self._seed = seed
        self._clock = clock
        self._switch_seconds = switch_seconds
        self._speed = speed
        self._wall_clock = wall_clock
        self._started_at = clock()
        self._stack = AsyncExitStack()
        self._endpoints: dict[str, tuple[Endpoint, ...]] = {}

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            plants = [_Plant(Simulation(scenario, self._seed), self._simulated_seconds) for scenario in self._scenarios]
            self._started_at = self._clock()
            for plant in plants:
                self._endpoints[plant.scenario.name] = await plant.serve(stack, self._wall_clock)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._endpoints.clear()
        await self._stack.aclose()

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """All servers, scenario by scenario; empty while not entered."""
        return tuple(endpoint for endpoints in self._endpoints.values() for endpoint in endpoints)

    @property
    def current(self) -> Scenario:
        """The scenario to tell of now. All of them run all the time; a terminal shows one after the other."""
        turns = int((self._clock() - self._started_at) / self._switch_seconds)
        return self._scenarios[turns % len(self._scenarios)]

    def config_text(self) -> str:
        """A configuration of pdscope, YAML, with a deployment for every scenario.

        Raises:
            RuntimeError: not entered, so that there are no addresses.
        """
        if not self._endpoints:
            raise RuntimeError("the demo has no addresses before it is entered")
        config = {
            "scrape": {"interval": f"{_SCRAPE_SECONDS}s", "timeout": f"{_SCRAPE_SECONDS}s"},
            "window": f"{_WINDOW_SECONDS}s",
            "deployments": [_deployment(scenario, self._endpoints[scenario.name]) for scenario in self._scenarios],
        }
        return yaml.safe_dump(config, sort_keys=False, width=110)

    def _simulated_seconds(self) -> float:
        return WARM_UP_SECONDS + (self._clock() - self._started_at) * self._speed


class _Plant:
    """One simulation and its two servers, warmed up."""

    def __init__(self, simulation: Simulation, simulated_seconds: Callable[[], float]) -> None:
        self.scenario = simulation.scenario
        self._simulation = simulation
        self._simulated_seconds = simulated_seconds
        machines = self.scenario.machines
        self._servers: dict[str, SglangServer] = {
            "p0": SglangPrefill(simulation.prefill, machines),
            "d0": SglangDecode(simulation.decode, machines),
        }
        simulation.advance(WARM_UP_SECONDS)

    async def serve(self, stack: AsyncExitStack, wall_clock: Callable[[], float]) -> tuple[Endpoint, ...]:
        """Lets both servers listen until `stack` is left."""
        endpoints = []
        for short_name, server in self._servers.items():
            pages = SglangHttp(server, self._catch_up, wall_clock)
            url = await stack.enter_async_context(listen(pages))
            name = f"{self.scenario.name}-{short_name}"
            endpoints.append(Endpoint(name, server.role.value, "sglang", url))
        return tuple(endpoints)

    def _catch_up(self) -> None:
        self._simulation.advance(self._simulated_seconds())


def _chosen(names: Sequence[str]) -> tuple[Scenario, ...]:
    for place, name in enumerate(names):
        if name not in SCENARIOS:
            raise UsageError(f"no scenario is called {name!r}; there are: {', '.join(SCENARIOS)}")
        if name in names[:place]:
            raise UsageError(f"scenario {name!r} is named twice")
    return tuple(SCENARIOS[name] for name in names or SCENARIOS)


def _deployment(scenario: Scenario, endpoints: tuple[Endpoint, ...]) -> dict[str, Any]:
    return {
        "name": f"demo-{scenario.name}",
        "model": {
            "name": MODEL_NAME,
            "kv": {
                "attention": KV.attention.value,
                "layers": KV.layers,
                "kv_heads": KV.kv_heads,
                "head_dim": KV.head_dim,
                "bytes_per_element": KV.bytes_per_element,
            },
        },
        "slo": {"ttft_p50": "2s", "itl_p50": "40ms"},
        "interconnect": {
            "bandwidth": f"{scenario.link_bytes_per_second / 1e9:g}GB/s",
            "direction": "unidirectional",
            "scope": "total",
            "efficiency": 1.0,
        },
        "instances": [
            {
                "name": endpoint.name,
                "role": endpoint.role,
                "engine": endpoint.engine,
                "url": endpoint.url,
                "tp": scenario.machines.tensor_parallel,
            }
            for endpoint in endpoints
        ],
    }
