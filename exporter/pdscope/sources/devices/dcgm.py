"""NVIDIA dcgm-exporter: profiling fields of both name generations (renamed in DCGM 4.6).

Only fields that measure utilisation are read. `DCGM_FI_DEV_GPU_UTIL` says that some kernel ran and
`DCGM_FI_DEV_MEM_COPY_UTIL` that memory was touched; neither is compute nor bandwidth utilisation, so neither is here.
Blank sentinels (fp64 140737488355328 and its neighbours, int64 9.2e18) lie outside `valid`.

The instances of a MIG device share its `UUID` and differ in `GPU_I_ID`; each is a device of its own. A device that is
shared out to several pods is printed once for each of them (`vgpu`), with the same numbers.
"""

from __future__ import annotations

from pdscope.model.metric import Metric
from pdscope.sources.adapter import Adapter, Series

_RATIO = (-0.005, 1.05)  # rounding and MIG lead slightly out of 0..1; what is further out is no measurement


def _field(old: str, new: str) -> tuple[Series, ...]:
    return (Series(f"DCGM_FI_PROF_{old}", valid=_RATIO), Series(f"DCGM_FI_PROF_{new}", valid=_RATIO))


ADAPTERS = (
    Adapter(
        name="dcgm",
        probe=("DCGM_FI_",),
        rank_labels=("UUID", "uuid", "GPU_I_ID"),
        devices=True,
        repeated=("vgpu",),
        series={
            Metric.SM_ACTIVE: _field("SM_ACTIVE", "SM_UTIL_RATIO"),
            Metric.TENSOR_ACTIVE: _field("PIPE_TENSOR_ACTIVE", "TENSOR_UTIL_RATIO"),
            Metric.ENGINE_ACTIVE: _field("GR_ENGINE_ACTIVE", "GR_ENGINE_UTIL_RATIO"),
            Metric.DRAM_ACTIVE: _field("DRAM_ACTIVE", "DRAM_UTIL_RATIO"),
        },
    ),
)
