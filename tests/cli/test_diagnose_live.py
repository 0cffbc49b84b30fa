"""`pdscope diagnose` around a live cluster: combinations, output, exit codes."""

from __future__ import annotations

import contextlib
import io
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pdscope.cli import main
from pdscope.cli.diagnose import worst
from pdscope.runtime.offline import diagnose_bundle
from pdscope.runtime.once import Once
from support.pages import page as recorded

Serve = Callable[[Mapping[str, tuple[int, bytes]]], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """`serve({path: (status, body)})` is the address of a server in a thread, as the command runs its own loop."""
    with contextlib.ExitStack() as stack:

        def start(answers: Mapping[str, tuple[int, bytes]]) -> str:
            class Handler(BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    status, body = answers.get(self.path, (404, b""))
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

                def log_message(self, *_: object) -> None:
                    """Say nothing."""

            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_address[1]}"

        yield start


def config_file(folder: Path, url: str) -> Path:
    """A configuration with one instance and a short interval."""
    file = folder / "pdscope.yml"
    instance = {"name": "u0", "url": url}
    scrape = {"interval": "100ms", "timeout": "90ms"}
    file.write_text(json.dumps({"scrape": scrape, "deployments": [{"name": "pd", "instances": [instance]}]}))
    return file


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "exactly one of BUNDLE, --config.file and --url"),
        (["bundle", "--url", "http://h:1"], "exactly one of"),
        (["--config.file", "f.yml", "--url", "http://h:1"], "exactly one of"),
        (["bundle", "--for", "60s"], "--for goes with --config.file"),
        (["--url", "http://h:1", "--for", "60s"], "--for goes with --config.file"),
        (["--config.file", "f.yml", "--for", "60"], "--for: "),
        (["--config.file", "no-such.yml"], "no-such.yml"),
        (["--url", "127.0.0.1:9836"], "begins with http"),
        (["--url", "http://127.0.0.1:1"], "http://127.0.0.1:1: no connection: Connection refused"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is guessed from a combination that says two things."""
    assert main(["diagnose", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pdscope: ")
    assert text in err


@pytest.mark.parametrize(
    ("run", "code", "verdict"),
    [("dynamo-pd1p2d-bw450", 0, "healthy"), ("vllm-transferbound", 1, "kv_transfer_bandwidth")],
)
def test_live_prints_and_exits(
    run: str,
    code: int,
    verdict: str,
    fixtures_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What polling brought is printed as a bundle's diagnosis is; no progress where stderr is no terminal."""
    report, _ = diagnose_bundle(fixtures_dir / "runs" / run)
    asked: list[float | None] = []

    async def polled(*_: object, seconds: float | None, progress: object) -> Once:
        asked.append(seconds)
        assert progress is None
        return Once(report, ())

    monkeypatch.setattr("pdscope.runtime.once.diagnose_live", polled)
    file = str(config_file(tmp_path, "http://127.0.0.1:1"))
    assert main(["diagnose", "--config.file", file, "--for", "1m30s"]) == code
    out, err = capsys.readouterr()
    assert verdict.upper() in out.splitlines()[0]
    assert main(["diagnose", "--config.file", file, "--format", "json", "--deployment", "pd"]) == code
    assert json.loads(capsys.readouterr().out)["deployments"][0]["verdict"] == verdict
    assert err == ""
    assert asked == [90.0, None]


def test_an_engine_that_is_down_cannot_tell(serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 3, as from a bundle without scrapes."""
    file = config_file(tmp_path, serve({}))
    assert main(["diagnose", "--config.file", str(file), "--for", "150ms"]) == 3
    out, err = capsys.readouterr()
    assert "INSUFFICIENT_DATA" in out.splitlines()[0]
    assert err == "pdscope: target u0: http_status: HTTP 404\n"


def test_an_unknown_deployment_is_told_before_the_wait(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An hour of polling for a misspelt name would be a pity."""
    file = config_file(tmp_path, "http://127.0.0.1:1")
    assert main(["diagnose", "--config.file", str(file), "--for", "1h", "--deployment", "dp"]) == 2
    assert "--deployment dp" in (err := capsys.readouterr().err)
    assert "has pd" in err


def test_a_terminal_sees_progress(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted on one line and gone at the end; what is not polled is told below."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    file = config_file(tmp_path, serve({"/metrics": (200, recorded("vllm-0.32.0-light.prom"))}))
    document = json.loads(file.read_text())
    document["deployments"][0]["discovery"] = {"file_sd": ["targets/*.json"]}
    file.write_text(json.dumps(document))
    monkeypatch.setattr("sys.stderr", terminal)
    assert main(["diagnose", "--config.file", str(file), "--for", "250ms"]) in (0, 3)  # by how fast this machine is
    said = terminal.getvalue()
    assert said.startswith("\r\x1b[Kpolling: 0 s of 0 s")
    assert "\r\x1b[Kpdscope: pd: not polled: this version finds no instances by itself" in said


def test_a_daemon_is_asked(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Its text is printed as it is; the exit code is of its verdicts."""
    deployments = [{"name": "a", "verdict": "healthy"}, {"name": "b", "verdict": "kv_pinned"}]
    document = json.dumps({"schema_version": 1, "generated_at": "t", "deployments": deployments}).encode()
    url = serve(
        {
            "/diagnose": (200, document),
            "/diagnose?format=text": (200, b"A HEALTHY\nB KV_PINNED\n"),
            "/diagnose?format=text&deployment=a": (200, b"A HEALTHY\n"),
        }
    )
    assert main(["diagnose", "--url", url]) == 1
    assert capsys.readouterr().out == "A HEALTHY\nB KV_PINNED\n"
    assert main(["diagnose", "--url", url, "--deployment", "a"]) == 0
    assert capsys.readouterr().out == "A HEALTHY\n"
    assert main(["diagnose", "--url", url, "--deployment", "a", "--format", "json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)["deployments"]] == ["a"]


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (["healthy", "idle"], 0),
        (["healthy", "insufficient_data"], 3),
        (["metrics_untrusted", "undetermined"], 1),
        (["healthy", "a_verdict_of_tomorrow"], 1),
        ([], 0),
    ],
)
def test_the_worst_verdict_decides(verdicts: list[str], code: int) -> None:
    """A verdict that this version does not know is a bottleneck."""
    assert worst(verdicts) == code
