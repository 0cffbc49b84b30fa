"""The pictures of the documentation: ours, small, and of every board. test_live.py draws them from real answers."""

from __future__ import annotations

import pytest
from preview_svg import value_text

from support.boards import ROOT, Board, boards
from support.pictures import words

LARGEST_BYTES = 200_000

each_board = pytest.mark.parametrize("board", boards(), ids=lambda board: board.name)


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


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (0.0351, "s", "35.1 ms"),
        (3.0, "s", "3 s"),
        (0.964, "percentunit", "96.4 %"),
        (1.6e9, "Bps", "1.6 GB/s"),
        (327680.0, "bytes", "328 kB"),
        (2.5, "reqps", "2.5 req/s"),
        (1234.0, "si:tok/s", "1.23 ktok/s"),
        (0.25, "cps", "0.25 c/s"),
        (0.0, "short", "0"),
    ],
)
def test_values_are_written_with_their_unit(value: float, unit: str, words: str) -> None:
    assert value_text(value, unit) == words
