"""`pdscope probe-link` as a user types it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pdscope.cli import main

SMALL = ["--transport", "tcp", "--block-bytes", "4KiB", "--blocks", "16", "--max-bytes", "4MiB", "--seconds", "0.2"]


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("secret\n")
    return path


@pytest.fixture
def address(token: Path) -> Iterator[str]:
    """Of a serving end in a process of its own, which SIGTERM ends."""
    command = [sys.executable, "-m", "pdscope", "probe-link", "serve", "--listen", "127.0.0.1:0"]
    with subprocess.Popen([*command, "--token-file", str(token)], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        yield process.stderr.readline().split()[-1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


@pytest.mark.e2e
def test_both_ends(address: str, token: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text ends with a line to paste, JSON holds the same keys; no progress where no terminal is."""
    run = ["probe-link", "run", address, *SMALL, "--token-file", str(token)]
    assert main(run) == 0
    out, err = capsys.readouterr()
    link = yaml.safe_load(out.splitlines()[-1])["interconnect"]
    assert link["measured"] is True
    assert link["scope"] == "node"
    assert err == ""
    assert main([*run, "--format", "json", "--scope", "device"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["interconnect"].keys() == link.keys()
    assert document["interconnect"]["scope"] == "device"
    assert [level["block_bytes"] for level in document["levels"]] == [4096, 4096, 32768]
    assert main(["probe-link", "run", address, *SMALL]) == 2
    assert "the token is not that of this server" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run", "127.0.0.1:9838"], "one of --block-bytes and --model"),
        (["run", "127.0.0.1:9838", "--block-bytes", "4KiB", "--model", "config.json"], "one of --block-bytes"),
        (["run", "127.0.0.1:9838", "--model", "no-such.json"], "no-such.json"),
        (["run", "127.0.0.1:9838", "--model", "no-such.json", "--page-tokens", "0"], "--page-tokens must be at least"),
        (["run", "127.0.0.1:9838", "--block-bytes", "4Kb"], "--block-bytes: '4Kb' is not a size"),
        (
            ["run", "127.0.0.1:9838", "--block-bytes", "4096", "--max-bytes", "4096"],
            "--max-bytes of 4096",
        ),
        (["run", "nowhere", *SMALL], "write host:port"),
        (["run", "127.0.0.1:9838", *SMALL, "--token-file", "no-such-token"], "no-such-token"),
        (["serve", "--listen", "nowhere"], "no address to listen on"),
        (["serve", "--max-bytes", "much"], "--max-bytes"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe-link", *arguments]) == 2
    err = capsys.readouterr().err
    assert text in err
    assert err.count("\n") == 1


def test_an_empty_token_protects_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text(" \n")
    assert main(["probe-link", "serve", "--listen", "127.0.0.1:0", "--token-file", str(tmp_path / "token")]) == 2
    assert "must hold 1 to 4096 bytes" in capsys.readouterr().err
