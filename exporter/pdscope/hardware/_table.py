"""The table of devices as data, checked while it is read: a figure without a source never gets into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pdscope.errors import ConfigError
from pdscope.hardware._names import plain
from pdscope.model.hardware import Hardware

FIGURES: Final[Mapping[str, str]] = {
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
"""Key of the table and of the configuration -> field of `Hardware`."""
DEFAULT_SOURCE: Final = "default"
"""Source of a figure that is the same for every device that has none of its own."""

_FRACTIONS = frozenset(key for key in FIGURES if key.endswith("_fraction"))
_TOPOLOGIES = frozenset({"switched", "mesh", "pcie", "pair"})
_CELL_KEYS = frozenset({"value", "source", "verified", "note", "alt"})
_DEVICE_KEYS = frozenset({"name", "aliases", "topology", "peers", *FIGURES})
_TABLE_KEYS = frozenset({"schema_version", "defaults", "sources", "ambiguous", "devices"})
_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure of one device.

    Attributes:
        value: in bytes, bytes per second, FLOP per second or a share, by its key.
        source: key of `Table.sources`, or `DEFAULT_SOURCE`.
        verified: it was read at that source; False: from memory, or absent or contradictory there.
        note: what has to be known of it.
        alt: what another source says.
    """

    value: float
    source: str
    verified: bool
    note: str = ""
    alt: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """One device of the table.

    Attributes:
        hardware: its figures, defaults included.
        aliases: other names, as users write them and drivers print them.
        cells: key of the table -> the figure with its origin, in the order of `FIGURES`.
    """

    hardware: Hardware
    aliases: tuple[str, ...]
    cells: Mapping[str, Cell]


@dataclass(frozen=True, slots=True)
class Table:
    """All devices.

    Attributes:
        devices: by name, in the order of the file.
        sources: key -> what it stands for.
        defaults: key of the table -> the share that a device without its own has.
        by_name: plain name or alias -> device.
        short_names: short name that is ambiguous -> names of the different devices that it may mean.
    """

    devices: Mapping[str, Device]
    sources: Mapping[str, str]
    defaults: Mapping[str, float]
    by_name: Mapping[str, Device]
    short_names: Mapping[str, tuple[str, ...]]

    @property
    def ambiguous(self) -> Mapping[str, tuple[str, ...]]:
        """`short_names` by plain name."""
        return {plain(short): names for short, names in self.short_names.items()}


def read_table(document: Any) -> Table:
    """The table from the decoded file.

    Raises:
        ConfigError: something in the file is missing, unknown, out of range or stands there twice; it names the place.
    """
    whole = _mapping(document, "", _TABLE_KEYS)
    if whole.get("schema_version") != _SCHEMA_VERSION:
        raise ConfigError("schema_version", f"must be {_SCHEMA_VERSION}")
    sources = {key: _text(value, f"sources.{key}") for key, value in _mapping(whole.get("sources"), "sources").items()}
    defaults = {
        key: _number(value, f"defaults.{key}", key)
        for key, value in _mapping(whole.get("defaults"), "defaults", _FRACTIONS).items()
    }
    devices: dict[str, Device] = {}
    by_name: dict[str, Device] = {}
    for i, item in enumerate(_list(whole.get("devices"), "devices")):
        where = f"devices[{i}]"
        device = _device(_mapping(item, where, _DEVICE_KEYS), where, sources, defaults)
        devices[device.hardware.name] = device
        for name in dict.fromkeys(plain(text) for text in (device.hardware.name, *device.aliases)):
            if not name or name in by_name:
                raise ConfigError(where, f"the name {name!r} is empty or stands for another device already")
            by_name[name] = device
    short_names = dict(_short_names(_mapping(whole.get("ambiguous"), "ambiguous"), devices, by_name))
    return Table(devices, sources, defaults, by_name, short_names)


def _device(item: Mapping[str, Any], where: str, sources: Mapping[str, str], defaults: Mapping[str, float]) -> Device:
    name = _text(item.get("name"), f"{where}.name")
    topology, peers = item.get("topology"), item.get("peers")
    if topology not in _TOPOLOGIES:
        raise ConfigError(f"{where}.topology", f"must be one of {', '.join(sorted(_TOPOLOGIES))}")
    if (topology == "mesh") != (peers is not None) or (peers is not None and (type(peers) is not int or peers < 1)):
        raise ConfigError(f"{where}.peers", "must be a whole number from 1 for a mesh, and left out otherwise")
    cells = {key: _cell(item[key], f"{where}.{key}", key, sources) for key in FIGURES if key in item}
    defaulted = tuple(key for key in defaults if key not in cells)
    cells |= {key: Cell(defaults[key], DEFAULT_SOURCE, verified=False) for key in defaulted}
    hardware = Hardware(
        name=name,
        source=f"hardware table: {name}",
        topology=topology,
        peers=peers,
        defaulted=tuple(FIGURES[key] for key in defaulted),
        **{FIGURES[key]: cell.value for key, cell in cells.items()},
    )
    aliases = tuple(_text(text, f"{where}.aliases") for text in _list(item.get("aliases", []), f"{where}.aliases"))
    return Device(hardware, aliases, {key: cells[key] for key in FIGURES if key in cells})


def _cell(value: Any, where: str, key: str, sources: Mapping[str, str]) -> Cell:
    cell = _mapping(value, where, _CELL_KEYS)
    source = cell.get("source")
    if not isinstance(source, str) or source not in sources:
        raise ConfigError(f"{where}.source", f"{source!r:.60} is not among the sources of the table")
    verified = cell.get("verified")
    if not isinstance(verified, bool):
        raise ConfigError(f"{where}.verified", "must be true or false")
    texts = {part: _text(cell[part], f"{where}.{part}") for part in ("note", "alt") if part in cell}
    return Cell(_number(cell.get("value"), f"{where}.value", key), source, verified, **texts)


def _short_names(
    written: Mapping[str, Any], devices: Mapping[str, Device], by_name: Mapping[str, Device]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    seen: set[str] = set()
    for short, value in written.items():
        where = f"ambiguous.{short}"
        choices = tuple(_text(name, where) for name in _list(value, where))
        if plain(short) in by_name or plain(short) in seen:
            raise ConfigError(where, "is a name of one device already, or stands there twice")
        if len(choices) < 2 or not set(choices) <= devices.keys():
            raise ConfigError(where, "must list two devices of the table or more")
        seen.add(plain(short))
        yield short, choices


def _mapping(value: Any, where: str, keys: frozenset[str] | None = None) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ConfigError(where, "must be a mapping whose keys are text")
    if keys is not None and (unknown := sorted(value.keys() - keys)):
        raise ConfigError(f"{where}.{unknown[0]}" if where else unknown[0], "is not a known key")
    return value


def _list(value: Any, where: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise ConfigError(where, "must be a list")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(where, "must be text")
    return value


def _number(value: Any, where: str, key: str) -> float:
    largest = 1.0 if key in _FRACTIONS else 1e18
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= largest:
        raise ConfigError(where, f"must be a number above 0 and at most {largest:g}")
    return float(value)
