"""`source: nvml` and `pdscope agent`: the devices of this host, sampled once for all who ask. In simulated time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from pdscope.collect.poller import Poller
from pdscope.config import Config, parse_config
from pdscope.model.finding import Truth, Verdict
from pdscope.model.report import Report
from pdscope.model.scrape import FailureReason
from pdscope.model.signal import SignalId, instance_scope
from pdscope.runtime.agent import create_agent
from pdscope.runtime.local_devices import LocalDevices
from pdscope.runtime.plugins import check, load_plugins
from pdscope.runtime.targets import make_targets, sort_out
from pdscope.runtime.watch import Watch
from pdscope.sources.bundle import PageKind
from pdscope.sources.http import Fetcher
from pdscope.sources.nvml.page import render_page
from pdscope.sources.nvml.snapshot import (
    DeviceSample,
    Identity,
    Process,
    Readings,
    Reason,
    Signal,
    Snapshot,
    SourceReason,
)
from support.simulated_time import SIMULATED, START_UNIX_SECONDS, simulated_clock

PLUGINS = load_plugins()
GPM = {Signal.SM_ACTIVE: 0.4, Signal.TENSOR_ACTIVE: 0.06, Signal.HBM_BANDWIDTH: 0.78}
COARSE = {Signal.BUSY: 1.0, Signal.MEMORY_USED: 70e9, Signal.MEMORY_TOTAL: 80e9}


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """A minute passes at once."""
    return SIMULATED


def device(index: int, values: Mapping[Signal, float], *ports: int) -> DeviceSample:
    missing = {signal: Reason.UNSUPPORTED for signal in Signal if signal not in values}
    identity = Identity(f"GPU-{index}", index, "NVIDIA H200")
    return DeviceSample(identity, up=True, readings=Readings(values, missing), processes=(Process(1, "engine", ports),))


@dataclass(slots=True)
class Samples:
    """A sampler that says what it is told to."""

    devices: tuple[DeviceSample, ...] = ()
    reason: SourceReason | None = None
    calls: list[str] = field(default_factory=list)

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def latest(self) -> Snapshot:
        at = START_UNIX_SECONDS + asyncio.get_running_loop().time()
        return Snapshot(at, "node-a", self.reason, self.devices)


def config_of(*devices: dict[str, Any]) -> Config:
    instances = [
        {"name": "d0", "role": "decode", "engine": "vllm", "url": "http://127.0.0.1:30000"},
        {"name": "d1", "role": "decode", "engine": "vllm", "url": "http://127.0.0.1:30001"},
    ]
    deployment = {"name": "pd", "slo": {"itl_p50": "1ms"}, "instances": instances, "devices": list(devices)}
    config = parse_config(json.dumps({"deployments": [deployment]}), Path("/"), file="test")
    check(config, PLUGINS)
    return config


async def report_of(config: Config, samples: Samples, seconds: float = 65.0) -> tuple[Report, Watch]:
    clock = simulated_clock()
    watch = Watch(config, PLUGINS)
    polled, unreadable = sort_out(config, PLUGINS)
    assert not unreadable
    async with Fetcher(monotonic=clock.monotonic) as fetcher:
        with LocalDevices(samples).open() as local:
            targets = make_targets(polled, watch, fetcher, clock, local)
            own = [target for target in targets if target.name.startswith("gpus")]
            polling = asyncio.create_task(Poller(own, clock=clock).run())
            await asyncio.sleep(seconds)
            polling.cancel()
    return watch.report(clock.wall()), watch


BOTH = {"name": "gpus", "source": "nvml", "serves": [{"instance": "d0"}, {"instance": "d1"}]}


async def test_devices_go_to_the_instances_whose_processes_use_them() -> None:
    """By the ports on which those, or an ancestor, listen; nothing was configured but the source."""
    busy = {**GPM, Signal.HBM_BANDWIDTH: 0.2}
    samples = Samples((device(0, GPM, 30000), device(1, busy, 30001), device(2, busy, 30001), device(3, busy)))
    report, _ = await report_of(config_of(BOTH), samples)
    signals = report.deployments[0].signals
    assert signals.value(SignalId.HBM_UTILIZATION, instance_scope("d0")) == pytest.approx(0.78)
    assert signals.value(SignalId.HBM_UTILIZATION, instance_scope("d1")) == pytest.approx(0.2)
    assert samples.calls == ["start", "stop"]


async def test_the_hardware_is_what_the_devices_call_themselves() -> None:
    """Without a word in the configuration."""
    samples = Samples((device(0, GPM, 30000),))
    report, _ = await report_of(config_of({"name": "gpus", "source": "nvml", "instance": "d0"}), samples)
    hardware = report.deployments[0].deployment.instances[0].hardware
    assert hardware is not None
    assert (hardware.name, hardware.achievable_hbm_fraction) == ("H200 SXM", 0.875)


async def test_busy_fractions_alone_give_no_verdict_on_memory() -> None:
    """Acceptance test: a device without GPM that is busy all the time leaves the bandwidth unknown."""
    samples = Samples((device(0, COARSE, 30000),))
    report, _ = await report_of(config_of({"name": "gpus", "source": "nvml", "instance": "d0"}), samples)
    found = report.deployments[0]
    assert found.signals.value(SignalId.DEVICE_BUSY, instance_scope("d0")) == 1.0
    assert found.signals.get(SignalId.HBM_UTILIZATION, instance_scope("d0")) is None
    assert found.diagnosis.verdict is not Verdict.DECODE_HBM_BANDWIDTH
    judged = [f for f in found.diagnosis.findings if f.rule == "decode_hbm_bandwidth"]
    assert all(f.truth is not Truth.TRUE for f in judged)


@pytest.mark.parametrize("reason", [SourceReason.LIBRARY_NOT_FOUND, SourceReason.GPU_LOST, SourceReason.FAILED])
async def test_a_host_without_data_is_a_failure_with_its_reason(reason: SourceReason) -> None:
    """And data again are data again."""
    config = config_of({"name": "gpus", "source": "nvml", "instance": "d0"})
    samples = Samples(reason=reason)
    report, watch = await report_of(config, samples)
    (state,) = [target for target in report.targets if target.target == "gpus"]
    assert (state.up, state.source) == (False, "nvml")
    assert set(state.failures) == {FailureReason.UNAVAILABLE}
    back = render_page(Snapshot(START_UNIX_SECONDS + 70, "node-a", None, (device(0, GPM, 30000),)))
    assert watch.feed("gpus", PageKind.METRICS, back, START_UNIX_SECONDS + 70)[0].ok


async def test_a_sampler_that_has_just_begun_has_not_failed() -> None:
    """Rates take two samples."""
    config = config_of({"name": "gpus", "source": "nvml", "instance": "d0"})
    report, _ = await report_of(config, Samples(reason=SourceReason.NOT_STARTED))
    assert all(target.up for target in report.targets if target.target == "gpus")


async def test_the_agent_serves_the_same_page() -> None:
    """For a daemon elsewhere; a host without devices says why."""
    local = LocalDevices(Samples((device(0, GPM, 30000),)))
    transport = httpx.ASGITransport(app=create_agent(local))
    async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
        answer = await client.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert 'pdscope_device_hbm_bandwidth_utilization_ratio{device="GPU-0"' in answer.text
        assert (await client.get("/-/healthy")).status_code == 200
    config = config_of({"name": "gpus", "source": "pdscope", "url": "http://agent/metrics", "instance": "d0"})
    watch = Watch(config, PLUGINS)
    for second in (0, 5):
        watch.feed("gpus", PageKind.METRICS, answer.content, START_UNIX_SECONDS + second)
    report = watch.report(START_UNIX_SECONDS + 5)
    hbm = report.deployments[0].signals.value(SignalId.HBM_UTILIZATION, instance_scope("d0"))
    assert hbm == pytest.approx(0.78)


async def test_nobody_asked_nothing_started() -> None:
    """A configuration without local devices costs no thread."""
    samples = Samples()
    with LocalDevices(samples).open():
        pass
    assert samples.calls == []
