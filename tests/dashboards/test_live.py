"""Every query of every board, asked of a real Prometheus over the history of every scenario of the demo."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from preview_dashboards import picture

from pdscope.demo.scenarios import SCENARIOS
from pdscope.render.dashboards.states import VERDICTS, numbers
from support.boards import LOSES_A_SOURCE, SEEN, Board, boards
from support.pictures import words

# The first one waits until all scenarios are simulated.
pytestmark = [pytest.mark.promtool, pytest.mark.timeout(400)]

MAY_BE_EMPTY: Mapping[str, str] = {
    "Stable for": "latencies are over their objective, or there is no window of stability yet",
    "Findings": "nothing is wrong",
    "Imbalance": "each role has one instance",
    "Failed scrapes": "none has failed, and there is no counter before the first",
    "Failed transfers by worker": "SGLang prints the series with its first failure",
    "Requests pushed out by worker": "SGLang prints the series with the first of them",
}
"""Panel -> why a scenario may have nothing to show in it. Each has something to show in some scenario."""

NOT_IN_THE_DEMO = {
    ("Time to first token", "objective p99"),
    ("Inter-token latency", "objective p99"),
    ("Requests pushed out by worker", "{{worker}} ({{role}})"),
}
"""Objectives that no deployment of the demo has, and SGLang's retractions, of which it has none."""

LARGEST = {
    "s": 1e5,
    "percentunit": 10.0,
    "Bps": 1e13,
    "bytes": 1e12,
    "reqps": 1e4,
    "si:tok/s": 1e7,
    "cps": 1e4,
    "short": 1e7,
}
"""What no deployment of the demo can reach, by unit."""

LINES_AT_MOST = 20
NAMES = (*SEEN, LOSES_A_SOURCE)
by_deployment = pytest.mark.parametrize("name", NAMES)
DEPLOYMENT_BOARDS = [board for board in boards() if board.name != "fleet"]


def chosen(board: Board, deployment: str) -> dict[str, str]:
    """All of every variable, and one deployment."""
    every = {v["name"]: v["allValue"] for v in board.variables if v.get("includeAll")}
    return {**every, "deployment": deployment}


def answers(board: Board, panel: Mapping[str, Any], deployment: str, history: Any) -> list[list[Any]]:
    """Series of each query of a panel."""
    values = chosen(board, deployment)
    found = []
    for target in panel["targets"]:
        expr = history.shown.substituted(target["expr"], values)
        if target["instant"]:
            found.append(history.server.query(expr, history.shown.end))
        else:
            found.append(history.server.query_range(expr, history.shown))
    return found


def faults(panel: Mapping[str, Any], found: Sequence[Sequence[Any]]) -> list[str]:
    """What is wrong with the answers of a panel."""
    defaults = panel["fieldConfig"]["defaults"]
    said = []
    for target, lines in zip(panel["targets"], found, strict=True):
        values = [value for line in lines for _, value in line.points]
        said += [f"{target['refId']}: {value}" for value in values if not math.isfinite(value)]
        said += [
            f"{target['refId']}: {value} is out of bounds"
            for value in values
            if not 0.0 <= value <= defaults.get("max", LARGEST[defaults["unit"]]) * (1 + 1e-9)
        ]
        if panel["type"] == "state-timeline":
            known = {float(number) for number in defaults["mappings"][0]["options"]}
            said += [f"{target['refId']}: no word for {value}" for value in values if value not in known]
        for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
            # Some lines may lack it: a router has no version.
            said += (
                [f"{target['refId']}: no label {label}"] if lines and not any(label in x.labels for x in lines) else []
            )
        if len({str(line.labels) for line in lines}) != len(lines):
            said.append(f"{target['refId']}: two lines of one name")
    lines_in_all = sum(map(len, found))
    if panel["type"] != "table" and lines_in_all > LINES_AT_MOST:
        said.append(f"{lines_in_all} lines")
    return said


@by_deployment
@pytest.mark.parametrize("board", DEPLOYMENT_BOARDS, ids=lambda board: board.name)
def test_every_panel_has_something_finite_to_show(board: Board, name: str, history: Any) -> None:
    for panel in board.panels:
        found = answers(board, panel, name, history)
        assert faults(panel, found) == [], panel["title"]
        assert any(found) or panel["title"] in MAY_BE_EMPTY, f"{panel['title']} is empty"


def test_the_fleet_shows_all_deployments(history: Any) -> None:
    board = next(board for board in boards() if board.name == "fleet")
    for panel in board.panels:
        found = answers(board, panel, "|".join(NAMES[:LINES_AT_MOST]), history)
        assert faults(panel, found) == [], panel["title"]
        assert all(found), f"{panel['title']}: a query is empty"
        if any(target["legendFormat"] == "{{deployment}}" for target in panel["targets"]):
            assert {line.labels["deployment"] for line in found[0]} == set(NAMES[:LINES_AT_MOST]), panel["title"]


def test_every_query_has_an_answer_somewhere(history: Any) -> None:
    """A panel is not carried by one of its queries while another is dead."""
    for board in DEPLOYMENT_BOARDS:
        for panel in board.panels:
            answered = {
                index for name in NAMES for index, lines in enumerate(answers(board, panel, name, history)) if lines
            }
            dead = {(panel["title"], t["legendFormat"]) for i, t in enumerate(panel["targets"]) if i not in answered}
            assert dead <= NOT_IN_THE_DEMO, board.name


@pytest.mark.parametrize("board", boards(), ids=lambda board: board.name)
def test_every_variable_offers_something(board: Board, history: Any) -> None:
    values: dict[str, str] = {}
    for variable in board.variables:
        if variable["type"] != "query":
            continue
        offered = history.server.choices(variable["query"]["query"], values, history.shown)
        assert offered, variable["name"]
        if variable["name"] == "deployment":
            assert set(offered) == set(NAMES)
        if variable["name"] == "role":
            assert set(offered) == {"prefill", "decode"}
        values[variable["name"]] = variable.get("allValue", offered[0])


@pytest.mark.parametrize("name", SEEN)
def test_the_verdict_of_the_scenario_is_shown(name: str, history: Any) -> None:
    board = next(board for board in boards() if board.name == "deployment")
    panel = next(panel for panel in board.panels if panel["title"] == "Verdict now")
    ((line,),) = answers(board, panel, name, history)
    assert line.points[0][1] == numbers(VERDICTS)[SCENARIOS[name].verdict]


def test_a_change_of_the_verdict_is_marked(history: Any) -> None:
    board = next(board for board in boards() if board.name == "deployment")
    (annotation,) = board.document["annotations"]["list"]
    expr = history.shown.substituted(annotation["expr"], chosen(board, "kv_transfer_bandwidth"))
    marks = history.server.query_range(expr, history.shown)
    assert "kv_transfer_bandwidth" in {line.labels["verdict"] for line in marks}


def test_both_spellings_of_an_engine_are_read(history: Any) -> None:
    """The history has colons; a gateway that writes underscores is found by the same pattern."""
    pattern = re.compile(r'__name__=~"([^"]*)"')
    engines = next(board for board in boards() if board.name == "engines")
    names = [name for _, expr in engines.expressions() for name in pattern.findall(expr)]
    assert names
    for name in names:
        for spelt in name.split("|"):
            colon, underscore = spelt.replace("[:_]", ":"), spelt.replace("[:_]", "_")
            assert re.fullmatch(spelt, colon)
            assert re.fullmatch(spelt, underscore)


@pytest.mark.parametrize("board", boards(), ids=lambda board: board.name)
def test_a_picture_shows_what_prometheus_answers(board: Board, history: Any) -> None:
    """Here, so that one history serves all that asks it."""
    deployment = "kv_transfer_bandwidth" if board.name != "fleet" else "healthy|idle|kv_transfer_bandwidth"
    found = words(picture(board.document, history.server, history.shown, deployment))
    assert {panel["title"] for panel in board.document["panels"]} <= set(found)
    if board.name in ("fleet", "deployment"):
        assert "kv_transfer_bandwidth" in found
        assert "capacity" in found or board.name == "fleet"
