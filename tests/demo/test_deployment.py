"""Simulated deployments over real HTTP on the loopback interface, in simulated time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pdscope.config import parse_config
from pdscope.demo import SCENARIOS, DemoDeployment
from pdscope.demo.deployment import WARM_UP_SECONDS
from pdscope.demo.http_server import Response, listen
from pdscope.errors import UsageError


class Clock:
    """Monotonic seconds that move when a test says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def samples(text: str) -> dict[str, float]:
    """Sum over all series of each sample name."""
    totals: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
    return totals


async def test_pages_over_http_follow_the_clock() -> None:
    """Warm from the first scrape on; nothing moves but by the clock and the scrapes themselves."""
    clock = Clock()
    async with (
        DemoDeployment(["slow-link"], clock=clock, wall_clock=lambda: 1.8e9) as demo,
        httpx.AsyncClient() as client,
    ):
        prefill, decode = (endpoint.url for endpoint in demo.endpoints)

        async def scrape(url: str) -> dict[str, float]:
            answer = await client.get(f"{url}/metrics")
            answer.raise_for_status()
            assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
            return samples(answer.text)

        warm = await scrape(prefill)
        assert warm["sglang:num_requests_total"] > 2 * WARM_UP_SECONDS
        assert warm["sglang:num_prefill_inflight_queue_reqs"] > 2
        again = await scrape(prefill)
        assert {name for name, value in again.items() if value != warm[name]} == {
            "sglang:http_requests_total",
            "sglang:http_responses_total",
        } | (again.keys() - warm.keys())
        first = await scrape(decode)
        clock.seconds += 30.0
        later, after = await scrape(decode), await scrape(prefill)
        loads = (await client.get(f"{decode}/v1/loads?include=all")).json()
        model_info = (await client.get(f"{prefill}/model_info")).json()
        health = await client.get(f"{prefill}/health")
        missing = await client.get(f"{prefill}/server_info")
        posted = await client.post(f"{prefill}/metrics")

    sent = (after["sglang:kv_transfer_total_mb_sum"] - again["sglang:kv_transfer_total_mb_sum"]) * 2**20 / 30
    assert sent == pytest.approx(SCENARIOS["slow-link"].link_bytes_per_second, rel=0.1)
    tokens = later["sglang:realtime_tokens_total"] - first["sglang:realtime_tokens_total"]
    assert loads["loads"][0]["decode_moments"][1] == later["sglang:realtime_tokens_total"]
    assert tokens > 0
    assert loads["loads"][0]["timestamp"] == 1.8e9
    assert model_info["disaggregation_mode"] == "prefill"
    assert (health.status_code, health.content) == (200, b"")
    assert (missing.status_code, posted.status_code) == (404, 405)


async def test_all_scenarios_run_side_by_side(tmp_path: Path) -> None:
    """One configuration with a deployment for each, which pdscope accepts."""
    async with DemoDeployment(clock=Clock()) as demo:
        text = demo.config_text()
        endpoints = {endpoint.name: endpoint for endpoint in demo.endpoints}
    config = parse_config(text, tmp_path)
    assert [deployment.name for deployment in config.deployments] == [f"demo-{name}" for name in SCENARIOS]
    for deployment, scenario in zip(config.deployments, SCENARIOS.values(), strict=True):
        assert deployment.interconnect is not None
        assert deployment.interconnect.bandwidth_bytes_per_second == scenario.link_bytes_per_second
        assert deployment.interconnect.efficiency == 1.0
        assert deployment.model is not None
        assert deployment.model.kv is not None
        assert [(instance.name, instance.role) for instance in deployment.instances] == [
            (f"{scenario.name}-p0", "prefill"),
            (f"{scenario.name}-d0", "decode"),
        ]
        for instance in deployment.instances:
            assert instance.url == endpoints[instance.name].url
            assert urlsplit(instance.url).hostname == "127.0.0.1"


async def test_nothing_listens_afterwards() -> None:
    """Neither for new connections nor for one that never asked."""
    async with DemoDeployment(["healthy"], clock=Clock()) as demo:
        address = urlsplit(demo.endpoints[0].url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
    assert demo.endpoints == ()
    assert await reader.read() == b""
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(address.hostname, address.port)


async def test_simulated_time_may_run_faster() -> None:
    """Ten seconds of the clock are a hundred simulated ones."""
    clock = Clock()
    async with DemoDeployment(["healthy"], clock=clock, speed=10.0) as demo, httpx.AsyncClient() as client:
        counts = []
        for _ in range(2):
            text = (await client.get(f"{demo.endpoints[1].url}/metrics")).text
            counts.append(samples(text)["sglang:http_requests_total"])
            clock.seconds += 10.0
    assert counts[1] - counts[0] == pytest.approx(300, rel=0.2)


def test_the_terminal_hears_of_one_scenario_after_the_other() -> None:
    """Round and round."""
    clock = Clock()
    demo = DemoDeployment(clock=clock, switch_seconds=60.0)
    heard = []
    for _ in range(len(SCENARIOS) + 1):
        heard.append(demo.current.name)
        clock.seconds += 60.0
    assert heard == [*SCENARIOS, next(iter(SCENARIOS))]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["quick"], r"no scenario is called 'quick'; there are: healthy, slow-link"),
        (["healthy", "healthy"], r"scenario 'healthy' is named twice"),
    ],
)
def test_a_wrong_name_is_wrong_use(names: list[str], text: str) -> None:
    """The error says what there is."""
    with pytest.raises(UsageError, match=text):
        DemoDeployment(names, clock=Clock())


async def test_there_is_no_configuration_without_addresses() -> None:
    """Before it is entered."""
    demo = DemoDeployment(["healthy"], clock=Clock())
    assert demo.endpoints == ()
    with pytest.raises(RuntimeError, match="no addresses"):
        demo.config_text()


async def talk(request: bytes) -> bytes:
    """What the server answers to these bytes."""

    def answer(path: str) -> Response | None:
        return Response(path.encode(), "text/plain")

    async with listen(answer) as url:
        address = urlsplit(url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(request)
        try:
            writer.write_eof()
            return await reader.read()
        except ConnectionError:  # closed while the request was still under way
            return b""
        finally:
            writer.close()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200 OK"),
        (b"GET /a\r\n\r\n", b"HTTP/1.1 400 Bad Request"),
        (b"DELETE /a HTTP/1.1\r\n\r\n", b"HTTP/1.1 405 Method Not Allowed"),
        (b"GET /a HTTP/1.1\r\n", b""),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", b""),
    ],
)
async def test_http_in_detail(request_bytes: bytes, status: bytes) -> None:
    """A query is not part of the path; what is not a request is refused or gets no answer."""
    reply = await talk(request_bytes)
    assert reply.split(b"\r\n")[0] == status
    if status.endswith(b"OK"):
        assert reply.endswith(b"\r\n\r\n/a")
