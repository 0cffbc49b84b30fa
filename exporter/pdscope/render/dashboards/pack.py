"""The files of dashboards/."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pdscope.render.alerting.settings import Settings
from pdscope.render.dashboards.board import Board
from pdscope.render.dashboards.deployment import deployment
from pdscope.render.dashboards.engines import engines
from pdscope.render.dashboards.fleet import fleet
from pdscope.render.dashboards.places import Places
from pdscope.render.dashboards.worker import worker


def boards(settings: Settings) -> tuple[Board, ...]:
    """All boards, from the whole to its parts."""
    places = Places.of(settings)
    return tuple(make(places) for make in (fleet, deployment, worker, engines))


def files(settings: Settings) -> Mapping[str, str]:
    """Path in the repository -> text."""
    return {f"dashboards/{board.name}.json": _text(board) for board in boards(settings)}


def _text(board: Board) -> str:
    return json.dumps(board.json(), indent=2, ensure_ascii=False) + "\n"
