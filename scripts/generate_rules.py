"""Writes rules/, the manifest of deploy/ and docs/runbooks/ from exporter/pdscope/render/alerting.

For rules with addresses, labels or waiting times of your own, give the options and another folder with `--output`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pdscope.render.alerting.pack import pack, rule_files, runbook_files
from pdscope.render.alerting.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
RUNBOOKS = "docs/runbooks"


def files(settings: Settings) -> dict[str, str]:
    """Every generated file: path below the root -> text."""
    made = pack(settings)
    return {**rule_files(made), **runbook_files(made)}


def differences(root: Path, wanted: dict[str, str]) -> list[str]:
    """What is to be written, and runbooks of alerts that are gone: paths below the root."""
    there = {f"{RUNBOOKS}/{path.name}" for path in (root / RUNBOOKS).glob("*.md")}
    stale = [path for path, text in wanted.items() if _read(root / path) != text]
    return sorted({*stale, *(there - set(wanted))})


def write(root: Path, wanted: dict[str, str]) -> None:
    """Write all files, and remove runbooks of alerts that are gone."""
    for path in differences(root, wanted):
        if path in wanted:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(wanted[path], encoding="utf-8")
        else:
            (root / path).unlink()


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def main(arguments: list[str] | None = None) -> int:
    """The command; returns the exit status."""
    default = Settings()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; name the files that differ, and fail")
    parser.add_argument("--output", type=Path, default=ROOT, help="write below this folder (default: the repository)")
    parser.add_argument("--diagnose-url", default=default.diagnose_url, help="address of pdscope (%(default)s)")
    parser.add_argument("--runbook-url", default=default.runbook_url, help="folder of the runbooks (%(default)s)")
    parser.add_argument(
        "--keep-labels",
        default=",".join(default.keep_labels),
        help="labels of targets that tell deployments of one name apart; all others are aggregated away (%(default)s)",
    )
    parser.add_argument("--time-scale", type=float, default=1.0, help="factor on every window and wait (%(default)s)")
    options = parser.parse_args(arguments)
    settings = Settings(
        time_scale=options.time_scale,
        keep_labels=tuple(label for label in options.keep_labels.split(",") if label),
        runbook_url=options.runbook_url,
        diagnose_url=options.diagnose_url.rstrip("/"),
    )
    wanted = files(settings)
    if not options.check:
        write(options.output, wanted)
        return 0
    stale = differences(options.output, wanted)
    for path in stale:
        print(f"{options.output / path}: not what scripts/generate_rules.py writes")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
