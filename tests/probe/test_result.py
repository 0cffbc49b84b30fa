"""What a probe says, and that the configuration reads it."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pdscope.config.serving import InterconnectConfig
from pdscope.config.units import parse_bandwidth
from pdscope.model.topology import Interconnect, LinkScope
from pdscope.probe.result import Level, Result, bandwidth_text, document, snippet, text_lines


def level(name: str, block_bytes: int, blocks: int, in_flight: int, *seconds: float) -> Level:
    return Level(name, block_bytes, blocks, in_flight, seconds)


RESULT = Result(
    "nixl",
    (
        level("single", 10**6, 800, 1, 0.04, 0.04, 0.04),
        level("aggregate", 10**6, 800, 4, 0.08, 0.08, 0.1),
        level("coarse", 8 * 10**6, 100, 1, 0.0379, 0.0379, 0.0379),
    ),
    wanted_blocks=1000,
)


def test_rates() -> None:
    """Median and percentiles over rounds; the mean is all bytes over all time."""
    rates = RESULT.levels[1].rates
    assert rates.p50 == pytest.approx(40e9)
    assert rates.p5 == pytest.approx(32.8e9)
    assert rates.p95 == pytest.approx(40e9)
    assert rates.mean == pytest.approx(9.6e9 / 0.26)
    assert rates.spread == pytest.approx(40 / 32.8)


def test_the_better_level_is_the_bandwidth() -> None:
    """A coarse block is not what the model sends, so it never counts."""
    assert RESULT.bytes_per_second == pytest.approx(40e9)


def test_what_a_descriptor_costs() -> None:
    """700 more descriptors took 2.1 ms more."""
    assert RESULT.descriptor_seconds == pytest.approx(3e-6)


def test_a_cost_that_drowns_in_noise_is_not_told() -> None:
    faster = Result("tcp", (RESULT.levels[0], level("coarse", 8 * 10**6, 100, 1, 0.05)), 800)
    assert faster.descriptor_seconds is None
    assert Result("tcp", RESULT.levels[:1], 800).descriptor_seconds is None
    assert not any("descriptor" in line for line in text_lines(faster, LinkScope.NODE))


@pytest.mark.parametrize("scope", [*LinkScope])
def test_the_snippet_is_configuration(scope: LinkScope) -> None:
    """Pasted as it stands, it says that the figure was measured; JSON holds the same."""
    link = yaml.safe_load(snippet(RESULT, scope))["interconnect"]
    assert InterconnectConfig.model_validate(link).to_model() == Interconnect(
        40e9, scope=scope, efficiency=1.0, transfer_engine="nixl", measured=True
    )
    assert document(RESULT, scope)["interconnect"] == link


@given(st.floats(1, 9e17))
def test_every_bandwidth_can_be_read_back(bytes_per_second: float) -> None:
    """To three digits; under 100 B/s to a whole byte."""
    assert parse_bandwidth(bandwidth_text(bytes_per_second)) == pytest.approx(bytes_per_second, rel=6e-3, abs=0.5)


def test_the_text_says_what_was_cut_and_what_is_unsteady() -> None:
    text = "\n".join(text_lines(RESULT, LinkScope.NODE))
    assert "cut from 1000 to 800 blocks" in text
    assert "costs about 3 us" in text
    assert "differ" not in text
    unsteady = Result("tcp", (level("single", 1, 8, 1, 1.0, 2.0, 4.0),), 8)
    assert "differ by more than 1.5" in "\n".join(text_lines(unsteady, LinkScope.NODE))
