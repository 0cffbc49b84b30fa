"""Intel XPU Manager's daemon (xpumd): OpenTelemetry's names for hardware, as its Prometheus exporter prints them.

`hw_gpu_utilization_ratio` says that engines of a task were busy, not how much they computed. Bytes of device memory
and of PCIe are counters by direction and are not read: no diagnosis needs them beside the utilisation of the memory.
`hw_memory_bandwidth_limit` is not read either, since its unit on the page has not been seen.
"""

from __future__ import annotations

from pdscope.model.metric import Metric
from pdscope.sources.adapter import Adapter, Series

_RATIO = (-0.005, 1.05)
_POSITIVE = (0.0, 1e18)
_PRESENT = (1e-9, 1e18)
_DEVICE_MEMORY = {"hw_memory_location": "device"}
_COMPUTE_CLOCK = {"hw_frequency_domain": "gpu"}
_ENABLE = "the metric of this name below config.receivers.intelxpu.metrics of xpumd"

ADAPTERS = (
    Adapter(
        name="intel",
        probe=("hw_gpu_", "hw_memory_", "hw_frequency_", "hw_power_"),
        rank_labels=("hw_id", "pci_bdf"),
        devices=True,
        series={
            Metric.DRAM_ACTIVE: (Series("hw_memory_bandwidth_utilization_ratio", _DEVICE_MEMORY, valid=_RATIO),),
            Metric.DEVICE_BUSY: tuple(
                Series("hw_gpu_utilization_ratio", {"hw_gpu_task": task}, valid=_RATIO)
                for task in ("compute-all", "all")
            ),
            Metric.DEVICE_MEMORY_USED: (Series("hw_memory_usage_bytes", _DEVICE_MEMORY, valid=_POSITIVE),),
            Metric.DEVICE_MEMORY_TOTAL: (Series("hw_memory_size_bytes", _DEVICE_MEMORY, valid=_PRESENT),),
            Metric.DEVICE_CLOCK: (
                Series("hw_frequency_hertz", _COMPUTE_CLOCK | {"aggregation": "avg"}, valid=_POSITIVE),
            ),
            Metric.DEVICE_CLOCK_MAX: (
                Series("hw_frequency_limit_hertz", _COMPUTE_CLOCK | {"hw_limit_type": "max"}, valid=_PRESENT),
            ),
            Metric.DEVICE_POWER: tuple(
                Series("hw_power_watts", {"hw_sensor_location": place}, valid=_POSITIVE)
                for place in ("card", "package")
            ),
        },
        enable={Metric.DRAM_ACTIVE: _ENABLE, Metric.DEVICE_BUSY: _ENABLE},
    ),
)
