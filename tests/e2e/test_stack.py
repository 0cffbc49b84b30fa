"""The whole, as `make stack` starts it: demo, daemon, Prometheus, Alertmanager, and a webhook that is told."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from pdscope.model.finding import Verdict
from support.programs import needed

ROOT = Path(__file__).parents[2]
STACK = ROOT / "scripts" / "stack.py"
SPEED, TIME_SCALE = 8, 0.02
LONG_QUIET = 'sum_over_time(deployment_verdict:pdscope_deployment_verdict:max{verdict="healthy"}[1m]) >= 24'
"""Evaluations are half a second apart, and a second is fifty of the rules: ten minutes."""
PATIENCE_SECONDS = 60.0
CAUSE, SYMPTOM = "PdscopeKVTransferBandwidth", "PdscopePrefillQueue"

Told = dict[str, Any]
"""One alert of a notification."""


@dataclass
class Webhook:
    """What Alertmanager has told so far."""

    url: str = ""
    told: list[Told] = field(default_factory=list)
    news: threading.Condition = field(default_factory=threading.Condition)

    def receive(self, path: str, body: bytes) -> None:
        with self.news:
            self.told += [{"receiver": path.strip("/"), **alert} for alert in json.loads(body)["alerts"]]
            self.news.notify_all()

    def find(self, name: str, status: str) -> Told | None:
        return next((a for a in self.told if (a["labels"]["alertname"], a["status"]) == (name, status)), None)

    def wait(self, name: str, status: str) -> Told:
        with self.news:
            found = self.news.wait_for(lambda: self.find(name, status), PATIENCE_SECONDS)
        assert found, f"{name} was not told as {status}: {self.told}"
        return found


@dataclass
class Replica:
    """A pdscope that says what the daemon says, and once it is `short_sighted` the symptom instead of the cause."""

    address: str = ""
    daemon: str = ""
    short_sighted: bool = False

    def page(self) -> bytes | None:
        if not self.daemon:
            return None
        text = httpx.get(f"{self.daemon}/metrics").text
        if self.short_sighted:
            text = _swapped(text, Verdict.KV_TRANSFER_BANDWIDTH, Verdict.PREFILL_QUEUE)
        return text.encode()


def _swapped(text: str, one: str, other: str) -> str:
    names = {one: other, other: one}
    pattern = rf'(?m)(?<=^pdscope_deployment_verdict{{deployment="demo",verdict=")({one}|{other})(?=")'
    return re.sub(pattern, lambda found: names[found[1]], text)


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """An HTTP server on 127.0.0.1; its `host:port`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=partial(server.serve_forever, 0.05))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Handler(BaseHTTPRequestHandler):
    """Answers with a status and a body, and says nothing of it."""

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Tests print nothing of requests."""


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    """A receiver of notifications."""
    made = Webhook()

    class Receiver(Handler):
        def do_POST(self) -> None:
            made.receive(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            self.answer(200)

    with serving(Receiver) as address:
        made.url = f"http://{address}"
        yield made


@pytest.fixture
def replica() -> Iterator[Replica]:
    """A second pdscope for Prometheus."""
    made = Replica()

    class Pdscope(Handler):
        def do_GET(self) -> None:
            page = made.page()
            self.answer(503 if page is None else 200, page or b"")

    with serving(Pdscope) as made.address:
        yield made


@dataclass(frozen=True)
class Stack:
    """The running stack; URLs of its parts."""

    process: subprocess.Popen[str]
    daemon: str
    control: str
    prometheus: str
    alertmanager: str

    @classmethod
    def of(cls, process: subprocess.Popen[str]) -> Stack:
        assert process.stdout is not None
        text = ""
        for line in process.stdout:
            text += line
            if line == "Ready.\n":
                break
        patterns = (r"/diagnose", r"/ +GET", r"/alerts +Prometheus", r"/#/alerts +Alertmanager")
        found = [re.search(rf"(http://\S+){pattern}", text) for pattern in patterns]
        assert all(found), text
        return cls(process, *(one[1] for one in found if one))

    def query(self, promql: str) -> list[dict[str, Any]]:
        answer = httpx.get(f"{self.prometheus}/api/v1/query", params={"query": promql})
        result: list[dict[str, Any]] = answer.raise_for_status().json()["data"]["result"]
        return result

    def inhibited(self) -> set[tuple[str, str]]:
        """Name and severity of the alerts that are silenced by another."""
        alerts = httpx.get(f"{self.alertmanager}/api/v2/alerts").raise_for_status().json()
        return {(a["labels"]["alertname"], a["labels"]["severity"]) for a in alerts if a["status"]["inhibitedBy"]}

    def play(self, scenario: str) -> None:
        httpx.post(self.control, json={"parameter": "scenario", "value": scenario}).raise_for_status()

    def children(self) -> list[int]:
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii")
        return [int(number) for number in text.split()]


@pytest.fixture
def stack(webhook: Webhook, replica: Replica, tmp_path: Path, promtool: str) -> Iterator[Stack]:
    """Started by its own command; ended by SIGTERM, whatever the test left of it."""
    needed("prometheus-alertmanager", package="prometheus-alertmanager")
    options = ["--scenario=healthy", f"--speed={SPEED}", f"--time-scale={TIME_SCALE}", f"--webhook={webhook.url}"]
    process = subprocess.Popen(
        [sys.executable, STACK, *options, f"--replica={replica.address}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        made = Stack.of(process)
        replica.daemon = made.daemon
        yield made
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def until(condition: Callable[[], object], what: str) -> None:
    """Ask a few times a second, until it is so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    pace = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, what
        pace.wait(0.2)


@pytest.mark.e2e
@pytest.mark.promtool
@pytest.mark.timeout(240)
def test_from_the_engines_to_the_pager(stack: Stack, webhook: Webhook, replica: Replica, tmp_path: Path) -> None:
    """Healthy: quiet. A fault: its page, with evidence, and its symptoms silenced. Mended: resolved. Ended: gone."""
    until(lambda: stack.query(LONG_QUIET), "healthy is not said for long enough")
    assert stack.query('max_over_time(ALERTS{alertstate="firing"}[1m])') == []
    assert webhook.told == []

    stack.play("kv_transfer_bandwidth")
    page = webhook.wait(CAUSE, "firing")
    assert page["receiver"] == "page"
    assert page["labels"].items() >= {"severity": "page", "stage": "kv_transfer", "deployment": "demo"}.items()
    notes = page["annotations"]
    assert re.search(r"KV demand 1\.\d+GB/s\. Interconnect capacity 1\.6GB/s\.", notes["description"])
    assert "times its objective" in notes["description"]
    assert (ROOT / "docs" / "runbooks" / notes["runbook_url"].rpartition("/")[2]).is_file()
    assert notes["diagnose_url"] == f"{stack.daemon}/diagnose?deployment=demo"
    assert httpx.get(notes["diagnose_url"]).json()["deployments"][0]["verdict"] == "kv_transfer_bandwidth"

    replica.short_sighted = True
    silenced = {(SYMPTOM, "page"), (CAUSE, "warning")}
    until(lambda: stack.inhibited() >= silenced, f"not all of {silenced} are silenced")
    assert webhook.find(SYMPTOM, "firing") is None

    stack.play("healthy")
    webhook.wait(CAUSE, "resolved")

    children = stack.children()
    assert len(children) == 3
    stack.process.send_signal(signal.SIGTERM)
    assert stack.process.wait(30) == 0
    assert not [number for number in children if Path(f"/proc/{number}").exists()]
    assert not list(tmp_path.glob("pdscope-stack-*"))


@pytest.mark.e2e
def test_a_missing_package_is_named(tmp_path: Path) -> None:
    """Before anything is left running, and by the name that Debian gives it."""
    done = subprocess.run(
        [sys.executable, STACK],
        env={**os.environ, "PATH": "", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "stack: prometheus is not on the PATH; on Debian: apt-get install prometheus\n"
    assert not list(tmp_path.iterdir())
