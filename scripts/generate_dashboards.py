"""Writes dashboards/ from exporter/pdscope/render/dashboards.

For boards with addresses of your own, give the options and another folder with `--output`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pdscope.render.alerting.settings import Settings
from pdscope.render.dashboards.pack import files

ROOT = Path(__file__).resolve().parents[1]


def differences(root: Path, wanted: dict[str, str]) -> list[str]:
    """What is to be written, and boards that are gone: paths below the root."""
    there = {f"dashboards/{path.name}" for path in (root / "dashboards").glob("*.json")}
    stale = [path for path, text in wanted.items() if _read(root / path) != text]
    return sorted({*stale, *(there - set(wanted))})


def write(root: Path, wanted: dict[str, str]) -> None:
    """Write all boards, and remove those that are gone."""
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
    options = parser.parse_args(arguments)
    settings = Settings(runbook_url=options.runbook_url, diagnose_url=options.diagnose_url.rstrip("/"))
    wanted = dict(files(settings))
    if not options.check:
        write(options.output, wanted)
        return 0
    stale = differences(options.output, wanted)
    for path in stale:
        print(f"{options.output / path}: not what scripts/generate_dashboards.py writes")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
