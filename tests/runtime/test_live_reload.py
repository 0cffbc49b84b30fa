"""A new configuration while the daemon runs: what is kept, what is forgotten, and what happens when it is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from pdscope.config import Config, parse_config
from pdscope.errors import ConfigError, UsageError
from pdscope.model.finding import Verdict
from pdscope.model.scrape import FailureReason
from pdscope.render.debug import DebugFacts
from pdscope.runtime.live import Live, serve
from pdscope.runtime.plugins import check, load_plugins
from support.http_target import HttpTarget, always, page
from support.simulated_time import SIMULATED, START_UNIX_SECONDS, simulated_clock
from support.vllm_engine import VllmEngine

PLUGINS = load_plugins()
GONE = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Minutes pass at once."""
    return SIMULATED


def deployment(name: str, urls: dict[str, str], **keys: Any) -> dict[str, Any]:
    """Instances by name and url, all of them unified vLLM."""
    instances = [{"name": n, "url": url, "engine": "vllm", "role": "unified"} for n, url in urls.items()]
    return {"name": name, "slo": {"ttft_p50": "2s"}, "instances": instances, **keys}


@dataclass
class File:
    """A configuration file that a user edits."""

    document: dict[str, Any]

    def load(self) -> Config:
        """As the command line does."""
        config = parse_config(json.dumps(self.document), Path("/"), file="pdscope.yml")
        check(config, PLUGINS)
        return config


@contextlib.asynccontextmanager
async def running(file: File) -> AsyncIterator[Live]:
    """The daemon without its server."""
    stop = asyncio.Event()
    live = Live(file.load(), PLUGINS, clock=simulated_clock(), load=file.load)
    async with asyncio.TaskGroup() as group:
        group.create_task(live.run(stop))
        yield live
        stop.set()


def scrapes_of(live: Live, name: str, instance: str) -> float | None:
    """How many scrapes the last diagnosis had of an instance."""
    assert live.report is not None
    found = live.report.deployment(name)
    assert found is not None
    return next((s.value for s in found.signals if s.id == "scrapes_in_window" and s.scope.name == instance), None)


async def test_unchanged_targets_keep_their_data_and_deployments_their_past() -> None:
    """The diagnosis goes on as if nothing had happened; what is new is asked at once, what is gone no more."""
    async with HttpTarget(VllmEngine()) as a, HttpTarget(VllmEngine()) as b, HttpTarget(VllmEngine()) as c:
        file = File({"deployments": [deployment("x", {"a": a.url}), deployment("y", {"b": b.url})]})
        async with running(file) as live:
            await asyncio.sleep(29.0)
            assert live.report is not None
            before = live.report.deployments[0].diagnosis
            entries = live.past("x").entries
            counted = scrapes_of(live, "x", "a")
            file.document = {"deployments": [deployment("x", {"a": a.url}), deployment("z", {"c": c.url})]}
            live.reload()
            assert live.report.generated_at == START_UNIX_SECONDS + 29.0  # judged anew, without waiting
            assert [d.deployment.name for d in live.report.deployments] == ["x", "z"]
            after = live.report.deployments[0].diagnosis
            assert (after.verdict, after.since, after.pending) == (before.verdict, before.since, None)
            assert scrapes_of(live, "x", "a") == counted
            assert live.past("x").entries == entries  # not an evaluation of its own
            await asyncio.sleep(30.0)
            assert live.report.deployments[0].diagnosis.since == before.since
            assert [d.diagnosis.verdict for d in live.report.deployments] == [Verdict.HEALTHY] * 2
            assert live.past("x").entries[0] == entries[0]
            assert live.past("y").entries == ()
            assert {state.target for state in live.report.targets} == {"a", "c"}
            assert live.debug("y") == DebugFacts()
    assert before.verdict is Verdict.HEALTHY
    assert max(b.starts) < 29.0 < min(c.starts) < 34.0
    assert max(a.starts) > 55.0


@pytest.mark.parametrize("change", [{"url": "other"}, {"engine": None}])
async def test_a_target_that_is_another_one_now_starts_anew(change: dict[str, Any]) -> None:
    """Counters of two programs must not meet in one window."""
    async with HttpTarget(VllmEngine()) as a, HttpTarget(VllmEngine()) as other:
        file = File({"deployments": [deployment("x", {"a": a.url})]})
        async with running(file) as live:
            await asyncio.sleep(32.0)
            assert (scrapes_of(live, "x", "a") or 0.0) > 5.0
            file.document = {"deployments": [deployment("x", {"a": a.url})]}
            instance = file.document["deployments"][0]["instances"][0]
            instance |= {"url": other.url} if "url" in change else change
            live.reload()
            assert not scrapes_of(live, "x", "a")
            await asyncio.sleep(12.0)
            assert 0.0 < (scrapes_of(live, "x", "a") or 0.0) <= 3.0


async def test_devices_that_are_selected_otherwise_start_anew(fixtures_dir: Path) -> None:
    """The exporter is the same, what is read of it is not; its other instance keeps its data."""
    body = (fixtures_dir / "expositions" / "dcgm_t4_2gpu_fake-gpu-operator.txt").read_bytes()
    async with HttpTarget(VllmEngine()) as engine, HttpTarget(always(page(body))) as gpus:

        def document(gpu: str) -> dict[str, Any]:
            serves = [{"instance": "a", "select": {"gpu": "0"}}, {"instance": "b", "select": {"gpu": gpu}}]
            device = {"name": "gpus", "source": "dcgm", "url": f"{gpus.url}/metrics", "serves": serves}
            return {"deployments": [deployment("x", {"a": engine.url, "b": engine.url}, devices=[device])]}

        file = File(document("1"))
        async with running(file) as live:
            await asyncio.sleep(12.0)
            assert all("engine_active" in values for values in live.debug("x").instances.values())
            file.document = document("0")
            live.reload()
            found = live.debug("x").instances
    assert "engine_active" in found["a"]
    assert "engine_active" not in found["b"]
    assert "running" in found["b"]


async def test_counts_of_failures_go_on() -> None:
    """A counter that falls to zero would look like a restart of pdscope."""
    file = File({"deployments": [deployment("x", {"a": GONE})]})
    async with running(file) as live:
        await asyncio.sleep(12.0)
        assert live.report is not None
        [before] = live.report.targets
        file.document = {"window": "30s", "deployments": [deployment("x", {"a": GONE})]}
        live.reload()
        [after] = live.report.targets
        assert live.report.window_seconds == 30.0
    assert before.failures == after.failures
    assert before.failures[FailureReason.CONNECT] >= 2


async def test_a_wrong_configuration_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The old one stays, the log and the metrics tell, and a right one ends it."""
    async with HttpTarget(VllmEngine()) as a:
        right = {"deployments": [deployment("x", {"a": a.url})]}
        file = File(right)
        async with running(file) as live:
            await asyncio.sleep(12.0)
            metric = b"\npdscope_config_last_reload_successful "
            assert metric + b"1.0" in live.metrics_body(openmetrics=False)[0]
            for wrong in (
                {"deployments": []},
                {"deployments": [deployment("x", {"a": a.url}, thresholds={"idle": {"nope": 1}})]},
                {"deployments": [deployment("x", {"a": a.url}, model={"hf_config": "/no/such/config.json"})]},
            ):
                file.document = wrong
                report, config = live.report, live.config
                with pytest.raises(ConfigError, match="deployments"):
                    live.reload()
                live.reload_quietly()
                assert (live.report, live.config) == (report, config)
                assert metric + b"0.0" in live.metrics_body(openmetrics=False)[0]
            await asyncio.sleep(10.0)
            assert live.report is not None
            assert live.report.deployments[0].diagnosis.verdict is Verdict.HEALTHY
            file.document = right
            live.reload()
            assert metric + b"1.0" in live.metrics_body(openmetrics=False)[0]
    errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert len(errors) == 6
    assert all(text.startswith("the configuration was not reloaded, the old one stays: ") for text in errors)


async def test_the_same_configuration_disturbs_nothing() -> None:
    """A reload on a timer must not keep targets from being asked in turn."""
    async with HttpTarget(VllmEngine()) as a, HttpTarget(VllmEngine()) as b:
        file = File({"deployments": [deployment("x", {"a": a.url, "b": b.url})]})
        async with running(file) as live:
            for _ in range(29):
                await asyncio.sleep(1.0)
                live.reload()
    assert a.starts == pytest.approx([5.0 * i for i in range(6)])
    assert b.starts == pytest.approx([2.5 + 5.0 * i for i in range(6)])


async def test_a_shorter_interval_holds_at_once() -> None:
    """Not only after the long one has passed."""
    async with HttpTarget(VllmEngine()) as a:
        file = File({"scrape": {"interval": "1h"}, "deployments": [deployment("x", {"a": a.url})]})
        async with running(file) as live:
            await asyncio.sleep(10.0)
            file.document = {"deployments": [deployment("x", {"a": a.url})]}
            live.reload()
            await asyncio.sleep(20.0)
            assert live.report is not None
            assert live.report.deployments[0].diagnosis.verdict is Verdict.HEALTHY


async def test_a_reload_before_the_first_cycle_is_ready_after_the_new_one() -> None:
    """Nothing is judged before."""
    async with HttpTarget(VllmEngine()) as a, HttpTarget(VllmEngine()) as b:
        file = File({"deployments": [deployment("x", {"a": a.url, "b": b.url})]})
        async with running(file) as live:
            await asyncio.sleep(1.0)
            file.document = {"deployments": [deployment("x", {"b": b.url, "a": a.url})]}
            live.reload()
            assert not live.ready
            await asyncio.sleep(3.0)
            assert live.ready


async def test_without_a_file_there_is_nothing_to_reload() -> None:
    """As in the demo."""
    live = Live(File({"deployments": [deployment("x", {"a": GONE})]}).load(), PLUGINS)
    assert not live.can_reload
    with pytest.raises(UsageError, match="no configuration file"):
        live.reload()


async def test_debug_shows_values_thresholds_and_scrapes(tmp_path: Path) -> None:
    """Those of one deployment, and no secret."""
    (tmp_path / "token").write_text("s3cr3t", encoding="utf-8")
    async with HttpTarget(VllmEngine()) as a:
        document = deployment("x", {"a": a.url, "b": GONE}, thresholds={"idle": {"finished": 7, "observed": 8}})
        document["instances"][0]["auth"] = {"bearer_token_file": str(tmp_path / "token")}
        file = File({"deployments": [document, deployment("y", {"c": GONE})]})
        async with running(file) as live:
            await asyncio.sleep(9.0)
            debug = live.debug("x")
    assert debug.instances["b"] == {}
    assert {"running": 10.0, "waiting": 0.0, "kv_usage": 0.2}.items() <= debug.instances["a"].items()
    assert debug.instances["a"]["ttft_count"] == pytest.approx(1000 + 5 * a.starts[-1], abs=1.0)
    assert debug.instances["a"]["ttft_sum"] == pytest.approx(0.2 * debug.instances["a"]["ttft_count"])
    assert debug.thresholds["idle"] == {"finished": 7.0, "observed": 8}
    assert debug.thresholds["insufficient_data"] == {"scrapes": 2.0}
    seen = [(note.target, note.page, note.reason) for note in debug.scrapes]
    assert seen[:2] == [("a", "metrics", None), ("b", "metrics", FailureReason.CONNECT)]
    assert {target for target, _, _ in seen} == {"a", "b"}
    assert [note.at for note in debug.scrapes] == sorted(note.at for note in debug.scrapes)
    assert "s3cr3t" not in repr(debug)


# Over HTTP and by signal


async def test_reload_by_post_and_by_signal() -> None:
    """And the signal does afterwards what it did before."""
    before = signal.getsignal(signal.SIGHUP)
    file = File({"deployments": [deployment("x", {"a": GONE})]})
    addresses: asyncio.Queue[str] = asyncio.Queue()
    daemon = serve(
        file.load(), PLUGINS, "127.0.0.1:0", clock=simulated_clock(), on_ready=addresses.put_nowait, load=file.load
    )
    task = asyncio.get_running_loop().create_task(daemon)
    address = await addresses.get()
    async with httpx.AsyncClient(base_url=f"http://{address}", trust_env=False, timeout=None) as client:

        async def served() -> list[str]:
            return [entry["labels"]["deployment"] for entry in (await client.get("/sd")).json()]

        await asyncio.sleep(6.0)
        assert await served() == ["x"]
        file.document = {"deployments": [deployment("y", {"a": GONE})]}
        assert (await client.post("/-/reload")).status_code == 200
        assert await served() == ["y"]
        names = [d["name"] for d in (await client.get("/diagnose")).json()["deployments"]]
        assert names == ["y"]
        file.document = {"deployments": [deployment("z", {"a": GONE})]}
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(1.0)
        assert await served() == ["z"]
        file.document = {"deployments": "none"}
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(1.0)
        wrong = await client.post("/-/reload")
        assert wrong.status_code == 500
        assert "deployments" in wrong.json()["error"]
        assert "pdscope_config_last_reload_successful 0.0" in (await client.get("/metrics")).text
        assert await served() == ["z"]
        os.kill(os.getpid(), signal.SIGTERM)
    await task
    assert signal.getsignal(signal.SIGHUP) is before
