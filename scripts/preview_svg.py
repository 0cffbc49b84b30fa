"""Draws panels as SVG: lines, timelines of states, numbers and tables. Ours, and only near to what Grafana draws."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from demo_prometheus import Range, Series

PALETTE = ("#3274d9", "#56a64b", "#e0b400", "#a352cc", "#ff780a", "#37872d", "#8f3bb8", "#1f9e9e", "#c15c17", "#6d1f62")
_INK, _FAINT, _LINE, _PAPER = "#24292e", "#6a737d", "#d8dbe0", "#ffffff"
_LEGEND_LINES = 2
_FORMATS = {"percentunit": (100.0, " %"), "reqps": (1.0, " req/s"), "s": (1.0, " s")}
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SCALED = {"Bps": "B/s", "bytes": "B", "si:tok/s": "tok/s", "cps": "c/s", "short": ""}


@dataclass(frozen=True, slots=True)
class Box:
    """Pixels."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Line:
    """One series under the name that its legend gives it."""

    name: str
    series: Series


def value_text(value: float, unit: str) -> str:
    """A value with its unit, in three digits."""
    if unit in _SCALED:
        size, prefix = next(((s, p) for s, p in _PREFIXES if abs(value) >= s), (1.0, ""))
        return f"{value / size:.3g} {prefix}{_SCALED[unit]}".rstrip()
    if unit == "s" and 0.0 < abs(value) < 1.0:
        return f"{value * 1e3:.3g} ms"
    factor, suffix = _FORMATS[unit]
    return f"{value * factor:.3g}{suffix}"


def text(x: float, y: float, words: str, *, size: int = 11, colour: str = _INK, anchor: str = "start") -> str:
    """A line of text; `y` is its base line."""
    at = f'x="{x:.0f}" y="{y:.0f}"'
    return f'<text {at} font-size="{size}" fill="{colour}" text-anchor="{anchor}">{escape(words)}</text>'


def rectangle(box: Box, fill: str, stroke: str = "none") -> str:
    """A filled one."""
    at = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{max(box.width, 0.0):.1f}" height="{box.height:.1f}"'
    return f'<rect {at} fill="{fill}" stroke="{stroke}"/>'


def panel_svg(panel: Mapping[str, Any], box: Box, lines: Sequence[Sequence[Line]], shown: Range) -> Iterator[str]:
    """One panel with its frame and title.

    Args:
        panel: as Grafana has it.
        box: where.
        lines: of each of its queries.
        shown: the time that the board shows.
    """
    yield rectangle(box, _PAPER, _LINE)
    yield text(box.x + 8, box.y + 16, panel["title"], size=12)
    inner = Box(box.x + 8, box.y + 24, box.width - 16, box.height - 30)
    every = [line for one in lines for line in one]
    match panel["type"]:
        case "timeseries":
            yield from _lines(panel, inner, every, shown)
        case "state-timeline":
            yield from _states(panel, inner, every, shown)
        case "stat":
            yield from _number(panel, inner, every)
        case _:
            yield from _table(panel, inner, lines)


def _nothing(box: Box) -> str:
    return text(box.x + box.width / 2, box.y + box.height / 2, "no data", colour=_FAINT, anchor="middle")


def _lines(panel: Mapping[str, Any], box: Box, lines: Sequence[Line], shown: Range) -> Iterator[str]:
    if not lines:
        yield _nothing(box)
        return
    field = panel["fieldConfig"]
    axis = Axis.of(field["defaults"], [value for line in lines for _, value in line.series.points])
    area = Box(box.x + 62, box.y + 2, box.width - 70, box.height - 18 - 14 * _LEGEND_LINES)
    for share in (0.0, 0.5, 1.0):
        y = area.y + area.height * (1.0 - share)
        yield f'<path d="M{area.x:.0f} {y:.1f}h{area.width:.0f}" stroke="{_LINE}"/>'
        words = value_text(axis.value(share), field["defaults"]["unit"])
        yield text(area.x - 5, y + 4, words, size=10, colour=_FAINT, anchor="end")
    yield from _clock(area, shown)
    taken: dict[str, str] = {}
    for line in lines:
        own, dashed = _style(field["overrides"], line.name)
        colour = taken.setdefault(line.name, own or PALETTE[len(taken) % len(PALETTE)])
        style = f'stroke="{colour}" stroke-width="1.5" fill="none"' + (' stroke-dasharray="6 4"' if dashed else "")
        yield f'<path d="{_path(line.series, area, axis, shown)}" {style}/>'
    yield from _legend(box, taken)


@dataclass(frozen=True, slots=True)
class Axis:
    """From the bottom to the top of a panel."""

    bottom: float
    top: float
    is_logarithmic: bool

    @classmethod
    def of(cls, defaults: Mapping[str, Any], values: Sequence[float]) -> Axis:
        """As wide as the values want it."""
        positive = [value for value in values if value > 0.0]
        if "scaleDistribution" in defaults["custom"] and positive:
            return cls(
                10.0 ** math.floor(math.log10(min(positive))),
                10.0 ** math.ceil(math.log10(max(positive))),
                is_logarithmic=True,
            )
        return cls(0.0, defaults.get("max") or max(values) * 1.08 or 1.0, is_logarithmic=False)

    def share(self, value: float) -> float:
        """Where a value stands: 0 at the bottom, 1 at the top."""
        if self.is_logarithmic:
            value = max(value, self.bottom)
            return math.log(value / self.bottom) / math.log(self.top / self.bottom)
        return min(max(value / self.top, 0.0), 1.0)

    def value(self, share: float) -> float:
        """What stands there."""
        if self.is_logarithmic:
            return float(self.bottom * (self.top / self.bottom) ** share)
        return self.top * share


def _style(overrides: Sequence[Mapping[str, Any]], name: str) -> tuple[str, bool]:
    """Colour, if it has one of its own, and whether it is dashed."""
    for override in overrides:
        matcher = override["matcher"]
        pattern = matcher["options"].strip("/") if matcher["id"] == "byRegexp" else re.escape(matcher["options"]) + "$"
        if re.match(pattern, name):
            found = {one["id"]: one["value"] for one in override["properties"]}
            return found["color"]["fixedColor"], "custom.lineStyle" in found
    return "", False


def _path(series: Series, area: Box, axis: Axis, shown: Range) -> str:
    """Broken where points are missing."""
    drawn, before = [], float("-inf")
    for at, value in series.points:
        x = area.x + area.width * (at - shown.start) / (shown.end - shown.start)
        y = area.y + area.height * (1.0 - axis.share(value))
        drawn.append(f"{'L' if at - before <= 1.5 * shown.step_seconds else 'M'}{x:.1f} {y:.1f}")
        before = at
    return "".join(drawn)


def _clock(area: Box, shown: Range) -> Iterator[str]:
    minutes = (shown.end - shown.start) / 60.0
    for share in (0.0, 0.25, 0.5, 0.75, 1.0) if area.width > 160 else (0.0, 1.0):
        x, y = area.x + area.width * share, area.y + area.height + 12
        anchor = {0.0: "start", 1.0: "end"}.get(share, "middle")
        yield text(x, y, f"{minutes * share:.0f} min", size=9, colour=_FAINT, anchor=anchor)


def _legend(box: Box, names: Mapping[str, str]) -> Iterator[str]:
    x, line = box.x, 0
    for position, (name, colour) in enumerate(names.items()):
        width = 22 + 5.6 * len(name)
        if x + width > box.x + box.width:
            x, line = box.x, line + 1
        y = box.y + box.height - 14 * (_LEGEND_LINES - 1 - line)
        if line >= _LEGEND_LINES:
            last = box.y + box.height
            yield text(box.x + box.width, last, f"+{len(names) - position}", size=9, colour=_FAINT, anchor="end")
            return
        yield rectangle(Box(x, y - 6, 10, 3), colour)
        yield text(x + 14, y, name, size=10)
        x += width


def _states(panel: Mapping[str, Any], box: Box, lines: Sequence[Line], shown: Range) -> Iterator[str]:
    if not lines:
        yield _nothing(box)
        return
    states = panel["fieldConfig"]["defaults"]["mappings"][0]["options"]
    left = min(max(6.2 * max(len(line.name) for line in lines) + 10, 50), 170)
    area = Box(box.x + left, box.y, box.width - left, box.height - 14)
    height = min(area.height / len(lines), 34)
    scale = area.width / (shown.end - shown.start)
    for number, line in enumerate(lines):
        y = area.y + number * height
        yield text(box.x, y + height / 2 + 4, line.name, size=10)
        for start, end, value in _runs(line.series, shown):
            state = states[f"{value:.0f}"]
            bar = Box(area.x + (start - shown.start) * scale, y + 1, (end - start) * scale, height - 3)
            yield rectangle(bar, state["color"])
            if bar.width > 6.2 * len(state["text"]) + 6 and height > 12:
                ink = _INK if int(state["color"][1:3], 16) > 200 and int(state["color"][5:7], 16) > 200 else "#ffffff"
                yield text(bar.x + 4, y + height / 2 + 4, state["text"], size=10, colour=ink)
    yield from _clock(Box(area.x, area.y, area.width, area.height - 1), shown)


def _runs(series: Series, shown: Range) -> Iterator[tuple[float, float, float]]:
    """Start, end and value of each time in which a value stays."""
    run: list[float] = []
    for at, value in series.points:
        if run and value == run[2] and at - run[1] <= 0.5 * shown.step_seconds:
            run[1] = at + shown.step_seconds
            continue
        if run:
            yield run[0], run[1], run[2]
        run = [at, at + shown.step_seconds, value]
    if run:
        yield run[0], min(run[1], shown.end), run[2]


def _number(panel: Mapping[str, Any], box: Box, lines: Sequence[Line]) -> Iterator[str]:
    if not lines:
        yield _nothing(box)
        return
    words, colour = _shown(lines[0].series.points[-1][1], panel["fieldConfig"]["defaults"])
    if colour:
        yield rectangle(box, colour)
    size = int(min(22, box.width / (0.62 * len(words))))
    x, y = box.x + box.width / 2, box.y + box.height / 2 + 8
    yield text(x, y, words, size=size, colour="#ffffff" if colour else _INK, anchor="middle")


def _shown(value: float, field: Mapping[str, Any]) -> tuple[str, str]:
    """Words and colour of a value."""
    for mapping in field.get("mappings", ()):
        state = mapping["options"].get(f"{value:.0f}")
        if state:
            return state["text"], state["color"]
    return value_text(value, field["unit"]), ""


def _table(panel: Mapping[str, Any], box: Box, lines: Sequence[Sequence[Line]]) -> Iterator[str]:
    """One row a label set, as the panel's transformations make it."""
    organised = panel["transformations"][2]["options"]
    columns = sorted(organised["indexByName"], key=organised["indexByName"].__getitem__)
    values = {
        f"Value #{target['refId']}" if len(lines) > 1 else "Value": i for i, target in enumerate(panel["targets"])
    }
    labels = [column for column in columns if column not in values]
    rows: dict[tuple[str, ...], dict[str, float]] = {}
    for column, index in values.items():
        for line in lines[index]:
            key = tuple(line.series.labels.get(label, "") for label in labels)
            rows.setdefault(key, {})[column] = line.series.points[-1][1]
    fields = {
        override["matcher"]["options"]: {one["id"]: one["value"] for one in override["properties"]}
        for override in panel["fieldConfig"]["overrides"]
    }
    width = box.width / len(columns)
    titles = [organised["renameByName"][column] for column in columns]
    for number, title in enumerate(titles):
        yield text(box.x + number * width, box.y + 12, title, size=11, colour=_FAINT)
    for row, (key, found) in enumerate(sorted(rows.items())):
        y = box.y + 30 + 19 * row
        for number, (column, title) in enumerate(zip(columns, titles, strict=True)):
            x, colour = box.x + number * width, ""
            if column in labels:
                words = key[labels.index(column)]
            elif column in found:
                words, colour = _shown(found[column], {"unit": "short", **fields.get(title, {})})
            else:
                words = "–"
            yield text(x, y, words, colour=colour or _INK)
