"""A fault of ours in one deployment: told, counted, and no other answer is lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pdscope.analysis.signals import compute_signals
from pdscope.cli import main
from pdscope.config import Config, parse_config
from pdscope.model.finding import Confidence, Verdict
from pdscope.model.signal import SignalSet
from pdscope.model.topology import Deployment
from pdscope.runtime.live import Live
from pdscope.runtime.plugins import load_plugins
from pdscope.runtime.watch import Watch
from support.http_target import HttpTarget, always, page
from support.simulated_time import SIMULATED, simulated_clock

PLUGINS = load_plugins()


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """A minute passes at once."""
    return SIMULATED


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of the deployments whose analysis raises."""
    names: set[str] = set()

    def compute(deployment: Deployment, *rest: Any) -> SignalSet:
        if deployment.name in names:
            raise OverflowError("secret words of a page")
        return compute_signals(deployment, *rest)

    monkeypatch.setattr("pdscope.runtime.watch.compute_signals", compute)
    return names


def config_of(*urls: str) -> Config:
    deployments = [
        {"name": name, "instances": [{"name": f"u-{name}", "url": url, "role": "unified", "engine": "vllm"}]}
        for name, url in zip(("x", "y"), urls, strict=True)
    ]
    return parse_config(json.dumps({"deployments": deployments}), Path("/"), file="test")


@contextlib.asynccontextmanager
async def watched(body: bytes) -> AsyncIterator[Live]:
    """The daemon with two deployments, without its server."""
    stop = asyncio.Event()
    async with HttpTarget(always(page(body))) as x, HttpTarget(always(page(body))) as y:
        live = Live(config_of(x.url, y.url), PLUGINS, clock=simulated_clock())
        async with asyncio.TaskGroup() as group:
            group.create_task(live.run(stop))
            yield live
            stop.set()


async def test_the_others_keep_their_answers(
    fixtures_dir: Path, broken: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Logged once with the name, counted at every evaluation; it ends with the fault."""
    body = (fixtures_dir / "expositions" / "vllm-0.32.0-light.prom").read_bytes()
    broken.add("x")
    async with watched(body) as live:
        await asyncio.sleep(21.0)
        assert live.report is not None
        x, y = live.report.deployments
        metrics, _ = live.metrics_body(openmetrics=False)
        broken.clear()
        await asyncio.sleep(60.0)
        assert live.report is not None
        after = live.report.deployments[0]
    assert (x.diagnosis.verdict, x.diagnosis.confidence) == (Verdict.INSUFFICIENT_DATA, Confidence.LOW)
    assert "a fault of pdscope (OverflowError)" in x.diagnosis.summary
    assert "secret" not in x.diagnosis.summary
    assert x.instances["u-x"].up
    assert len(y.signals) > 0
    assert "fault" not in y.diagnosis.summary
    families = {f.name: f for f in text_string_to_metric_families(metrics.decode())}
    counts = {s.labels["rule"]: s.value for s in families["pdscope_rule_evaluation_failures"].samples if s.value}
    assert counts == {"judging": 4.0}
    errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert errors == ["deployment x: no diagnosis: a fault of pdscope"]
    assert len(after.signals) > 0


def test_offline_it_is_no_bottleneck(fixtures_dir: Path, broken: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 3, with the deployment and the traceback on stderr."""
    broken.add("pd")
    assert main(["diagnose", str(fixtures_dir / "runs" / "vllm-baseline")]) == 3
    out, err = capsys.readouterr()
    assert "pd (tiny): INSUFFICIENT_DATA" in out
    assert "a fault of pdscope (OverflowError)" in out
    assert err.startswith("pdscope: deployment pd: no diagnosis: a fault of pdscope\nTraceback")


def test_a_fault_outside_of_all_deployments_neither(
    fixtures_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing can be printed but what is wrong."""

    def breaks(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Watch, "report", breaks)
    assert main(["diagnose", str(fixtures_dir / "runs" / "vllm-baseline")]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("pdscope: no diagnosis: a fault of pdscope (ZeroDivisionError), traceback above\n")
