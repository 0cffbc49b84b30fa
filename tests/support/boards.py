"""The committed dashboards as tests read them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pdscope.demo.physics.draw import Exposure
from pdscope.demo.scenarios import SCENARIOS

ROOT = Path(__file__).resolve().parents[2]
LOSES_A_SOURCE = "lost"
"""A healthy deployment of which a page is not to be had for a while."""
SEEN = tuple(name for name, scenario in SCENARIOS.items() if scenario.draw.exposure == Exposure())
"""Scenarios of deployments that can be seen whole, so that boards have all to show of them."""


@dataclass(frozen=True)
class Board:
    """A committed board."""

    name: str
    document: dict[str, Any]

    @property
    def panels(self) -> list[dict[str, Any]]:
        """Without the titles of rows."""
        return [panel for panel in self.document["panels"] if panel["type"] != "row"]

    @property
    def variables(self) -> list[dict[str, Any]]:
        """At its top, in their order."""
        return list(self.document["templating"]["list"])

    def expressions(self) -> Iterator[tuple[str, str]]:
        """Where it stands -> every query of panels, variables and annotations."""
        for panel in self.panels:
            for target in panel["targets"]:
                yield f"{self.name}: {panel['title']}: {target['refId']}", target["expr"]
        for variable in self.variables:
            if variable["type"] == "query":
                selector = re.fullmatch(r"label_values\((.*), \w+\)", variable["query"]["query"], re.DOTALL)
                assert selector is not None, variable
                yield f"{self.name}: variable {variable['name']}", selector[1]
        for annotation in self.document["annotations"]["list"]:
            yield f"{self.name}: annotation {annotation['name']}", annotation["expr"]


@cache
def boards() -> tuple[Board, ...]:
    """All of dashboards/."""
    paths = sorted((ROOT / "dashboards").glob("*.json"))
    return tuple(Board(path.stem, json.loads(path.read_text(encoding="utf-8"))) for path in paths)
