"""scripts/generate_docs.py: the committed pages are what it writes, and its check notices when they are not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def generate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "scripts" / "generate_docs.py", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_committed_pages_are_up_to_date() -> None:
    """Run scripts/generate_docs.py when this fails."""
    run = generate("--check")
    assert run.returncode == 0, run.stdout + run.stderr


def test_check_names_what_differs_and_writing_mends_it(tmp_path: Path) -> None:
    """A page that is missing, one that was edited, and one of a rule that is gone; other files are left alone."""
    assert generate("--docs", str(tmp_path)).returncode == 0
    assert generate("--check", "--docs", str(tmp_path)).returncode == 0

    rules = tmp_path / "rules"
    rules.joinpath("idle.md").unlink()
    rules.joinpath("healthy.md").write_text("edited\n", encoding="utf-8")
    rules.joinpath("gone.md").write_text("of old\n", encoding="utf-8")
    tmp_path.joinpath("verdicts.md").write_text("edited\n", encoding="utf-8")
    tmp_path.joinpath("bundles.md").write_text("by hand\n", encoding="utf-8")
    check = generate("--check", "--docs", str(tmp_path))
    assert check.returncode == 1
    named = [line.partition(":")[0].removeprefix(f"{tmp_path}/") for line in check.stdout.splitlines()]
    assert named == ["rules/gone.md", "rules/healthy.md", "rules/idle.md", "verdicts.md"]

    assert generate("--docs", str(tmp_path)).returncode == 0
    assert generate("--check", "--docs", str(tmp_path)).returncode == 0
    assert not rules.joinpath("gone.md").exists()
    assert tmp_path.joinpath("bundles.md").read_text(encoding="utf-8") == "by hand\n"


@pytest.mark.parametrize("name", ["verdicts.md", "rules/kv_transfer_bandwidth.md", "hardware.md"])
def test_pages_say_where_they_come_from(name: str) -> None:
    """Whoever opens one to edit it learns what to edit instead."""
    text = ROOT.joinpath("docs", name).read_text(encoding="utf-8")
    source = text.partition("Edit ")[2].partition(" or")[0]
    assert ROOT.joinpath(source).is_file()
