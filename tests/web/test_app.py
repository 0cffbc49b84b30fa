"""The routes: which form of the last report is answered, and what is said when there is none."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.config import parse_config
from pdscope.model.report import Report
from pdscope.render.json import report_json
from pdscope.render.text import report_text
from pdscope.runtime.plugins import load_plugins
from pdscope.runtime.watch import Watch
from pdscope.web.app import AppState, create_app, preferred

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


@dataclass
class State:
    """What a daemon would hold."""

    report: Report | None
    version: str = "1.2.3"
    bodies: dict[bool, bytes] = field(default_factory=lambda: {False: b"# text\n" * 100, True: b"# EOF\n"})

    @property
    def ready(self) -> bool:
        return self.report is not None

    def metrics_body(self, *, openmetrics: bool) -> tuple[bytes, str]:
        return self.bodies[openmetrics], "application/openmetrics-text" if openmetrics else "text/plain; version=0.0.4"


@pytest.fixture(scope="module")
def report() -> Report:
    """Of two deployments that nobody has answered for."""
    names = ("search", "chat")
    deployments = [{"name": name, "instances": [{"name": f"{name}-0", "url": "http://127.0.0.1:1"}]} for name in names]
    config = parse_config(json.dumps({"deployments": deployments}), Path(), file="test")
    return Watch(config, load_plugins()).report(1_700_000_000.0)


@pytest.fixture
def state(report: Report) -> State:
    """After the first cycle."""
    return State(report)


@pytest.fixture
async def client(state: State) -> AsyncIterator[httpx.AsyncClient]:
    """Asks the application without a network."""
    transport = httpx.ASGITransport(create_app(state))
    async with httpx.AsyncClient(transport=transport, base_url="http://daemon", headers={"Accept": "*/*"}) as client:
        client.headers["Accept-Encoding"] = "identity"
        yield client


def test_the_state_of_these_tests_is_one() -> None:
    """As the type checker would see it."""
    state: AppState = State(None)
    assert not state.ready


# /metrics


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        (PROMETHEUS_2, True),
        ("text/plain;version=0.0.4", False),
        ("*/*", False),
        ("", False),
        (BROWSER, False),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text;q=0", False),
        ("text/plain;q=0.5, application/openmetrics-text;q=0.4", False),
    ],
)
async def test_metrics_are_in_the_format_that_is_liked_best(
    client: httpx.AsyncClient, state: State, accept: str, openmetrics: bool
) -> None:
    """The classic one where both are liked alike."""
    response = await client.get("/metrics", headers={"Accept": accept})
    assert response.status_code == 200
    assert response.content == state.bodies[openmetrics]
    assert response.headers["Content-Type"] == state.metrics_body(openmetrics=openmetrics)[1]
    assert "Content-Encoding" not in response.headers
    assert response.headers["Vary"] == "Accept, Accept-Encoding"


@pytest.mark.parametrize("accepted", ["gzip", "deflate, gzip;q=0.5", "*"])
async def test_metrics_are_compressed_where_that_is_accepted(
    client: httpx.AsyncClient, state: State, accepted: str
) -> None:
    """Prometheus asks for it; each body is compressed once."""
    responses = [await client.get("/metrics", headers={"Accept-Encoding": accepted}) for _ in range(2)]
    for response in responses:
        assert response.headers["Content-Encoding"] == "gzip"
        assert int(response.headers["Content-Length"]) < len(state.bodies[False])
        assert response.content == state.bodies[False]  # the client has unpacked it
    state.bodies = {False: b"# next cycle\n", True: b""}
    response = await client.get("/metrics", headers={"Accept-Encoding": accepted})
    assert response.content == b"# next cycle\n"


@pytest.mark.parametrize("refused", ["gzip;q=0", "identity", "br", "*;q=0"])
async def test_metrics_are_not_compressed_against_the_will(client: httpx.AsyncClient, refused: str) -> None:
    """A weight of 0 is a no."""
    response = await client.get("/metrics", headers={"Accept-Encoding": refused})
    assert "Content-Encoding" not in response.headers


async def test_each_body_is_compressed_once(
    client: httpx.AsyncClient, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both formats by turns, as two scrapers ask for them; the next cycle is compressed anew."""
    compressed: list[bytes] = []
    original = gzip.compress

    def counting(data: bytes, **options: Any) -> bytes:
        compressed.append(data)
        return original(data, **options)

    monkeypatch.setattr(gzip, "compress", counting)
    for _ in range(2):
        for accept in ("text/plain", "application/openmetrics-text"):
            await client.get("/metrics", headers={"Accept": accept, "Accept-Encoding": "gzip"})
    assert compressed == [state.bodies[False], state.bodies[True]]
    state.bodies[False] = b"# next cycle\n"
    await client.get("/metrics", headers={"Accept-Encoding": "gzip"})
    assert compressed[2:] == [b"# next cycle\n"]


# /diagnose


@pytest.mark.parametrize(
    "accept", ["*/*", "", BROWSER, "application/json", "text/html", "application/json, text/plain"]
)
async def test_a_diagnosis_is_json_by_default(client: httpx.AsyncClient, report: Report, accept: str) -> None:
    """Also to a browser: there is no page yet."""
    response = await client.get("/diagnose", headers={"Accept": accept})
    assert (response.status_code, response.headers["Content-Type"]) == (200, "application/json")
    assert response.content == report_json(report)
    assert response.headers["Vary"] == "Accept"


@pytest.mark.parametrize(
    ("query", "accept"), [("", "text/plain"), ("?format=text", "*/*"), ("?format=text", "application/json")]
)
async def test_a_diagnosis_is_text_on_request(
    client: httpx.AsyncClient, report: Report, query: str, accept: str
) -> None:
    """`?format=` wins over Accept."""
    response = await client.get(f"/diagnose{query}", headers={"Accept": accept})
    assert (response.status_code, response.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    assert response.text == report_text(report)


async def test_format_json_wins_over_accept(client: httpx.AsyncClient, report: Report) -> None:
    """The other way round."""
    response = await client.get("/diagnose?format=json", headers={"Accept": "text/plain"})
    assert response.content == report_json(report)


@pytest.mark.parametrize("form", ["xml", "html", "", "JSON"])
async def test_an_unknown_format_is_a_bad_request(client: httpx.AsyncClient, form: str) -> None:
    """It names the known ones."""
    response = await client.get(f"/diagnose?format={form}")
    assert response.status_code == 400
    assert response.json() == {"error": "format must be one of json, text"}


async def test_one_deployment_of_several(client: httpx.AsyncClient, report: Report) -> None:
    """In both forms."""
    document = (await client.get("/diagnose?deployment=chat")).json()
    assert [deployment["name"] for deployment in document["deployments"]] == ["chat"]
    text = (await client.get("/diagnose?deployment=chat&format=text")).text
    assert text == report_text(report, deployment="chat")
    assert text != report_text(report)


@pytest.mark.parametrize("form", ["json", "text"])
async def test_an_unknown_deployment_is_not_found(client: httpx.AsyncClient, form: str) -> None:
    """It names the known ones, and does not repeat what was asked for."""
    response = await client.get(f"/diagnose?format={form}&deployment=%3Cscript%3E")
    assert (response.status_code, response.headers["Content-Type"]) == (404, "application/json")
    assert response.json() == {"error": "there is no such deployment; known: search, chat"}


# Before the first cycle


@pytest.mark.parametrize("path", ["/diagnose", "/diagnose?format=text", "/diagnose?deployment=chat", "/metrics"])
async def test_before_the_first_cycle_there_is_nothing(client: httpx.AsyncClient, state: State, path: str) -> None:
    """Neither an empty diagnosis nor zeros."""
    state.report = None
    response = await client.get(path)
    assert (response.status_code, response.headers["Content-Type"]) == (503, "application/json")
    assert "no cycle is complete" in response.json()["error"]


async def test_healthy_and_ready(client: httpx.AsyncClient, state: State) -> None:
    """Alive at once, ready after the first cycle."""
    for report, ready in ((state.report, 200), (None, 503)):
        state.report = report
        assert (await client.get("/-/healthy")).status_code == 200
        assert (await client.get("/-/ready")).status_code == ready


# The rest


async def test_the_index_lists_what_is_served(client: httpx.AsyncClient) -> None:
    """Each path that it names answers, and it names each path of the description."""
    index = await client.get("/")
    named = {line.split()[0] for line in index.text.splitlines() if line.startswith("/")}
    for path in named:
        assert (await client.get(path)).status_code == 200
    described = set((await client.get("/openapi.json")).json()["paths"])
    assert named == described - {"/"} | {"/openapi.json"}


async def test_the_interface_is_described(client: httpx.AsyncClient) -> None:
    """Version, parameters, media types and errors."""
    document = (await client.get("/openapi.json")).json()
    assert document["info"] == {"title": "pdscope", "version": "1.2.3"}
    diagnose = document["paths"]["/diagnose"]["get"]
    assert {parameter["name"] for parameter in diagnose["parameters"]} == {"format", "deployment"}
    assert set(diagnose["responses"]["200"]["content"]) == {"application/json", "text/plain"}
    assert {"400", "404", "503"} <= set(diagnose["responses"])


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/docs/oauth2-redirect"])
async def test_no_page_loads_scripts_from_elsewhere(client: httpx.AsyncClient, path: str) -> None:
    """FastAPI's own would."""
    assert (await client.get(path)).status_code == 404


@pytest.mark.parametrize("path", ["/", "/metrics", "/diagnose", "/-/ready"])
async def test_nothing_can_be_changed(client: httpx.AsyncClient, path: str) -> None:
    """Every route only reads."""
    assert (await client.post(path)).status_code == 405


# Accept


@pytest.mark.parametrize(
    ("header", "offer"),
    [
        ("b/x", "b/x"),
        ("a/x, b/x", "a/x"),
        ("a/x;q=0.2, b/x;q=0.3", "b/x"),
        ("b/*", "b/x"),
        ("*/*, a/x;q=0.1", "b/x"),
        ("A/X ; Q=1", "a/x"),
        ("a/x;level=1;q=0.5, b/x;q=0.6", "b/x"),
        ("a/x;q=much, b/x;q=0.1", "b/x"),
        ("c/x", None),
        ("a/x;q=0", None),
        (",;,", None),
    ],
)
def test_the_offer_that_is_liked_best(header: str, offer: str | None) -> None:
    """The most specific item counts; equals go to the first offer."""
    assert preferred(header, ("a/x", "b/x")) == offer


@given(st.text(alphabet="ab/*x,;q=0.19 -en", max_size=40))
def test_no_header_raises(header: str) -> None:
    """Whatever a client writes."""
    assert preferred(header, ("a/x", "b/x")) in ("a/x", "b/x", None)
