"""Stage, tour and control of the demo, over real sockets on the loopback interface and in simulated time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
import yaml

from pdscope.demo.physics.draw import Draw, Traffic
from pdscope.demo.physics.request import End
from pdscope.demo.runner import Demo
from pdscope.demo.runner.demo import Time
from pdscope.demo.runner.parameters import PARAMETERS
from pdscope.demo.runner.stage import How, Stage
from pdscope.demo.runner.tour import SWITCH_SECONDS, chosen, tour
from pdscope.demo.scenarios import SCENARIOS, Scenario
from pdscope.errors import UsageError
from support.simulated_time import SIMULATED


class EndOfTestError(Exception):
    """A tour has no end of its own."""


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return SIMULATED


@asynccontextmanager
async def demo(*names: str) -> AsyncIterator[tuple[Demo, httpx.AsyncClient, list[str]]]:
    """A demo in the time of the running loop, a client of its control interface, and what it has said."""
    loop = asyncio.get_running_loop()
    said: list[str] = []
    time = Time(loop.time, lambda: 1.7e9 + loop.time(), asyncio.sleep)
    async with (
        Demo(names, time=time, say=said.append) as running,
        httpx.AsyncClient(base_url=running.control_url, timeout=None) as client,
    ):
        yield running, client, said


def stage(name: str) -> tuple[Stage, list[float]]:
    """A stage whose clock stands where the list says."""
    now = [0.0]
    made = Stage(SCENARIOS[name], seconds=lambda: now[0], unix_seconds=lambda: 1.7e9 + now[0], warm_up_seconds=5.0)
    return made, now


def test_simulated_time_follows_the_clock() -> None:
    made, now = stage("healthy")
    now[0] = 7.5
    made.catch_up()
    assert made.simulation.now_seconds == 12.5


def test_a_sound_deployment_goes_on_into_a_fault_that_can_come_while_it_runs() -> None:
    made, now = stage("healthy")
    before = made.simulation
    now[0] = 3.0
    assert made.play(SCENARIOS["cuda_graph_miss"]) is How.LIVE
    assert made.simulation is before
    assert made.draw.decode.graph_ceiling == SCENARIOS["cuda_graph_miss"].draw.decode.graph_ceiling
    assert SCENARIOS["healthy"].draw.decode.graph_ceiling != made.draw.decode.graph_ceiling


def test_a_deployment_in_trouble_is_started_anew() -> None:
    made, _ = stage("cuda_graph_miss")
    before = made.simulation
    assert made.play(SCENARIOS["healthy"]) is How.RESTART
    assert made.simulation is not before
    assert made.simulation.now_seconds == 0.0


def test_other_engines_start_anew() -> None:
    made, _ = stage("healthy")
    assert made.play(SCENARIOS["healthy_vllm"]) is How.RESTART
    assert {one.engine for one in made.servers.values()} == {"vllm", "dcgm", "smg"}


def test_the_tour_shows_all_and_begins_again() -> None:
    scenarios = chosen(())
    shown: list[tuple[float, str]] = []
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    async def show(scenario: Scenario) -> None:
        shown.append((now, scenario.name))
        if len(shown) == len(scenarios):
            raise EndOfTestError

    with pytest.raises(EndOfTestError):
        asyncio.run(tour(scenarios, show, sleep))
    names = list(SCENARIOS)
    assert [name for _, name in shown] == [*names[1:], names[0]]
    assert [at for at, _ in shown] == [SWITCH_SECONDS * (turn + 1) for turn in range(len(names))]


def test_a_scenario_is_shown_once_a_tour() -> None:
    with pytest.raises(UsageError, match="named twice"):
        chosen(("idle", "idle"))


async def test_addresses_outlive_a_switch_and_the_configuration_follows() -> None:
    async with demo("healthy", "kv_transfer_failing") as (running, client, said):
        before = yaml.safe_load(running.config_text())["deployments"][0]["instances"]
        await asyncio.sleep(SWITCH_SECONDS + 1.0)
        after = yaml.safe_load(running.config_text())["deployments"][0]["instances"]
        assert {one["name"]: one["url"] for one in before}.items() <= {one["name"]: one["url"] for one in after}.items()
        assert len(after) == len(before) + 2
        page = await client.get(f"{after[0]['url']}/metrics")
        assert page.status_code == 200
        assert (await client.get(f"{after[0]['url']}/nothing")).status_code == 404
        assert (await client.post(f"{after[0]['url']}/metrics")).status_code == 405
        assert "kv_transfer_failing" in said[0]
        assert "engines restarted" in said[0]


async def test_a_change_by_hand_is_there_at_once() -> None:
    async with demo("healthy") as (running, client, said):
        simulation = running.stage.simulation
        for name, value, how in (
            ("link.path_bytes_per_second", 4e8, "live"),
            ("traffic.prompt_tokens", 9000, "live"),
            ("traffic.requests_per_second", 1.5, "live"),
            ("link.path_bytes_per_second", 4e8, "nothing to change"),
        ):
            answer = await client.post("/", json={"parameter": name, "value": value})
            assert answer.status_code == 200, answer.text
            assert answer.json()["change"] == how
            assert (await client.get("/")).json()["parameters"][name]["value"] == value
        assert running.stage.simulation is simulation
        answer = await client.post("/", json={"parameter": "prefill.compute_factor", "value": 0.5})
        assert answer.json()["change"] == "engines restarted"
        assert running.stage.draw.link.path_bytes_per_second == 4e8
        answer = await client.post("/", json={"parameter": "scenario", "value": "idle"})
        assert (await client.get("/")).json()["scenario"] == "idle"
        assert len(said) == 6


def test_another_rate_counts_from_now_on() -> None:
    """Without bursts, too; through a time in which nobody asks; and out of a wait that would have been long."""
    made, now = stage("healthy")
    made.play(replace(SCENARIOS["healthy"], draw=Draw(traffic=Traffic(requests_per_second=0.001, prompt_tokens=50.0))))
    counted = []
    for rate in (0.001, 20.0, 0.0, 5.0):
        made.change(PARAMETERS["traffic.requests_per_second"], rate)
        before = len(made.simulation.requests)
        now[0] += 50.0
        made.catch_up()
        counted.append(len(made.simulation.requests) - before)
    assert counted == [0, pytest.approx(1000, rel=0.1), 0, pytest.approx(250, rel=0.15)]
    assert made.restarts == 1


def test_a_rate_that_no_user_heeds_is_refused() -> None:
    made, _ = stage("prefill_compute")
    with pytest.raises(UsageError, match=r"make traffic\.concurrency null first"):
        made.change(PARAMETERS["traffic.requests_per_second"], 1.5)


async def test_a_killed_instance_answers_nobody_and_comes_back() -> None:
    async with demo("healthy") as (running, client, _):
        urls = {one["name"]: one["url"] for one in yaml.safe_load(running.config_text())["deployments"][0]["instances"]}
        await client.post("/", json={"parameter": "killed", "value": ["d0"]})
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(f"{urls['d0']}/metrics")
        assert (await client.get(f"{urls['p0']}/metrics")).status_code == 200
        assert running.stage.draw.link.failing_pairs == ((0, 0),)
        await client.post("/", json={"parameter": "killed", "value": []})
        assert (await client.get(f"{urls['d0']}/metrics")).status_code == 200
        assert running.stage.draw.link.failing_pairs == ()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"[" * 9000,
        b'{"parameter": "link.latency_seconds"}',
        b'{"parameter": 1, "value": 1}',
        b'{"parameter": "link.__class__", "value": 1}',
        b'{"parameter": "link.latency_seconds", "value": NaN}',
        b'{"parameter": "link.latency_seconds", "value": -1}',
        b'{"parameter": "link.latency_seconds", "value": "1"}',
        b'{"parameter": "link.latency_seconds", "value": true}',
        b'{"parameter": "link.latency_seconds", "value": null}',
        b'{"parameter": "decode.slots", "value": 1.5}',
        b'{"parameter": "decode.slots", "value": 1e400}',
        b'{"parameter": "scenario", "value": ["idle"]}',
        b'{"parameter": "scenario", "value": "nothing"}',
        b'{"parameter": "killed", "value": "d0"}',
        b'{"parameter": "killed", "value": ["d7"]}',
    ],
)
async def test_what_makes_no_sense_gets_a_400_and_changes_nothing(body: bytes) -> None:
    async with demo("healthy") as (_, client, said):
        before = (await client.get("/")).json()
        answer = await client.post("/", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400
        assert set(answer.json()) == {"error"}
        assert (await client.get("/")).json() == before
        assert not said


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status"),
    [
        ("POST", "/", {"Content-Type": "text/plain"}, b"{}", 415),
        ("POST", "/", {"Content-Type": "application/json"}, b" " * 20_000, 413),
        ("PUT", "/", {}, b"", 405),
        ("GET", "/etc/passwd", {}, b"", 404),
        ("GET", "/", {"Host": "example.org"}, b"", 403),
        ("POST", "/", {"Origin": "https://example.org", "Content-Type": "application/json"}, b"{}", 403),
    ],
)
async def test_hostile_requests_get_a_4xx(
    method: str, path: str, headers: dict[str, str], body: bytes, status: int
) -> None:
    async with demo("healthy") as (_, client, _said):
        answer = await client.request(method, path, headers=headers, content=body)
        assert answer.status_code == status


async def test_the_configuration_is_that_of_what_runs() -> None:
    """A user reads it, and gives it to doctor; after a restart it is another one. It cannot be changed there."""
    async with demo("healthy") as (running, client, _):
        answer = await client.get("/pdscope.yml")
        assert answer.headers["content-type"].startswith("application/yaml")
        assert answer.text == running.config_text()
        await client.post("/", json={"parameter": "scenario", "value": "router_imbalance"})
        instances = yaml.safe_load((await client.get("/pdscope.yml")).text)["deployments"][0]["instances"]
        assert {"p0", "p1", "d0", "d1"} < {one["name"] for one in instances}
        assert (await client.post("/pdscope.yml", json={})).status_code == 404


@pytest.mark.parametrize("name", ["healthy", "healthy_vllm"])
def test_a_dead_prefill_computes_nothing(name: str) -> None:
    """Its users get errors, its devices idle; alive again it serves them."""
    made, now = stage(name)
    prefill = made.simulation.prefills[0]

    def busy(seconds: float) -> float:
        before = prefill.activity.kernel_seconds
        now[0] += seconds
        made.catch_up()
        return prefill.activity.kernel_seconds - before

    assert busy(20.0) > 1.0
    made.kill(frozenset({"p0"}))
    busy(5.0)  # what it had accepted
    ended = len([r for r in made.simulation.requests if r.end is End.TRANSFER_FAILED])
    assert busy(20.0) == 0.0
    failed = len([r for r in made.simulation.requests if r.end is End.TRANSFER_FAILED]) - ended
    assert failed > 20
    assert made.simulation.decodes[0].state().handshaking <= 5
    made.kill(frozenset())
    assert busy(20.0) > 1.0


@pytest.mark.parametrize("name", ["healthy", "kv_transfer_failing"])
def test_engines_that_are_started_anew_are_alive(name: str) -> None:
    """A change that restarts them brings back what was killed, and nothing of what the scenario has broken."""
    made, _ = stage(name)
    made.kill(frozenset({"p0", "d0"}))
    assert made.draw.deployment.dead_prefills == (0,)
    assert made.change(PARAMETERS["link.threads"], 16) is How.RESTART
    assert made.draw.deployment.dead_prefills == ()
    assert made.draw.link.failing_pairs == SCENARIOS[name].draw.link.failing_pairs
    assert made.draw.link.threads == 16


async def test_at_another_speed_the_configuration_warns() -> None:
    """A reader by its own clock would see false rates."""
    loop = asyncio.get_running_loop()
    for speed, warned in ((1.0, False), (5.0, True)):
        time = Time(loop.time, lambda: 1.7e9 + loop.time(), asyncio.sleep, speed)
        async with Demo(("healthy",), time=time) as running:
            text = running.config_text()
            assert ("--speed 1." in text.partition("deployments:")[0]) is warned
            assert yaml.safe_load(text)["deployments"]


async def test_the_configuration_can_be_had_while_engines_start() -> None:
    """It lists who listens already."""
    async with demo("healthy") as (running, client, _):
        running.stage.play(SCENARIOS["router_imbalance"])
        text = (await client.get("/pdscope.yml")).text
        names = {one["name"] for one in yaml.safe_load(text)["deployments"][0]["instances"]}
        assert names == {"p0", "d0", "router"}


async def test_bytes_that_are_no_request_get_a_400() -> None:
    async with demo("healthy") as (running, client, _):
        before = running.stage.simulation
        for head in (b"nonsense\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"):
            host, port = running.control_url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(head)
            assert b" 400 " in await reader.readline()
            writer.close()
        assert running.stage.simulation is before
        assert json.loads((await client.get("/")).content)["killed"] == []
