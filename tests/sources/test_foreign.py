"""Texts of strangers: harmless for terminals, logs and files, and still told apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.model.metric import Fact, Metric
from pdscope.sources.adapter import Adapter, Series
from pdscope.sources.foreign import tame
from support.pages import read_with


@pytest.mark.parametrize(
    "text", ["", "meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen3 7B", "模型", "${jndi:ldap://x}", "<b>", "x" * 256]
)
def test_names_stay(text: str) -> None:
    """What cannot do harm by itself is not touched; each output escapes for its own form."""
    assert tame(text) == text


@pytest.mark.parametrize("order", ["\n", "\r", "\x1b", "\x9b", "\u2028", "\u202e", "\x00", "\x7f", "\ud800"])
def test_orders_are_replaced(order: str) -> None:
    """Line breaks, escapes, turns of direction and halves of characters."""
    assert tame(f"a{order}b") == "a\ufffdb"


def test_length_is_bounded() -> None:
    """And the cut is seen."""
    assert tame("x" * 257) == "x" * 255 + "…"


@given(st.text())
def test_whatever_comes_is_printable(text: str) -> None:
    """And taming twice is taming once."""
    found = tame(text)
    assert found.isprintable()
    assert len(found) <= 256
    assert tame(found) == found


def test_facts_and_ranks_of_a_page_are_tamed() -> None:
    """Field lesson E23: no foreign label value goes on as it came."""
    own = Adapter(
        name="x",
        probe=("x_",),
        series={Metric.RUNNING: (Series("x_a"),)},
        rank_labels=("r",),
        facts={Fact.MODEL: "m"},
    )
    body = 'x_a{m="a\\nb\x1b[31m",r="0\x1b"} 1\nx_a{m="a\\nb\x1b[31m",r="1"} 2\n'
    reading = read_with((own,), body.encode())
    assert reading.scrape.facts == {Fact.MODEL: "a\ufffdb\ufffd[31m"}
    assert reading.ranks(Metric.RUNNING) == {"0\ufffd", "1"}
