"""`pdscope serve` as a process, and its log lines."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from pdscope.cli import main
from pdscope.cli.logs import LineFormatter

CONFIG = "deployments: [{name: NAME, instances: [{name: a, url: 'http://127.0.0.1:1'}]}]\n"


def record(message: str, *arguments: object, error: BaseException | None = None) -> logging.LogRecord:
    """At one moment."""
    exc_info = None if error is None else (type(error), error, None)
    made = logging.LogRecord("pdscope.x", logging.WARNING, "x.py", 1, message, arguments, exc_info)
    made.created = 1_700_000_000.25
    return made


@pytest.mark.parametrize(
    ("message", "written"),
    [
        ("ready", "msg=ready"),
        ("target a: answers again", 'msg="target a: answers again"'),
        ('says "no"', 'msg="says \\"no\\""'),
        ("a\nlevel=error", 'msg="a\\nlevel=error"'),
        ("", 'msg=""'),
    ],
)
def test_logfmt(message: str, written: str) -> None:
    """One line a record, whatever a target says."""
    line = LineFormatter("logfmt").format(record("%s", message))
    assert line == f"ts=2023-11-14T22:13:20.250Z level=warning logger=pdscope.x {written}"


def test_json_lines() -> None:
    """With the exception, still on one line."""
    line = LineFormatter("json").format(record("a %s", "b", error=ValueError("bad\nvalue")))
    assert "\n" not in line
    assert json.loads(line) == {
        "ts": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "pdscope.x",
        "msg": "a b",
        "exception": "ValueError: bad\nvalue",
    }


@pytest.mark.parametrize(
    ("flag", "value", "text"),
    [
        ("--web.external-url", "h:9836", "is no address"),
        ("--web.route-prefix", "/a b", "is no path"),
        ("--web.listen-address", "9836", "is no address to listen on"),
    ],
)
def test_wrong_flags_are_wrong_use(
    tmp_path: Path, flag: str, value: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, one line, the flag's value in it."""
    file = tmp_path / "pdscope.yml"
    file.write_text(CONFIG, encoding="utf-8")
    assert main(["serve", "--config.file", str(file), flag, value]) == 2
    err = capsys.readouterr().err
    assert text in err
    assert value in err


@pytest.mark.e2e
def test_the_daemon_as_a_process(tmp_path: Path) -> None:
    """Below a prefix, with JSON logs, reloaded by SIGHUP, ended by SIGTERM with exit code 0."""
    file = tmp_path / "pdscope.yml"
    file.write_text(CONFIG.replace("NAME", "old"), encoding="utf-8")
    flags = ["--web.listen-address", "127.0.0.1:0", "--web.route-prefix", "/pd", "--log.format", "json"]
    command = [sys.executable, "-m", "pdscope", "serve", "--config.file", str(file), *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as daemon:
        assert daemon.stderr is not None
        line = ""
        while not line.startswith("pdscope answers on "):
            line = daemon.stderr.readline()
            assert line, "the daemon has ended"
        base = line.split()[3]
        assert base.endswith("/pd/")

        def deployments() -> list[str]:
            with urllib.request.urlopen(f"{base}sd", timeout=20) as answer:
                return [entry["labels"]["deployment"] for entry in json.load(answer)]

        assert deployments() == ["old"]
        file.write_text(CONFIG.replace("NAME", "new"), encoding="utf-8")
        daemon.send_signal(signal.SIGHUP)
        while "was reloaded" not in line:
            line = daemon.stderr.readline()
            assert line, "the daemon has ended"
        assert json.loads(line)["msg"] == "the configuration was reloaded"
        assert deployments() == ["new"]
        daemon.send_signal(signal.SIGTERM)
        rest = daemon.stderr.read()
        assert daemon.wait(timeout=20) == 0
    for logged in rest.splitlines():
        json.loads(logged)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "--config.file, or --router or --target"),
        (["--config.file", "x.yml", "--target", "http://h:1"], "says everything"),
        (["--config.file", "x.yml", "--slo.ttft-p50", "2s"], "says everything"),
        (["--target", "nonsense"], "nonsense"),
        (["--target", "http://127.0.0.1:9", "--slo.ttft-p50", "2"], "serve"),
    ],
)
def test_a_file_or_addresses(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Never both, never neither; wrong addresses are one line."""
    if text == "serve":
        text = "pdscope: "
    assert main(["serve", *arguments]) == 2
    assert text in capsys.readouterr().err
