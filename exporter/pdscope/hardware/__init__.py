"""The built-in table of devices: peak figures with a source for each of them (`table.yaml`; docs/hardware.md)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files

import yaml

from pdscope.errors import ConfigError
from pdscope.hardware._names import nearest, plain
from pdscope.hardware._table import DEFAULT_SOURCE, FIGURES, Cell, Device, Table, read_table
from pdscope.model.hardware import Hardware

__all__ = [
    "DEFAULT_SOURCE",
    "FIGURES",
    "Cell",
    "Device",
    "Table",
    "cells",
    "find_hardware",
    "hardware_choices",
    "hardware_defaults",
    "hardware_names",
    "hardware_table",
    "name_problem",
    "nearest_hardware",
    "read_table",
]


def find_hardware(name: str) -> Hardware | None:
    """The device of that name or alias, however it is spaced and capitalised, with or without its vendor.

    None when the table has none, and when the name may mean different devices (`hardware_choices` has them).
    """
    device = hardware_table().by_name.get(plain(name))
    return device.hardware if device else None


def hardware_names() -> tuple[str, ...]:
    """Names of the table, without aliases."""
    return tuple(hardware_table().devices)


def hardware_choices(name: str) -> tuple[str, ...]:
    """Names of the devices that a short name such as `A100` may mean; empty when it is not ambiguous."""
    return hardware_table().ambiguous.get(plain(name), ())


def nearest_hardware(name: str) -> tuple[str, ...]:
    """Names of the table, at most three, of which `name` may be a slip."""
    table = hardware_table()
    known: dict[str, tuple[str, ...]] = {key: (device.hardware.name,) for key, device in table.by_name.items()}
    return nearest(name, {**known, **table.ambiguous})


def name_problem(name: str, described: bool = False) -> str | None:  # noqa: FBT001, FBT002 -- one question, two facts
    """What is wrong with a name of a device, for the reader of an error; None: nothing.

    Args:
        name: as written.
        described: figures stand beside it, so that it may be the name of a device that the table does not have. A name
            that may mean several of the table is refused all the same: over which of them are the figures to go?
    """
    if choices := hardware_choices(name):
        return f"may be any of different devices; write {' or '.join(choices)}"
    if described or find_hardware(name) is not None:
        return None
    near = nearest_hardware(name)
    hint = f"did you mean {' or '.join(near)}?" if near else "its names are in docs/hardware.md"
    return f"is not in the hardware table; {hint}"


def cells(name: str) -> Mapping[str, Cell]:
    """Every figure of a device with its source: key of the table and of the configuration -> cell.

    Raises:
        KeyError: the table has no device of that name.
    """
    return hardware_table().by_name[plain(name)].cells


def hardware_defaults() -> Mapping[str, float]:
    """Field of `Hardware` -> the share that a device without its own is taken to reach."""
    return {FIGURES[key]: value for key, value in hardware_table().defaults.items()}


@functools.cache
def hardware_table() -> Table:
    """The table of this version.

    Raises:
        ConfigError: the file in the package is damaged; it names the place.
    """
    try:
        return read_table(yaml.safe_load(files(__package__).joinpath("table.yaml").read_text(encoding="utf-8")))
    except ConfigError as error:
        raise ConfigError("hardware/table.yaml", str(error)) from None
