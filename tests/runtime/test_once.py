"""One diagnosis of what runs now: polled in simulated time, or asked of a daemon."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from pdscope.config import Config, parse_config
from pdscope.errors import UsageError
from pdscope.model.finding import Verdict
from pdscope.model.signal import SignalId, instance_scope
from pdscope.runtime.offline import diagnose_bundle
from pdscope.runtime.once import Answer, ask_daemon, default_seconds, diagnose_live
from pdscope.runtime.plugins import load_plugins
from pdscope.sources.http import Fetcher
from support.http_target import Asked, CloseConnection, HttpTarget, always, hangs, page
from support.simulated_time import SIMULATED, START_UNIX_SECONDS, simulated_clock

PLUGINS = load_plugins()
DAEMON = {
    "schema_version": 1,
    "generated_at": "2026-01-01T00:00:00.000Z",
    "deployments": [{"name": "pd", "verdict": "healthy"}, {"name": "b c", "verdict": "decode_admission"}],
}


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """A minute of scraping passes at once."""
    return SIMULATED


@pytest.fixture(scope="module")
def pages(fixtures_dir: Path) -> Callable[[str], bytes]:
    """A recorded page by name."""
    return lambda name: (fixtures_dir / "expositions" / name).read_bytes()


def config_of(*instances: dict[str, Any], window: str = "60s", **keys: Any) -> Config:
    """A configuration with one deployment."""
    document = {"window": window, "deployments": [{"name": "pd", "instances": list(instances), **keys}]}
    return parse_config(json.dumps(document), Path("/"), file="test")


def in_turn(bodies: list[bytes]) -> Callable[[Asked], AsyncIterator[bytes]]:
    """Recorded pages in the order of their recording, the last one for good."""
    turns = iter(bodies)
    last = bodies[0]

    async def answer(_asked: Asked) -> AsyncIterator[bytes]:
        nonlocal last
        last = next(turns, last)
        yield page(last)

    return answer


async def test_a_replayed_run_gets_the_verdict_of_its_bundle(fixtures_dir: Path) -> None:
    """The pages of a bundle, served over HTTP at its interval, are judged as the bundle is."""
    run = fixtures_dir / "runs" / "vllm-transferbound"
    bodies = {
        name: [file.read_bytes() for file in sorted((run / "samples" / name).glob("*.prom"))] for name in ("p0", "d0")
    }
    offline, _ = diagnose_bundle(run, PLUGINS)
    async with HttpTarget(in_turn(bodies["p0"])) as p0, HttpTarget(in_turn(bodies["d0"])) as d0:
        text = (run / "pdscope.yml").read_text()
        written = parse_config(text, run)
        urls = {i.name: i.url for i in written.deployments[0].instances}
        for name, target in (("p0", p0), ("d0", d0)):
            text = text.replace(urls[name], target.url)
        config = parse_config(text, run)
        seconds = config.scrape.interval_seconds * (len(bodies["p0"]) - 0.4)
        once = await diagnose_live(config, PLUGINS, seconds=seconds, clock=simulated_clock())
    live = once.report.deployments[0]
    assert len(p0.starts) == len(bodies["p0"])
    assert live.diagnosis.verdict is offline.deployments[0].diagnosis.verdict is Verdict.KV_TRANSFER_BANDWIDTH
    assert once.unreadable == ()


async def test_it_polls_a_window_and_an_interval_unless_told_otherwise(pages: Callable[[str], bytes]) -> None:
    """The longest interval counts, and the report is of the end."""
    async with HttpTarget(always(page(pages("vllm-0.32.0-light.prom")))) as target:
        config = config_of(
            {"name": "u0", "url": target.url},
            {"name": "u1", "url": target.url, "scrape": {"interval": "8s"}},
            window="20s",
        )
        assert default_seconds(config) == 28.0
        told: list[tuple[float, float]] = []
        once = await diagnose_live(
            config, PLUGINS, clock=simulated_clock(), progress=lambda passed, total: told.append((passed, total))
        )
    assert once.report.generated_at == pytest.approx(START_UNIX_SECONDS + 28.0, abs=0.01)
    assert [round(passed) for passed, _ in told] == list(range(29))
    assert {total for _, total in told} == {28.0}
    assert len(target.starts) == 6 + 4  # at 0, 5 ... 25 s and at 0, 8, 16, 24 s


async def test_a_longer_poll_than_the_retention_keeps_its_window(pages: Callable[[str], bytes]) -> None:
    """An hour of polling judges the last minute, and stops."""
    async with HttpTarget(always(page(pages("vllm-0.32.0-light.prom")))) as target:
        config = config_of({"name": "u0", "url": target.url, "scrape": {"interval": "30s"}})
        once = await diagnose_live(config, PLUGINS, seconds=3590.0, clock=simulated_clock())
    deployment = once.report.deployments[0]
    assert deployment.diagnosis.verdict is Verdict.IDLE
    assert deployment.signals.value(SignalId.SCRAPES, instance_scope("u0")) == 3
    assert len(target.starts) == 120


async def test_targets_that_do_not_answer_leave_insufficient_data() -> None:
    """The wait ends in time although the target hangs."""
    async with HttpTarget(hangs) as target:
        config = config_of({"name": "u0", "url": target.url})
        once = await diagnose_live(config, PLUGINS, seconds=2.0, clock=simulated_clock())
    assert once.report.deployments[0].diagnosis.verdict is Verdict.INSUFFICIENT_DATA
    assert once.report.generated_at == pytest.approx(START_UNIX_SECONDS + 2.0, abs=0.01)


async def test_nothing_to_poll_is_told() -> None:
    """A deployment that another version would read is named."""
    config = config_of(prometheus={"url": "http://prometheus.invalid:9090"})
    with pytest.raises(UsageError, match="nothing to poll: pd: "):
        await diagnose_live(config, PLUGINS, clock=simulated_clock())


# Asking a daemon


async def ask(
    answer: Callable[[Asked], AsyncIterator[bytes]], path: str = "", **options: Any
) -> tuple[Answer, list[str]]:
    """Ask a daemon that answers so; the answer, and the paths that were asked for."""
    async with HttpTarget(answer) as daemon, Fetcher(monotonic=asyncio.get_running_loop().time) as fetcher:
        return await ask_daemon(daemon.url + path, fetcher, **options), daemon.paths


def daemon(text: bytes = b"PD HEALTHY\n", cycles: int = 1) -> Callable[[Asked], AsyncIterator[bytes]]:
    """A daemon that judges again before each of its first JSON answers."""
    cycle = 0

    async def answer(asked: Asked) -> AsyncIterator[bytes]:
        nonlocal cycle
        if "format=text" in asked.path:
            yield page(text)
            return
        cycle += 1
        yield page(json.dumps({**DAEMON, "generated_at": str(min(cycle, cycles))}).encode())

    return answer


async def test_json_is_passed_on_with_its_verdicts() -> None:
    """All of it, or the deployment that is asked for."""
    answer, paths = await ask(daemon(), form="json")
    assert json.loads(answer.text)["deployments"] == DAEMON["deployments"]
    assert answer.verdicts == ("healthy", "decode_admission")
    assert paths == ["/diagnose"]
    answer, _ = await ask(daemon(), "/prefix/diagnose", form="json", deployment="pd")
    assert [one["name"] for one in json.loads(answer.text)["deployments"]] == ["pd"]
    assert answer.verdicts == ("healthy",)


async def test_text_and_verdicts_are_of_one_cycle() -> None:
    """When the daemon judged between the requests, they are made again."""
    answer, paths = await ask(daemon(cycles=2), "/", deployment="b c")
    assert answer == Answer("PD HEALTHY\n", ("decode_admission",))
    assert paths == ["/diagnose", *["/diagnose?format=text&deployment=b%20c", "/diagnose"] * 2]
    with pytest.raises(UsageError, match="judges faster"):
        await ask(daemon(cycles=99))


async def test_what_a_terminal_would_obey_is_taken_out() -> None:
    """The other side may be anything."""
    answer, _ = await ask(daemon("\x1b[2Jé\n".encode()))
    assert answer.text == "[2Jé\n"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (page(b'{"error": "no cycle"}', status="503 Service Unavailable"), "first cycle is not complete"),
        (page(b"", status="404 Not Found"), "has no /diagnose"),
        (page(b"broken", status="500 Internal Server Error"), "HTTP 500: broken"),
        (page(b"<html>"), "no JSON, so it is no pdscope"),
        (page(b"[]"), "not the JSON of a pdscope"),
        (page(b'{"schema_version": 1, "generated_at": "x", "deployments": [1]}'), "not the JSON of a pdscope"),
        (page(b'{"schema_version": 2, "generated_at": "x", "deployments": []}'), "schema version 2"),
    ],
)
async def test_other_answers_are_told_apart(answer: bytes, text: str) -> None:
    """Each in one sentence that names the address."""
    with pytest.raises(UsageError, match=text) as raised:
        await ask(always(answer))
    assert "http://127.0.0.1:" in str(raised.value)


async def test_no_daemon_is_told() -> None:
    """A closed port, a closed connection, an address without a scheme, an unknown deployment."""

    async def closes(_asked: Asked) -> AsyncIterator[bytes]:
        raise CloseConnection
        yield b""

    with pytest.raises(UsageError, match="no answer"):
        await ask(closes)
    async with HttpTarget(hangs) as gone:
        pass
    async with Fetcher(monotonic=asyncio.get_running_loop().time) as fetcher:
        with pytest.raises(UsageError, match="Connection refused"):
            await ask_daemon(gone.url, fetcher)
        with pytest.raises(UsageError, match="begins with http://"):
            await ask_daemon("localhost:9836", fetcher)
    with pytest.raises(UsageError, match=r"--deployment x: .* has pd, b c"):
        await ask(daemon(), deployment="x")
