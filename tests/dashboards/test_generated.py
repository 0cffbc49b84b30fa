"""scripts/generate_dashboards.py: the committed boards are what it writes, and its check notices when they are not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def generate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "scripts" / "generate_dashboards.py", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_committed_boards_are_up_to_date() -> None:
    """Run scripts/generate_dashboards.py when this fails."""
    run = generate("--check")
    assert run.returncode == 0, run.stdout + run.stderr


def test_check_names_what_differs_and_writing_mends_it(tmp_path: Path) -> None:
    """A board that is missing, one that was edited, and one that is gone; other files are left alone."""
    output = ("--output", str(tmp_path))
    assert generate(*output).returncode == 0
    folder = tmp_path / "dashboards"
    folder.joinpath("fleet.json").unlink()
    folder.joinpath("worker.json").write_text("{}\n", encoding="utf-8")
    folder.joinpath("gone.json").write_text("{}\n", encoding="utf-8")
    folder.joinpath("README.md").write_text("by hand\n", encoding="utf-8")

    run = generate("--check", *output)
    assert run.returncode == 1
    assert [Path(line.split(":")[0]).name for line in run.stdout.splitlines()] == [
        "fleet.json",
        "gone.json",
        "worker.json",
    ]

    assert generate(*output).returncode == 0
    assert generate("--check", *output).returncode == 0
    assert not folder.joinpath("gone.json").exists()
    assert folder.joinpath("README.md").read_text(encoding="utf-8") == "by hand\n"


def test_addresses_of_ones_own(tmp_path: Path) -> None:
    """They replace the examples everywhere."""
    own = ("--diagnose-url", "https://pd.test/x/", "--runbook-url", "https://wiki.test/pd/runbooks")
    assert generate("--output", str(tmp_path), *own).returncode == 0
    text = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "dashboards").glob("*.json"))
    assert "pdscope.example" not in text
    assert '"query": "https://pd.test/x"' in text
    assert "https://wiki.test/pd/verdicts.md" in text
