"""Counters of the devices of an instance: what a device exporter reads."""

from __future__ import annotations

from dataclasses import dataclass

from pdscope.demo.physics.machine import Machine


@dataclass(frozen=True, slots=True)
class DeviceCounters:
    """Of one rank, cumulative; a share of activity is an increase over the time it took.

    Attributes:
        clock: against the peak, a gauge; below 1 it is throttled.
        graphics_seconds: any kernel ran, waiting in a collective included.
        sm_seconds: warps resident, over all SMs.
        tensor_seconds: FLOP over the peak at this clock.
        dram_seconds: bytes over the peak bandwidth.
        flop: done; `dram_bytes` read, `nic_sent_bytes` and `nic_received_bytes` likewise.
    """

    clock: float
    graphics_seconds: float
    sm_seconds: float
    tensor_seconds: float
    dram_seconds: float
    flop: float
    dram_bytes: float
    nic_sent_bytes: float
    nic_received_bytes: float


class Activity:
    """Adds up what the devices of one instance do. Occupancy is the resident share of SMs while a kernel runs."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.kernel_seconds = 0.0
        self.occupied_seconds = 0.0
        self.flop = 0.0
        self.bytes = 0.0

    def add(self, seconds: float, flop: float, read_bytes: float, occupancy: float) -> None:
        """Kernels ran for `seconds` on all devices together."""
        self.kernel_seconds += seconds
        self.occupied_seconds += seconds * occupancy
        self.flop += flop
        self.bytes += read_bytes

    def split(self, share: float) -> Activity:
        """That share of it, as an activity of its own."""
        part = Activity(self._machine)
        part.kernel_seconds = self.kernel_seconds * share
        part.occupied_seconds = self.occupied_seconds * share
        part.flop = self.flop * share
        part.bytes = self.bytes * share
        return part

    def plus(self, other: Activity) -> Activity:
        """Both together."""
        whole = self.split(1.0)
        whole.kernel_seconds += other.kernel_seconds
        whole.occupied_seconds += other.occupied_seconds
        whole.flop += other.flop
        whole.bytes += other.bytes
        return whole

    def ranks(self, sent_bytes: float, received_bytes: float) -> tuple[DeviceCounters, ...]:
        """One a device; the instance's NIC bytes spread evenly. A rank faster than the slowest waits for it."""
        machine = self._machine
        devices = machine.devices
        return tuple(
            DeviceCounters(
                clock=clock,
                graphics_seconds=self.kernel_seconds,
                sm_seconds=self.occupied_seconds * machine.pace / clock,
                tensor_seconds=self.flop / devices / (machine.peak_flop_per_second * clock),
                dram_seconds=self.bytes / devices / machine.hbm_bytes_per_second,
                flop=self.flop / devices,
                dram_bytes=self.bytes / devices,
                nic_sent_bytes=sent_bytes / devices,
                nic_received_bytes=received_bytes / devices,
            )
            for clock in machine.clocks
        )
