"""What one poll found: values that never change, so that any thread may read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Reason(StrEnum):
    """Why a device has no figure for a signal."""

    UNSUPPORTED = "unsupported"
    """The device or its driver does not have it; it is not asked again until NVML is initialised anew."""
    NO_PERMISSION = "no_permission"
    NOT_READY = "not_ready"
    """There will be one: rates need two samples."""
    INVALID = "invalid"
    """There was an answer, but no measurement."""
    MIG = "mig"
    """Not to be had of a slice of a device, or of a device that is sliced."""
    LOST = "lost"


class SourceReason(StrEnum):
    """Why a host has no data at all."""

    NOT_STARTED = "not_started"
    LIBRARY_NOT_FOUND = "library_not_found"
    DRIVER_NOT_LOADED = "driver_not_loaded"
    DRIVER_TOO_OLD = "driver_too_old"
    NO_PERMISSION = "no_permission"
    NO_DEVICE = "no_device"
    GPU_LOST = "gpu_lost"
    DRIVER_CHANGED = "driver_changed"
    """The driver was upgraded under the loaded library."""
    UNINITIALIZED = "uninitialized"
    STALLED = "stalled"
    """A call into the driver does not come back."""
    FAILED = "failed"
    """An error that has no name here; the log has it."""


class Signal(StrEnum):
    """What is asked of a device. Each but the last two is the family `pdscope_device_<signal>`."""

    SM_ACTIVE = "sm_active_ratio"
    TENSOR_ACTIVE = "tensor_active_ratio"
    HBM_BANDWIDTH = "hbm_bandwidth_utilization_ratio"
    BUSY = "busy_ratio"
    MEMORY_USED = "memory_used_bytes"
    MEMORY_TOTAL = "memory_total_bytes"
    HBM_PEAK = "hbm_peak_bytes_per_second"
    CLOCK = "clock_hertz"
    CLOCK_MAX = "clock_max_hertz"
    POWER = "power_watts"
    POWER_LIMIT = "power_limit_watts"
    SLOWDOWN = "slowdown"
    POWER_CAPPED = "power_capped"
    XID = "xid"
    NVLINK_TX_RATE = "nvlink_transmit_bytes_per_second"
    NVLINK_RX_RATE = "nvlink_receive_bytes_per_second"
    NVLINK_TX_BYTES = "nvlink_transmit_bytes_total"
    NVLINK_RX_BYTES = "nvlink_receive_bytes_total"
    PCIE_TX_RATE = "pcie_transmit_bytes_per_second"
    PCIE_RX_RATE = "pcie_receive_bytes_per_second"
    PROCESSES = "processes"
    PORTS = "ports"


@dataclass(frozen=True, slots=True)
class Identity:
    """Which device: `index` is that of the board, `mig` the GPU instance's id or empty."""

    uuid: str
    index: int
    model: str = ""
    mig: str = ""


@dataclass(frozen=True, slots=True)
class Process:
    """A process that computes on a device; `ports` are those on which it or an ancestor of it listens."""

    pid: int
    name: str = ""
    ports: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Readings:
    """Figures in base units, and for each other signal why it has none."""

    values: Mapping[Signal, float] = field(default_factory=dict)
    missing: Mapping[Signal, Reason] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """One device in one poll; a lost one has no values."""

    identity: Identity
    up: bool
    readings: Readings
    processes: tuple[Process, ...] = ()

    @property
    def ports(self) -> tuple[int, ...]:
        """TCP ports of the processes on the device, in the order of numbers."""
        return tuple(sorted({port for process in self.processes for port in process.ports}))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One poll of a host.

    Attributes:
        at: wall time in seconds since the epoch.
        reason: why the host has no data; None where a device answered.
        invalid: answers so far that were no measurements, by why: `not_finite`, `out_of_range`.
    """

    at: float
    host: str
    reason: SourceReason | None
    devices: tuple[DeviceSample, ...] = ()
    invalid: Mapping[str, int] = field(default_factory=dict)
