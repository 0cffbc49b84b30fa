"""One target over HTTP: what a scrape of its pages ends in, and what it cost the target. In simulated time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pdscope.collect.poller import Poller, Target
from pdscope.config import parse_config
from pdscope.model.scrape import FailureReason
from pdscope.model.topology import Role
from pdscope.render.json import report_json
from pdscope.render.metrics import render_metrics
from pdscope.runtime.plugins import load_plugins
from pdscope.runtime.targets import PolledTarget
from pdscope.runtime.watch import Watch
from pdscope.sources.http import Fetcher
from support.http_target import Answer, Asked, HttpTarget
from support.http_target import page as answer_page
from support.pages import page
from support.simulated_time import SIMULATED, simulated_clock

METRICS, LOADS, INFO, MODEL = "/metrics", "/v1/loads?include=all", "/server_info", "/model_info"
BODIES = {
    METRICS: page("sglang-0.5.23-decode.prom"),
    LOADS: page("sglang-0.5.23-v1_loads-decode.json"),
    INFO: page("sglang-0.5.23-server_info-decode.json"),
    MODEL: page("sglang-0.5.23-model_info-decode.json"),
}
CANARY = "REDACT-ME-canary"


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """What an answer takes passes at once."""
    return SIMULATED


def engine(*, status: dict[str, str] | None = None, takes_seconds: dict[str, float] | None = None) -> Answer:
    """An SGLang server of which some pages fail or take a while."""

    async def answer(asked: Asked) -> AsyncIterator[bytes]:
        await asyncio.sleep((takes_seconds or {}).get(asked.path, 0.0))
        yield answer_page(BODIES[asked.path], status=(status or {}).get(asked.path, "200 OK"))

    return answer


def target_of(server: HttpTarget, fetcher: Fetcher) -> Target:
    """The server as a configured instance."""
    return watched(server, fetcher)[0]


def watched(server: HttpTarget, fetcher: Fetcher) -> tuple[Target, Watch]:
    """The server as a configured instance, and who is told what it says."""
    instance = {"name": "d0", "url": server.url, "engine": "sglang", "scrape": {"interval": "5s", "timeout": "4s"}}
    text = json.dumps({"deployments": [{"name": "pd", "instances": [instance]}]})
    config = parse_config(text, Path("/"), file="test")
    watch = Watch(config, load_plugins())
    return PolledTarget(config.deployments[0].instances[0], watch, fetcher, simulated_clock()).target(), watch


def fetcher() -> Fetcher:
    return Fetcher(monotonic=simulated_clock().monotonic)


async def test_both_pages_are_counted_as_cost() -> None:
    """Both are made on the loop that serves users."""
    async with HttpTarget(engine(takes_seconds={METRICS: 0.25, LOADS: 0.5})) as server, fetcher() as fetch:
        target = target_of(server, fetch)
        assert target.cost_seconds() is None
        assert await target.scrape() is None
        assert target.cost_seconds() == pytest.approx(0.75, abs=0.02)


async def test_the_cost_is_that_of_the_last_scrape() -> None:
    """It is not added up, and after a failure there is none."""
    takes: dict[str, float] = {METRICS: 0.5}
    status: dict[str, str] = {}
    async with HttpTarget(engine(takes_seconds=takes, status=status)) as server, fetcher() as fetch:
        target = target_of(server, fetch)
        await target.scrape()
        takes[METRICS] = 0.25
        await target.scrape()
        assert target.cost_seconds() == pytest.approx(0.25, abs=0.02)
        status.update(dict.fromkeys(BODIES, "503 Service Unavailable"))
        await target.scrape()
        assert target.cost_seconds() is None


@pytest.mark.parametrize(
    ("failing", "partial"),
    [([METRICS], True), ([LOADS], True), ([METRICS, LOADS], False)],
    ids=["metrics", "loads", "all"],
)
async def test_one_page_of_two_is_a_part(failing: list[str], partial: bool) -> None:
    """The failure is told, and that something came all the same."""
    status = dict.fromkeys(failing, "401 Unauthorized")
    async with HttpTarget(engine(status=status)) as server, fetcher() as fetch:
        failure = await target_of(server, fetch).scrape()
    assert failure is not None
    assert (failure.reason, failure.partial) == (FailureReason.HTTP_STATUS, partial)


async def test_an_older_engine_without_loads_has_not_failed() -> None:
    """404 is how it says that it has no such page."""
    async with HttpTarget(engine(status={LOADS: "404 Not Found"})) as server, fetcher() as fetch:
        assert await target_of(server, fetch).scrape() is None


async def test_an_engine_whose_page_is_a_burden_is_asked_less_often() -> None:
    """From the poller to the server: 0.2 s of 5 s are too much."""
    async with HttpTarget(engine(takes_seconds={METRICS: 0.2})) as server, fetcher() as fetch:
        poller = Poller([target_of(server, fetch)], clock=simulated_clock())
        task = asyncio.get_running_loop().create_task(poller.run())
        await asyncio.sleep(45.0)
        task.cancel()
        assert server.starts[:3] == pytest.approx([0.0, 5.0, 10.0], abs=0.1)
        assert server.starts[3] - server.starts[2] == pytest.approx(10.0, abs=1.0)
        assert poller.paces["d0"].stretch == pytest.approx(2.0, abs=0.2)


async def test_an_engine_introduces_itself_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """Version, role and parallelism come from /server_info; its keys go nowhere at all."""
    caplog.set_level("DEBUG")
    clock = simulated_clock()
    async with HttpTarget(engine()) as server, fetcher() as fetch:
        target, watch = watched(server, fetch)
        for _ in range(4):
            assert await target.scrape() is None
            await clock.sleep(5.0)
        assert server.paths.count(INFO) == 1
        await clock.sleep(300.0)
        await target.scrape()
        assert server.paths.count(INFO) == 2
    report = watch.report(clock.wall())
    (instance,) = report.deployments[0].deployment.instances
    assert (instance.tp, instance.role, instance.engine) == (4, Role.DECODE, "sglang")
    assert report.deployments[0].instances["d0"].engine_version == "0.5.23"
    assert report.deployments[0].instances["d0"].model == "meta-llama/Llama-3.1-70B-Instruct"
    assert CANARY in BODIES[INFO].decode()
    told = (report_json(report).decode(), render_metrics(report, version="0").decode(), repr(vars(watch)), caplog.text)
    assert not any(CANARY in text for text in told)


async def test_an_engine_need_not_introduce_itself() -> None:
    """401, 404 or nonsense: the pages count, and nothing failed."""
    for status in ("401 Unauthorized", "404 Not Found"):
        async with HttpTarget(engine(status={INFO: status})) as server, fetcher() as fetch:
            target, watch = watched(server, fetch)
            assert await target.scrape() is None
            (instance,) = watch.report(simulated_clock().wall()).deployments[0].deployment.instances
            assert instance.tp == 1
