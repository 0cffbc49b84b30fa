"""A board: rows of panels on the grid, variables, links to the other boards and to pdscope."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pdscope.render.dashboards.panel import DATASOURCE, Link, Panel
from pdscope.render.dashboards.query import Annotation, Variable

GRID_WIDTH = 24
SCHEMA_VERSION = 39
"""Of Grafana 11.0; newer ones migrate it when they load it."""

TAG = "pdscope"


@dataclass(frozen=True, slots=True)
class Row:
    """A section of a board."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard.

    Attributes:
        name: of its file; its uid is `pdscope-<name>`, so that links and re-imports find it.
        title: as listed.
        description: what it is for.
        variables: in the order of their dependence.
        rows: from top to bottom.
        pdscope_url: where people reach pdscope, as the default of a variable; None: the board does without pdscope.
        links: besides those to the other boards.
        annotations: marks in its time series.
    """

    name: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
    pdscope_url: str | None = None
    links: tuple[Link, ...] = ()
    annotations: tuple[Annotation, ...] = ()

    @property
    def uid(self) -> str:
        """Stable."""
        return f"{TAG}-{self.name}"

    def json(self) -> dict[str, Any]:
        """The file that Grafana imports."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": [TAG],
            "schemaVersion": SCHEMA_VERSION,
            "version": 1,
            "editable": False,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"},
            "timepicker": {},
            "timezone": "browser",
            "annotations": {"list": [_annotation(one) for one in self.annotations]},
            "links": [_boards(), *(_link(link) for link in self.links)],
            "templating": {"list": list(self._templating())},
            "panels": list(self._panels()),
        }

    def _templating(self) -> Iterator[dict[str, Any]]:
        yield {
            "name": "datasource",
            "label": "Data source",
            "type": "datasource",
            "query": "prometheus",
            "refresh": 1,
            "regex": "",
            "hide": 0,
            "includeAll": False,
            "multi": False,
        }
        for variable in self.variables:
            yield _variable(variable)
        if self.pdscope_url is not None:
            yield {
                "name": "pdscope_url",
                "label": "Address of pdscope",
                "type": "textbox",
                "query": self.pdscope_url,
                "current": {"text": self.pdscope_url, "value": self.pdscope_url},
                "hide": 0,
            }

    def _panels(self) -> Iterator[dict[str, Any]]:
        number, y = 0, 0
        for row in self.rows:
            number += 1
            yield {
                "id": number,
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "gridPos": {"h": 1, "w": GRID_WIDTH, "x": 0, "y": y},
                "panels": [],
            }
            y += 1
            x, tallest = 0, 0
            for panel in row.panels:
                if x + panel.width > GRID_WIDTH:
                    x, y, tallest = 0, y + tallest, 0
                number += 1
                yield panel.json(number, x, y)
                x, tallest = x + panel.width, max(tallest, panel.height)
            y += tallest


def _variable(variable: Variable) -> dict[str, Any]:
    query = f"label_values({variable.selector}, {variable.of})"
    every = {"text": "All", "value": "$__all"}
    found: dict[str, Any] = {
        "name": variable.name,
        "label": variable.label,
        "type": "query",
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"variable-{variable.name}", "qryType": 1},
        # With the time range, since deployments and workers come and go.
        "refresh": 2,
        "regex": "",
        "sort": 1,
        "hide": 0,
        "includeAll": variable.is_multi,
        "multi": variable.is_multi,
    }
    return {**found, "allValue": variable.all_value, "current": every} if variable.is_multi else found


def _annotation(one: Annotation) -> dict[str, Any]:
    return {
        "name": one.name,
        "datasource": DATASOURCE,
        "enable": True,
        "hide": False,
        "iconColor": one.colour,
        "expr": one.expr,
        "step": "60s",
        "titleFormat": one.title,
        "target": {"refId": "annotation", "expr": one.expr, "interval": "60s", "legendFormat": one.title},
    }


def _boards() -> dict[str, Any]:
    return {
        "title": "Boards of pdscope",
        "type": "dashboards",
        "tags": [TAG],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "icon": "external link",
        "url": "",
        "tooltip": "",
    }


def _link(link: Link) -> dict[str, Any]:
    return {
        "title": link.title,
        "type": "link",
        "url": link.url,
        "tags": [],
        "asDropdown": False,
        "includeVars": False,
        "keepTime": False,
        "targetBlank": True,
        "icon": "external link",
        "tooltip": "",
    }
