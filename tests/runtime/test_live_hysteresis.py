"""The daemon's verdicts in simulated time: shown in time, cleared in time, and steady under noise."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pdscope.config import Config, parse_config
from pdscope.diagnosis.hysteresis import CLEAR_AFTER, RAISE_AFTER
from pdscope.model.finding import PendingChange, Verdict
from pdscope.model.report import Report
from pdscope.runtime.live import Live
from pdscope.runtime.plugins import load_plugins
from pdscope.runtime.watch import Watch
from support.http_target import HttpTarget
from support.simulated_time import SIMULATED, START_UNIX_SECONDS, simulated_clock
from support.vllm_engine import VllmEngine, no_failures

PLUGINS = load_plugins()
INTERVAL_SECONDS = 5.0


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Half an hour passes at once."""
    return SIMULATED


@pytest.fixture
def raw(monkeypatch: pytest.MonkeyPatch) -> list[Verdict]:
    """What each evaluation says before hysteresis."""
    verdicts: list[Verdict] = []
    original = Watch.report

    def report(self: Watch, now: float) -> Report:
        made = original(self, now)
        verdicts.append(made.deployments[0].diagnosis.verdict)
        return made

    monkeypatch.setattr(Watch, "report", report)
    return verdicts


@contextlib.asynccontextmanager
async def watched(window_seconds: float, failures: Callable[[float], float]) -> AsyncIterator[Live]:
    """The daemon on one decode and one prefill engine."""
    async with HttpTarget(VllmEngine(failures)) as d0, HttpTarget(VllmEngine()) as p0:
        config = config_of(window_seconds, {"d0": ("decode", d0.url), "p0": ("prefill", p0.url)})
        stop = asyncio.Event()
        live = Live(config, PLUGINS, clock=simulated_clock())
        async with asyncio.TaskGroup() as group:
            group.create_task(live.run(stop))
            yield live
            stop.set()


def config_of(window_seconds: float, engines: dict[str, tuple[str, str]]) -> Config:
    """Name -> (role, url)."""
    instances = [{"name": n, "role": role, "engine": "vllm", "url": url} for n, (role, url) in engines.items()]
    deployment = {"name": "pd", "slo": {"ttft_p50": "2s", "itl_p50": "50ms"}, "instances": instances}
    document = {"window": f"{window_seconds:g}s", "deployments": [deployment]}
    return parse_config(json.dumps(document), Path("/"), file="test")


async def test_a_change_is_shown_and_cleared_in_time(raw: list[Verdict]) -> None:
    """Within one window and three evaluations of its beginning, one window and five of its end."""
    window_seconds, begins, ends = 60.0, 300.0, 600.0
    async with watched(window_seconds, lambda at: max(0.0, min(at, ends) - begins)) as live:
        await asyncio.sleep(begins)
        assert live.report is not None
        assert live.report.deployments[0].diagnosis.verdict is Verdict.HEALTHY
        states = []
        for _ in range(20):
            await asyncio.sleep(INTERVAL_SECONDS)
            states.append(live.report.deployments[0].diagnosis)
        confirming = [state for state in states if state.pending is not None]
        assert [state.pending for state in confirming] == [
            PendingChange(Verdict.KV_TRANSFER_FAILING, n) for n in (1, 2)
        ]
        since = live.past("pd").changes[0].at
        assert {(state.verdict, state.since) for state in confirming} == {(Verdict.HEALTHY, since)}
        await asyncio.sleep(ends + 150.0 - asyncio.get_running_loop().time())
        last = live.report.deployments[0].diagnosis
        raised, cleared = live.past("pd").changes[-2:]
    trouble = Verdict.KV_TRANSFER_FAILING
    assert (raised.before, raised.after) == (Verdict.HEALTHY, trouble)
    assert (cleared.before, cleared.after) == (trouble, Verdict.HEALTHY)
    in_window = window_seconds + START_UNIX_SECONDS
    assert raised.at > begins + START_UNIX_SECONDS
    assert raised.at - begins <= in_window + RAISE_AFTER * INTERVAL_SECONDS
    assert cleared.at - ends <= in_window + CLEAR_AFTER * INTERVAL_SECONDS
    assert (last.verdict, last.since, last.pending) == (Verdict.HEALTHY, cleared.at, None)
    # the evaluations themselves were earlier, by as many as hysteresis asks for
    assert raw.index(trouble) == [entry.verdict for entry in live.past("pd").entries].index(trouble) - RAISE_AFTER + 1


async def test_steady_noisy_load_does_not_flap(raw: list[Verdict]) -> None:
    """Half an hour in which a few transfers fail every minute, each time for less than three evaluations."""
    seed = random.Random(7)
    bursts = [40.0]
    while bursts[-1] < 1800.0:
        bursts.append(bursts[-1] + seed.uniform(35.0, 70.0))
    async with watched(5.0, lambda at: 3.0 * sum(burst <= at for burst in bursts)) as live:
        await asyncio.sleep(1800.0)
        entries = live.past("pd").entries
    flips = sum(before is not after for before, after in pairwise(raw))
    assert flips >= 50
    assert Verdict.KV_TRANSFER_FAILING in raw
    shown = [entry.verdict for entry in entries]
    assert len(shown) == 360
    assert set(shown[2:]) == {Verdict.HEALTHY}
    assert live.past("pd").changes == live.past("pd").changes[:1]


async def test_the_first_answer_is_shown_at_once(raw: list[Verdict]) -> None:
    """Too few scrapes is no answer that would have to be contradicted five times."""
    async with watched(60.0, no_failures) as live:
        await asyncio.sleep(14.0)
        assert live.report is not None
        diagnosis = live.report.deployments[0].diagnosis
        changes = live.past("pd").changes
    assert raw[0] is Verdict.INSUFFICIENT_DATA
    assert (diagnosis.verdict, diagnosis.pending) == (Verdict.HEALTHY, None)
    assert [(change.before, change.after) for change in changes] == [(Verdict.INSUFFICIENT_DATA, Verdict.HEALTHY)]
    assert diagnosis.since == changes[0].at
