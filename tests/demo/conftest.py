"""A simulated deployment whose every event is kept, and its pages as a scraper reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from pdscope.demo.scenario import SCENARIOS, Scenario
from pdscope.demo.sglang_decode import SglangDecode
from pdscope.demo.sglang_prefill import SglangPrefill
from pdscope.demo.sglang_server import SglangServer
from pdscope.demo.simulation import Simulation
from pdscope.demo.timeline import Batch, Request


@dataclass
class PrefillLog:
    """What a prefill instance has told."""

    accepted_requests: list[Request] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    done_batches: list[Batch] = field(default_factory=list)
    transfers: list[Request] = field(default_factory=list)

    def accepted(self, request: Request, /) -> None:
        self.accepted_requests.append(request)

    def batch_started(self, batch: Batch) -> None:
        self.batches.append(batch)

    def batch_finished(self, batch: Batch) -> None:
        self.done_batches.append(batch)

    def transferred(self, request: Request) -> None:
        self.transfers.append(request)


@dataclass
class DecodeLog:
    """What a decode instance has told."""

    accepted_requests: list[Request] = field(default_factory=list)
    allocations: list[Request] = field(default_factory=list)
    arrivals: list[Request] = field(default_factory=list)
    admissions: list[Request] = field(default_factory=list)
    steps: list[Batch] = field(default_factory=list)
    answers: list[Request] = field(default_factory=list)

    def accepted(self, request: Request, /) -> None:
        self.accepted_requests.append(request)

    def allocated(self, request: Request) -> None:
        self.allocations.append(request)

    def received(self, request: Request) -> None:
        self.arrivals.append(request)

    def joined(self, request: Request) -> None:
        self.admissions.append(request)

    def stepped(self, step: Batch) -> None:
        self.steps.append(step)

    def finished(self, request: Request) -> None:
        self.answers.append(request)


class Rig:
    """A simulation with its two servers and a log of each instance."""

    def __init__(self, scenario: Scenario, seed: int = 0) -> None:
        self.scenario = scenario
        self.simulation = Simulation(scenario, seed)
        self.prefill_log = PrefillLog()
        self.decode_log = DecodeLog()
        self.simulation.prefill.watch(self.prefill_log)
        self.simulation.decode.watch(self.decode_log)
        self.prefill = SglangPrefill(self.simulation.prefill, scenario.machines)
        self.decode = SglangDecode(self.simulation.decode, scenario.machines)

    @property
    def servers(self) -> tuple[SglangServer, SglangServer]:
        return (self.prefill, self.decode)


class Page:
    """The samples of a page, read line by line: the official parser takes a tenth of a second for one."""

    def __init__(self, server: SglangServer) -> None:
        lines = server.metrics().splitlines()
        self.kinds = dict(line.split(" ")[2:4] for line in lines if line.startswith("# TYPE"))
        self.samples: dict[str, float] = {}
        for line in lines:
            if not line.startswith("#"):
                series, _, value = line.rpartition(" ")
                assert series not in self.samples
                self.samples[series] = float(value)

    def values(self, name: str, **labels: str) -> list[float]:
        """Values of the samples `sglang:<name>` that have these labels."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        return [
            value
            for series, value in self.samples.items()
            if series.partition("{")[0] == f"sglang:{name}" and all(label in series for label in wanted)
        ]

    def value(self, name: str, **labels: str) -> float:
        """The only such value."""
        (value,) = self.values(name, **labels)
        return value


@pytest.fixture(scope="session")
def rig() -> type[Rig]:
    """`rig(scenario, seed)`: a fresh simulation."""
    return Rig


@pytest.fixture(scope="session")
def page() -> type[Page]:
    """`page(server)`: what it exports now."""
    return Page


@pytest.fixture(scope="session")
def long_run() -> Callable[[str], Rig]:
    """`long_run(scenario name)`: eleven minutes of it, for looking at only."""
    runs: dict[str, Rig] = {}

    def run(name: str) -> Rig:
        if name not in runs:
            runs[name] = Rig(SCENARIOS[name])
            runs[name].simulation.advance(660.0)
        return runs[name]

    return run
