"""pdscope's own page of NVIDIA devices: `pdscope agent` on another host, or NVML on this one.

Both are the same page, so both are read by the same series. `busy_ratio` says that some kernel ran and is read as that
and as nothing else. The page states nothing that it does not know, so a device without GPM has no bandwidth here.
"""

from __future__ import annotations

from pdscope.model.metric import Fact, Metric
from pdscope.sources.adapter import Adapter, Owner, Ownership, Series

_RATIO = (-0.005, 1.05)
_SMALL = (0.0, 1e5)  # watts, codes of faults
_LARGE = (0.0, 1e15)  # bytes, bytes a second, hertz
_FLAG = (0.0, 1.0)


def _series(name: str, valid: tuple[float, float]) -> tuple[Series, ...]:
    return (Series(f"pdscope_device_{name}", valid=valid),)


_GPM = (
    "GPM of NVML: Hopper or newer (GeForce: Blackwell), driver 525 or newer; where it is refused for lack of "
    "permission, CAP_SYS_ADMIN or the module option NVreg_RestrictProfilingToAdminUsers=0"
)
_SERIES = {
    Metric.SM_ACTIVE: _series("sm_active_ratio", _RATIO),
    Metric.TENSOR_ACTIVE: _series("tensor_active_ratio", _RATIO),
    Metric.DRAM_ACTIVE: _series("hbm_bandwidth_utilization_ratio", _RATIO),
    Metric.DEVICE_BUSY: _series("busy_ratio", _RATIO),
    Metric.DEVICE_MEMORY_USED: _series("memory_used_bytes", _LARGE),
    Metric.DEVICE_MEMORY_TOTAL: _series("memory_total_bytes", _LARGE),
    Metric.DEVICE_HBM_PEAK_RATE: _series("hbm_peak_bytes_per_second", _LARGE),
    Metric.DEVICE_CLOCK: _series("clock_hertz", _LARGE),
    Metric.DEVICE_CLOCK_MAX: _series("clock_max_hertz", _LARGE),
    Metric.DEVICE_POWER: _series("power_watts", _SMALL),
    Metric.DEVICE_POWER_LIMIT: _series("power_limit_watts", _SMALL),
    Metric.DEVICE_SLOWDOWN: _series("slowdown", _FLAG),
    Metric.DEVICE_POWER_CAPPED: _series("power_capped", _FLAG),
    Metric.DEVICE_FAULT: _series("xid", _SMALL),
    Metric.FABRIC_TX_RATE: _series("nvlink_transmit_bytes_per_second", _LARGE),
    Metric.FABRIC_RX_RATE: _series("nvlink_receive_bytes_per_second", _LARGE),
    Metric.FABRIC_TX_BYTES: _series("nvlink_transmit_bytes_total", (0.0, 1e21)),
    Metric.FABRIC_RX_BYTES: _series("nvlink_receive_bytes_total", (0.0, 1e21)),
    Metric.PCIE_TX_RATE: _series("pcie_transmit_bytes_per_second", _LARGE),
    Metric.PCIE_RX_RATE: _series("pcie_receive_bytes_per_second", _LARGE),
}
_GPM_METRICS = (
    *(Metric.SM_ACTIVE, Metric.TENSOR_ACTIVE, Metric.DRAM_ACTIVE),
    *(Metric.FABRIC_TX_RATE, Metric.FABRIC_RX_RATE, Metric.PCIE_TX_RATE, Metric.PCIE_RX_RATE),
)


def _adapter(name: str) -> Adapter:
    return Adapter(
        name=name,
        probe=("pdscope_device_",),
        rank_labels=("device",),
        devices=True,
        owners=(Owner("ports", Ownership.PORT, strict=True),),
        facts={Fact.DEVICE_MODEL: "model"},
        enable=dict.fromkeys(_GPM_METRICS, _GPM),
        series=_SERIES,
    )


ADAPTERS = (_adapter("pdscope"), _adapter("nvml"))
