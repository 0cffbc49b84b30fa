"""Ascend npu-exporter (mind-cluster): NPUs, their HCCS links and their own RoCE ports.

Every sample carries its own time stamp. AICore is measured every second, HBM, HCCS and the network every 60 s, so a
figure may be a minute old on a fresh page. A failed measurement is printed as -1.

`npu_chip_info_hbm_utilization` is the share of the *capacity* in use, not of the bandwidth, and is not read: the
bandwidth is `npu_chip_info_hbm_bandwidth_utilization`. HCCS is measured over 200 ms once a minute: one zero says
nothing of a link that carries bursts. `npu_chip_link_speed` has contradicting units in documentation and source.
"""

from __future__ import annotations

from pdscope.model.metric import Fact, Metric
from pdscope.sources.adapter import Adapter, Owner, Ownership, Series
from pdscope.sources.promises import promise

_PERCENT = (0.0, 105.0)
_POSITIVE = (0.0, 1e9)  # -1 is a failure, 4294967295 the driver's blank


def _series(name: str, scale: float = 1.0, valid: tuple[float, float] = _POSITIVE) -> tuple[Series, ...]:
    return (Series(f"npu_chip_info_{name}", scale=scale, valid=valid),)


ADAPTERS = (
    Adapter(
        name="npu",
        probe=("npu_chip_info_",),
        # The oldest versions print `id` alone; the dies of two hosts then have equal names.
        rank_labels=("vdie_id", "id"),
        devices=True,
        refresh_seconds=60.0,
        promised=(promise(Metric.SM_ACTIVE),),
        owners=(Owner("pod_name", Ownership.NAME),),
        aliases={
            "pod": ("pod_name",),
            "container": ("container_name",),
            "namespace": ("exported_namespace",),
        },
        facts={Fact.DEVICE_MODEL: "model_name"},
        series={
            Metric.SM_ACTIVE: _series("utilization", 0.01, _PERCENT),
            Metric.TENSOR_ACTIVE: _series("cube_utilization", 0.01, _PERCENT),
            Metric.DRAM_ACTIVE: _series("hbm_bandwidth_utilization", 0.01, _PERCENT),
            Metric.DEVICE_MEMORY_USED: _series("hbm_used_memory", 2.0**20),
            Metric.DEVICE_MEMORY_TOTAL: _series("hbm_total_memory", 2.0**20),
            Metric.DEVICE_CLOCK: _series("aicore_current_freq", 1e6),
            Metric.DEVICE_POWER: _series("power"),
            Metric.FABRIC_TX_RATE: _series("hccs_bandwidth_info_total_tx", 1e9),
            Metric.FABRIC_RX_RATE: _series("hccs_bandwidth_info_total_rx", 1e9),
            Metric.NIC_TX_RATE: _series("bandwidth_tx", 1e6),
            Metric.NIC_RX_RATE: _series("bandwidth_rx", 1e6),
            Metric.NIC_ACTIVE: _series("link_status", valid=(1.0, 1.0)),
        },
        enable=dict.fromkeys(
            (Metric.SM_ACTIVE, Metric.DRAM_ACTIVE, Metric.FABRIC_TX_RATE, Metric.FABRIC_RX_RATE, Metric.NIC_TX_RATE),
            "the state of its group in the exporter's metricConfiguration.json",
        ),
    ),
)
