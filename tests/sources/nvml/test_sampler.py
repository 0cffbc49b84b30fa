"""Polls of the double: every other signal, lost devices, MIG, Xid, processes, the thread."""

from __future__ import annotations

import gc
import logging
import threading
import tracemalloc
from pathlib import Path

import pynvml
import pytest

from pdscope.sources.nvml.page import render_page
from pdscope.sources.nvml.sampler import Sampler
from pdscope.sources.nvml.snapshot import Reason, Signal, Snapshot, SourceReason
from support.nvml_double.double import (
    ALL_BOARD,
    CLOCK,
    DRIVER_CHANGED,
    EVENTS,
    FIELDS,
    GPM_SAMPLE,
    LOST,
    MEMORY,
    NO_PERMISSION,
    NOT_SUPPORTED,
    POWER,
    PROCESSES,
    REASONS,
    UNKNOWN,
    UTILISATION,
    Double,
)

from .conftest import WALL, Rig
from .test_processes import listen, process

OTHERS = {
    Signal.BUSY: UTILISATION,
    Signal.MEMORY_USED: MEMORY,
    Signal.MEMORY_TOTAL: MEMORY,
    Signal.CLOCK: CLOCK,
    Signal.POWER: POWER,
    Signal.SLOWDOWN: REASONS,
    Signal.POWER_CAPPED: REASONS,
    Signal.NVLINK_TX_BYTES: FIELDS,
    Signal.NVLINK_RX_BYTES: FIELDS,
}


def test_coarse_signals(rig: Rig) -> None:
    """Everything that is no counter of GPM, in base units."""
    rig.double.coarse(0, 63, 100, 7 << 30, 0)
    rig.double.advance(0, 2.0, 0.5, 0.5, 0.5, 1.5, 3.0)
    rig.poll()
    readings = rig.device().readings
    expected = {
        Signal.BUSY: 0.63,
        Signal.MEMORY_USED: 7 << 30,
        Signal.MEMORY_TOTAL: 150754820096,
        Signal.HBM_PEAK: 4916.736e9,
        Signal.CLOCK: 1755e6,
        Signal.CLOCK_MAX: 1980e6,
        Signal.POWER: 412.345,
        Signal.POWER_LIMIT: 700,
        Signal.SLOWDOWN: 0,
        Signal.POWER_CAPPED: 0,
        Signal.XID: 0,
        Signal.NVLINK_TX_BYTES: 3 << 20,
        Signal.NVLINK_RX_BYTES: 6 << 20,
    }
    assert readings.values == pytest.approx(expected)
    assert rig.device().identity.uuid == "GPU-00000000-0000-0000-0000-000000000000"
    assert rig.device().identity.model == "NVIDIA H200"
    assert rig.sampler.latest().at == WALL + 1000


@pytest.mark.parametrize(
    ("mask", "slow", "capped"),
    [
        *((0x0, 0, 0), (0x1, 0, 0), (0x2, 0, 0), (0x10, 0, 0), (0x100, 0, 0)),
        *((0x8, 1, 0), (0x20, 1, 0), (0x40, 1, 0), (0x80, 1, 0)),
        *((0x4, 0, 1), (0x44, 1, 1)),
    ],
)
def test_reasons_of_low_clocks(rig: Rig, mask: int, slow: int, capped: int) -> None:
    """Heat, power brake and hardware slow a device down; its power limit is no fault."""
    rig.double.coarse(0, 0, 0, 0, mask)
    rig.poll()
    assert rig.value(Signal.SLOWDOWN) == slow
    assert rig.value(Signal.POWER_CAPPED) == capped


@pytest.mark.parametrize("signal", OTHERS)
def test_a_refusal_that_may_pass(rig: Rig, signal: Signal) -> None:
    """Nothing else is lost with it, and it is asked again."""
    for code, reason in ((NO_PERMISSION, Reason.NO_PERMISSION), (UNKNOWN, Reason.INVALID)):
        rig.double.call_error(0, OTHERS[signal], code)
        rig.poll(1)
        assert rig.missing(signal) is reason
        assert rig.value(signal) is None
        assert rig.value(signal, 1) is not None
        others = {other for other in OTHERS if OTHERS[other] != OTHERS[signal]}
        assert others <= rig.device().readings.values.keys()
    rig.double.call_error(0, OTHERS[signal], 0)
    rig.poll(1)
    assert rig.value(signal) is not None


@pytest.mark.parametrize("signal", OTHERS)
def test_not_supported_is_remembered(rig: Rig, signal: Signal) -> None:
    """Asked once, and once more after NVML was initialised anew."""
    kind = OTHERS[signal]
    rig.double.call_error(0, kind, NOT_SUPPORTED)
    rig.poll()
    asked = rig.double.calls(kind)
    for _ in range(10):
        rig.poll(1)
    assert rig.double.calls(kind) == asked + 10  # those of the other device
    assert rig.missing(signal) is Reason.UNSUPPORTED
    rig.double.call_error(0, kind, 0)
    rig.double.forget()
    rig.poll(1)
    rig.poll(1)
    assert rig.value(signal) is not None


def test_no_nvlink(rig: Rig) -> None:
    """Each field has a return code of its own."""
    rig.double.set(0, 1, 0, 0)
    rig.poll()
    assert rig.missing(Signal.NVLINK_TX_BYTES) is Reason.UNSUPPORTED


def test_impossible_values(rig: Rig) -> None:
    """A driver's blank is no power of 4 MW."""
    rig.double.power(0, 0xFFFFFFFF, 700000)
    snapshot = rig.poll()
    assert rig.missing(Signal.POWER) is Reason.INVALID
    assert snapshot.invalid == {"out_of_range": 1}


def test_a_lost_device(rig: Rig) -> None:
    """Its samples are freed, the other goes on, and it is tried again until it is back."""
    rig.poll()
    assert rig.double.live_samples() == 4
    rig.double.advance(1, 1.0, 0.5, 0.0, 0.5, 0.0, 0.0)
    rig.double.xid(0, 79, ALL_BOARD)
    rig.double.set(0, 1, LOST, 1)
    snapshot = rig.poll(1)
    assert rig.double.live_samples() == 2
    assert snapshot.reason is None
    assert [(d.identity.index, d.up) for d in snapshot.devices] == [(1, True), (0, False)]
    assert rig.value(Signal.SM_ACTIVE) == pytest.approx(0.5)
    lost = snapshot.devices[1]
    assert lost.readings.values == {Signal.XID: 79}
    assert set(lost.readings.missing.values()) == {Reason.LOST}
    inits = rig.double.inits()
    rig.poll(0.5)
    assert rig.double.inits() == inits
    for _ in range(70):
        snapshot = rig.poll(1)
    assert rig.double.inits() == inits + 6  # after pauses of 1, 2, 4, 8, 16 and 32 s
    assert [d.identity for d in snapshot.devices if not d.up] == [lost.identity]
    rig.double.set(0, 1, 0, 1)
    for _ in range(60):
        snapshot = rig.poll(1)
    assert [(d.identity.index, d.up) for d in snapshot.devices] == [(0, True), (1, True)]
    rig.double.advance(0, 1.0, 0.25, 0.0, 0.5, 0.0, 0.0)
    rig.poll(1)
    assert rig.value(Signal.SM_ACTIVE) == pytest.approx(0.25)
    assert rig.double.live_samples() == 4


def test_all_devices_are_lost(rig: Rig) -> None:
    """Then the host has no data, for a reason, and has them again later."""
    rig.poll()
    for number in (0, 1):
        rig.double.set(number, 1, LOST, 1)
    snapshot = rig.poll(1)
    assert snapshot.reason is SourceReason.GPU_LOST
    assert [device.up for device in snapshot.devices] == [False, False]
    assert rig.double.live_samples() == 0
    for number in (0, 1):
        rig.double.set(number, 1, 0, 1)
    assert rig.poll(1).reason is None


def test_lost_from_the_beginning(rig: Rig) -> None:
    """A board that never told its name is known by its index, until it tells it."""
    rig.double.set(1, 1, LOST, 1)
    snapshot = rig.poll()
    assert [(d.identity.uuid, d.up) for d in snapshot.devices][1] == ("index-1", False)
    rig.double.set(1, 1, 0, 1)
    snapshot = rig.poll(1)
    assert [d.up for d in snapshot.devices] == [True, True]
    assert "index-1" not in {d.identity.uuid for d in snapshot.devices}


def test_lost_boards_that_are_left_out(rig: Rig) -> None:
    """NVML may count without them, and the others move up: nobody takes the place of the lost one."""
    rig.poll()
    rig.double.set(1, 1, LOST, 1)
    rig.poll(1)
    rig.double.count(1)
    snapshot = rig.poll(1)
    assert [(d.identity.index, d.up) for d in snapshot.devices] == [(0, True), (1, False)]


def test_loss_that_is_found_while_looking_at_the_layout(rig: Rig) -> None:
    """The board keeps its name."""
    name = rig.poll().devices[1].identity
    rig.double.set(1, 1, LOST, 1)
    snapshot = rig.poll(15)
    assert [d.identity for d in snapshot.devices if not d.up] == [name]


def test_uninitialised_underneath(rig: Rig) -> None:
    """Somebody shut NVML down: everything is dropped, and begins anew."""
    rig.poll()
    rig.double.forget()
    snapshot = rig.poll(1)
    assert snapshot.reason is SourceReason.UNINITIALIZED
    assert snapshot.devices == ()
    assert rig.double.live_samples() == 0
    assert rig.poll(1).reason is None


def test_the_driver_changes_underneath(rig: Rig) -> None:
    """Everything of the old library is freed before it is let go, and the next poll loads anew."""
    rig.poll()
    rig.double.call_error(1, UTILISATION, DRIVER_CHANGED)
    assert rig.poll(1).reason is SourceReason.DRIVER_CHANGED
    assert (rig.double.live_samples(), rig.double.live_event_sets(), rig.double.initialised()) == (0, 0, 0)
    assert pynvml.nvmlLib is None
    assert not pynvml._nvmlGetFunctionPointer_cache
    rig.double.call_error(1, UTILISATION, 0)
    assert rig.poll(1).reason is None


def test_a_host_without_devices(rig: Rig) -> None:
    """A driver without boards; one that comes later is seen."""
    rig.double.count(0)
    assert rig.poll().reason is SourceReason.NO_DEVICE
    rig.double.count(2)
    assert len(rig.poll(15).devices) == 2
    assert rig.double.live_samples() == 4


def test_mig(rig: Rig) -> None:
    """Each instance is a device of its own; what is of the whole board is not told of a slice."""
    rig.double.mig(0, 2, 5)
    rig.double.coarse(0, 90, 90, 1 << 30, 0x40)
    rig.poll()
    rig.double.advance_gi(0, 0, 1.0, 0.8, 0.1, 0.6)
    rig.double.advance_gi(0, 1, 1.0, 0.2, 0.0, 0.1)
    snapshot = rig.poll(1)
    assert [d.identity.mig for d in snapshot.devices] == ["5", "6", ""]
    assert len({d.identity.uuid for d in snapshot.devices}) == 3
    assert [d.identity.index for d in snapshot.devices] == [0, 0, 1]
    assert [rig.value(Signal.SM_ACTIVE, n) for n in (0, 1)] == pytest.approx([0.8, 0.2])
    assert [rig.value(Signal.HBM_BANDWIDTH, n) for n in (0, 1)] == pytest.approx([0.6, 0.1])
    whole = (Signal.BUSY, Signal.HBM_PEAK, Signal.POWER, Signal.POWER_LIMIT, Signal.NVLINK_TX_BYTES)
    whole += (Signal.NVLINK_TX_RATE, Signal.NVLINK_RX_RATE, Signal.PCIE_TX_RATE, Signal.PCIE_RX_RATE)
    assert [rig.missing(signal) for signal in whole] == [Reason.MIG] * len(whole)
    assert rig.value(Signal.CLOCK) == 1755e6
    assert rig.value(Signal.SLOWDOWN) == 1
    assert rig.value(Signal.MEMORY_USED) == 1 << 30
    labels = [labels for name, labels, _ in rig.samples() if name == "pdscope_device_up"]
    assert [label.get("mig") for label in labels] == ["5", "6", None]


def test_mig_without_instances(rig: Rig) -> None:
    """A board that is sliced into nothing has no utilisation, and says why."""
    rig.double.mig(0, 0, 0)
    rig.poll()
    rig.poll(1)
    assert rig.missing(Signal.BUSY) is Reason.MIG
    assert rig.missing(Signal.SM_ACTIVE) is Reason.MIG
    assert rig.value(Signal.POWER) == 412.345


def test_mig_is_laid_out_anew(rig: Rig) -> None:
    """Instances come and go while it runs."""
    rig.poll()
    rig.double.mig(0, 3, 7)
    assert len(rig.poll(14).devices) == 2
    assert len(rig.poll(1).devices) == 4
    assert rig.double.live_samples() == 8
    rig.double.mig(0, 1, 7)
    assert len(rig.poll(15).devices) == 2
    assert rig.double.live_samples() == 4


def test_xid(rig: Rig) -> None:
    """The last error stays, also over a new initialisation."""
    rig.poll()
    rig.double.xid(0, 31, ALL_BOARD)
    rig.double.xid(0, 94, ALL_BOARD)
    rig.poll(1)
    assert rig.value(Signal.XID) == 94
    assert rig.value(Signal.XID, 1) == 0
    rig.double.forget()
    rig.poll(1)
    rig.poll(1)
    assert rig.value(Signal.XID) == 94


def test_xid_of_an_instance(rig: Rig) -> None:
    """The driver names the GPU instance; an error of the board is one of all."""
    rig.double.mig(0, 2, 5)
    rig.poll()
    rig.double.xid(0, 43, 6)
    rig.poll(1)
    assert [rig.value(Signal.XID, n) for n in (0, 1, 2)] == [0, 43, 0]
    rig.double.xid(0, 79, ALL_BOARD)
    rig.poll(1)
    assert [rig.value(Signal.XID, n) for n in (0, 1, 2)] == [79, 79, 0]


def test_many_xids(rig: Rig) -> None:
    """A device that repeats its error does not hold up the poll: the wait never blocks, and its answers are bounded."""
    rig.poll()
    for _ in range(64):
        rig.double.xid(0, 31, ALL_BOARD)
    asked = rig.double.calls(EVENTS)
    rig.poll(1)
    assert rig.double.calls(EVENTS) - asked == 64
    assert rig.value(Signal.XID) == 31


def test_xid_is_not_supported(rig: Rig) -> None:
    """Not 0, but unknown."""
    rig.double.xid_supported(0, 0)
    rig.poll()
    assert rig.missing(Signal.XID) is Reason.UNSUPPORTED
    assert rig.value(Signal.XID) is None
    assert rig.value(Signal.XID, 1) == 0


def test_processes(rig: Rig) -> None:
    """A device knows the ports of the servers whose workers compute on it."""
    process(rig.proc, 100, 1, "python", sockets=(11,))
    listen(rig.proc, 100, {11: 30000})
    process(rig.proc, 200, 100, "sglang::schedul")
    rig.double.process(0, 200, ALL_BOARD)
    rig.poll()
    (worker,) = rig.device().processes
    assert (worker.pid, worker.name, worker.ports) == (200, "sglang::schedul", (30000,))
    assert rig.device().ports == (30000,)
    assert rig.device(1).ports == ()
    assert rig.missing(Signal.PORTS) is None


def test_processes_are_looked_at_rarely(rig: Rig) -> None:
    """Reading /proc costs: every 15 s is enough."""
    for _ in range(16):
        rig.poll(1)
    assert rig.double.calls(PROCESSES) == 2 * 2


def test_processes_of_instances(rig: Rig) -> None:
    """Those of each MIG instance."""
    rig.double.mig(0, 2, 5)
    rig.double.process(0, 200, 5)
    rig.double.process(0, 300, 6)
    rig.poll()
    assert [[p.pid for p in rig.device(n).processes] for n in (0, 1, 2)] == [[200], [300], []]


@pytest.mark.parametrize(
    ("code", "reason"), [(NOT_SUPPORTED, Reason.UNSUPPORTED), (NO_PERMISSION, Reason.NO_PERMISSION)]
)
def test_processes_are_refused(rig: Rig, code: int, reason: Reason) -> None:
    """Then ports are unknown, not none."""
    rig.double.call_error(0, PROCESSES, code)
    rig.poll()
    assert rig.missing(Signal.PROCESSES) is rig.missing(Signal.PORTS) is reason
    assert rig.missing(Signal.PORTS, 1) is None


def test_a_process_of_another_namespace(rig: Rig) -> None:
    """NVML tells the host's numbers; in a container they may lead nowhere."""
    rig.double.process(0, 4711, ALL_BOARD)
    rig.poll()
    assert [p.pid for p in rig.device().processes] == [4711]
    assert rig.missing(Signal.PORTS) is Reason.INVALID


def test_before_the_first_poll(rig: Rig) -> None:
    """There is a snapshot from the beginning."""
    snapshot = rig.sampler.latest()
    assert (snapshot.reason, snapshot.devices, snapshot.host) == (SourceReason.NOT_STARTED, (), "node-a")


def test_a_call_that_does_not_come_back(rig: Rig) -> None:
    """What was found long ago is not told as the present."""
    rig.poll()
    rig.now += 10
    assert rig.sampler.latest().reason is None
    rig.now += 0.1
    assert rig.sampler.latest().reason is SourceReason.STALLED
    assert rig.sampler.latest().devices == ()
    rig.poll()
    assert rig.sampler.latest().reason is None


def test_a_snapshot_does_not_change(rig: Rig) -> None:
    """Whoever holds one may read it while the next is made."""
    first = rig.poll()
    page = render_page(first)
    rig.double.coarse(0, 50, 0, 1, 0xFF)
    rig.double.advance(0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    assert rig.poll(1) is not first
    assert render_page(first) == page


class Watched(Sampler):
    """Tells when a poll has been made, and fails one where it is told to."""

    def __init__(self, fail: bool = False) -> None:
        super().__init__(0.2, host="node-a", proc=Path("/nonexistent"))
        self.polled = threading.Semaphore(0)
        self.fail = fail

    def poll(self) -> Snapshot:
        try:
            if self.fail:
                self.fail = False
                raise RuntimeError("an error that nobody has thought of")
            return super().poll()
        finally:
            self.polled.release()


def test_one_thread_makes_all_calls(double: Double) -> None:
    """Initialising, sampling and freeing included; `stop` waits for it."""
    sampler = Watched()
    sampler.start()
    sampler.start()
    for _ in range(3):
        assert sampler.polled.acquire(timeout=20)
    assert sampler.latest().reason is None
    assert double.live_samples() == 4
    sampler.stop()
    assert double.threads() == 1
    assert (double.live_samples(), double.live_event_sets(), double.initialised()) == (0, 0, 0)
    assert "pdscope-nvml" not in {thread.name for thread in threading.enumerate()}


def test_an_unexpected_error(double: Double, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged and shown, and the thread goes on."""
    sampler = Watched(fail=True)
    sampler.start()
    assert sampler.polled.acquire(timeout=20)
    for _ in range(8):  # the pause after a failure is 1 s
        assert sampler.polled.acquire(timeout=20)
        if sampler.latest().reason is None:
            break
    sampler.stop()
    assert sampler.latest().reason is None
    assert "nobody has thought of" in caplog.text
    assert "no data of this host: failed" in caplog.text


def test_stop_without_start(double: Double) -> None:
    """What polls by hand have opened is freed too."""
    sampler = Sampler()
    sampler.poll()
    sampler.stop()
    assert double.initialised() == 0


def test_no_growth(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of polls with losses in between leave nothing behind, here or in the driver."""
    caplog.set_level(logging.CRITICAL, "pdscope.sources.nvml")  # pytest keeps every record

    def polls(count: int) -> None:
        for number in range(count):
            if number % 100 == 50:
                rig.double.set(0, 1, LOST, 1)
            if number % 100 == 52:
                rig.double.set(0, 1, 0, 1)
            for device in (0, 1):
                rig.double.advance(device, 1.0, 0.5, 0.1, 0.4, 1.0, 2.0)
            render_page(rig.poll(1))

    polls(2000)
    gc.collect()
    tracemalloc.start()
    try:
        polls(100)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        polls(700)
        gc.collect()
        growth_bytes = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert growth_bytes < 5_600  # of 700 polls: eight bytes each would be more
    assert rig.double.live_samples() == 4
    assert rig.double.live_event_sets() == 1
    assert rig.double.calls(GPM_SAMPLE) > 4000
