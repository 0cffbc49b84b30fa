"""A configuration without a file: from addresses and routers to checked YAML."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.config import parse_config
from pdscope.errors import ConfigError, UsageError
from pdscope.model.metric import Metric
from pdscope.model.topology import Role
from pdscope.runtime.behaviour import behaves_as
from pdscope.runtime.found import Found, Wanted, find_config
from pdscope.runtime.workers import Worker, base_url, read_workers
from pdscope.sources.http import Fetcher
from support.http_target import Asked, HttpTarget, page
from support.pages import page as recorded
from support.pages import read_engine
from support.simulated_time import SIMULATED
from support.windows import page as scrape_of


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Timeouts pass at once."""
    return SIMULATED


def serving(bodies: dict[str, bytes]) -> Callable[[Asked], AsyncIterator[bytes]]:
    """By path; other paths are not found."""

    async def answer(asked: Asked) -> AsyncIterator[bytes]:
        body = bodies.get(asked.path)
        yield page(b"", status="404 Not Found") if body is None else page(body)

    return answer


async def find(*names: str, wanted: Wanted | None = None) -> tuple[Found, list[HttpTarget]]:
    """Find programs that print these recorded pages."""
    async with AsyncExitStack() as stack:
        targets = [await stack.enter_async_context(HttpTarget(serving({"/metrics": recorded(name)}))) for name in names]
        fetcher = await stack.enter_async_context(Fetcher(monotonic=asyncio.get_running_loop().time))
        return await find_config([t.url for t in targets], None, fetcher, wanted=wanted), targets


def roles(found: Found) -> list[tuple[str, Role | None, str | None]]:
    """Name, role and engine of each instance."""
    return [(i.name, i.role, i.engine) for i in found.config.deployments[0].instances]


async def test_engines_that_state_their_role() -> None:
    """SGLang's page says what it is; each page is asked for once."""
    found, targets = await find("sglang-0.5.23-decode.prom", "sglang-0.5.23-prefill.prom")
    assert roles(found) == [("d0", Role.DECODE, "sglang"), ("p0", Role.PREFILL, "sglang")]
    assert found.notes == ()
    assert [target.paths for target in targets] == [["/metrics"]] * 2


async def test_engines_that_do_not_are_told_by_what_they_did() -> None:
    """The NIXL pair of vLLM after some requests; the note says how it was found."""
    found, _ = await find("vllm-0.32.0-nixl-p-light.prom", "vllm-0.32.0-nixl-d-light.prom", "vllm-0.32.0-light.prom")
    assert roles(found) == [("p0", Role.PREFILL, "vllm"), ("d0", Role.DECODE, "vllm"), ("u0", Role.UNIFIED, "vllm")]
    assert len(found.notes) == 3
    assert all("by what it has done so far" in note for note in found.notes)


async def test_without_traffic_nothing_tells_the_role() -> None:
    """It counts as unified, with a warning."""
    found, _ = await find("vllm-0.32.0-nixl-p-idle.prom", "vllm-0.32.0-nixl-d-idle.prom")
    assert roles(found) == [("u0", Role.UNIFIED, "vllm"), ("u1", Role.UNIFIED, "vllm")]
    assert all("nothing tells its role" in note for note in found.notes)


async def test_the_text_is_the_configuration(fixtures_dir: Path) -> None:
    """What the user adds stands in it, and reading it again gives the same."""
    wanted = Wanted(
        slo={"ttft_p50": "2s", "itl_p50": "50ms"},
        interconnect="50GB/s",
        hf_config=fixtures_dir / "hf_configs" / "llama-3.1-8b.json",
        name="mine",
    )
    found, targets = await find("sglang-0.5.23-decode.prom", "smg-1.13.0-sglang-loaded.prom", wanted=wanted)
    deployment = found.config.deployments[0]
    assert deployment.name == "mine"
    assert deployment.slo.ttft_p50_seconds == 2.0
    assert deployment.slo.itl_p50_seconds == 0.05
    assert deployment.interconnect is not None
    assert deployment.interconnect.bandwidth_bytes_per_second == 50e9
    assert deployment.model.hf_config == wanted.hf_config
    assert [(i.name, i.role, i.url) for i in deployment.instances] == [
        ("d0", Role.DECODE, targets[0].url),
        ("r0", Role.ROUTER, targets[1].url),
    ]
    assert parse_config(found.text, Path("/elsewhere")).model_dump() == found.config.model_dump()
    assert found.notes == (
        "there is a decode instance and no prefill instance: is one missing?",
        "several models are served, though a deployment has one: meta-llama/Llama-3.1-70B-Instruct, tiny",
    )


async def test_wrong_additions_are_errors_of_the_configuration() -> None:
    """They pass the same checks as a file."""
    with pytest.raises(ConfigError, match=r"interconnect\.bandwidth"):
        await find("sglang-0.5.23-decode.prom", wanted=Wanted(interconnect="fast"))


async def test_a_target_that_does_not_answer_is_kept_and_noted() -> None:
    """It may come up later; its role is left open."""
    async with HttpTarget(serving({"/metrics": recorded("sglang-0.5.23-unified.prom")})) as up:
        async with HttpTarget(serving({})) as down:
            pass
        async with Fetcher(monotonic=asyncio.get_running_loop().time) as fetcher:
            found = await find_config([down.url, up.url, up.url + "/metrics"], None, fetcher)
            with pytest.raises(UsageError, match=r"nothing that is known answers: .*connect"):
                await find_config([down.url], None, fetcher)
    assert roles(found) == [("u0", None, None), ("u1", Role.UNIFIED, "sglang")]
    assert found.notes == (f"{down.url}: connect: no connection: Connection refused",)


@pytest.mark.parametrize("wrap", [False, True])
async def test_a_router_names_its_workers_and_their_roles(wrap: bool) -> None:
    """vllm-router answers a list, smg a mapping; its own page, where it is on that port, is a target."""
    idle = {"/metrics": recorded("vllm-0.32.0-nixl-d-idle.prom")}
    async with AsyncExitStack() as stack:
        p0 = await stack.enter_async_context(HttpTarget(serving(idle)))
        d0 = await stack.enter_async_context(HttpTarget(serving(idle)))
        workers: Any = [
            {"url": f"{p0.url}/", "worker_type": "prefill", "is_healthy": True, "load": 0},
            {"url": f"{d0.url}@0", "worker_type": "decode"},
            {"url": f"{d0.url}@1", "worker_type": "decode"},
            {"url": "grpc://10.0.0.1:1", "worker_type": "decode"},
        ]
        bodies = {"/workers": json.dumps({"workers": workers} if wrap else workers).encode()}
        if wrap:
            bodies["/metrics"] = recorded("vllm_router-0.1.17-loaded.prom")
        router = await stack.enter_async_context(HttpTarget(serving(bodies)))
        fetcher = await stack.enter_async_context(Fetcher(monotonic=asyncio.get_running_loop().time))
        found = await find_config([p0.url], router.url, fetcher)
    expected: list[tuple[str, Role, str]] = [("p0", Role.PREFILL, "vllm"), ("d0", Role.DECODE, "vllm")]
    assert roles(found) == ([*expected, ("r0", Role.ROUTER, "vllm_router")] if wrap else expected)
    assert [i.url for i in found.config.deployments[0].instances][:2] == [p0.url, d0.url]
    assert any("grpc://10.0.0.1:1" in note and "left out" in note for note in found.notes)
    assert any("metrics port" in note for note in found.notes) is not wrap


async def test_a_router_that_lists_nothing_needs_targets() -> None:
    """Dynamo's frontend has no such page: an error, or a note where targets are named."""
    frontend = {"/metrics": recorded("dynamo-1.6.1-frontend-longhigh-bw450-t1.prom")}
    async with (
        HttpTarget(serving(frontend)) as router,
        HttpTarget(serving({"/metrics": recorded("dynamo-1.6.1-decode1-idle.prom")})) as worker,
        HttpTarget(serving({"/workers": b"[]"})) as empty,
        Fetcher(monotonic=asyncio.get_running_loop().time) as fetcher,
    ):
        with pytest.raises(UsageError, match="HTTP 404; a router that does not list its workers"):
            await find_config([], router.url, fetcher)
        with pytest.raises(UsageError, match="has no workers now"):
            await find_config([], empty.url, fetcher)
        with pytest.raises(UsageError, match="give --router or --target"):
            await find_config([], None, fetcher)
        found = await find_config([worker.url], router.url, fetcher)
    assert roles(found) == [("d0", Role.DECODE, "dynamo"), ("r0", Role.ROUTER, "dynamo")]
    assert "only the named targets are watched" in found.notes[0]


@pytest.mark.parametrize(
    ("body", "text"), [(b"<html>", "no JSON"), (b'{"workers": 1}', "no list"), (b'"a"', "no list")]
)
def test_an_answer_that_lists_no_workers_is_an_error(body: bytes, text: str) -> None:
    """It names the page."""
    with pytest.raises(UsageError, match=f"^http://r/workers: .*{text}"):
        read_workers(body, "http://r/workers")


def test_odd_workers_do_not_lose_the_others() -> None:
    """Plain addresses, unknown types, entries without an address."""
    body = json.dumps(["http://a:1", {"url": "http://b:2", "worker_type": "regular"}, {"worker_type": "decode"}, 3])
    workers, left_out = read_workers(body.encode(), "http://r/workers")
    assert workers == [Worker("http://a:1"), Worker("http://b:2")]
    assert left_out == ["http://r/workers: a worker without an address is left out"] * 2


def test_an_address_is_checked_and_a_password_not_repeated() -> None:
    """As in a configuration file."""
    assert base_url("http://h:1/metrics", "--target") == "http://h:1"
    with pytest.raises(UsageError, match=r"--target '10\.0\.0\.1:8000': must begin with http"):
        base_url("10.0.0.1:8000", "--target")
    with pytest.raises(UsageError) as raised:
        base_url("http://user:secret@h:1", "--target")
    assert "secret" not in str(raised.value)


# By behaviour


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("vllm-0.32.0-nixl-d-light.prom", Role.DECODE),
        ("vllm-0.32.0-nixl-d-overload.prom", Role.DECODE),
        ("vllm-0.32.0-nixl-p-light.prom", Role.PREFILL),
        ("vllm-0.32.0-nixl-p-overload.prom", Role.PREFILL),
        ("vllm-0.32.0-light.prom", Role.UNIFIED),
        ("vllm-0.32.0-overload.prom", Role.UNIFIED),
        ("vllm-0.32.0-idle.prom", None),
        ("vllm_router-0.1.17-loaded.prom", None),
    ],
)
def test_recorded_pages_behave_as_they_were_started(name: str, role: Role | None) -> None:
    """By the counters of one page."""
    assert behaves_as(read_engine(recorded(name)).scrape) is role


COUNTS = st.floats(0, 1e9) | st.just(math.nan)


@given(received=COUNTS, computed=COUNTS, gaps=st.integers(0, 10**6), generated=COUNTS, finished=COUNTS)
def test_behaviour_is_only_told_when_it_is_plain(
    received: float, computed: float, gaps: int, generated: float, finished: float
) -> None:
    """Whatever the counters: nothing without prompt tokens, no decode without receiving, no prefill with gaps."""
    scrape = scrape_of(
        0.0,
        {
            Metric.KV_RECEIVED_TOKENS: received,
            Metric.PREFILL_COMPUTED_TOKENS: computed,
            Metric.GENERATED_TOKENS: generated,
            Metric.REQUESTS_FINISHED: finished,
        },
        {Metric.ITL: ((1.0, math.inf), (0.0, float(gaps)), 0.0)},
    )
    role = behaves_as(scrape)
    if not received > 0 and not computed > 0:
        assert role is None
    if role is Role.DECODE:
        assert received > 0
    if role in (Role.PREFILL, Role.UNIFIED):
        assert computed > 0
        assert (gaps == 0) is (role is Role.PREFILL)
