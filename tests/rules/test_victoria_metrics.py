"""Every expression of the rules and boards means the same to VictoriaMetrics as to Prometheus."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import yaml

from support.boards import ROOT, boards
from support.programs import needed

sys.path.insert(0, str(ROOT / "scripts"))

from demo_history import START_UNIX_SECONDS, STEP_SECONDS, Act, write_history
from demo_prometheus import Prometheus, Range, Series, prometheus_on

pytestmark = [pytest.mark.promtool, pytest.mark.timeout(180)]

SCENARIOS = ("kv_transfer_bandwidth", "decode_kv_capacity", "healthy_vllm")
SECONDS = 120.0
SHOWN = Range(START_UNIX_SECONDS + 60.0, START_UNIX_SECONDS + SECONDS - STEP_SECONDS, STEP_SECONDS, STEP_SECONDS)
RATE = re.compile(r"\b(rate|increase|delta)\(")
EXTRAPOLATION = 0.35
"""Prometheus takes a rate over what lies inside the range, VictoriaMetrics from the last sample before it."""


@dataclass(frozen=True)
class Both:
    """The two servers, with the same history."""

    prometheus: Prometheus
    victoria: Prometheus


@contextmanager
def victoria_metrics_on(history: Path, folder: Path) -> Iterator[Prometheus]:
    """A VictoriaMetrics that knows a history, until the block ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = ["victoria-metrics", f"-httpListenAddr={address}", f"-storageDataPath={folder}"]
    command += ["-retentionPeriod=100y", "-search.latencyOffset=0s", "-loggerOutput=stderr"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            log: list[str] = []
            for line in process.stderr:
                log.append(line)
                if "started VictoriaMetrics" in line:
                    break
            else:
                pytest.fail("VictoriaMetrics ended:\n" + "".join(log))
            threading.Thread(target=process.stderr.read, daemon=True).start()
            url = f"http://{address}"
            lines = [line for line in history.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
            body = "\n".join(f"{rest} {float(at) * 1000:.0f}" for rest, _, at in (x.rpartition(" ") for x in lines))
            with urlopen(Request(f"{url}/api/v1/import/prometheus", data=body.encode())) as answer:
                assert answer.status == 204
            with urlopen(f"{url}/internal/force_flush"):  # what was imported is searched from now on
                pass
            yield Prometheus(url)
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, promtool: str) -> Iterator[Both]:
    """The same simulated minutes in both."""
    for program in ("prometheus", "victoria-metrics"):
        needed(program, package=program)
    folder = tmp_path_factory.mktemp("both")
    history = folder / "history.om"
    write_history(history, {name: [Act(name, SECONDS)] for name in SCENARIOS})
    (folder / "p").mkdir()
    with prometheus_on(history, folder / "p") as prometheus, victoria_metrics_on(history, folder / "v") as victoria:
        yield Both(prometheus, victoria)


@cache
def expressions() -> dict[str, str]:
    """Where it stands -> expression, of rules and boards."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "rules").glob("*.yml")):
        for group in yaml.safe_load(path.read_text(encoding="utf-8")).get("groups", []):
            for rule in group["rules"]:
                found[f"{path.stem}: {rule.get('alert') or rule['record']}"] = rule["expr"]
    for board in boards():
        found |= dict(board.expressions())
    return found


def values(board: str) -> dict[str, str]:
    """Of the variables of a board: all."""
    found = next((b for b in boards() if b.name == board), None)
    return {v["name"]: v.get("allValue", ".*") for v in found.variables} if found else {}


def answer(server: Prometheus, expr: str) -> dict[str, float]:
    """Labels -> value."""
    series: list[Series] = server.query(expr, SHOWN.end)
    return {str(sorted(one.labels.items())): one.points[0][1] for one in series}


@pytest.mark.parametrize("where", expressions())
def test_the_same_answers(where: str, both: Both) -> None:
    expr = SHOWN.substituted(expressions()[where], values(where.partition(":")[0]))
    expected, found = answer(both.prometheus, expr), answer(both.victoria, expr)
    assert found.keys() == expected.keys()
    tolerance = EXTRAPOLATION if RATE.search(expr) else 1e-9
    for labels, value in expected.items():
        assert found[labels] == pytest.approx(value, rel=tolerance, abs=1e-9, nan_ok=True), labels


def test_most_expressions_have_an_answer(both: Both) -> None:
    """Agreement on nothing proves nothing."""
    answered = [
        w for w, e in expressions().items() if answer(both.victoria, SHOWN.substituted(e, values(w.partition(":")[0])))
    ]
    assert len(answered) > 80
