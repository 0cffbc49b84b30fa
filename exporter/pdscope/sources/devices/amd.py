"""AMD device-metrics-exporter (ROCm). Everything on its page is declared a gauge, sums included.

Only the profiler's fields are utilisation, and they are off by default. `gpu_gfx_activity` says that the compute
engine was busy, as a kernel of one wave makes it too. Not read, because nobody could say for sure what they are:
`gpu_umc_activity` (busy or bandwidth), `gpu_prof_fetch_size` and `gpu_prof_write_size` (kilobytes over which time),
`pcie_bandwidth`. A prefix that the operator has configured for all names cannot be known: use a mapping file.
"""

from __future__ import annotations

from pdscope.model.metric import Fact, Metric
from pdscope.sources.adapter import Adapter, Owner, Ownership, Series

_PERCENT = (0.0, 105.0)
_POSITIVE = (0.0, 1e9)
_PRESENT = (1e-9, 1e9)  # partitions other than the first have no sensors and print 0

_PROFILER = "ProfilerMetrics in the exporter's config.json (it conflicts with profiling an application)"
_FIELDS = "the field list (Fields) in the exporter's config.json"

ADAPTERS = (
    Adapter(
        name="amd",
        probe=(
            "gpu_gfx_",
            "gpu_prof_",
            "gpu_used_vram",
            "gpu_total_vram",
            "gpu_vram_",
            "gpu_clock",
            "gpu_package_",
            "gpu_xgmi_",
        ),
        rank_labels=("serial_number", "gpu_id", "gpu_partition_id"),
        devices=True,
        repeated=("clock_index",),
        owners=(Owner("exported_pod", Ownership.NAME),),
        aliases={
            "exported_pod": ("pod",),
            "pod": ("exported_pod",),
            "namespace": ("exported_namespace",),
            "container": ("exported_container",),
            "card_series": ("card_model",),
        },
        facts={Fact.DEVICE_MODEL: "card_series"},
        series={
            Metric.SM_ACTIVE: (Series("gpu_prof_sm_active", scale=0.01, valid=_PERCENT),),
            Metric.TENSOR_ACTIVE: (Series("gpu_prof_tensor_active_percent", scale=0.01, valid=_PERCENT),),
            Metric.DEVICE_BUSY: (Series("gpu_gfx_activity", scale=0.01, valid=_PERCENT),),
            Metric.DEVICE_HBM_PEAK_RATE: (Series("gpu_vram_max_bandwidth", scale=1e9, valid=_PRESENT),),
            Metric.DEVICE_MEMORY_USED: (Series("gpu_used_vram", scale=2.0**20, valid=_POSITIVE),),
            Metric.DEVICE_MEMORY_TOTAL: (Series("gpu_total_vram", scale=2.0**20, valid=_PRESENT),),
            Metric.DEVICE_CLOCK: (
                Series("gpu_clock", {"clock_type": "GPU_CLOCK_TYPE_SYSTEM"}, scale=1e6, valid=_PRESENT),
            ),
            Metric.DEVICE_POWER: (Series("gpu_package_power", valid=_PRESENT),),
            # Kilobytes since the driver was loaded, by link.
            Metric.FABRIC_TX_BYTES: (Series("gpu_xgmi_link_tx", scale=1e3, valid=(0.0, 1e18)),),
            Metric.FABRIC_RX_BYTES: (Series("gpu_xgmi_link_rx", scale=1e3, valid=(0.0, 1e18)),),
        },
        enable={
            Metric.SM_ACTIVE: _PROFILER,
            Metric.TENSOR_ACTIVE: _PROFILER,
            Metric.DEVICE_BUSY: _FIELDS,
            Metric.FABRIC_TX_BYTES: _FIELDS,
            Metric.FABRIC_RX_BYTES: _FIELDS,
        },
    ),
)
