"""The edge to pynvml: structure sizes, error codes, and libraries of other drivers."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest

from pdscope.sources.nvml.library import DeviceLostError, RefusedError, SourceLostError, ask, ask_newer, failure
from pdscope.sources.nvml.sampler import Sampler
from pdscope.sources.nvml.snapshot import Reason, Signal, SourceReason
from support.nvml_double.double import Double

from .conftest import Rig

TESTS = Path(__file__).parents[2]


def run_with(folder: Path, script: str, *arguments: str) -> str:
    """A script in a process whose loader finds the library in a folder."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *arguments],
        env=os.environ | {"LD_LIBRARY_PATH": str(folder), "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.mark.parametrize(
    ("what", "structure", "size"),
    [
        (0, pynvml.c_nvmlGpmMetric_t, 40),
        (1, pynvml.c_nvmlFieldValue_t, 40),
        (2, pynvml.c_nvmlMemory_v2_t, 40),
        (3, pynvml.c_nvmlMemory_t, 24),
        (4, pynvml.c_nvmlProcessInfo_v3_t, 24),
        (5, pynvml.c_nvmlEventData_t, 32),
        (6, pynvml.c_nvmlGpmSupport_t, 8),
    ],
)
def test_layouts(double: Double, what: int, structure: type[ctypes.Structure], size: int) -> None:
    """The double declares the structures by hand; they are as large as the binding's."""
    assert double.sizeof(what) == ctypes.sizeof(structure) == size


def test_layout_of_a_request(double: Double) -> None:
    """Metrics begin where the binding puts them, and the structure has room for every one."""
    request = pynvml.c_nvmlGpmMetricsGet_t
    assert double.sizeof(7) == request.metrics.offset == 24
    assert ctypes.sizeof(request) == 24 + 40 * pynvml.NVML_GPM_METRIC_MAX


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (3, Reason.UNSUPPORTED),
        (13, Reason.UNSUPPORTED),
        (25, Reason.UNSUPPORTED),
        (4, Reason.NO_PERMISSION),
        (27, Reason.NOT_READY),
        (2, Reason.INVALID),
        (999, Reason.INVALID),
        (77, Reason.INVALID),
    ],
)
def test_refusals(code: int, reason: Reason) -> None:
    """A call without an answer has a reason from a closed list; codes of later drivers too."""
    error = failure(code)
    assert isinstance(error, RefusedError)
    assert error.reason is reason
    assert error.code == code
    assert str(code) in str(error)


@pytest.mark.parametrize("code", [15, 16, 28])
def test_lost_devices(code: int) -> None:
    """Off the bus, in need of a reset, or not there."""
    assert isinstance(failure(code), DeviceLostError)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (1, SourceReason.UNINITIALIZED),
        (9, SourceReason.DRIVER_NOT_LOADED),
        (12, SourceReason.LIBRARY_NOT_FOUND),
        (18, SourceReason.DRIVER_CHANGED),
    ],
)
def test_lost_sources(code: int, reason: SourceReason) -> None:
    """What concerns all devices."""
    error = failure(code)
    assert isinstance(error, SourceLostError)
    assert error.reason is reason


def test_an_unknown_code_of_the_binding() -> None:
    """The binding's error cannot be hashed and compares badly: its code alone counts, and it goes no further."""

    def call() -> None:
        raise pynvml.NVMLError(4711)

    with pytest.raises(RefusedError, match="4711") as caught:
        ask(call)
    assert caught.value.__cause__ is None


def test_the_older_call_only_where_the_newer_is_unknown() -> None:
    """A refusal for any other reason is the answer."""

    def refuse(code: int) -> None:
        raise pynvml.NVMLError(code)

    assert ask_newer(lambda: refuse(13), lambda: "older") == "older"
    assert ask_newer(lambda: refuse(25), lambda: "older") == "older"
    with pytest.raises(RefusedError, match="no_permission"):
        ask_newer(lambda: refuse(4), lambda: "older")


def test_no_library(monkeypatch: pytest.MonkeyPatch, rig: Rig) -> None:
    """A host without a driver has a reason, and data once it has one."""

    def not_there(name: str) -> None:
        raise OSError(name)

    with monkeypatch.context() as patched:
        patched.setattr(pynvml, "CDLL", not_there)
        snapshot = rig.poll()
        assert snapshot.reason is SourceReason.LIBRARY_NOT_FOUND
        assert snapshot.devices == ()
    assert rig.poll(0.5).reason is SourceReason.LIBRARY_NOT_FOUND  # not tried yet
    assert rig.poll(0.5).reason is None


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (9, SourceReason.DRIVER_NOT_LOADED),
        (4, SourceReason.NO_PERMISSION),
        (15, SourceReason.GPU_LOST),
        (18, SourceReason.DRIVER_CHANGED),
        (13, SourceReason.DRIVER_TOO_OLD),
        (999, SourceReason.FAILED),
    ],
)
def test_initialisation_fails(rig: Rig, code: int, reason: SourceReason) -> None:
    """Each way has its name; all are tried again."""
    rig.double.init_error(code)
    assert rig.poll().reason is reason
    rig.double.init_error(0)
    assert rig.poll(1).reason is None
    assert len(rig.sampler.latest().devices) == 2


def test_pauses_grow(rig: Rig) -> None:
    """1, 2, 4 … 60 s between attempts, however often it is polled; success begins anew."""
    rig.double.init_error(9)
    for _ in range(200):
        rig.poll(1)
    assert rig.double.inits() == 9  # after 0, 1, 3, 7, 15, 31, 63, 123, 183 s; the next after 243
    rig.double.init_error(0)
    assert rig.poll(60).reason is None
    rig.double.init_error(9)
    rig.double.forget()
    assert rig.poll(1).reason is SourceReason.UNINITIALIZED
    attempts = rig.double.inits()
    assert rig.poll(1).reason is SourceReason.DRIVER_NOT_LOADED
    assert rig.double.inits() == attempts + 1


def test_an_older_driver(builds: dict[str, Path]) -> None:
    """Symbols that came later are missing: older calls stand in, and GPM is unsupported."""
    script = """
from support.nvml_double.double import Double
from pdscope.sources.nvml.sampler import Sampler
from pdscope.sources.nvml.snapshot import Reason, Signal
import ctypes
plain = ctypes.CDLL("libnvidia-ml.so.1")
assert not hasattr(plain, "nvmlGpmSampleGet")
double = Double()
double.reset(1)
double.coarse(0, 100, 100, 1 << 30, 0x20)
sampler = Sampler()
for _ in range(3):
    snapshot = sampler.poll()
device, = snapshot.devices
values, missing = device.readings.values, device.readings.missing
for signal in (Signal.SM_ACTIVE, Signal.HBM_BANDWIDTH, Signal.PCIE_TX_RATE, Signal.PROCESSES):
    assert missing[signal] is Reason.UNSUPPORTED, signal
assert values[Signal.MEMORY_USED] == (1 << 30) + (500 << 20), "version 1 counts what is reserved as used"
assert values[Signal.SLOWDOWN] == 1 and values[Signal.BUSY] == 1
sampler.close()
print(snapshot.reason, double.live_samples(), double.initialised())
"""
    assert run_with(builds["old"].parent, script) == "None 0 0"


def test_a_driver_upgrade(builds: dict[str, Path], tmp_path: Path) -> None:
    """The library that lies on the disk after an upgrade is loaded without a restart of the process."""
    link = tmp_path / "libnvidia-ml.so.1"
    link.symlink_to(builds["stale"])
    script = """
import ctypes, os, sys
from pathlib import Path
from pdscope.sources.nvml.sampler import Sampler
now = [0.0]
sampler = Sampler(monotonic=lambda: now[0])
print(sampler.poll().reason)
link = Path(sys.argv[1])
link.unlink()
link.symlink_to(sys.argv[2])
now[0] += 1
print(sampler.poll().reason)
sampler.close()
"""
    assert run_with(tmp_path, script, str(link), str(builds["plain"])).split() == ["driver_changed", "no_device"]


def test_an_interval_that_is_too_short() -> None:
    """Below 0.2 s the driver's counters are not defined."""
    with pytest.raises(ValueError, match=r"0\.2"):
        Sampler(0.1)


def test_signals_are_families() -> None:
    """The value of a signal is the rest of its family's name."""
    assert Signal("hbm_bandwidth_utilization_ratio") is Signal.HBM_BANDWIDTH
