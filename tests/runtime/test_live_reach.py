"""How targets answer, end to end in simulated time: down, up without metrics, or busy with their page."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pdscope.config import Config, parse_config
from pdscope.model.finding import Finding, Truth
from pdscope.model.signal import SignalId, instance_scope
from pdscope.runtime.live import Live
from pdscope.runtime.offline import diagnose_bundle
from pdscope.runtime.plugins import load_plugins
from pdscope.runtime.watch import Watch
from pdscope.sources.bundle import PageKind
from support.http_target import Answer, Asked, HttpTarget, always, hangs, page
from support.simulated_time import SIMULATED, simulated_clock

PLUGINS = load_plugins()
NOBODY = "http://127.0.0.1:1"
THIRD_FAILURE_SECONDS = 15.0
"""Asked after 0, 5 and 15 s: less often while it fails."""


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """A minute passes at once."""
    return SIMULATED


@pytest.fixture(scope="module")
def good(fixtures_dir: Path) -> bytes:
    """A page of an engine."""
    return page((fixtures_dir / "expositions" / "vllm-0.32.0-light.prom").read_bytes())


def config_of(urls: dict[str, str]) -> Config:
    """Unified engines, since what they do is not the question."""
    instances = [{"name": name, "url": url, "role": "unified", "engine": "vllm"} for name, url in urls.items()]
    return parse_config(json.dumps({"deployments": [{"name": "pd", "instances": instances}]}), Path("/"), file="test")


@contextlib.asynccontextmanager
async def watched(urls: dict[str, str]) -> AsyncIterator[Live]:
    """The daemon without its server."""
    stop = asyncio.Event()
    live = Live(config_of(urls), PLUGINS, clock=simulated_clock())
    async with asyncio.TaskGroup() as group:
        group.create_task(live.run(stop))
        yield live
        stop.set()


def held(live: Live) -> dict[str, Finding]:
    """The findings about answers that hold, by rule."""
    assert live.report is not None
    rules = ("instance_down", "telemetry_lost", "scrape_cost")
    found = live.report.deployments[0].diagnosis.findings
    return {f.rule: f for f in found if f.rule in rules and f.truth is Truth.TRUE}


def active(live: Live) -> dict[str, float]:
    """Rule -> value of `pdscope_finding_active`."""
    body, _ = live.metrics_body(openmetrics=False)
    families = {f.name: f for f in text_string_to_metric_families(body.decode())}
    return {s.labels["rule"]: s.value for s in families["pdscope_finding_active"].samples}


def slow(answer: bytes, seconds: float) -> Answer:
    """The page after so long."""

    async def send(_asked: Asked) -> AsyncIterator[bytes]:
        await asyncio.sleep(seconds)
        yield answer

    return send


@pytest.mark.parametrize("answer", [None, hangs], ids=["refuses", "hangs"])
async def test_an_instance_that_does_not_answer_is_down(good: bytes, answer: Answer | None) -> None:
    """After three failures in a row and not before; the other instance is not."""
    async with (
        HttpTarget(always(good)) as up,
        HttpTarget(answer or hangs) as bad,
        watched({"up": up.url, "bad": bad.url if answer else NOBODY}) as live,
    ):
        await asyncio.sleep(THIRD_FAILURE_SECONDS - 1.0)
        assert held(live) == {}
        assert active(live)["instance_down"] == 0.0
        await asyncio.sleep(12.0)
        found = held(live)
        told = active(live)
    assert set(found) == {"instance_down"}
    assert found["instance_down"].culprits == ("bad",)
    assert "bad (unified) does not answer" in found["instance_down"].headline
    assert (told["instance_down"], told["telemetry_lost"]) == (1.0, 0.0)


@pytest.mark.parametrize(
    "answer",
    [page(b"multiprocess directory is gone", status="500 Error"), page(b""), page(b"python_info 1\n"), page(b"<html>")],
    ids=["error", "empty", "metrics off", "something else"],
)
async def test_an_instance_that_answers_without_metrics_is_not_down(good: bytes, answer: bytes) -> None:
    """It may serve well; nobody can tell."""
    async with (
        HttpTarget(always(good)) as up,
        HttpTarget(always(answer)) as bad,
        watched({"up": up.url, "bad": bad.url}) as live,
    ):
        await asyncio.sleep(THIRD_FAILURE_SECONDS - 1.0)
        assert held(live) == {}
        await asyncio.sleep(12.0)
        found = held(live)
        told = active(live)
    assert set(found) == {"telemetry_lost"}
    assert found["telemetry_lost"].culprits == ("bad",)
    assert [r.id for r in found["telemetry_lost"].remedies] == ["restore_metrics"]
    assert found["telemetry_lost"].remedies[0].setting is not None
    assert (told["instance_down"], told["telemetry_lost"]) == (0.0, 1.0)


async def test_an_instance_that_comes_back_is_neither(good: bytes) -> None:
    """The first good page ends it."""
    broken = True

    async def recovers(_asked: Asked) -> AsyncIterator[bytes]:
        yield page(b"", status="500 Error") if broken else good

    async with HttpTarget(recovers) as target, watched({"u0": target.url}) as live:
        await asyncio.sleep(30.0)
        assert set(held(live)) == {"telemetry_lost"}
        broken = False
        await asyncio.sleep(60.0)
        assert held(live) == {}


async def test_a_page_that_takes_long_is_a_burden(good: bytes) -> None:
    """Half a second of five is a tenth; three answers tell, and the other instance's page costs nothing."""
    async with (
        HttpTarget(slow(good, 0.5)) as heavy,
        HttpTarget(always(good)) as light,
        watched({"heavy": heavy.url, "light": light.url}) as live,
    ):
        await asyncio.sleep(9.0)
        assert held(live) == {}
        assert "scrape_cost" not in active(live)  # not known yet
        await asyncio.sleep(10.0)
        found = held(live)
        assert live.report is not None
        signals = live.report.deployments[0].signals
        told = active(live)
    assert set(found) == {"scrape_cost"}
    assert found["scrape_cost"].culprits == ("heavy",)
    assert signals.value(SignalId.SCRAPE_COST, instance_scope("heavy")) == pytest.approx(0.1)
    assert told["scrape_cost"] == 1.0


async def test_one_slow_answer_tells_of_a_busy_moment(good: bytes) -> None:
    """The least of the last three is what the page costs."""
    count = 0

    async def once(_asked: Asked) -> AsyncIterator[bytes]:
        nonlocal count
        count += 1
        if count % 3 == 0:
            await asyncio.sleep(2.0)
        yield good

    async with HttpTarget(once) as target, watched({"u0": target.url}) as live:
        await asyncio.sleep(40.0)
        assert held(live) == {}
        assert active(live)["scrape_cost"] == 0.0


async def test_a_fault_of_ours_is_no_silence_of_the_target(good: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither down nor without metrics: nothing is known of it."""

    def breaks(self: Watch, target: str, kind: PageKind, *rest: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(Watch, "feed", breaks)
    async with HttpTarget(always(good)) as target, watched({"u0": target.url}) as live:
        await asyncio.sleep(40.0)
        assert held(live) == {}
        assert not {"instance_down", "telemetry_lost"} & set(active(live))


def test_a_bundle_without_gaps_tells_nothing_of_answers(fixtures_dir: Path) -> None:
    """It holds pages and no attempts."""
    report, _ = diagnose_bundle(fixtures_dir / "runs" / "vllm-transferbound", PLUGINS)
    told = {s.id for s in report.deployments[0].signals}
    assert not told & {SignalId.SILENT_SCRAPES, SignalId.ANSWERS, SignalId.SCRAPE_COST}
