"""`pdscope diagnose BUNDLE`: one diagnosis, printed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pdscope.cli.base import Commands
from pdscope.errors import UsageError
from pdscope.model.finding import Verdict
from pdscope.model.report import Report

EXIT_FINE, EXIT_BOTTLENECK, EXIT_CANNOT_TELL = 0, 1, 3
_FINE = (Verdict.HEALTHY, Verdict.IDLE)
_CANNOT_TELL = (Verdict.INSUFFICIENT_DATA, Verdict.METRICS_UNTRUSTED)


def register(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "diagnose",
        help="one diagnosis of a capture bundle",
        description="One diagnosis of a capture bundle (folder, .tar.gz or .zip), printed. "
        "Exit 0 healthy or idle, 1 a bottleneck or undetermined, 3 insufficient_data or metrics_untrusted, "
        "2 wrong use or unreadable input; with several deployments the worst.",
    )
    command.add_argument("bundle", type=Path, metavar="BUNDLE", help="folder, .tar.gz or .zip")
    command.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    command.add_argument("--deployment", metavar="NAME", help="only this deployment")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Diagnose and print.

    Raises:
        PdscopeError: unreadable bundle, wrong configuration, unknown deployment.
    """
    from pdscope.render.json import report_json
    from pdscope.render.text import report_text
    from pdscope.runtime.offline import diagnose_bundle

    report, bundle = diagnose_bundle(options.bundle)
    for name in bundle.ignored:
        print(f"pdscope: {options.bundle}: {name} is no recorded page; left out", file=sys.stderr)
    if options.deployment is not None and report.deployment(options.deployment) is None:
        known = ", ".join(d.deployment.name for d in report.deployments)
        raise UsageError(f"--deployment {options.deployment}: the bundle has {known}")
    if options.format == "json":
        print(report_json(report, deployment=options.deployment).decode())
    else:
        print(report_text(report, deployment=options.deployment), end="")
    return exit_code(report, options.deployment)


def exit_code(report: Report, deployment: str | None = None) -> int:
    """The worst over the deployments shown: a bottleneck before `cannot tell` before fine."""
    verdicts = [
        d.diagnosis.verdict for d in report.deployments if deployment is None or d.deployment.name == deployment
    ]
    if any(v not in _FINE and v not in _CANNOT_TELL for v in verdicts):
        return EXIT_BOTTLENECK
    return EXIT_CANNOT_TELL if any(v in _CANNOT_TELL for v in verdicts) else EXIT_FINE
