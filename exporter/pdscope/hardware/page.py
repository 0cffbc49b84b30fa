"""The page docs/hardware.md: every figure of the table with its source, and how a configuration names a device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from pdscope.hardware import DEFAULT_SOURCE, Cell, Device, hardware_table

_HEAD: Final = """# Hardware

What a device can do at most decides whether it is the bottleneck. pdscope has a table of devices with the figures of
their data sheets; the configuration names a device of it, gives figures of its own, or both.

```yaml
deployments:
- name: chat
  hardware: H200                       # the devices of all instances
  instances:
  - {name: p0, url: "http://p0:30000", role: prefill}
  - name: d0
    url: http://d0:30000
    role: decode
    hardware: H20                      # this instance has other ones
  - name: d1
    url: http://d1:30000
    role: decode
    hardware:                          # a device of the table, with some figures replaced
      name: B200
      hbm_bandwidth: 8TB/s
      nic: 400Gb/s
  - name: d2
    url: http://d2:30000
    role: decode
    hardware: {name: Prototype 7, hbm_bandwidth: 2TB/s, bf16: 400TFLOP/s}   # not in the table: figures of its own
```

An instance without `hardware` has that of its deployment. Where neither is written, the name that the device's driver
or exporter reports is looked up; when it is not in the table, nothing is known of the device. All keys are in
[configuration.md](configuration.md#hardware).

## Names

Capitals, spaces, `-`, `_` and a vendor in front (NVIDIA, AMD, Instinct, Intel, Huawei, Ascend) make no difference:
`H200`, `nvidia-h200` and `NVIDIA H200` are the same. A name that is not in the table is refused with the nearest ones,
unless figures stand beside it. A similar device is another device: `NVIDIA H200 NVL` is not `NVIDIA H200`.
"""
_FIGURES_HEAD: Final = """
## Figures

All of one device. Compute is dense: data sheets often print twice as much, with sparsity. Links are one direction: data
sheets often print the sum of both. `link` is all links to other devices together, `link pair` those between two
devices; `NIC` is the network port that belongs to the device. A share is of the peak beside it. An empty cell is
unknown.

The letter behind a figure is its [source](#sources). **?** marks a figure that was not verified: no source was found,
or the source contradicts itself. *default* marks a share that nobody gave for the device.
"""
_SHARE_KEYS: Final = ("achievable_hbm_fraction", "achievable_bf16_fraction", "achievable_link_fraction")
_COLUMNS: Final[Mapping[str, tuple[str, Callable[[float], str]]]] = {
    "hbm_capacity": ("memory, GB", lambda value: f"{value / 1e9:.4g}"),
    "hbm_bandwidth": ("memory, GB/s", lambda value: f"{value / 1e9:.4g}"),
    "bf16": ("bf16, TFLOP/s", lambda value: f"{value / 1e12:.4g}"),
    "fp8": ("fp8, TFLOP/s", lambda value: f"{value / 1e12:.5g}"),
    "link": ("link, GB/s", lambda value: f"{value / 1e9:.4g}"),
    "link_pair": ("link pair, GB/s", lambda value: f"{value / 1e9:.4g}"),
    "nic": ("NIC, GB/s", lambda value: f"{value / 1e9:.4g}"),
}
_TOPOLOGIES: Final[Mapping[str, str]] = {
    "switched": "switched: a pair can have the whole link",
    "mesh": "mesh: the link is split over the peers",
    "pcie": "PCIe, no bridge",
    "pair": "bridge between two cards",
}


def hardware_page() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    table = hardware_table()
    devices = tuple(table.devices.values())
    yield _HEAD
    yield from _rows(
        ("device", "also"),
        ((device.hardware.name, ", ".join(f"`{alias}`" for alias in device.aliases)) for device in devices),
    )
    yield "\nThese stand for different devices and are refused:\n"
    yield from _rows(
        ("name", "write one of"),
        ((f"`{short}`", ", ".join(f"`{name}`" for name in names)) for short, names in table.short_names.items()),
    )
    yield _FIGURES_HEAD
    yield from _rows(
        ("device", *(title for title, _ in _COLUMNS.values()), "linked"),
        (
            (
                device.hardware.name,
                *(_figure(device.cells.get(key), shown) for key, (_, shown) in _COLUMNS.items()),
                _linked(device),
            )
            for device in devices
        ),
    )
    yield "\nLinked: " + "; ".join(_TOPOLOGIES.values()) + ".\n\n## What can be had of it\n"
    yield from _rows(
        ("device", "of memory bandwidth", "of bf16 (matrix multiplication)", "of the link"),
        (
            (device.hardware.name, *(_figure(device.cells.get(key), lambda v: f"{v:g}") for key in _SHARE_KEYS))
            for device in devices
        ),
    )
    yield "\n## Notes\n"
    yield from (line for device in devices for line in _notes(device))
    yield "\n## Sources\n"
    yield from _rows(("letter", "source"), table.sources.items())


def _rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _figure(cell: Cell | None, shown: Callable[[float], str]) -> str:
    if cell is None:
        return ""
    if cell.source == DEFAULT_SOURCE:
        return f"{shown(cell.value)} *default*"
    return f"{shown(cell.value)} {cell.source}{'' if cell.verified else ' **?**'}"


def _linked(device: Device) -> str:
    hardware = device.hardware
    return f"{hardware.topology}, {hardware.peers} peers" if hardware.peers else str(hardware.topology)


def _notes(device: Device) -> Iterator[str]:
    for key, cell in device.cells.items():
        said = [cell.note] if cell.note else []
        said += [f"elsewhere {cell.alt}"] if cell.alt else []
        if said:
            yield f"- {device.hardware.name}, `{key}`: {'; '.join(said)}"
