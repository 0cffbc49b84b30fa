"""What engines say of their own settings and series: PromQL that Prometheus takes, of series that pages hold."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from pdscope.model.signal import SignalId
from pdscope.runtime.plugins import load_plugins

_PROFILES = {a.profile.name: a.profile for a in load_plugins().engines if a.profile is not None}
_QUERIES = [(name, signal, query) for name, p in _PROFILES.items() for signal, query in p.queries.items()]
_SERIES = re.compile(r"\b(?:sglang|vllm):\w+|\bdynamo_\w+")
_SUFFIX = re.compile(r"_(sum|count)$")


@pytest.fixture(scope="module")
def printed() -> set[str]:
    """Names of all samples and families on the recorded pages."""
    pages = Path(__file__).parents[1].joinpath("fixtures/expositions").glob("*.prom")
    names = re.compile(r"^(?:# TYPE )?([A-Za-z_:][\w:]*)", re.MULTILINE)
    return {name for page in pages for name in names.findall(page.read_text(encoding="utf-8"))}


def test_there_are_queries() -> None:
    """Of each engine that serves tokens."""
    assert {name for name, _, _ in _QUERIES} == {"sglang", "vllm", "dynamo"}


@pytest.mark.parametrize(("engine", "signal", "query"), _QUERIES)
def test_a_query_asks_for_series_that_are_printed(engine: str, signal: str, query: str, printed: set[str]) -> None:
    """And stands for a signal that there is."""
    assert signal in {*SignalId}
    names = _SERIES.findall(query)
    assert names, engine
    missing = [name for name in names if not {name, _SUFFIX.sub("", name)} & printed]
    assert not missing, f"{engine}: {missing}"
    assert "$at" in query or "$in" in query


def test_prometheus_takes_the_queries(promtool: str, tmp_path: Path) -> None:
    """With a selector of one instance and of several."""
    asked = [
        query.replace("$at", f"{{{inside}}}").replace("$in", inside)
        for _, _, query in _QUERIES
        for inside in ('instance="d0.lan:30000"', 'instance=~"d0.lan:30000|d1.lan:30000"')
    ]
    rules = [{"record": f"asked:query{number}", "expr": query} for number, query in enumerate(asked)]
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps({"groups": [{"name": "asked", "rules": rules}]}), encoding="utf-8")
    run = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("engine", _PROFILES)
def test_spellings_are_told_in_one_line(engine: str) -> None:
    """Each is shown in brackets behind the remedy."""
    for remedy, text in _PROFILES[engine].settings.items():
        assert text == text.strip(), remedy
        assert "\n" not in text
        assert text
