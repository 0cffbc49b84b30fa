"""The command line as a user types it: exit codes, output, errors that name the place."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pdscope import __version__
from pdscope.cli import main
from pdscope.cli.diagnose import exit_code
from pdscope.model.finding import Verdict


@pytest.fixture
def runs(fixtures_dir: Path) -> Path:
    return fixtures_dir / "runs"


def test_module_and_script_are_the_same_program() -> None:
    """`python -m pdscope version` runs the installed package."""
    done = subprocess.run([sys.executable, "-m", "pdscope", "version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"pdscope {__version__} (Python 3.")


@pytest.mark.parametrize(
    ("run", "code", "verdict"),
    [("dynamo-pd1p2d-bw450", 0, "healthy"), ("vllm-transferbound", 1, "kv_transfer_bandwidth")],
)
def test_diagnose_prints_and_exits(
    runs: Path, run: str, code: int, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Text for people, JSON for programs, the exit code for scripts."""
    assert main(["diagnose", str(runs / run)]) == code
    assert verdict.upper() in capsys.readouterr().out.splitlines()[0]
    assert main(["diagnose", str(runs / run), "--format", "json"]) == code
    assert json.loads(capsys.readouterr().out)["deployments"][0]["verdict"] == verdict


def test_one_scrape_cannot_tell(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 3."""
    source = runs / "vllm-baseline"
    (tmp_path / "pdscope.yml").write_text((source / "pdscope.yml").read_text())
    for name in ("p0", "d0"):
        page = min((source / "samples" / name).iterdir())
        target = tmp_path / "samples" / name / page.name
        target.parent.mkdir(parents=True)
        target.write_bytes(page.read_bytes())
    assert main(["diagnose", str(tmp_path)]) == 3
    assert "INSUFFICIENT_DATA" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["diagnose", "no-such-bundle"], "no-such-bundle"),
        (["check-config", "no-such-file.yml"], "no-such-file.yml"),
        (["check-config"], "needs a file, or --defaults"),
        (["explain", "kv_transfer_bandwith"], "kv_transfer_bandwith"),
        (["demo", "--scenario", "nope"], "no scenario is called 'nope'"),
        (["serve", "--config.file", "no-such-file.yml"], "no-such-file.yml"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No traceback; the line names what is wrong."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pdscope: ")
    assert text in err
    assert "Traceback" not in err


def test_unknown_deployment_names_the_known_ones(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--deployment of something that is not in the bundle."""
    assert main(["diagnose", str(runs / "vllm-baseline"), "--deployment", "nope"]) == 2
    assert "the bundle has pd" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["serve", "demo", "diagnose", "doctor", "explain", "check-config", "version"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` on each."""
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert f"pdscope {command}" in capsys.readouterr().out


def test_check_config_reports_threshold_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names that only the rules know are checked too, with their path and a suggestion."""
    file = tmp_path / "pdscope.yml"
    file.write_text(
        "thresholds: {kv_transfer_bandwidth: {utilisation: 0.8}}\n"
        "deployments: [{name: a, instances: [{name: x, url: 'http://h:1'}]}]\n"
    )
    assert main(["check-config", str(file)]) == 2
    err = capsys.readouterr().err
    assert "thresholds.kv_transfer_bandwidth.utilisation" in err
    assert "utilization" in err


DOUBTFUL = """\
window: 1s
deployments:
- name: a
  instances: [{name: x, url: 'http://h:1', role: prefill}]
"""


def test_check_config_warns_of_what_may_be_meant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its path; the file is taken all the same."""
    file = tmp_path / "pdscope.yml"
    file.write_text(DOUBTFUL, encoding="utf-8")
    assert main(["check-config", str(file)]) == 0
    out, err = capsys.readouterr()
    assert out == f"{file}: 1 deployment(s), 1 instance(s): no errors, 2 warning(s)\n"
    assert [line.split(": ")[:3] for line in err.splitlines()] == [
        [str(file), "warning", "window"],
        [str(file), "warning", "deployments[0].instances"],
    ]


def test_serve_warns_of_it_at_its_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Before anything else can go wrong, such as the address."""
    file = tmp_path / "pdscope.yml"
    file.write_text(DOUBTFUL, encoding="utf-8")
    assert main(["serve", f"--config.file={file}", "--web.listen-address=9836"]) == 2
    said = [record.getMessage() for record in caplog.records]
    assert [line.split(": ")[:2] for line in said] == [
        ["configuration", "window"],
        ["configuration", "deployments[0].instances"],
    ]


def test_check_config_tells_values_and_names_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong value does not hide a wrong name."""
    file = tmp_path / "pdscope.yml"
    file.write_text(
        "window: 5\nthresholds: {prefill_queue: {queu: 3}}\n"
        "deployments: [{name: a, instances: [{name: x, url: 'http://h:1', engine: sglan}]}]\n",
        encoding="utf-8",
    )
    assert main(["check-config", str(file)]) == 2
    err = capsys.readouterr().err
    assert all(path in err for path in ("window: ", "prefill_queue.queu: ", "instances[0].engine: "))


def test_defaults_list_every_threshold(capsys: pytest.CaptureFixture[str]) -> None:
    """`check-config --defaults` names each threshold of each rule."""
    assert main(["check-config", "--defaults"]) == 0
    out = capsys.readouterr().out
    for name in ("kv_transfer_bandwidth", "utilization: 0.9", "decode_admission", "scrape"):
        assert name in out


def test_explain_lists_and_prints_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    """Every verdict of the vocabulary is listed; a page has thresholds and costs."""
    assert main(["explain"]) == 0
    listing = capsys.readouterr().out
    assert all(verdict in listing for verdict in Verdict)
    assert "  pd_ratio                 Prefill and decode are sized wrongly for each other.\n" in listing
    assert listing.count("late_kv_read") == 1
    assert main(["explain", "decode_admission"]) == 0
    page = capsys.readouterr().out
    assert "ttft_share" in page
    assert "Remedies" in page
    assert main(["explain", "cuda_graph_miss"]) == 0


def test_demo_lists_its_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    """--list tells of each, and on which engine it runs."""
    assert main(["demo", "--list"]) == 0
    listed = capsys.readouterr().out
    assert "healthy (SGLang)" in listed
    assert "kv_transfer_bandwidth (SGLang)" in listed
    assert "kv_pinned (vLLM)" in listed


def test_worst_exit_code_of_several_deployments(runs: Path) -> None:
    """A bottleneck before `cannot tell` before fine."""
    from dataclasses import replace  # noqa: PLC0415

    from pdscope.runtime.offline import diagnose_bundle  # noqa: PLC0415

    report, _ = diagnose_bundle(runs / "vllm-baseline")
    only = report.deployments[0]

    def coded(*verdicts: Verdict) -> int:
        parts = tuple(replace(only, diagnosis=replace(only.diagnosis, verdict=v)) for v in verdicts)
        return exit_code(replace(report, deployments=parts))

    assert coded(Verdict.HEALTHY, Verdict.IDLE) == 0
    assert coded(Verdict.HEALTHY, Verdict.INSUFFICIENT_DATA) == 3
    assert coded(Verdict.METRICS_UNTRUSTED, Verdict.UNDETERMINED) == 1
    assert coded(Verdict.IDLE, Verdict.PREFILL_QUEUE) == 1


def test_pages_of_nobody_are_told(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt folder in a bundle must not pass in silence."""
    shutil.copytree(runs / "vllm-baseline", tmp_path / "b")
    (tmp_path / "b" / "samples" / "d0").rename(tmp_path / "b" / "samples" / "dX")
    assert main(["diagnose", str(tmp_path / "b")]) == 3
    assert "samples/'dX' is in no deployment" in capsys.readouterr().err
