"""NVIDIA dcgm-exporter: the fields of both name generations (renamed in DCGM 4.6).

`DCGM_FI_DEV_GPU_UTIL` says that some kernel ran: it is read as that and as nothing else, on a scale of 100 also where
its newer name says ratio. `DCGM_FI_DEV_MEM_COPY_UTIL`, that memory was touched, is never read: bandwidth utilisation
is `DRAM_ACTIVE` or unknown. Blank sentinels (fp64 140737488355328 and its neighbours, int64 9.2e18, int32 2147483632)
lie outside every `valid`.

The instances of a MIG device share its `UUID` and differ in `GPU_I_ID`; each is a device of its own. What the links of
the whole device carry is printed at each of them and would count as often, so links are not read there. A device that
is shared out to several pods is printed once for each of them (`vgpu`), with the same numbers. Rows of single NVLinks
and of switches carry labels of their own and are parts or sums of what the devices' rows say.
"""

from __future__ import annotations

from pdscope.model.metric import Fact, Metric
from pdscope.sources.adapter import Adapter, Owner, Ownership, Series

_DEVICE = {"nvlink": "", "nvswitch": ""}
_WHOLE_DEVICE = _DEVICE | {"GPU_I_ID": ""}

_RATIO = (-0.005, 1.05)  # rounding and MIG lead slightly out of 0..1; what is further out is no measurement
_SMALL = (0.0, 1e5)  # watts, megahertz, codes of faults
_MIB = (0.0, 1e9)
_RATE = (0.0, 1e14)

# What NVML's mask of reasons for low clocks calls heat, a power brake or a fault; and its limit of power.
_SLOWDOWN_BITS = 0x8 | 0x20 | 0x40 | 0x80
_POWER_CAP_BITS = 0x4


def _fields(
    *names: str, scale: float = 1.0, valid: tuple[float, float] = _SMALL, bits: int = 0, whole: bool = False
) -> tuple[Series, ...]:
    where = _WHOLE_DEVICE if whole else _DEVICE
    return tuple(Series(f"DCGM_FI_{name}", where, scale, valid=None if bits else valid, bits=bits) for name in names)


def _ratio(old: str, new: str) -> tuple[Series, ...]:
    return _fields(f"PROF_{old}", f"PROF_{new}", valid=_RATIO)


def _memory(first: str, *others: str) -> Series:
    names = tuple(f"DCGM_FI_DEV_FB_{name}" for name in others)
    return Series(f"DCGM_FI_DEV_FB_{first}", _DEVICE, 2.0**20, valid=_MIB, plus=names)


_REASONS = ("DEV_CLOCKS_EVENT_REASONS", "DEV_CLOCK_THROTTLE_REASONS")
_REASONS_LINE = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS, gauge, Reasons for low clocks (bit mask)."

ADAPTERS = (
    Adapter(
        name="dcgm",
        probe=("DCGM_FI_",),
        rank_labels=("UUID", "uuid", "GPU_I_ID"),
        devices=True,
        repeated=("vgpu",),
        # Read through Prometheus, `pod` may be the exporter's own and the device's is `exported_pod`.
        owners=(Owner("exported_pod", Ownership.NAME),),
        aliases={
            "exported_pod": ("pod", "pod_name"),
            "pod": ("exported_pod", "pod_name"),
            "namespace": ("exported_namespace", "pod_namespace"),
            "container": ("exported_container", "container_name"),
            "hostname": ("Hostname",),
            "Hostname": ("hostname",),
            "UUID": ("uuid",),
            "uuid": ("UUID",),
        },
        facts={Fact.DEVICE_MODEL: "modelName"},
        series={
            Metric.SM_ACTIVE: _ratio("SM_ACTIVE", "SM_UTIL_RATIO"),
            Metric.TENSOR_ACTIVE: _ratio("PIPE_TENSOR_ACTIVE", "TENSOR_UTIL_RATIO"),
            Metric.ENGINE_ACTIVE: _ratio("GR_ENGINE_ACTIVE", "GR_ENGINE_UTIL_RATIO"),
            Metric.DRAM_ACTIVE: _ratio("DRAM_ACTIVE", "DRAM_UTIL_RATIO"),
            Metric.DEVICE_BUSY: _fields("DEV_GPU_UTIL", "DEV_GPU_UTIL_RATIO", scale=0.01, valid=(0.0, 105.0)),
            Metric.DEVICE_MEMORY_USED: (_memory("USED"),),
            Metric.DEVICE_MEMORY_TOTAL: (
                _memory("TOTAL"),
                _memory("USED", "FREE", "RESERVED"),
                _memory("USED", "FREE"),
            ),
            Metric.DEVICE_CLOCK: _fields("DEV_SM_CLOCK", scale=1e6),
            Metric.DEVICE_CLOCK_MAX: _fields("DEV_MAX_SM_CLOCK", scale=1e6),
            Metric.DEVICE_POWER: _fields("DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS"),
            Metric.DEVICE_POWER_LIMIT: _fields("DEV_ENFORCED_POWER_LIMIT", "DEV_POWER_MGMT_LIMIT"),
            Metric.DEVICE_FAULT: _fields("DEV_XID_ERRORS", "DEV_XID_ERROR"),
            Metric.DEVICE_SLOWDOWN: _fields(*_REASONS, bits=_SLOWDOWN_BITS),
            Metric.DEVICE_POWER_CAPPED: _fields(*_REASONS, bits=_POWER_CAP_BITS),
            Metric.PCIE_TX_RATE: _fields("PROF_PCIE_TX_BYTES", valid=_RATE, whole=True),
            Metric.PCIE_RX_RATE: _fields("PROF_PCIE_RX_BYTES", valid=_RATE, whole=True),
            Metric.FABRIC_TX_RATE: _fields("PROF_NVLINK_TX_BYTES", valid=_RATE, whole=True),
            Metric.FABRIC_RX_RATE: _fields("PROF_NVLINK_RX_BYTES", valid=_RATE, whole=True),
            # Declared a counter, and a rate all the same: MB a second of 1000 KiB each.
            Metric.FABRIC_RATE: _fields(
                "DEV_NVLINK_BANDWIDTH_TOTAL", "DEV_NVLINK_THROUGHPUT_TOTAL", scale=1_024_000.0, valid=_MIB, whole=True
            ),
        },
        enable={
            Metric.SM_ACTIVE: "DCGM_FI_PROF_SM_ACTIVE, gauge, Share of time in which an SM holds a warp.",
            Metric.TENSOR_ACTIVE: "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge, Share of cycles of the tensor pipe.",
            Metric.ENGINE_ACTIVE: "DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, Share of time of the compute engine.",
            Metric.DRAM_ACTIVE: "DCGM_FI_PROF_DRAM_ACTIVE, gauge, Share of cycles of the memory interface.",
            Metric.DEVICE_BUSY: "DCGM_FI_DEV_GPU_UTIL, gauge, Time in which some kernel ran (in %).",
            Metric.DEVICE_MEMORY_USED: "DCGM_FI_DEV_FB_USED, gauge, Memory used (in MiB).",
            Metric.DEVICE_MEMORY_TOTAL: "DCGM_FI_DEV_FB_FREE, gauge, Memory free (in MiB).",
            Metric.DEVICE_CLOCK: "DCGM_FI_DEV_SM_CLOCK, gauge, SM clock (in MHz).",
            Metric.DEVICE_CLOCK_MAX: "DCGM_FI_DEV_MAX_SM_CLOCK, gauge, Highest SM clock (in MHz).",
            Metric.DEVICE_POWER: "DCGM_FI_DEV_POWER_USAGE, gauge, Power draw (in W).",
            Metric.DEVICE_POWER_LIMIT: "DCGM_FI_DEV_ENFORCED_POWER_LIMIT, gauge, Power limit in force (in W).",
            Metric.DEVICE_FAULT: "DCGM_FI_DEV_XID_ERRORS, gauge, Last Xid.",
            Metric.DEVICE_SLOWDOWN: _REASONS_LINE,
            Metric.DEVICE_POWER_CAPPED: _REASONS_LINE,
            Metric.PCIE_TX_RATE: "DCGM_FI_PROF_PCIE_TX_BYTES, gauge, PCIe sent (in bytes a second).",
            Metric.PCIE_RX_RATE: "DCGM_FI_PROF_PCIE_RX_BYTES, gauge, PCIe received (in bytes a second).",
            Metric.FABRIC_TX_RATE: "DCGM_FI_PROF_NVLINK_TX_BYTES, gauge, NVLink sent (in bytes a second).",
            Metric.FABRIC_RX_RATE: "DCGM_FI_PROF_NVLINK_RX_BYTES, gauge, NVLink received (in bytes a second).",
            Metric.FABRIC_RATE: "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL, gauge, NVLink rate (in units of 1024000 bytes/s).",
        },
    ),
)
