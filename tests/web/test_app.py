"""The routes: which form of the last report is answered, and what is said when there is none."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.config import Config, parse_config
from pdscope.errors import ConfigError, PdscopeError
from pdscope.model.finding import Confidence, Phase, Verdict
from pdscope.model.history import Entry, Past
from pdscope.model.report import Report
from pdscope.model.scrape import FailureReason
from pdscope.render.debug import DebugFacts, ScrapeNote
from pdscope.render.history import history_json
from pdscope.render.json import report_document, report_json
from pdscope.render.sd import sd_json
from pdscope.render.text import report_text
from pdscope.runtime.plugins import load_plugins
from pdscope.runtime.watch import Watch
from pdscope.web.app import create_app
from pdscope.web.negotiation import preferred
from pdscope.web.paths import Paths
from pdscope.web.state import AppState

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


def config_of(*names: str) -> Config:
    """Deployments of one instance each, of which nobody knows anything."""
    deployments = [{"name": name, "instances": [{"name": f"{name}-0", "url": "http://127.0.0.1:1"}]} for name in names]
    return parse_config(json.dumps({"deployments": deployments}), Path(), file="test")


def past_of(deployment: str) -> Past:
    """One diagnosis."""
    return Past(deployment, (Entry(1.0, Verdict.IDLE, Phase.UNKNOWN, Confidence.LOW, deployment),))


@dataclass
class State:
    """What a daemon would hold."""

    report: Report | None
    version: str = "1.2.3"
    config: Config = field(default_factory=lambda: config_of("search", "chat"))
    can_reload: bool = True
    wrong: PdscopeError | None = None
    reloads: int = 0
    bodies: dict[bool, bytes] = field(default_factory=lambda: {False: b"# text\n" * 100, True: b"# EOF\n"})

    @property
    def ready(self) -> bool:
        return self.report is not None

    def metrics_body(self, *, openmetrics: bool) -> tuple[bytes, str]:
        return self.bodies[openmetrics], "application/openmetrics-text" if openmetrics else "text/plain; version=0.0.4"

    def past(self, deployment: str) -> Past:
        return past_of(deployment)

    def debug(self, deployment: str) -> DebugFacts:
        note = ScrapeNote(f"{deployment}-0", "metrics", 1_700_000_000.0, FailureReason.CONNECT)
        return DebugFacts({f"{deployment}-0": {"running": 3.0}}, {"idle": {"finished": 5.0}}, (note,))

    def reload(self) -> None:
        self.reloads += 1
        if self.wrong is not None:
            raise self.wrong


@pytest.fixture(scope="module")
def report() -> Report:
    """Of two deployments that nobody has answered for."""
    return Watch(config_of("search", "chat"), load_plugins()).report(1_700_000_000.0)


@pytest.fixture
def state(report: Report) -> State:
    """After the first cycle."""
    return State(report)


def client_of(state: State, paths: Paths | None = None) -> httpx.AsyncClient:
    """Asks the application without a network."""
    headers = {"Accept": "*/*", "Accept-Encoding": "identity"}
    transport = httpx.ASGITransport(create_app(state, paths))
    return httpx.AsyncClient(transport=transport, base_url="http://daemon", headers=headers)


@pytest.fixture
async def client(state: State) -> AsyncIterator[httpx.AsyncClient]:
    """The interface at its usual place."""
    async with client_of(state) as client:
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


@pytest.mark.parametrize("accept", ["*/*", "", "image/png", "application/json", "application/json, text/html"])
async def test_a_diagnosis_is_json_by_default(client: httpx.AsyncClient, report: Report, accept: str) -> None:
    """Also to whoever likes nothing that we have."""
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


@pytest.mark.parametrize("form", ["xml", "", "JSON"])
async def test_an_unknown_format_is_a_bad_request(client: httpx.AsyncClient, form: str) -> None:
    """It names the known ones."""
    response = await client.get(f"/diagnose?format={form}")
    assert response.status_code == 400
    assert response.json() == {"error": "format must be one of json, text, html"}


async def test_one_deployment_of_several(client: httpx.AsyncClient, report: Report) -> None:
    """In both forms."""
    document = (await client.get("/diagnose?deployment=chat")).json()
    assert [deployment["name"] for deployment in document["deployments"]] == ["chat"]
    text = (await client.get("/diagnose?deployment=chat&format=text")).text
    assert text == report_text(report, deployment="chat")
    assert text != report_text(report)


@pytest.mark.parametrize("form", ["json", "text", "html"])
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
        assert (await client.get(path)).status_code == (405 if path == "/-/reload" else 200)
    described = set((await client.get("/openapi.json")).json()["paths"])
    assert named == described - {"/"} | {"/openapi.json"}


async def test_the_interface_is_described(client: httpx.AsyncClient) -> None:
    """Version, parameters, media types and errors."""
    document = (await client.get("/openapi.json")).json()
    assert document["info"] == {"title": "pdscope", "version": "1.2.3"}
    diagnose = document["paths"]["/diagnose"]["get"]
    assert {parameter["name"] for parameter in diagnose["parameters"]} == {"format", "deployment", "debug", "time"}
    assert set(diagnose["responses"]["200"]["content"]) == {"application/json", "text/plain", "text/html"}
    assert {"400", "404", "503"} <= set(diagnose["responses"])


async def test_the_past_is_refused_and_not_answered_with_now(client: httpx.AsyncClient) -> None:
    """Who asks for last night must not read today without noticing."""
    answer = await client.get("/diagnose", params={"time": "2026-11-29T03:00:00Z"})
    assert answer.status_code == 400
    assert "/diagnose/history" in answer.json()["error"]


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/docs/oauth2-redirect"])
async def test_no_page_loads_scripts_from_elsewhere(client: httpx.AsyncClient, path: str) -> None:
    """FastAPI's own would."""
    assert (await client.get(path)).status_code == 404


@pytest.mark.parametrize("path", ["/", "/metrics", "/diagnose", "/diagnose/history", "/sd", "/-/ready"])
async def test_nothing_can_be_changed(client: httpx.AsyncClient, path: str) -> None:
    """Every route but one only reads."""
    response = await client.post(path)
    assert (response.status_code, response.json()) == (405, {"error": "Method Not Allowed"})
    assert response.headers["Allow"] == "GET"


async def test_a_path_that_does_not_exist_is_told_as_all_errors_are(client: httpx.AsyncClient) -> None:
    """A client need not know two forms."""
    response = await client.get("/diagnosis")
    assert (response.status_code, response.json()) == (404, {"error": "Not Found"})


# /diagnose as a page


class Outside(HTMLParser):
    """Tags, and every address in them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]


@pytest.mark.parametrize(("query", "accept"), [("", BROWSER), ("", "text/html"), ("?format=html", "*/*")])
async def test_a_diagnosis_is_a_page_for_a_browser(
    client: httpx.AsyncClient, report: Report, query: str, accept: str
) -> None:
    """With all that the text says, and links that work."""
    response = await client.get(f"/diagnose{query}", headers={"Accept": accept})
    assert (response.status_code, response.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert response.headers["Vary"] == "Accept"
    for line in report_text(report, deployment="chat").splitlines():
        escaped = line.replace("'", "&#39;").replace('"', "&#34;").replace(">", "&gt;").replace("<", "&lt;")
        assert escaped in response.text
    page = Outside(response.text)
    assert not page.tags & {"script", "link", "img", "iframe", "object"}
    assert "/diagnose/history?deployment=chat" in page.links
    for link in page.links:
        assert (await client.get(link)).status_code == 200
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]


async def test_one_deployment_as_a_page(client: httpx.AsyncClient) -> None:
    """And not the others."""
    text = (await client.get("/diagnose?format=html&deployment=chat")).text
    assert "<h2>chat: insufficient_data</h2>" in text
    assert "search" not in text


async def test_what_a_name_holds_stays_text(client: httpx.AsyncClient, state: State) -> None:
    """A model's name comes from the engine's page."""
    document = {
        "deployments": [
            {"name": "a", "model": {"name": "<script>x</script>"}, "instances": [{"name": "i", "url": "http://h:1"}]}
        ]
    }
    config = parse_config(json.dumps(document), Path(), file="test")
    state.report = Watch(config, load_plugins()).report(1_700_000_000.0)
    text = (await client.get("/diagnose?format=html")).text
    assert "&lt;script&gt;x&lt;/script&gt;" in text
    assert "script" not in Outside(text).tags


async def test_the_index_has_links_for_a_browser(client: httpx.AsyncClient) -> None:
    """The text, with the pages that a person reads to click on."""
    response = await client.get("/", headers={"Accept": BROWSER})
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "/openapi.json" in response.text
    links = Outside(response.text).links
    assert "/diagnose" in links
    for link in links:
        assert (await client.get(link)).status_code == 200


# ?debug=true


async def test_debug_adds_what_is_behind_each_deployment(client: httpx.AsyncClient, report: Report) -> None:
    """The rest of the document is as ever; a browser gets it too."""
    document = (await client.get("/diagnose?debug=true", headers={"Accept": BROWSER})).json()
    debug = [deployment.pop("debug") for deployment in document["deployments"]]
    assert document == json.loads(json.dumps(report_document(report)))
    assert debug[1] == {
        "instances": {"chat-0": {"running": 3.0}},
        "thresholds": {"idle": {"finished": 5.0}},
        "scrapes": [
            {
                "target": "chat-0",
                "page": "metrics",
                "at": "2023-11-14T22:13:20.000Z",
                "ok": False,
                "reason": "connect",
                "duration_seconds": None,
            }
        ],
    }
    only = (await client.get("/diagnose?debug=true&deployment=chat&format=json")).json()["deployments"]
    assert [deployment["debug"] for deployment in only] == [debug[1]]


@pytest.mark.parametrize("form", ["text", "html"])
async def test_debug_is_a_part_of_the_json_only(client: httpx.AsyncClient, form: str) -> None:
    """Rather than left out silently."""
    response = await client.get(f"/diagnose?debug=true&format={form}")
    assert (response.status_code, response.json()) == (
        400,
        {"error": "debug=true is a part of the JSON only: leave format out"},
    )


async def test_a_parameter_of_a_wrong_kind_is_a_bad_request(client: httpx.AsyncClient) -> None:
    """It names the parameter."""
    response = await client.get("/diagnose?debug=much")
    assert response.status_code == 400
    assert response.json()["error"].startswith("debug: ")


# /diagnose/history and /sd


async def test_the_history_of_all_and_of_one(client: httpx.AsyncClient, state: State) -> None:
    """In the order of the configuration; also before the first cycle."""
    state.report = None
    response = await client.get("/diagnose/history")
    assert (response.status_code, response.headers["Content-Type"]) == (200, "application/json")
    assert response.content == history_json([past_of("search"), past_of("chat")])
    one = await client.get("/diagnose/history?deployment=chat")
    assert one.content == history_json([past_of("chat")])
    unknown = await client.get("/diagnose/history?deployment=nope")
    assert (unknown.status_code, unknown.json()) == (
        404,
        {"error": "there is no such deployment; known: search, chat"},
    )


@pytest.mark.parametrize("early", [True, False])
async def test_the_targets(client: httpx.AsyncClient, state: State, early: bool) -> None:
    """Known before the first cycle too: Prometheus would drop its targets otherwise."""
    if early:
        state.report = None
    response = await client.get("/sd")
    assert (response.status_code, response.headers["Content-Type"]) == (200, "application/json")
    assert response.content == sd_json(state.config, state.report)
    assert [entry["labels"]["worker"] for entry in response.json()] == ["search-0", "chat-0"]


# /-/reload


async def test_reload(client: httpx.AsyncClient, state: State) -> None:
    """By POST only: whoever follows a link changes nothing."""
    response = await client.get("/-/reload")
    assert (response.status_code, response.headers["Allow"], state.reloads) == (405, "POST", 0)
    response = await client.post("/-/reload")
    assert (response.status_code, response.text, state.reloads) == (200, "reloaded\n", 1)


async def test_a_wrong_configuration_is_told(client: httpx.AsyncClient, state: State) -> None:
    """With the place."""
    state.wrong = ConfigError("deployments[0].name", "is required")
    response = await client.post("/-/reload")
    assert (response.status_code, response.json()) == (500, {"error": "deployments[0].name: is required"})


async def test_without_a_file_there_is_nothing_to_reload(client: httpx.AsyncClient, state: State) -> None:
    """As in the demo."""
    state.can_reload = False
    response = await client.post("/-/reload")
    assert (response.status_code, response.json()) == (
        404,
        {"error": "there is nothing to reload: this daemon has no configuration file"},
    )
    assert state.reloads == 0


# Below a prefix


async def test_everything_lies_below_the_prefix(state: State) -> None:
    """The root leads there; links begin with what clients see."""
    async with client_of(state, Paths("/llm/pdscope", "https://gw.example/llm/pdscope")) as client:
        assert (await client.get("/diagnose")).status_code == 404
        root = await client.get("/")
        assert (root.status_code, root.headers["Location"]) == (307, "/llm/pdscope/")
        index = (await client.get(root.headers["Location"])).text
        assert "\nhttps://gw.example/llm/pdscope/diagnose " in index
        described = (await client.get("/llm/pdscope/openapi.json")).json()["paths"]
        assert {"/llm/pdscope/diagnose", "/llm/pdscope/-/reload", "/llm/pdscope/"} <= set(described)
        page = Outside((await client.get("/llm/pdscope/diagnose?format=html")).text)
    assert {link.partition("?")[0] for link in page.links} == {
        f"https://gw.example/llm/pdscope{path}" for path in ("/diagnose", "/diagnose/history", "/metrics", "/sd")
    }


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
