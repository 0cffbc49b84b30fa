"""scripts/watch_tour.py: what counts as wrong, and that it notices a demo that says something else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx
import pytest
import watch_tour
from watch_tour import Seen, tally

EXPECTED = {"slow": "kv_transfer_bandwidth", "idle": "idle"}


def test_a_look_before_the_detection_time_counts_for_nothing() -> None:
    one = tally([Seen("slow", 37.9, "healthy"), Seen("slow", 38.0, "kv_transfer_bandwidth")], EXPECTED)["slow"]
    assert (one.right, one.wrong) == (1, Counter())
    assert one.first_right_seconds == [38.0]


def test_another_verdict_after_it_is_wrong_and_so_is_none() -> None:
    looks = [
        Seen("slow", 40.0, "healthy", "low"),
        Seen("slow", 41.0, None),
        Seen("slow", 42.0, "kv_transfer_bandwidth"),
    ]
    one = tally(looks, EXPECTED)["slow"]
    assert one.right == 1
    assert one.wrong == {("healthy", "low"): 1, ("none", ""): 1}


def test_idle_may_wait_for_the_last_answers() -> None:
    looks = [Seen("idle", at, "healthy") for at in (38.0, 56.0, 57.0)]
    assert tally(looks, EXPECTED)["idle"].wrong == {("healthy", ""): 1}


def test_each_turn_has_its_own_time_and_a_verdict_that_goes_again_was_not_there_to_stay() -> None:
    looks = [
        Seen("slow", 10.0, "kv_transfer_bandwidth"),
        Seen("slow", 12.0, "healthy"),
        Seen("slow", 14.0, "kv_transfer_bandwidth"),
        Seen("idle", 0.0, "kv_transfer_bandwidth"),
        Seen("slow", 1.0, "idle"),
        Seen("slow", 0.5, "kv_transfer_bandwidth"),
    ]
    counted = tally(looks, EXPECTED)
    assert counted["slow"].first_right_seconds == [14.0, None, 0.5]
    assert counted["idle"].first_right_seconds == [None]


class Answers(BaseHTTPRequestHandler):
    """Daemon and control interface of a demo in which one scenario has been on for ten minutes."""

    def do_GET(self) -> None:
        answer = {"deployments": [{"verdict": "healthy", "confidence": "high"}]}
        state = {"scenario": "healthy", "on_seconds": 600.0}
        document = answer if self.path == "/diagnose" else state
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def log_message(self, *_: object) -> None:
        """Requests are no news."""


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, args=(0.01,)).start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(watch_tour, "demo", lambda options: nullcontext((url, url)))
        yield
        server.shutdown()


@pytest.mark.parametrize(("believed", "status"), [("healthy", 0), ("idle", 1)])
def test_it_ends_with_whether_the_demo_was_right(
    running: None, believed: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second of asking; where something else is the truth, the same answers are wrong ones."""
    monkeypatch.setattr(watch_tour, "verdicts", lambda: {"healthy": believed})
    assert watch_tour.main(["--speed", "60", "--minutes", "1"]) == status
    printed = capsys.readouterr().out
    assert printed.startswith("healthy ")
    assert (" 0 wrong" in printed) == (status == 0), printed


@pytest.mark.e2e
def test_it_finds_the_addresses_of_a_real_demo() -> None:
    with watch_tour.demo(["--scenario=idle"]) as (daemon, control):
        assert httpx.get(f"{daemon}/-/healthy").status_code == 200
        assert httpx.get(control).json()["scenario"] == "idle"


def test_a_demo_that_does_not_start_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    assert watch_tour.main(["--scenario", "no-such", "--minutes", "0.1"]) == 2
    assert "does not say where it listens" in capfd.readouterr().err
