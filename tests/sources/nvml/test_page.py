"""The page: what it says and does not say, escaping, and that official tools read it."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

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

from .conftest import Rig

NO_FAMILY = {Signal.PROCESSES, Signal.PORTS}
FULL = Snapshot(
    at=1_800_000_000.25,
    host="node-a",
    reason=None,
    devices=(
        DeviceSample(
            Identity("GPU-0", 0, "NVIDIA H200"),
            up=True,
            readings=Readings({signal: 0.5 for signal in Signal if signal not in NO_FAMILY}),
            processes=(Process(42, "worker", (30000, 8000)), Process(43, "worker", (8000,))),
        ),
        DeviceSample(
            Identity("MIG-1", 1, "NVIDIA H200 MIG 1g.18gb", "5"),
            up=True,
            readings=Readings({Signal.SM_ACTIVE: 0.0}, {Signal.BUSY: Reason.MIG}),
        ),
        DeviceSample(Identity("GPU-2", 2), up=False, readings=Readings(missing=dict.fromkeys(Signal, Reason.LOST))),
    ),
    invalid={"not_finite": 3},
)


def parsed(snapshot: Snapshot) -> list[tuple[str, dict[str, str], float]]:
    """Samples as the official parser finds them."""
    families = text_string_to_metric_families(render_page(snapshot).decode())
    return [(s.name, s.labels, s.value) for family in families for s in family.samples]


def test_golden(golden: Callable[[str, str], None]) -> None:
    """The whole page."""
    golden("nvml/page.prom", render_page(FULL).decode())


def test_every_signal_is_a_family() -> None:
    """Each has its sample, its unit in the name, and its help."""
    text = render_page(FULL).decode()
    for signal in set(Signal) - NO_FAMILY:
        assert f"# HELP pdscope_device_{signal} " in text
        kind = "counter" if signal.endswith("_total") else "gauge"
        assert f"# TYPE pdscope_device_{signal} {kind}\n" in text


def test_what_is_unknown_is_absent() -> None:
    """No zero, no NaN; the reason stands beside it."""
    samples = parsed(FULL)
    mig = {name: value for name, labels, value in samples if labels.get("device") == "MIG-1" and "index" in labels}
    assert mig == {"pdscope_device_sm_active_ratio": 0.0, "pdscope_device_up": 1.0}
    said = {
        labels["signal"]: (labels["reason"], value)
        for name, labels, value in samples
        if name == "pdscope_device_signal_available" and labels["device"] == "MIG-1"
    }
    assert said.keys() == set(Signal)
    assert said["busy_ratio"] == ("mig", 0)
    assert said["sm_active_ratio"] == ("", 1)
    assert not any(math.isnan(value) for _, _, value in samples)


def test_labels() -> None:
    """Ports in the order of numbers, each once; `mig` for MIG devices only."""
    up = [labels for name, labels, _ in parsed(FULL) if name == "pdscope_device_up"]
    assert up[0] == {
        "device": "GPU-0",
        "index": "0",
        "host": "node-a",
        "model": "NVIDIA H200",
        "ports": "8000;30000",
    }
    assert up[1]["mig"] == "5"
    assert up[1]["ports"] == ""


@pytest.mark.parametrize("reason", SourceReason)
def test_a_host_without_data(reason: SourceReason) -> None:
    """The page says why."""
    samples = parsed(Snapshot(1.0, "node-a", reason))
    assert ("pdscope_device_source_up", {"reason": str(reason)}, 0.0) in samples
    assert {name for name, _, _ in samples} == {"pdscope_device_source_up", "pdscope_device_sample_timestamp_seconds"}


@given(text=st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20))
def test_any_text_in_a_label(text: str) -> None:
    """Names of processes and hosts come from outside."""
    device = DeviceSample(Identity(text, 0, text), up=True, readings=Readings(), processes=(Process(1, text),))
    samples = parsed(Snapshot(0.0, text, None, (device,)))
    (up,) = (labels for name, labels, _ in samples if name == "pdscope_device_up")
    assert (up["device"], up["host"], up["model"]) == (text, text, text)
    (process,) = (labels for name, labels, _ in samples if name == "pdscope_device_process")
    assert process["name"] == text


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_any_number(value: float) -> None:
    """What is printed is what was measured."""
    device = DeviceSample(Identity("GPU-0", 0), up=True, readings=Readings({Signal.POWER: value}))
    found = [v for name, _, v in parsed(Snapshot(0.0, "h", None, (device,))) if name == "pdscope_device_power_watts"]
    assert found == [value]


@pytest.mark.promtool
def test_promtool(promtool: str, rig: Rig) -> None:
    """Prometheus' own checker has nothing to say, of a made-up page and of one from the double."""
    rig.poll()
    rig.double.advance(0, 1.0, 0.5, 0.1, 0.4, 1.0, 2.0)
    for page in (render_page(FULL), render_page(rig.poll(1))):
        run = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, check=False)
        assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")
