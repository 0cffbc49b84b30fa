"""CI's refusal of skipped tests is itself tested: a guard that has stopped working looks like a green run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")


def run_pytest(folder: Path, test: str, *options: str, in_ci: bool) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "test_it.py").write_text(f"import pytest\n{test}\n", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PDSCOPE_CI"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", folder, *options, folder],
        env=environment | ({"PDSCOPE_CI": "1"} if in_ci else {}),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "skipping",
    [
        "def test_skips(): pytest.skip('no such program')",
        "pytest.skip('no such program', allow_module_level=True)",
    ],
    ids=["test", "module"],
)
def test_skips_fail_in_ci_only(tmp_path: Path, skipping: str) -> None:
    """CI names what was skipped and why, and fails."""
    text = f"def test_passes(): pass\n{skipping}"
    (tmp_path / "test_other.py").write_text("def test_passes(): pass\n", encoding="utf-8")

    at_home = run_pytest(tmp_path, text, in_ci=False)
    assert at_home.returncode == pytest.ExitCode.OK, at_home.stdout

    for processes in ("-n0", "-n2"):
        in_ci = run_pytest(tmp_path, text, processes, in_ci=True)
        assert in_ci.returncode == pytest.ExitCode.TESTS_FAILED, in_ci.stdout
        after = in_ci.stdout.partition("which PDSCOPE_CI does not allow")[2]
        assert "test_it.py" in after
        assert "no such program" in after


def test_ci_passes_without_skips(tmp_path: Path) -> None:
    """Nothing skipped, nothing refused."""
    run = run_pytest(tmp_path, "def test_passes(): pass", in_ci=True)
    assert run.returncode == pytest.ExitCode.OK, run.stdout
