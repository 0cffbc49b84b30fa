"""The built-in table of devices: peak figures with a source for each of them."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import yaml

from pdscope.model.hardware import Hardware

_FIGURES: Mapping[str, str] = {
    "hbm_capacity": "hbm_capacity_bytes",
    "hbm_bandwidth": "hbm_bandwidth_bytes_per_second",
    "bf16": "bf16_flop_per_second",
    "fp8": "fp8_flop_per_second",
    "link": "link_bytes_per_second",
    "link_pair": "link_pair_bytes_per_second",
    "nic": "nic_bytes_per_second",
    "achievable_hbm_fraction": "achievable_hbm_fraction",
    "achievable_bf16_fraction": "achievable_bf16_fraction",
    "achievable_link_fraction": "achievable_link_fraction",
}


def find_hardware(name: str) -> Hardware | None:
    """The device of that name or alias, however it is spaced and capitalised; None when the table has none."""
    return _table().get(_plain(name))


def hardware_names() -> tuple[str, ...]:
    """Names of the table, without aliases."""
    return tuple(dict.fromkeys(hardware.name for hardware in _table().values()))


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name).strip().lower()


@functools.cache
def _table() -> Mapping[str, Hardware]:
    document: Any = yaml.safe_load(files(__package__).joinpath("table.yaml").read_text(encoding="utf-8"))
    table: dict[str, Hardware] = {}
    for device in document["devices"]:
        hardware = Hardware(
            name=device["name"],
            source=f"hardware table: {device['name']}",
            topology=device["topology"],
            peers=device.get("peers"),
            **{field: float(device[key]["value"]) for key, field in _FIGURES.items() if key in device},
        )
        for name in (device["name"], *device.get("aliases", ())):
            table[_plain(name)] = hardware
    return table
