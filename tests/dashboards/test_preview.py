"""The pictures of the documentation: ours, small, of every board, and drawn from real answers."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest
from preview_dashboards import picture
from preview_svg import value_text

from support.boards import ROOT, Board, boards

SVG = "{http://www.w3.org/2000/svg}"
LARGEST_BYTES = 200_000

each_board = pytest.mark.parametrize("board", boards(), ids=lambda board: board.name)


def words(drawn: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(drawn).iter(f"{SVG}text")]


@each_board
def test_the_committed_picture_is_small_says_whose_it_is_and_has_every_panel(board: Board) -> None:
    """Run scripts/preview_dashboards.py when this fails."""
    drawn = (ROOT / "docs" / "dashboards" / f"{board.name}.svg").read_text(encoding="utf-8")
    assert len(drawn.encode()) < LARGEST_BYTES
    found = words(drawn)
    assert any("not by Grafana" in text for text in found)
    assert {panel["title"] for panel in board.document["panels"]} <= set(found)


def test_the_documentation_shows_them_all() -> None:
    page = (ROOT / "docs" / "dashboards.md").read_text(encoding="utf-8")
    assert all(f"](dashboards/{board.name}.svg)" in page for board in boards())
    assert "not pictures of Grafana" in page


@pytest.mark.promtool
@pytest.mark.timeout(400)
@each_board
def test_a_picture_shows_what_prometheus_answers(board: Board, history: Any) -> None:
    deployment = "kv_transfer_bandwidth" if board.name != "fleet" else "healthy|idle|kv_transfer_bandwidth"
    found = words(picture(board.document, history.server, history.shown, deployment))
    assert {panel["title"] for panel in board.document["panels"]} <= set(found)
    if board.name in ("fleet", "deployment"):
        assert "kv_transfer_bandwidth" in found
        assert "capacity" in found or board.name == "fleet"


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (0.0351, "s", "35.1 ms"),
        (3.0, "s", "3 s"),
        (0.964, "percentunit", "96.4 %"),
        (1.6e9, "Bps", "1.6 GB/s"),
        (327680.0, "bytes", "328 kB"),
        (2.5, "reqps", "2.5 req/s"),
        (0.0, "short", "0"),
    ],
)
def test_values_are_written_with_their_unit(value: float, unit: str, words: str) -> None:
    assert value_text(value, unit) == words
