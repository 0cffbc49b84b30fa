"""What makes a board importable and readable."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any
from urllib.parse import urlsplit

import pytest

from pdscope.model.finding import Confidence, Phase, Verdict
from pdscope.render.dashboards.panel import Unit
from support.boards import ROOT, Board, boards

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
EXAMPLE = "https://pdscope.example/docs/"
OF_GRAFANA = {"__rate_interval", "__interval", "__range", "__url_time_range", "__field", "__data"}

each_board = pytest.mark.parametrize("board", boards(), ids=lambda board: board.name)


def strings(value: Any) -> list[str]:
    """Every text in a document."""
    if isinstance(value, dict):
        return [text for one in value.values() for text in strings(one)]
    if isinstance(value, list):
        return [text for one in value for text in strings(one)]
    return [value] if isinstance(value, str) else []


def test_all_boards_are_there() -> None:
    assert {board.name for board in boards()} == {"fleet", "deployment", "worker", "engines"}
    uids = [board.document["uid"] for board in boards()]
    assert len(set(uids)) == len(uids)
    assert all(re.fullmatch(r"[a-z-]{8,40}", uid) for uid in uids)


@each_board
def test_it_is_a_classic_board_that_refreshes_and_shares_its_crosshair(board: Board) -> None:
    document = board.document
    assert document["schemaVersion"] == 39
    assert (document["refresh"], document["graphTooltip"], document["editable"]) == ("30s", 1, False)
    assert document["tags"] == ["pdscope"]
    assert document["title"].startswith("pdscope / ")
    assert document["description"].endswith(".")
    assert "id" not in document  # Grafana gives it


@each_board
def test_its_data_source_is_chosen_and_never_written_down(board: Board) -> None:
    first = board.variables[0]
    assert (first["name"], first["label"], first["type"], first["query"]) == (
        "datasource",
        "Data source",
        "datasource",
        "prometheus",
    )
    asking = [*board.panels, *(t for p in board.panels for t in p["targets"]), *board.document["annotations"]["list"]]
    asking += [variable for variable in board.variables if variable["type"] == "query"]
    assert all(one["datasource"] == DATASOURCE for one in asking)


@each_board
def test_panels_have_ids_titles_descriptions_and_units(board: Board) -> None:
    panels = board.panels
    ids = [panel["id"] for panel in board.document["panels"]]
    titles = [panel["title"] for panel in panels]
    assert len(set(ids)) == len(ids)
    assert len(set(titles)) == len(titles)
    for panel in panels:
        assert len(panel["description"]) > 10, panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in set(map(str, Unit)), panel["title"]
        assert panel["targets"], panel["title"]
        references = [target["refId"] for target in panel["targets"]]
        assert references == [chr(ord("A") + i) for i in range(len(references))], panel["title"]
        assert len(references) <= 26


@each_board
def test_the_grid_has_no_overlap_and_no_hole_at_its_left(board: Board) -> None:
    boxes = [(panel["title"], panel["gridPos"]) for panel in board.document["panels"]]
    for title, box in boxes:
        assert 0 <= box["x"] < box["x"] + box["w"] <= 24, title
    for (one, a), (other, b) in combinations(boxes, 2):
        apart = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        above = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert apart or above, f"{one} lies over {other}"
    starts = {box["y"] for _, box in boxes}
    assert all(any(box["x"] == 0 and box["y"] == y for _, box in boxes) for y in starts)


@each_board
def test_every_variable_that_is_used_is_there(board: Board) -> None:
    known = {variable["name"] for variable in board.variables}
    text = "\n".join(strings({**board.document, "templating": {}}))
    used = set(re.findall(r"\$\{?(\w+)", text)) | {
        name for _, expr in board.expressions() for name in re.findall(r"\$(\w+)", expr)
    }
    assert used - known - OF_GRAFANA == set()
    assert known - {"pdscope_url"} - used == set()
    assert ("pdscope_url" in known) == (board.name != "engines")


@each_board
def test_a_variable_knows_only_those_before_it(board: Board) -> None:
    known: set[str] = set()
    for variable in board.variables:
        if variable["type"] == "query":
            assert set(re.findall(r"\$(\w+)", variable["query"]["query"])) <= known
            assert variable["refresh"] == 2
            assert variable["multi"] == variable["includeAll"] == ("allValue" in variable)
        known.add(variable["name"])


@each_board
def test_links_to_the_documentation_lead_to_a_page(board: Board) -> None:
    pages = [text for text in strings(board.document) if text.startswith(EXAMPLE)]
    assert pages
    for page in pages:
        assert (ROOT / "docs" / urlsplit(page.removeprefix(EXAMPLE)).path).is_file(), page


def test_boards_lead_to_each_other_and_to_the_diagnosis() -> None:
    uids = {board.document["uid"] for board in boards()}
    for board in boards():
        others = board.document["links"][0]
        assert (others["type"], others["tags"], others["keepTime"], others["includeVars"]) == (
            "dashboards",
            ["pdscope"],
            True,
            True,
        )
        inside = [text for text in strings(board.document) if text.startswith("/d/")]
        assert {text.split("/")[2].split("?")[0] for text in inside} <= uids
        diagnosis = [text for text in strings(board.document) if text.startswith("${pdscope_url}/diagnose")]
        assert bool(diagnosis) == (board.name != "engines")
        assert all(":percentencode}" in text for text in (*diagnosis, *inside))


def test_each_state_has_one_number_one_word_and_one_colour_everywhere() -> None:
    seen: dict[str, tuple[str, str]] = {}
    mapped = set()
    for board in boards():
        for panel in board.panels:
            for options in re.findall(r'"type": "value", "options": (\{.*?\}\})', json.dumps(panel)):
                for number, state in json.loads(options).items():
                    text = state["text"]
                    assert seen.setdefault(text, (number, state["color"])) == (number, state["color"]), text
                    mapped.add(text)
    assert mapped >= {*map(str, Verdict), *map(str, Phase), *map(str, Confidence)}
    colours = [seen[verdict][1] for verdict in Verdict]
    assert len(set(colours)) == len(colours)


def test_timelines_have_a_word_for_each_of_their_numbers() -> None:
    for board in boards():
        for panel in board.panels:
            if panel["type"] == "state-timeline":
                options = panel["fieldConfig"]["defaults"]["mappings"][0]["options"]
                for target in panel["targets"]:
                    numbers = set(re.findall(r"== 1\) \* (\d+)", target["expr"])) or {"0", "1"}
                    assert numbers == set(options), panel["title"]


def test_objectives_and_capacity_are_lines_of_their_own() -> None:
    deployment = next(board for board in boards() if board.name == "deployment")
    by_title = {panel["title"]: panel for panel in deployment.panels}
    for title in ("Time to first token", "Inter-token latency"):
        legends = [target["legendFormat"] for target in by_title[title]["targets"]]
        assert legends == ["p50", "p95", "p99", "objective p50", "objective p95", "objective p99"]
    legends = [target["legendFormat"] for target in by_title["KV demand and capacity"]["targets"]]
    assert legends == ["demand", "carried", "capacity"]
    for panel in (by_title["Time to first token"], by_title["KV demand and capacity"]):
        patterns = [override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]]
        assert patterns == ["/^objective/", "/^capacity/"]
