"""Panels of the classic schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pdscope.render.dashboards.query import Query
from pdscope.render.dashboards.states import State

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
OBJECTIVE = "objective"
"""How the legend of a line begins that is a configured objective."""

CAPACITY = "capacity"
"""The same for a limit of the hardware."""


class Kind(StrEnum):
    """What draws it."""

    LINES = "timeseries"
    STATES = "state-timeline"
    NUMBER = "stat"
    TABLE = "table"


class Unit(StrEnum):
    """Grafana's ids."""

    SECONDS = "s"
    RATIO = "percentunit"
    BYTES_PER_SECOND = "Bps"
    BYTES = "bytes"
    REQUESTS_PER_SECOND = "reqps"
    TOKENS_PER_SECOND = "si:tok/s"
    EVENTS_PER_SECOND = "cps"
    NUMBER = "short"


_UNITS = (
    ("_bytes_per_second", Unit.BYTES_PER_SECOND),
    ("requests_per_second", Unit.REQUESTS_PER_SECOND),
    ("tokens_per_second", Unit.TOKENS_PER_SECOND),
    ("role_imbalance_ratio", Unit.NUMBER),  # a factor from 1 upwards, no share
    ("_ratio", Unit.RATIO),
    ("_bytes_per_token", Unit.BYTES),
    ("_bytes_per_request", Unit.BYTES),
    ("_tokens_per_request", Unit.NUMBER),
    ("_seconds", Unit.SECONDS),
)


def unit_of(name: str) -> Unit:
    """The unit of a metric, by its name; a name without one counts something."""
    return next((unit for suffix, unit in _UNITS if name.endswith(suffix)), Unit.NUMBER)


@dataclass(frozen=True, slots=True)
class Link:
    """Somewhere else to look. `url` may hold Grafana's variables."""

    title: str
    url: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Attributes:
        title: unique in its board.
        description: what to look for.
        kind: what draws it.
        queries: at least one.
        unit: of all its values.
        width: of 24.
        height: in rows of the grid, 30 pixels each.
        states: value -> word and colour, for timelines and numbers of states; of lines, name -> colour.
        links: of the panel: pages of the documentation.
        data_links: of each value: to the diagnosis, or to another board.
        columns: of a table: label or `Query.name` -> title, in order.
        column_units: of a table: title -> unit.
        is_share: values lie between 0 and 1, so the axis does too.
        is_logarithmic: values of very different size stand on one axis.
    """

    title: str
    description: str
    kind: Kind
    queries: tuple[Query, ...]
    unit: Unit = Unit.NUMBER
    width: int = 12
    height: int = 8
    states: tuple[State, ...] = ()
    links: tuple[Link, ...] = ()
    data_links: tuple[Link, ...] = ()
    columns: Mapping[str, str] | None = None
    column_units: Mapping[str, tuple[Unit, tuple[State, ...]]] | None = None
    is_share: bool = False
    is_logarithmic: bool = False

    def json(self, number: int, x: int, y: int) -> dict[str, Any]:
        """As Grafana stores it.

        Args:
            number: id, unique in the board.
            x: column of the grid.
            y: row of the grid.
        """
        return {
            "id": number,
            "type": str(self.kind),
            "title": self.title,
            "description": self.description,
            "datasource": DATASOURCE,
            "gridPos": {"h": self.height, "w": self.width, "x": x, "y": y},
            "links": [{"title": link.title, "url": link.url, "targetBlank": True} for link in self.links],
            "targets": [self._target(index, query) for index, query in enumerate(self.queries)],
            "fieldConfig": {"defaults": self._defaults(), "overrides": self._overrides()},
            "options": self._options(),
            **({"transformations": self._transformations()} if self.kind is Kind.TABLE else {}),
        }

    def _target(self, index: int, query: Query) -> dict[str, Any]:
        return {
            "refId": chr(ord("A") + index),
            "datasource": DATASOURCE,
            "editorMode": "code",
            "expr": query.expr,
            "legendFormat": query.legend or "__auto",
            "instant": query.is_instant,
            "range": not query.is_instant,
            "format": "table" if self.kind is Kind.TABLE else "time_series",
        }

    def _defaults(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "unit": str(self.unit),
            "links": [{"title": link.title, "url": link.url, "targetBlank": True} for link in self.data_links],
            "mappings": [] if self.kind is Kind.LINES else _mappings(self.states),
            "noValue": "no data",
        }
        match self.kind:
            case Kind.LINES:
                found["custom"] = {"lineWidth": 1, "fillOpacity": 5, "showPoints": "never", "spanNulls": False}
                if self.is_logarithmic:
                    found["custom"]["scaleDistribution"] = {"type": "log", "log": 10}
                else:
                    # A cut axis makes noise look like a change.
                    found["min"] = 0
                if self.is_share:
                    found["max"] = 1
            case Kind.STATES:
                found["custom"] = {"fillOpacity": 85, "lineWidth": 0}
                found |= _PLAIN
            case Kind.NUMBER:
                found |= _PLAIN
            case Kind.TABLE:
                found["custom"] = {"align": "auto", "cellOptions": {"type": "auto"}}
        return found

    def _overrides(self) -> list[dict[str, Any]]:
        if self.kind is Kind.LINES:
            coloured = [_coloured(state) for state in self.states]
            return [_dashed(OBJECTIVE, "#d64541"), _dashed(CAPACITY, "#5b8fd6"), *coloured]
        found = []
        for title, (unit, states) in (self.column_units or {}).items():
            properties: list[dict[str, Any]] = [{"id": "unit", "value": str(unit)}]
            if states:
                properties += [
                    {"id": "mappings", "value": _mappings(states)},
                    {"id": "custom.cellOptions", "value": {"type": "color-text"}},
                ]
            found.append({"matcher": {"id": "byName", "options": title}, "properties": properties})
        return found

    def _options(self) -> dict[str, Any]:
        legend = {"displayMode": "list", "placement": "bottom", "showLegend": True}
        match self.kind:
            case Kind.LINES:
                return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
            case Kind.STATES:
                return {
                    "mergeValues": True,
                    "showValue": "auto",
                    "rowHeight": 0.85,
                    "alignValue": "left",
                    "legend": {**legend, "showLegend": False},
                    "tooltip": {"mode": "single"},
                }
            case Kind.NUMBER:
                return {
                    "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
                    "colorMode": "background" if self.states else "none",
                    "graphMode": "none",
                    "textMode": "auto",
                    "justifyMode": "center",
                }
            case Kind.TABLE:
                return {"showHeader": True, "cellHeight": "sm"}

    def _transformations(self) -> list[dict[str, Any]]:
        """One row a label set: the queries' results side by side, with their values under readable titles."""
        columns = self.columns or {}
        values = {f"Value #{chr(ord('A') + i)}": q.name for i, q in enumerate(self.queries)}
        if len(self.queries) == 1:
            values |= {"Value": self.queries[0].name}
        raw = {name: shown for shown, name in values.items()}
        order = {raw.get(name, name): position for position, name in enumerate(columns)}
        shown = {raw.get(name, name): title for name, title in columns.items()}
        return [
            {"id": "merge", "options": {}},
            {"id": "filterFieldsByName", "options": {"include": {"names": list(order)}}},
            {"id": "organize", "options": {"indexByName": order, "renameByName": shown, "excludeByName": {}}},
        ]


# The colour of what no mapping colours.
_PLAIN: Mapping[str, Any] = {
    "color": {"mode": "thresholds"},
    "thresholds": {"mode": "absolute", "steps": [{"color": "text", "value": None}]},
}


def _dashed(begin: str, colour: str) -> dict[str, Any]:
    return {
        "matcher": {"id": "byRegexp", "options": f"/^{begin}/"},
        "properties": [
            {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 6]}},
            {"id": "custom.fillOpacity", "value": 0},
            {"id": "color", "value": {"mode": "fixed", "fixedColor": colour}},
        ],
    }


def _coloured(state: State) -> dict[str, Any]:
    return {
        "matcher": {"id": "byName", "options": state.text},
        "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": state.colour}}],
    }


def _mappings(states: tuple[State, ...]) -> list[dict[str, Any]]:
    if not states:
        return []
    options = {str(s.number): {"text": s.text, "color": s.colour, "index": i} for i, s in enumerate(states)}
    return [{"type": "value", "options": options}]
