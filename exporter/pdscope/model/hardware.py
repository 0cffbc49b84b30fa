"""What a device can do by its data sheet, and what share of it can be had."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hardware:
    """Peak figures of one device. None is unknown, not zero.

    Attributes:
        name: as the table or the configuration calls it.
        source: where the figures come from, for the reader of a diagnosis.
        bf16_flop_per_second: dense; `fp8_flop_per_second` likewise.
        link_bytes_per_second: all device-to-device links of the device together, one direction.
        link_pair_bytes_per_second: the links between one pair of devices, one direction.
        nic_bytes_per_second: the network port that belongs to one device, one direction.
        topology: `switched`, `mesh`, `pcie` or `pair`; how the device is linked to its peers.
        peers: devices that one device of a mesh is linked to.
        achievable_hbm_fraction: share of `hbm_bandwidth_bytes_per_second` that programs reach; likewise for bf16 (of a
            matrix multiplication) and for the link.
        defaulted: names of the fields that nobody gave for this device and that have the default of the table.
    """

    name: str = ""
    source: str = "configuration"
    hbm_capacity_bytes: float | None = None
    hbm_bandwidth_bytes_per_second: float | None = None
    bf16_flop_per_second: float | None = None
    fp8_flop_per_second: float | None = None
    link_bytes_per_second: float | None = None
    link_pair_bytes_per_second: float | None = None
    nic_bytes_per_second: float | None = None
    topology: str | None = None
    peers: int | None = None
    achievable_hbm_fraction: float | None = None
    achievable_bf16_fraction: float | None = None
    achievable_link_fraction: float | None = None
    defaulted: tuple[str, ...] = ()
