"""Draws docs/dashboards/*.svg: every board over simulated deployments, each query answered by a real Prometheus.

The pictures are drawn here and not by Grafana. It needs promtool and prometheus on the PATH, and takes two minutes.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from demo_history import START_UNIX_SECONDS, STEP_SECONDS, Act, write_history
from demo_prometheus import Prometheus, Range, Series, prometheus_on
from preview_svg import Box, Line, panel_svg, rectangle, text

ROOT = Path(__file__).resolve().parents[1]
DEPLOYMENTS = {
    "chat": [
        Act("healthy", 300),
        Act("kv_transfer_bandwidth", 300),
        Act("healthy", 180),
        Act("prefill_compute", 180),
    ],
    "search": [Act("healthy_vllm", 360), Act("decode_kv_capacity", 360), Act("healthy_vllm", 240)],
    "agents": [Act("router_imbalance", 360), Act("healthy", 300), Act("healthy", 60, lost="d0"), Act("healthy", 240)],
    "batch": [Act("idle", 420), Act("host_bound", 540)],
}
CHOSEN = {"deployment": "chat", "worker": "agents", "engines": "chat"}
"""Board -> the deployment that it shows; the fleet shows all."""

_SECONDS = 960.0
_STEP_SECONDS = 20.0
_COLUMN, _ROW, _MARGIN, _HEAD = 50, 26, 10, 58
_NOTE = "Drawn by scripts/preview_dashboards.py from simulated deployments, not by Grafana, which looks different."


def shown_range() -> Range:
    """All of the history, but for its first rates."""
    end = START_UNIX_SECONDS + _SECONDS - STEP_SECONDS
    return Range(START_UNIX_SECONDS + 2 * _STEP_SECONDS, end, _STEP_SECONDS, STEP_SECONDS)


def picture(board: Mapping[str, Any], server: Prometheus, shown: Range, deployment: str) -> str:
    """A whole board as SVG.

    Args:
        board: as Grafana imports it.
        server: that has the data.
        shown: which time.
        deployment: value of the variable.
    """
    values = {v["name"]: v.get("allValue", "") for v in board["templating"]["list"]} | {"deployment": deployment}
    panels = board["panels"]
    height = _HEAD + _ROW * max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in panels) + _MARGIN
    width = _COLUMN * 24 + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        rectangle(Box(0, 0, width, height), "#f4f5f7"),
        text(_MARGIN, 26, f"{board['title']}{'' if board['uid'] == 'pdscope-fleet' else f': {deployment}'}", size=20),
        text(_MARGIN, 46, _NOTE, colour="#a8322f"),
    ]
    for panel in panels:
        parts += _panel(panel, server, shown, values)
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Mapping[str, Any], server: Prometheus, shown: Range, values: Mapping[str, str]) -> Iterator[str]:
    grid = panel["gridPos"]
    x, y = _MARGIN + _COLUMN * grid["x"], _HEAD + _ROW * grid["y"]
    box = Box(x + 2, y + 2, _COLUMN * grid["w"] - 4, _ROW * grid["h"] - 4)
    if panel["type"] == "row":
        yield text(box.x, box.y + 16, panel["title"], size=14)
        return
    lines = []
    for target in panel["targets"]:
        expr = shown.substituted(target["expr"], values)
        found = server.query(expr, shown.end) if target["instant"] else server.query_range(expr, shown)
        lines.append([Line(_name(target["legendFormat"], one), one) for one in found])
    yield from panel_svg(panel, box, lines, shown)


def _name(legend: str, series: Series) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: series.labels.get(found[1], ""), legend).strip()


def main(arguments: list[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "dashboards", help="folder (%(default)s)")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_history(folder / "history.om", DEPLOYMENTS)
        with prometheus_on(folder / "history.om", folder) as server:
            for path in sorted((ROOT / "dashboards").glob("*.json")):
                board = json.loads(path.read_text(encoding="utf-8"))
                drawn = picture(board, server, shown_range(), CHOSEN.get(path.stem, ".+"))
                target = options.output / f"{path.stem}.svg"
                target.write_text(drawn, encoding="utf-8")
                print(f"{target}: {len(drawn) // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
