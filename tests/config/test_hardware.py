"""How devices are named in the configuration, and what becomes of the figures beside the name."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdscope.config import Config, HardwareConfig, parse_config
from pdscope.errors import ConfigError
from pdscope.hardware import find_hardware
from pdscope.model.hardware import Hardware
from pdscope.runtime.plugins import Plugins, check

SHARES = {"achievable_hbm_fraction": 0.8, "achievable_link_fraction": 0.8}


def parse(deployment: str = "", first: str = "", second: str = "") -> Config:
    """A deployment of two instances, with `hardware` where it is given."""
    below = f"  hardware: {deployment}\n" if deployment else ""
    instances = "".join(
        f'  - {{name: p{i}, url: "http://h:{i + 1}"{f", hardware: {text}" if text else ""}}}\n'
        for i, text in enumerate((first, second))
    )
    return parse_config(f"deployments:\n- name: d\n{below}  instances:\n{instances}", Path("/base"))


def said(config: Config) -> list[str]:
    """What is refused, line by line."""
    with pytest.raises(ConfigError) as caught:
        check(config, Plugins((), (), ()))
    return str(caught.value).split("\n")


@pytest.mark.parametrize("name", ["H200", "nvidia h200", "H200-SXM", "Ascend910B3", "{name: H200, nic: 50GB/s}"])
def test_known_names_pass(name: str) -> None:
    check(parse(name, first=name), Plugins((), (), ()))


def test_a_device_that_is_not_in_the_table_may_have_any_name() -> None:
    check(parse("{name: Prototype 7, hbm_bandwidth: 2TB/s}"), Plugins((), (), ()))


def test_an_unknown_name_is_refused_where_it_stands() -> None:
    """The instance that inherits it says nothing of its own."""
    assert said(parse("H202", second="{name: L40}")) == [
        "deployments[0].hardware: 'H202' is not in the hardware table; did you mean H20 or H200 SXM? (line 3)",
        "deployments[0].instances[1].hardware: 'L40' is not in the hardware table; did you mean L40S or L4? (line 6)",
    ]


@pytest.mark.parametrize("written", ["A100", "{name: a100, nic: 25GB/s}"])
def test_a_short_name_of_several_devices_is_refused_with_the_choices(written: str) -> None:
    """Figures beside it do not help: over which device are they to go?"""
    (line,) = said(parse(first=written))
    assert line.startswith("deployments[0].instances[0].hardware: ")
    assert "may be any of different devices; write A100-40 SXM or A100-80 SXM or A100-80 PCIe (line 4)" in line


def test_a_name_alone_is_the_device_of_the_table() -> None:
    assert HardwareConfig(name="nvidia-h200").to_model() == find_hardware("H200 SXM")


def test_written_figures_win_over_those_of_the_table() -> None:
    config = parse("{name: H20, hbm_bandwidth: 4.8TB/s, achievable_link_fraction: 0.9}").deployments[0].hardware
    table = find_hardware("H20")
    assert config is not None
    assert table is not None
    model = config.to_model()
    assert (model.name, model.source) == ("H20", "configuration over hardware table: H20")
    assert (model.hbm_bandwidth_bytes_per_second, model.achievable_link_fraction) == (4.8e12, 0.9)
    assert (model.bf16_flop_per_second, model.topology) == (table.bf16_flop_per_second, "switched")
    assert table.defaulted == ("achievable_hbm_fraction", "achievable_link_fraction")
    assert model.defaulted == ("achievable_hbm_fraction",)


def test_a_device_of_its_own_has_the_written_figures_and_the_default_shares() -> None:
    config = parse("{bf16: 100TFLOP/s, achievable_hbm_fraction: 0.7}").deployments[0].hardware
    assert config is not None
    assert config.to_model() == Hardware(
        bf16_flop_per_second=1e14,
        **{**SHARES, "achievable_hbm_fraction": 0.7},
        defaulted=("achievable_link_fraction",),
    )
