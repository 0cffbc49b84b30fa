"""`pdscope demo` as a user runs it: a process, real sockets, accelerated time."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx
import pytest

from pdscope.cli import main
from pdscope.demo.scenarios import SCENARIOS

_LIMIT_SECONDS = 40.0


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """The demo on a free port, with a link that is too slow."""
    command = [sys.executable, "-m", "pdscope", "demo", "--speed", "20", "--scenario", "kv_transfer_bandwidth"]
    started = subprocess.Popen(
        [*command, f"--web.listen-address={getattr(request, 'param', '127.0.0.1:0')}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    yield started
    started.kill()
    started.communicate()


def addresses(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Of the daemon and of the control interface, as the terminal prints them."""
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        if line.strip().startswith("watch:"):
            break
    daemon = re.search(r"(http://\S+)/diagnose", text)
    control = re.search(r"(http://\S+)/ +GET", text)
    assert daemon is not None, text
    assert control is not None, text
    return daemon[1], control[1]


def until(url: str, verdict: str) -> None:
    """Asks until the verdict is that one."""
    ends = time.monotonic() + _LIMIT_SECONDS
    seen = ""
    while time.monotonic() < ends:
        answer = httpx.get(f"{url}/diagnose")
        if answer.status_code == 200:
            seen = answer.json()["deployments"][0]["verdict"]
            if seen == verdict:
                return
    pytest.fail(f"{verdict} was not reached, {seen} was")


@pytest.mark.e2e
@pytest.mark.parametrize("process", [":0"], indirect=True)
def test_without_a_host_only_this_machine_is_answered(process: subprocess.Popen[str]) -> None:
    daemon, control = addresses(process)
    assert daemon.startswith("http://127.0.0.1:")
    assert control.startswith("http://127.0.0.1:")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == 0


@pytest.mark.e2e
def test_a_user_sees_the_verdict_mends_the_link_and_stops_it(process: subprocess.Popen[str]) -> None:
    daemon, control = addresses(process)
    until(daemon, "kv_transfer_bandwidth")
    answer = httpx.post(control, json={"parameter": "link.nic_bytes_per_second", "value": None})
    assert answer.status_code == 200, answer.text
    until(daemon, "healthy")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == 0


def test_the_list_tells_every_story(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--list"]) == 0
    text = capsys.readouterr().out
    for scenario in SCENARIOS.values():
        assert scenario.name in text
        assert scenario.story in text
        assert scenario.watch in text


def test_the_list_is_of_the_scenarios_that_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--list", "--scenario", "idle"]) == 0
    text = capsys.readouterr().out
    assert SCENARIOS["idle"].story in text
    assert SCENARIOS["healthy"].story not in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["--scenario", "slow-link"],
        ["--list", "--scenario", "slow-link"],
        ["--speed", "0"],
        ["--speed", "nan"],
        ["--speed", "fast"],
        ["--seed", "-1"],
        ["--seed", "1.5"],
    ],
)
def test_what_cannot_be_shown_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["demo", *arguments])
    except SystemExit as error:
        status = int(str(error.code))
    assert status == 2
    assert arguments[-1] in capsys.readouterr().err
