"""Writes dashboards/ from exporter/pdscope/render/dashboards.

For boards with addresses of your own, give the options and another folder with `--output`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from written import differences, write

from pdscope.render.alerting.settings import Settings
from pdscope.render.dashboards.pack import files

ROOT = Path(__file__).resolve().parents[1]


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
        write(options.output, wanted, "dashboards/*.json")
        return 0
    stale = differences(options.output, wanted, "dashboards/*.json")
    for path in stale:
        print(f"{options.output / path}: not what scripts/generate_dashboards.py writes")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
