"""The device exporter's pages: labels and kinds as recorded, values of the simulated devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pdscope.demo.physics.draw import Deployment, Draw, Prefill, Traffic

from .conftest import Rig, Text

_BEYOND = frozenset(
    f"DCGM_FI_{name}"
    for name in ("PROF_SM_ACTIVE", "DEV_MAX_SM_CLOCK", "DEV_ENFORCED_POWER_LIMIT", "DEV_CLOCKS_EVENT_REASONS")
)
_HEALTHY = Draw(traffic=Traffic(requests_per_second=3.0))
_PROF = ("GR_ENGINE_ACTIVE", "SM_ACTIVE", "PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE")


def test_page_is_as_recorded(rig: type[Rig], recorded: Callable[[str], str]) -> None:
    """All families of the recorded page with their kinds and the names of their labels, in the same order."""
    body = rig(_HEALTHY).run(20.0).body("gpu-node0").decode()
    ours, real = Text(body), Text(recorded("dcgm_t4_2gpu_fake-gpu-operator.txt"))
    assert set(real.families) <= set(ours.families)
    assert set(ours.families) - set(real.families) == _BEYOND
    for name, family in real.families.items():
        assert ours.families[name].kind == family.kind
        names = {frozenset(label for label, _ in key) for key in family.series}
        assert {frozenset(label for label, _ in key) for key in ours.families[name].series} == names
    order = [part.split("=")[0] for part in body.split("DCGM_FI_DEV_SM_CLOCK{")[1].split("}")[0].split(",")]
    wanted = recorded("dcgm_t4_2gpu_fake-gpu-operator.txt").split("DCGM_FI_DEV_SM_CLOCK{")[1].split("}")[0].split(",")
    assert order == [part.split("=")[0] for part in wanted]


def test_a_page_holds_all_devices_of_its_host(rig: type[Rig]) -> None:
    """Two instances of four share a host; one of sixteen fills two; none is split that need not be."""
    run = rig(Draw(deployment=Deployment(1, 2, prefill_devices=4, decode_devices=4)))
    assert [name for name in run.servers if name.startswith("gpu")] == ["gpu-node0", "gpu-node1"]
    pods = {
        gpu: run.text("gpu-node0").families["DCGM_FI_DEV_SM_CLOCK"] and pod
        for key in run.text("gpu-node0").families["DCGM_FI_DEV_SM_CLOCK"].series
        for gpu, pod in [(dict(key)["gpu"], dict(key)["pod"])]
    }
    assert pods == {**{str(gpu): "p0" for gpu in range(4)}, **{str(gpu): "d0" for gpu in range(4, 8)}}
    large = rig(Draw(deployment=Deployment(1, 1, prefill_devices=6, decode_devices=16)))
    assert [len(large.text(f"gpu-node{host}").families["DCGM_FI_DEV_SM_CLOCK"].series) for host in range(3)] == [
        6,
        8,
        8,
    ]


def test_ratios_are_means_of_what_the_devices_did(rig: type[Rig]) -> None:
    """Sampled every second, their mean is the increase of the counters over the time."""
    run = rig(_HEALTHY).run(30.0)
    before = run.simulation.decode_devices(0)[0]
    sums = dict.fromkeys(_PROF, 0.0)
    for _ in range(30):
        text = run.run(1.0).text("gpu-node0")
        for name in _PROF:
            sums[name] += text.value(f"DCGM_FI_PROF_{name}", gpu="4")
    after = run.simulation.decode_devices(0)[0]
    seconds = {
        "GR_ENGINE_ACTIVE": after.graphics_seconds - before.graphics_seconds,
        "SM_ACTIVE": after.sm_seconds - before.sm_seconds,
        "PIPE_TENSOR_ACTIVE": after.tensor_seconds - before.tensor_seconds,
        "DRAM_ACTIVE": after.dram_seconds - before.dram_seconds,
    }
    for name in _PROF:
        assert sums[name] == pytest.approx(seconds[name], rel=0.02), name
    assert sums["DRAM_ACTIVE"] > sums["PIPE_TENSOR_ACTIVE"]


def test_values_stand_still_between_two_samples(rig: type[Rig]) -> None:
    """However often the exporter is asked."""
    run = rig(_HEALTHY).run(10.1)
    first = run.body("gpu-node0")
    assert run.run(0.5).body("gpu-node0") == first
    assert run.run(0.5).body("gpu-node0") != first


def test_nic_traffic_goes_over_pcie(rig: type[Rig]) -> None:
    """Of one device on either side, as much is sent as is received."""
    run = rig(_HEALTHY).run(30.0)
    sent = received = 0.0
    before = run.simulation.network.sent_bytes(("prefill", 0))
    for _ in range(20):
        text = run.run(1.0).text("gpu-node0")
        sent += text.value("DCGM_FI_PROF_PCIE_TX_BYTES", gpu="0")
        received += text.value("DCGM_FI_PROF_PCIE_RX_BYTES", gpu="4")
    moved = (run.simulation.network.sent_bytes(("prefill", 0)) - before) / 4
    assert sent == pytest.approx(moved, rel=1e-3)
    assert received == pytest.approx(moved, rel=1e-3)


def test_a_slow_card_shows_its_clock(rig: type[Rig]) -> None:
    """Below the highest, with a reason; the other ranks wait for it."""
    text = rig(replace(_HEALTHY, prefill=Prefill(slow_rank=0.5))).run(20.0).text("gpu-node0")
    clock, reason = "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"
    assert [text.value(clock, gpu=gpu) for gpu in ("0", "1")] == [990.0, 1980.0]
    assert [text.value(reason, gpu=gpu) for gpu in ("0", "1")] == [32.0, 0.0]
    assert text.value("DCGM_FI_DEV_MAX_SM_CLOCK", gpu="0") == 1980.0


def test_idle_devices_draw_little(rig: type[Rig]) -> None:
    """And energy only grows."""
    run = rig(_HEALTHY)
    first = run.text("gpu-node0")
    assert first.value("DCGM_FI_DEV_GPU_UTIL", gpu="4") == 0
    busy = run.run(30.0).text("gpu-node0")
    assert busy.value("DCGM_FI_DEV_POWER_USAGE", gpu="4") > 2 * first.value("DCGM_FI_DEV_POWER_USAGE", gpu="4")
    assert busy.value("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", gpu="4") > 30 * 110e3
