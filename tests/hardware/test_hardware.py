"""The table of devices: names, figures with their sources, and what is refused of a damaged file."""

from __future__ import annotations

import copy
from importlib.resources import files
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pdscope.errors import ConfigError
from pdscope.hardware import (
    FIGURES,
    cells,
    find_hardware,
    hardware_choices,
    hardware_defaults,
    hardware_names,
    hardware_table,
    name_problem,
    nearest_hardware,
    read_table,
)

DOCUMENT: Any = yaml.safe_load(files("pdscope.hardware").joinpath("table.yaml").read_text(encoding="utf-8"))
TABLE = read_table(DOCUMENT)

NAMES = {
    # as drivers and exporters print them
    "NVIDIA A100-SXM4-40GB": "A100-40 SXM",
    "NVIDIA A100-SXM4-80GB": "A100-80 SXM",
    "A100-SXM4-80GB": "A100-80 SXM",
    "NVIDIA A100 80GB PCIe": "A100-80 PCIe",
    "NVIDIA H100 80GB HBM3": "H100 SXM",
    "NVIDIA H100 PCIe": "H100 PCIe",
    "NVIDIA H100 NVL": "H100 NVL",
    "NVIDIA H200": "H200 SXM",
    "NVIDIA H20": "H20",
    "NVIDIA H800": "H800",
    "NVIDIA B200": "B200 SXM",
    "NVIDIA B300 SXM6 AC": "B300 SXM",
    "NVIDIA GB200": "GB200",
    "NVIDIA GB300": "GB300",
    "NVIDIA L40S": "L40S",
    "NVIDIA L4": "L4",
    "NVIDIA A30": "A30",
    "AMD Instinct MI300X OAM": "MI300X",
    "AMD Instinct MI325X OAM": "MI325X",
    "AMD Instinct MI355X OAM": "MI355X",
    "910B3": "Ascend 910B3",
    "Ascend910B3": "Ascend 910B3",
    # as users write them
    "h200": "H200 SXM",
    "H200_SXM": "H200 SXM",
    "H100-SXM5": "H100 SXM",
    "b200": "B200 SXM",
    "mi300x": "MI300X",
    "Instinct MI300X": "MI300X",
    "Intel Arc Pro B60": "Intel B60",
    "910C": "Ascend 910C (A3 module)",
    "Huawei Ascend 910B2": "Ascend 910B2",
}
OTHERS = ("NVIDIA A100-PCIE-40GB", "NVIDIA H200 NVL", "NVIDIA H20-3e", "NVIDIA H800 PCIe", "L40", "V100", "nvidia", "")


@pytest.mark.parametrize("name", NAMES)
def test_names_of_drivers_and_users(name: str) -> None:
    hardware = find_hardware(name)
    assert hardware is not None
    assert hardware.name == NAMES[name]
    assert name_problem(name) is None


@pytest.mark.parametrize("name", OTHERS)
def test_a_similar_device_is_another_device(name: str) -> None:
    assert find_hardware(name) is None
    assert "is not in the hardware table" in str(name_problem(name))
    assert name_problem(name, True) is None


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("A100", ("A100-40 SXM", "A100-80 SXM", "A100-80 PCIe")),
        ("NVIDIA H100", ("H100 SXM", "H100 PCIe", "H100 NVL")),
        ("910B4", ("Ascend 910B4 64 GB", "Ascend 910B4 32 GB")),
    ],
)
def test_a_short_name_of_several_devices_picks_none(name: str, choices: tuple[str, ...]) -> None:
    assert find_hardware(name) is None
    assert hardware_choices(name) == choices
    assert (
        name_problem(name)
        == name_problem(name, True)
        == (f"may be any of different devices; write {' or '.join(choices)}")
    )


def test_the_nearest_names_are_proposed() -> None:
    assert nearest_hardware("MI300")[0] == "MI300X"
    assert nearest_hardware("H20O")[0] == "H20"
    assert nearest_hardware("A1000") == ("A100-40 SXM", "A100-80 SXM", "A100-80 PCIe")
    assert nearest_hardware("quantum") == ()


def test_every_name_finds_its_device_and_there_are_many() -> None:
    names = hardware_names()
    assert len(names) == len(set(names)) >= 25
    for name, device in hardware_table().devices.items():
        for written in (name, *device.aliases):
            assert find_hardware(written) == device.hardware, written


@given(st.sampled_from([*NAMES]), st.sampled_from(["{}", " {} ", "nvidia {}", "NVIDIA-{}"]), st.sampled_from(" -_"))
def test_spacing_capitals_and_vendor_make_no_difference(name: str, form: str, gap: str) -> None:
    hardware = find_hardware(form.format(name.swapcase()).replace(" ", gap))
    assert hardware is not None
    assert hardware.name == NAMES[name]


def test_figures_and_their_sources() -> None:
    hardware, figures = find_hardware("H200"), cells("H200")
    assert hardware is not None
    assert hardware.source == "hardware table: H200 SXM"
    assert hardware.hbm_bandwidth_bytes_per_second == figures["hbm_bandwidth"].value == 4.8e12
    assert hardware.bf16_flop_per_second == 989e12
    assert (figures["hbm_bandwidth"].source, figures["hbm_bandwidth"].verified) == ("A", True)
    assert "aiconfigurator" in hardware_table().sources["A"]
    assert "143771 MiB" in figures["hbm_capacity"].note
    assert "4917 GB/s" in figures["hbm_bandwidth"].alt
    assert not cells("H800")["bf16"].verified
    with pytest.raises(KeyError):
        cells("V100")


def test_a_share_that_nobody_gave_is_the_default_and_says_so() -> None:
    h200, mi300x = find_hardware("H200"), find_hardware("MI300X")
    assert h200 is not None
    assert mi300x is not None
    assert hardware_defaults() == {"achievable_hbm_fraction": 0.8, "achievable_link_fraction": 0.8}
    assert (h200.achievable_hbm_fraction, h200.defaulted) == (0.875, ("achievable_link_fraction",))
    assert (mi300x.achievable_hbm_fraction, mi300x.defaulted) == (
        0.8,
        ("achievable_hbm_fraction", "achievable_link_fraction"),
    )
    assert (cells("MI300X")["achievable_hbm_fraction"].source, cells("MI300X")["bf16"].source) == ("default", "S")


def test_what_is_not_in_the_table_is_unknown() -> None:
    hardware = find_hardware("A30")
    assert hardware is not None
    assert hardware.fp8_flop_per_second is None
    assert "fp8" not in cells("A30")


@pytest.mark.parametrize("device", TABLE.devices.values(), ids=[*TABLE.devices])
def test_figures_are_plausible(device: Any) -> None:
    """Slips of a digit or of a unit, and figures with sparsity, would not be."""
    hardware = device.hardware
    assert 20e9 < hardware.hbm_capacity_bytes < 320e9
    assert 0.2e12 < hardware.hbm_bandwidth_bytes_per_second <= 8e12
    assert 0.09e15 < hardware.bf16_flop_per_second <= 2.5e15
    fp8 = hardware.fp8_flop_per_second
    assert fp8 is None or 0.99 < fp8 / hardware.bf16_flop_per_second < 2.05
    assert 0.02e12 < hardware.link_pair_bytes_per_second <= hardware.link_bytes_per_second <= 0.9e12
    pairs = hardware.link_bytes_per_second / hardware.link_pair_bytes_per_second
    assert pairs == pytest.approx(hardware.peers or 1)
    assert {*device.cells} <= {*FIGURES}


def damaged(place: tuple[Any, ...], value: Any) -> Any:
    """The file with one value replaced; `...` removes it."""
    document = copy.deepcopy(DOCUMENT)
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return document


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("schema_version",), 2, "schema_version: must be 1"),
        (("sources",), ..., "sources: must be a mapping"),
        (("sources", "A"), "", "sources.A: must be text"),
        (("extra",), 1, "extra: is not a known key"),
        (("devices",), {}, "devices: must be a list"),
        (("defaults", "bf16"), 0.8, "defaults.bf16: is not a known key"),
        (("defaults", "achievable_hbm_fraction"), 1.5, "defaults.achievable_hbm_fraction: must be a number above 0"),
        (("devices", 0, "name"), ..., "devices[0].name: must be text"),
        (("devices", 0, "hbm"), {}, "devices[0].hbm: is not a known key"),
        (("devices", 0, "topology"), "ring", "devices[0].topology: must be one of mesh"),
        (("devices", 0, "peers"), 7, "devices[0].peers: must be a whole number from 1 for a mesh"),
        (("devices", 0, "topology"), "mesh", "devices[0].peers: must be a whole number from 1 for a mesh"),
        (("devices", 0, "bf16"), 3e14, "devices[0].bf16: must be a mapping"),
        (("devices", 0, "bf16", "value"), ..., "devices[0].bf16.value: must be a number above 0"),
        (("devices", 0, "bf16", "value"), "3e14", "devices[0].bf16.value: must be a number above 0"),
        (("devices", 0, "bf16", "value"), -1.0, "devices[0].bf16.value: must be a number above 0"),
        (("devices", 0, "bf16", "value"), float("nan"), "devices[0].bf16.value: must be a number above 0"),
        (("devices", 0, "bf16", "value"), True, "devices[0].bf16.value: must be a number above 0"),
        (("devices", 0, "achievable_bf16_fraction", "value"), 86.9, "and at most 1"),
        (("devices", 0, "bf16", "source"), "Z", "devices[0].bf16.source: 'Z' is not among the sources"),
        (("devices", 0, "bf16", "source"), ..., "devices[0].bf16.source: None is not among the sources"),
        (("devices", 0, "bf16", "verified"), ..., "devices[0].bf16.verified: must be true or false"),
        (("devices", 0, "bf16", "note"), 5, "devices[0].bf16.note: must be text"),
        (("devices", 0, "bf16", "nota"), "x", "devices[0].bf16.nota: is not a known key"),
        (("devices", 0, "aliases"), "x", "devices[0].aliases: must be a list"),
        (
            ("devices", 1, "aliases"),
            ["nvidia a100 SXM4 40gb"],
            "devices[1]: the name 'a100sxm440gb' is empty or stands",
        ),
        (("devices", 1, "aliases"), ["-"], "devices[1]: the name '' is empty or stands"),
        (("ambiguous", "H200"), ["H20", "H100 SXM"], "ambiguous.H200: is a name of one device already"),
        (("ambiguous", "a-100"), ["H20", "H100 SXM"], "ambiguous.a-100: is a name of one device already"),
        (("ambiguous", "H10"), ["H20"], "ambiguous.H10: must list two devices"),
        (("ambiguous", "H10"), ["H20", "H21"], "ambiguous.H10: must list two devices"),
    ],
)
def test_a_damaged_file_is_refused_with_the_place(place: tuple[Any, ...], value: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_table(damaged(place, value))
    assert message in str(caught.value)


@pytest.mark.parametrize("document", [None, [], "x", {1: 2}])
def test_a_file_that_is_no_table(document: Any) -> None:
    with pytest.raises(ConfigError, match="must be a mapping whose keys are text"):
        read_table(document)
