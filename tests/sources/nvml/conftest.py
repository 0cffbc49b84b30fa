"""A sampler on the double, driven by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pdscope.sources.nvml.page import render_page
from pdscope.sources.nvml.sampler import Sampler
from pdscope.sources.nvml.snapshot import DeviceSample, Reason, Signal, Snapshot
from support.nvml_double.double import Double, build, compiler

WALL = 1_800_000_000.0


@dataclass
class Rig:
    """The double, a clock that stands still, and the sampler between them."""

    double: Double
    proc: Path
    now: float = 1000.0
    sampler: Sampler = field(init=False)

    def __post_init__(self) -> None:
        self.sampler = Sampler(monotonic=lambda: self.now, wall=lambda: WALL + self.now, host="node-a", proc=self.proc)

    def poll(self, seconds: float = 0.0) -> Snapshot:
        """One poll so many seconds later."""
        self.now += seconds
        return self.sampler.poll()

    def device(self, number: int = 0) -> DeviceSample:
        """A device of the newest snapshot."""
        return self.sampler.latest().devices[number]

    def value(self, signal: Signal, number: int = 0) -> float | None:
        """What a device says now."""
        return self.device(number).readings.values.get(signal)

    def missing(self, signal: Signal, number: int = 0) -> Reason | None:
        """Why it does not."""
        return self.device(number).readings.missing.get(signal)

    def samples(self) -> list[tuple[str, dict[str, str], float]]:
        """The newest page as the official parser reads it."""
        text = render_page(self.sampler.latest()).decode()
        return [(s.name, s.labels, s.value) for f in text_string_to_metric_families(text) for s in f.samples]


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The double: as it is, of a driver before GPM, and of a library whose driver was upgraded."""
    if compiler() is None:
        pytest.skip("no C compiler (cc) on the PATH: the double of libnvidia-ml.so.1 cannot be built")
    variants = {"plain": (), "old": ("-DOLD_DRIVER",), "stale": ("-DSTALE",)}
    return {name: build(tmp_path_factory.mktemp(f"nvml-{name}"), *switches) for name, switches in variants.items()}


@pytest.fixture(scope="session")
def library(builds: dict[str, Path]) -> Double:
    """The plain build, loaded into this process: from here on pynvml finds it by its SONAME."""
    return Double(builds["plain"])


@pytest.fixture
def double(library: Double) -> Iterator[Double]:
    """Two H200 as new; after the test nothing of the driver's is left over."""
    library.load(2)
    yield library
    assert library.live_samples() == 0
    assert library.live_event_sets() == 0


@pytest.fixture
def rig(double: Double, tmp_path: Path) -> Iterator[Rig]:
    """A sampler on two devices, not polled yet."""
    rig = Rig(double, tmp_path)
    yield rig
    rig.sampler.close()
    assert double.initialised() == 0
