"""Recorded pages as the series of a promtool unit test, with the labels that pdscope's `/sd` puts on them."""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdscope.model.report import DeploymentReport
from pdscope.sources.bundle import Bundle, PageKind, RecordedPage

TICK_SECONDS = 0.1
"""Grid on which scrapes are put: fine enough for any of them."""

_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? +(\S+)")
_NAME = re.compile(r"(?:sglang|vllm)[:_]\w+|smg_\w+|inference_objective_\w+|vllm_router_\w+")


@dataclass(frozen=True, slots=True)
class Recording:
    """Some recorded time of a deployment.

    Attributes:
        series: `input_series` of promtool.
        span_seconds: from the first scrape to the last, which stands at the end of it; whole seconds.
    """

    series: list[dict[str, str]]
    span_seconds: int


def raw_names(rules: str) -> set[str]:
    """Every name of an engine's or a router's series in a text of rules."""
    return set(_NAME.findall(rules))


def recording(bundle: Bundle, report: DeploymentReport, window_seconds: float, names: Collection[str]) -> Recording:
    """What a Prometheus would hold of the last window of a bundle.

    Args:
        bundle: to be replayed.
        report: whose instances have their roles.
        window_seconds: of the bundle's configuration.
        names: of the series that are wanted; the others are left out.
    """
    roles = {i.name: i.role for i in report.deployment.instances}
    pages = [p for p in bundle.last_window(window_seconds) if p.kind is PageKind.METRICS and p.target in roles]
    assert bundle.newest is not None
    first = min(page.at for page in pages)
    span = max(1, math.ceil(bundle.newest - first))
    found: dict[str, dict[int, str]] = {}
    for page in pages:
        tick = round((page.at - bundle.newest + span) / TICK_SECONDS)
        added = f'deployment="{report.deployment.name}",worker="{page.target}",role="{roles[page.target]}"'
        for name, value in _samples(page, names, added):
            found.setdefault(name, {})[tick] = value
    return Recording([{"series": name, "values": _text(values)} for name, values in found.items()], span)


def _samples(page: RecordedPage, names: Collection[str], added: str) -> Iterator[tuple[str, str]]:
    for line in page.body.decode().splitlines():
        match = _SAMPLE.match(line)
        if match and match[1] in names:
            yield f"{match[1]}{{{added}{',' if match[2] else ''}{match[2] or ''}}}", match[3]


def _text(values: Mapping[int, str]) -> str:
    parts, last = [], -1
    for tick, value in sorted(values.items()):
        gap = tick - last - 1
        parts += ([f"_x{gap - 1}"] if gap > 1 else ["_"] if gap else []) + [value]
        last = tick
    return " ".join(parts)


def ask(
    promtool: str, folder: Path, rules: str, recorded: Recording, questions: Sequence[Mapping[str, Any]]
) -> subprocess.CompletedProcess[str]:
    """Evaluate the rules at the end of a recording, and compare what they recorded.

    Args:
        promtool: path of the program.
        folder: of the test.
        rules: text of the rule file.
        recorded: what was scraped.
        questions: `expr` and `exp_samples` of promtool, all at the end.
    """
    (folder / "rules.yml").write_text(rules, encoding="utf-8")
    at = f"{recorded.span_seconds}s"
    document = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": at,
        "group_eval_order": [
            "pdscope.standalone.parameters",
            "pdscope.standalone.rules",
            "pdscope.standalone.alerts",
        ],
        "tests": [
            {
                "interval": f"{TICK_SECONDS * 1000:.0f}ms",
                "input_series": recorded.series,
                "promql_expr_test": [{**question, "eval_time": at} for question in questions],
            }
        ],
    }
    (folder / "case.yml").write_text(json.dumps(document), encoding="utf-8")
    return subprocess.run(
        [promtool, "test", "rules", folder / "case.yml"], capture_output=True, text=True, timeout=120, check=False
    )
