"""The daemon: targets over HTTP, in simulated time, and what it serves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pdscope.config import Config, parse_config
from pdscope.diagnosis.base import Case
from pdscope.errors import UsageError
from pdscope.model.finding import Finding
from pdscope.model.report import Report, TargetState
from pdscope.model.scrape import FailureReason
from pdscope.render.json import report_document
from pdscope.runtime.live import DEFAULT_LISTEN, Live, serve
from pdscope.runtime.plugins import Plugins, check, load_plugins
from pdscope.runtime.targets import Unreadable
from pdscope.runtime.watch import Watch
from pdscope.sources.bundle import PageKind
from support.http_target import Answer, Asked, HttpTarget, always, drips, hangs, page
from support.simulated_time import SIMULATED, START_UNIX_SECONDS, simulated_clock

PLUGINS = load_plugins()
LOADS = "/v1/loads?include=all"
INFO, MODEL_INFO = "/server_info", "/model_info"


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """A minute of scraping passes at once."""
    return SIMULATED


@pytest.fixture(scope="module")
def pages(fixtures_dir: Path) -> Callable[[str], bytes]:
    """A recorded page by name."""
    return lambda name: (fixtures_dir / "expositions" / name).read_bytes()


def config_of(instances: list[dict[str, Any]], **keys: Any) -> Config:
    """A configuration with one deployment."""
    deployment = {"name": "pd", "slo": {"ttft_p50": "2s", "itl_p50": "50ms"}, "instances": instances, **keys}
    config = parse_config(json.dumps({"window": "60s", "deployments": [deployment]}), Path("/"), file="test")
    check(config, PLUGINS)
    return config


def serving(pages: dict[str, list[bytes]]) -> Answer:
    """By path the pages in turn, the last one for good; other paths are not found."""
    turns = {path: iter(bodies) for path, bodies in pages.items()}
    last: dict[str, bytes] = {}

    async def answer(asked: Asked) -> AsyncIterator[bytes]:
        if asked.path not in pages:
            yield page(b"not found", status="404 Not Found")
            return
        last[asked.path] = next(turns[asked.path], last.get(asked.path, b""))
        yield page(last[asked.path])

    return answer


@contextlib.asynccontextmanager
async def running(config: Config, plugins: Plugins = PLUGINS) -> AsyncIterator[Live]:
    """The daemon without its server."""
    stop = asyncio.Event()
    live = Live(config, plugins, clock=simulated_clock())
    async with asyncio.TaskGroup() as group:
        group.create_task(live.run(stop))
        yield live
        stop.set()


def states(report: Report | None) -> dict[tuple[str, str], TargetState]:
    """Target and source -> state."""
    assert report is not None
    return {(state.target, state.source): state for state in report.targets}


# Polling through the seam that bundles use


async def test_what_is_polled_is_judged_as_if_it_came_from_a_bundle(pages: Callable[[str], bytes]) -> None:
    """Two engines over HTTP give the same diagnosis as their pages do when they are fed by hand."""
    before, after = pages("sglang-0.5.23-prefill-t0.prom"), pages("sglang-0.5.23-prefill.prom")
    decode_before, decode_after = pages("sglang-0.5.23-decode-t0.prom"), pages("sglang-0.5.23-decode.prom")
    loads, decode_loads = pages("sglang-0.5.23-v1_loads-prefill.json"), pages("sglang-0.5.23-v1_loads-decode.json")
    async with (
        HttpTarget(serving({"/metrics": [before, after], LOADS: [loads]})) as p0,
        HttpTarget(serving({"/metrics": [decode_before, decode_after], LOADS: [decode_loads]})) as d0,
    ):
        config = config_of([{"name": "p0", "url": p0.url, "engine": "sglang"}, {"name": "d0", "url": d0.url}])
        async with running(config) as live:
            await asyncio.sleep(2.0)
            assert not live.ready
            assert live.report is None
            await asyncio.sleep(7.0)
            report = live.report
    assert report is not None
    expected = Watch(config, PLUGINS)
    for at, pairs in (
        (0.0, [("p0", before, loads)]),
        (2.5, [("d0", decode_before, decode_loads)]),
        (5.0, [("p0", after, loads)]),
        (7.5, [("d0", decode_after, decode_loads)]),
    ):
        for name, metrics_body, loads_body in pairs:
            # a bundle does not say how long a page took, and so not that anybody was asked
            expected.feed(name, PageKind.METRICS, metrics_body, START_UNIX_SECONDS + at, 0.0)
            expected.feed(name, PageKind.LOADS, loads_body, START_UNIX_SECONDS + at, 0.0)
    assert report.generated_at == START_UNIX_SECONDS + 8.0
    document = report_document(report)
    # a bundle has one evaluation, and so no stretch of stable ones
    assert document["deployments"][0]["signals"].pop("stability_window_seconds")["value"] == pytest.approx(2.5, abs=3)
    assert document == report_document(expected.report(START_UNIX_SECONDS + 8.0))
    assert p0.paths == d0.paths == ["/metrics", MODEL_INFO, INFO, LOADS, "/metrics", LOADS]
    assert {asked.headers["accept"] for asked in d0.asked} == {"text/plain;version=0.0.4", "application/json"}


async def test_a_report_is_made_each_interval_and_replaces_the_last(pages: Callable[[str], bytes]) -> None:
    """The last one stays as it is for whoever still holds it."""
    async with (
        HttpTarget(always(page(pages("vllm-0.32.0-light.prom")))) as target,
        running(config_of([{"name": "u0", "url": target.url}])) as live,
    ):
        reports = []
        for wait_seconds in (1.0, 5.0, 5.0):
            await asyncio.sleep(wait_seconds)
            reports.append(live.report)
        body, content_type = live.metrics_body(openmetrics=False)
        assert live.metrics_body(openmetrics=False)[0] is body
        assert content_type.startswith("text/plain; version=0.0.4")
        assert live.metrics_body(openmetrics=True)[0].endswith(b"# EOF\n")
        await asyncio.sleep(5.0)
        assert live.metrics_body(openmetrics=False)[0] is not body
    times = [report.generated_at - START_UNIX_SECONDS for report in reports if report is not None]
    assert times == pytest.approx([0.0, 5.5, 10.5])


async def test_only_sglang_is_asked_for_its_loads(pages: Callable[[str], bytes]) -> None:
    """Where the engine is not configured, its page tells; others would log a request for nothing."""
    sglang = serving({"/metrics": [pages("sglang-0.5.23-unified.prom")], LOADS: [b"{}"]})
    vllm = serving({"/metrics": [pages("vllm-0.32.0-light.prom")]})
    router = serving({"/metrics": [pages("smg-1.13.0-sglang-loaded.prom")]})
    async with HttpTarget(sglang) as s0, HttpTarget(vllm) as v0, HttpTarget(vllm) as v1, HttpTarget(router) as r0:
        targets = [
            {"name": "s0", "url": s0.url},
            {"name": "v0", "url": v0.url},
            {"name": "v1", "url": v1.url, "engine": "vllm"},
            {"name": "r0", "url": r0.url, "role": "router"},
        ]
        async with running(config_of(targets)):
            await asyncio.sleep(9.0)
    assert s0.paths == ["/metrics", MODEL_INFO, INFO, LOADS, "/metrics", LOADS]
    assert v0.paths == v1.paths == ["/metrics", "/version", "/metrics"]
    assert r0.paths == ["/metrics"] * 2


async def test_an_engine_older_than_its_loads_page_has_not_failed(
    pages: Callable[[str], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """A 404 there is logged once and counted nowhere."""
    caplog.set_level(logging.INFO, logger="pdscope")
    async with (
        HttpTarget(serving({"/metrics": [pages("sglang-0.5.23-unified.prom")]})) as target,
        running(config_of([{"name": "u0", "url": target.url, "engine": "sglang"}])) as live,
    ):
        await asyncio.sleep(14.0)
        assert list(states(live.report)) == [("u0", "sglang")]
    assert target.paths.count(LOADS) == 3
    assert [r.getMessage() for r in caplog.records if r.name.startswith("pdscope")] == [
        f"target u0: this version of the engine has no {LOADS}"
    ]


async def test_loads_that_fail_are_told_apart_from_metrics(pages: Callable[[str], bytes]) -> None:
    """The instance is up; the one page is not."""

    async def broken_loads(asked: Asked) -> AsyncIterator[bytes]:
        if asked.path == "/metrics":
            yield page(pages("sglang-0.5.23-unified.prom"))
        else:
            yield page(b"busy", status="503 Service Unavailable")

    async with (
        HttpTarget(broken_loads) as target,
        running(config_of([{"name": "u0", "url": target.url, "engine": "sglang"}])) as live,
    ):
        await asyncio.sleep(9.0)
        found = states(live.report)
        assert live.report is not None
        assert live.report.deployments[0].instances["u0"].up is True
    assert found["u0", "sglang"].failures == {}
    assert found["u0", "loads"].failures == {FailureReason.HTTP_STATUS: 2}


async def test_both_pages_share_one_deadline(pages: Callable[[str], bytes]) -> None:
    """A page that hangs holds the place in line no longer than the target's timeout, and the next scrape is in time."""

    async def slow_then_hanging(asked: Asked) -> AsyncIterator[bytes]:
        if asked.path == "/metrics":
            await asyncio.sleep(3.0)
            yield page(pages("sglang-0.5.23-unified.prom"))
        else:
            await asyncio.Event().wait()

    async with (
        HttpTarget(slow_then_hanging) as target,
        running(config_of([{"name": "u0", "url": target.url, "engine": "sglang"}])) as live,
    ):
        await asyncio.sleep(4.5)
        loads = states(live.report)["u0", "loads"]
        await asyncio.sleep(10.0)
    assert loads.failures == {FailureReason.TIMEOUT: 1}
    assert target.starts == pytest.approx([0.0, 5.0, 10.0])


async def test_a_target_that_is_gone_is_not_asked_twice(pages: Callable[[str], bytes]) -> None:
    """Where /metrics finds nobody, /v1/loads would not either; both have failed."""
    async with running(config_of([{"name": "u0", "url": "http://127.0.0.1:1", "engine": "sglang"}])) as live:
        await asyncio.sleep(4.0)
        found = live.report
    assert found is not None
    assert [state.failures for state in found.targets] == [{FailureReason.CONNECT: 1}] * 2
    assert found.deployments[0].instances["u0"].up is False
    assert found.deployments[0].diagnosis.verdict == "insufficient_data"


# Targets that misbehave


def once_more_than_16_mib(_asked: Asked) -> AsyncIterator[bytes]:
    """A page that is too large by one byte."""
    return always(page(b"#" * (16 * 2**20 + 1)))(_asked)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (hangs, FailureReason.TIMEOUT),
        (drips, FailureReason.TIMEOUT),
        (always(page(b"multiprocess directory is gone", status="500 Error")), FailureReason.HTTP_STATUS),
        (once_more_than_16_mib, FailureReason.TOO_LARGE),
        (always(page(b"", status="302 Found", headers="Location: http://localhost:1/\r\n")), FailureReason.REDIRECT),
        (always(page(b"", status="302 Found", headers="Location: /metrics\r\n")), FailureReason.REDIRECT),
        (always(page(b"<!doctype html><html></html>")), FailureReason.NOT_EXPOSITION),
        (always(page(b"\x00\x01\xff garbage")), FailureReason.NOT_EXPOSITION),
        (always(page(b"")), FailureReason.METRICS_OFF),
        (always(page(b"python_info 1\n")), FailureReason.METRICS_OFF),
        (None, FailureReason.CONNECT),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
async def test_one_bad_target_changes_nothing_for_the_others(
    pages: Callable[[str], bytes], answer: Answer | None, reason: FailureReason
) -> None:
    """Count and start times of the others' scrapes are as planned, and the failure has its reason."""
    good = always(page(pages("vllm-0.32.0-light.prom")))
    async with HttpTarget(good) as a, HttpTarget(answer or hangs) as bad, HttpTarget(good) as b:
        url = bad.url if answer is not None else "http://127.0.0.1:1"
        urls = {"a": a.url, "bad": url, "b": b.url}
        config = config_of([{"name": name, "url": url} for name, url in urls.items()])
        async with running(config) as live:
            await asyncio.sleep(29.5)
            assert live.report is not None
            counts = {state.target: state.failures for state in live.report.targets}
            up = {name: state.up for name, state in live.report.deployments[0].instances.items()}
    third = 5.0 / 3.0
    assert a.starts == pytest.approx([5.0 * i for i in range(6)])
    assert b.starts == pytest.approx([2 * third + 5.0 * i for i in range(6)])
    assert counts["a"] == counts["b"] == {}
    assert set(counts["bad"]) == {reason}
    assert counts["bad"][reason] == 3  # after 0, 5 and 15 s: it is asked less often while it fails
    assert up == {"a": True, "bad": False, "b": True}


async def test_a_crowd_of_hanging_targets_delays_no_other(pages: Callable[[str], bytes]) -> None:
    """Twenty of them, more than there are places in line."""
    async with HttpTarget(always(page(pages("vllm-0.32.0-light.prom")))) as good, HttpTarget(hangs) as bad:
        dead = [{"name": f"dead{i}", "url": bad.url} for i in range(20)]
        async with running(config_of([*dead, {"name": "good", "url": good.url}])):
            await asyncio.sleep(60.0)
    settled = [start for start in good.starts if start >= 20.0]
    assert settled == pytest.approx([settled[0] + 5.0 * i for i in range(len(settled))])
    assert len(settled) == 8


async def test_a_fault_of_ours_in_one_page_stops_no_other(
    pages: Callable[[str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a failure of that page, with a reason of its own."""
    original = Watch.feed

    def breaking(self: Watch, target: str, kind: PageKind, *rest: Any) -> Any:
        if target == "b" and kind is PageKind.LOADS:
            raise ZeroDivisionError
        return original(self, target, kind, *rest)

    monkeypatch.setattr(Watch, "feed", breaking)
    answer = serving(
        {"/metrics": [pages("sglang-0.5.23-unified.prom")], LOADS: [pages("sglang-0.5.23-v1_loads-decode.json")]}
    )
    async with HttpTarget(answer) as a, HttpTarget(answer) as b:
        instances = [{"name": n, "url": u, "engine": "sglang"} for n, u in (("a", a.url), ("b", b.url))]
        async with running(config_of(instances)) as live:
            await asyncio.sleep(9.0)
            found = states(live.report)
    assert found["b", "loads"].failures == {FailureReason.INTERNAL: 2}
    assert found["a", "loads"].failures == found["a", "sglang"].failures == found["b", "sglang"].failures == {}


async def test_while_judging_fails_there_is_no_report(
    pages: Callable[[str], bytes], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An old one would pass for the present. The fault is logged once, and polling goes on."""
    broken = False
    original = Watch.report

    def report(self: Watch, now: float) -> Report:
        if broken:
            raise ZeroDivisionError
        return original(self, now)

    monkeypatch.setattr(Watch, "report", report)
    async with (
        HttpTarget(always(page(pages("vllm-0.32.0-light.prom")))) as target,
        running(config_of([{"name": "u0", "url": target.url}])) as live,
    ):
        await asyncio.sleep(1.0)
        assert live.ready
        broken = True
        await asyncio.sleep(15.0)
        assert (live.ready, live.report) == (False, None)
        with pytest.raises(RuntimeError, match="no report"):
            live.metrics_body(openmetrics=False)
        broken = False
        await asyncio.sleep(5.0)
        assert live.ready
    assert len(target.starts) == 5
    assert [r.getMessage() for r in caplog.records] == ["no diagnosis: a fault of pdscope"]


async def test_a_broken_rule_is_logged_once(
    pages: Callable[[str], bytes], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also when it breaks in the first of two deployments only."""

    def breaks(case: Case) -> Iterable[Finding]:
        if case.deployment.name == "x":
            raise ZeroDivisionError
        return ()

    rules = (replace(PLUGINS.rules[0], evaluate=breaks), *PLUGINS.rules[1:])
    plugins = replace(PLUGINS, rules=rules)
    document = {
        "deployments": [{"name": n, "instances": [{"name": n, "url": "http://127.0.0.1:1"}]} for n in ("x", "y")]
    }
    config = parse_config(json.dumps(document), Path("/"), file="test")
    async with running(config, plugins) as live:
        await asyncio.sleep(20.0)
        assert live.ready
    errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert errors == [f"rule {PLUGINS.rules[0].id}: a fault of pdscope"]


@pytest.mark.parametrize(("status", "logged"), [("403 Forbidden", "HTTP 403"), ("200 OK", "the page cannot be read")])
async def test_secrets_are_sent_and_shown_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, status: str, logged: str
) -> None:
    """Neither in the report nor in any log, although the target repeats it."""
    caplog.set_level(logging.DEBUG)
    (tmp_path / "token").write_text("s3cr3t", encoding="utf-8")

    async def repeats(asked: Asked) -> AsyncIterator[bytes]:
        yield page(asked.headers["authorization"].encode(), status=status)

    async with HttpTarget(repeats) as target:
        instance = {"name": "u0", "url": target.url, "auth": {"bearer_token_file": str(tmp_path / "token")}}
        async with running(config_of([instance])) as live:
            await asyncio.sleep(6.0)
            report = live.report
            body = live.metrics_body(openmetrics=False)[0]
    assert {asked.headers["authorization"] for asked in target.asked} == {"Bearer s3cr3t"}
    assert logged in caplog.text
    assert "s3cr3t" not in f"{caplog.text}{report!r}{live!r}{body!r}"


# What is not polled


async def test_devices_are_polled_once_for_all_that_they_serve(pages: Callable[[str], bytes]) -> None:
    """An exporter for two instances is asked once an interval, at its own address."""
    async with (
        HttpTarget(always(page(pages("vllm-0.32.0-light.prom")))) as engine,
        HttpTarget(always(page(pages("dcgm_t4_2gpu_fake-gpu-operator.txt")))) as dcgm,
    ):
        config = config_of(
            [{"name": "a", "url": engine.url}, {"name": "b", "url": engine.url}],
            devices=[
                {
                    "name": "gpus",
                    "source": "dcgm",
                    "url": f"{dcgm.url}/gpu/metrics",
                    "serves": [{"instance": "a", "select": {"gpu": "0"}}, {"instance": "b", "select": {"gpu": "1"}}],
                }
            ],
        )
        async with running(config) as live:
            await asyncio.sleep(9.0)
            assert live.unreadable == ()
            assert live.report is not None
            assert [s.source for s in live.report.targets if s.target == "gpus"] == ["dcgm"]  # one line of `/metrics`
    assert dcgm.paths == ["/gpu/metrics"] * 2


async def test_what_this_version_cannot_read_is_listed_and_logged_once(
    pages: Callable[[str], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """And not asked; the rest is judged without it."""
    async with HttpTarget(always(page(pages("vllm-0.32.0-light.prom")))) as engine:
        config = config_of(
            [{"name": "a", "url": engine.url}],
            discovery={"file_sd": ["targets/*.json"]},
        )
        async with running(config) as live:
            await asyncio.sleep(9.0)
            assert live.ready
    why = {"pd": "this version finds no instances by itself"}
    assert live.unreadable == tuple(Unreadable(*item) for item in why.items())
    assert [r.getMessage() for r in caplog.records] == [f"{name}: not polled: {text}" for name, text in why.items()]


async def test_instances_without_an_adapter_or_behind_prometheus_are_not_polled() -> None:
    """`prometheus` stands for: instead of scraping."""
    async with HttpTarget(hangs) as target:
        instances = [{"name": "a", "url": target.url, "engine": "vllm"}]
        async with running(config_of(instances), Plugins((), PLUGINS.devices, PLUGINS.rules)) as live:
            await asyncio.sleep(9.0)
            assert live.unreadable == (Unreadable("a", "this version reads no vllm"),)
        async with running(config_of(instances, prometheus={"url": target.url})) as live:
            await asyncio.sleep(9.0)
            assert live.unreadable == (Unreadable("pd", "this version asks no Prometheus server"),)
            assert live.report is not None
            assert live.report.deployments[0].instances["a"].up is False
    assert target.asked == []


# Serving


@contextlib.asynccontextmanager
async def daemon(config: Config, listen: str = "127.0.0.1:0") -> AsyncIterator[tuple[str, asyncio.Task[None]]]:
    """The daemon with its server: its address, and its task, which is cancelled at the end if it still runs."""
    addresses: asyncio.Queue[str] = asyncio.Queue()
    serving_on = serve(config, PLUGINS, listen, clock=simulated_clock(), on_ready=addresses.put_nowait)
    task = asyncio.get_running_loop().create_task(serving_on)
    yield await addresses.get(), task
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def client_of(address: str) -> httpx.AsyncClient:
    """Asks the daemon; httpx tells real time, so nothing may depend on how much of it passes."""
    limits = httpx.Limits(keepalive_expiry=None)
    return httpx.AsyncClient(base_url=f"http://{address}", trust_env=False, timeout=None, limits=limits)


NOBODY = config_of([{"name": "a", "url": "http://127.0.0.1:1"}])


async def test_two_engines_are_diagnosed_over_http(pages: Callable[[str], bytes]) -> None:
    """From their pages to /diagnose and /metrics, through the real server."""
    prefill = {
        "/metrics": [pages("sglang-0.5.23-prefill-t0.prom"), pages("sglang-0.5.23-prefill.prom")],
        LOADS: [pages("sglang-0.5.23-v1_loads-prefill.json")],
    }
    decode = {
        "/metrics": [pages("sglang-0.5.23-decode-t0.prom"), pages("sglang-0.5.23-decode.prom")],
        LOADS: [pages("sglang-0.5.23-v1_loads-decode.json")],
    }
    async with HttpTarget(serving(prefill)) as p0, HttpTarget(serving(decode)) as d0:
        config = config_of([{"name": "p0", "url": p0.url}, {"name": "d0", "url": d0.url, "engine": "sglang"}])
        async with daemon(config) as (address, _task), client_of(address) as client:
            paths = ("/-/healthy", "/-/ready", "/diagnose", "/metrics")
            early = [(await client.get(path)).status_code for path in paths]
            await asyncio.sleep(9.0)
            later = [(await client.get(path)).status_code for path in paths]
            document = (await client.get("/diagnose")).json()
            text = (await client.get("/diagnose", headers={"Accept": "text/plain"})).text
            metrics = await client.get("/metrics", headers={"Accept-Encoding": "gzip"})
    assert early == [200, 503, 503, 503]
    assert later == [200, 200, 200, 200]
    [deployment] = document["deployments"]
    assert (deployment["verdict"], deployment["phase"]) == ("healthy", "within_slo")
    found = [(i["name"], i["role"], i["engine"], i["engine_version"], i["up"]) for i in deployment["instances"]]
    assert found == [("p0", "prefill", "sglang", "0.5.23", True), ("d0", "decode", "sglang", "0.5.23", True)]
    assert deployment["signals"]["itl_p50_seconds"]["value"] == pytest.approx(0.0125)
    assert "healthy" in text
    assert metrics.headers["Content-Encoding"] == "gzip"
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.text)
        for sample in family.samples
    }
    healthy = ("pdscope_deployment_verdict", (("deployment", "pd"), ("verdict", "healthy")))
    assert samples[healthy] == 1.0
    assert samples["pdscope_deployment_itl_p50_seconds", (("deployment", "pd"),)] == pytest.approx(0.0125)
    up = [value for (name, _), value in samples.items() if name == "pdscope_source_up"]
    assert up == [1.0] * 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_daemon_within_5_seconds(number: signal.Signals) -> None:
    """Also while a scrape hangs and clients keep connections; afterwards the signals do what they did before."""
    before = signal.getsignal(number)
    async with (
        HttpTarget(hangs) as target,
        daemon(config_of([{"name": "a", "url": target.url}])) as (address, task),
    ):
        host, _, port = address.partition(":")
        reader, idle = await asyncio.open_connection(host, int(port))
        idle.write(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()) == b"HTTP/1.1 200 OK\r\n"
        _, half_asked = await asyncio.open_connection(host, int(port))
        half_asked.write(b"GET /diagnose HT")
        await asyncio.sleep(1.0)
        assert len(target.asked) == 1
        started = asyncio.get_running_loop().time()
        os.kill(os.getpid(), number)
        await task
        assert asyncio.get_running_loop().time() - started < 5.0
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, int(port))
        for end in (idle, half_asked):
            end.close()
    assert signal.getsignal(number) is before


async def test_a_client_that_does_not_read_does_not_keep_the_daemon_alive() -> None:
    """Answers that nobody takes are given up."""
    async with daemon(NOBODY) as (address, task):
        host, _, port = address.partition(":")
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(deaf, (host, int(port)))
            await loop.sock_sendall(deaf, b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 2000)
            await asyncio.sleep(1.0)
            started = loop.time()
            os.kill(os.getpid(), signal.SIGTERM)
            await task
            assert 3.0 <= loop.time() - started < 5.0


async def test_a_client_may_keep_its_connection_for_a_minute() -> None:
    """Longer than the interval of who scrapes us. What serves is not told."""
    async with daemon(NOBODY) as (address, _task), client_of(address) as client:
        ends = []
        for wait_seconds in (0.0, 60.0):
            await asyncio.sleep(wait_seconds)
            response = await client.get("/-/healthy")
            assert "server" not in response.headers
            ends.append(response.extensions["network_stream"].get_extra_info("client_addr"))
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    "listen",
    ["", "9836", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:70000", "::1:80", "[::1]", "a b:80", "[x]:1"],
)
async def test_a_wrong_address_to_listen_on_is_wrong_use(listen: str) -> None:
    """It says how to write one."""
    with pytest.raises(UsageError, match=rf"is no address to listen on: write host:port, such as {DEFAULT_LISTEN}"):
        await serve(NOBODY, PLUGINS, listen)


async def test_an_address_that_cannot_be_had_is_wrong_use() -> None:
    """With the reason."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError, match=f"cannot listen on {listen}: Address already in use"):
            await serve(NOBODY, PLUGINS, listen)
    with pytest.raises(UsageError, match="the host is no name"):
        await serve(NOBODY, PLUGINS, f"{'x' * 64}.test:0")


def has_ipv6() -> bool:
    """Whether the loopback interface of this machine speaks it."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


FORMS = [(":0", ""), ("localhost:0", ""), ("127.0.0.1:0", "127.0.0.1:")]


@pytest.mark.parametrize(("listen", "begins"), FORMS + [("[::1]:0", "[::1]:")] * has_ipv6())
async def test_the_real_address_is_told(listen: str, begins: str) -> None:
    """For all addresses, a name, IPv4, IPv6."""
    async with daemon(NOBODY, listen) as (address, _task):
        assert address.startswith(begins)
        here = address if listen != ":0" else f"127.0.0.1:{address.rpartition(':')[2]}"
        async with client_of(here) as client:
            assert (await client.get("/-/healthy")).status_code == 200
