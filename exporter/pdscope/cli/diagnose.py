"""`pdscope diagnose`: one diagnosis, printed: of a bundle, of a live cluster, or of a running daemon."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path

from pdscope.cli.base import Commands
from pdscope.errors import PdscopeError, UsageError
from pdscope.model.finding import Verdict
from pdscope.model.report import Report

EXIT_FINE, EXIT_BOTTLENECK, EXIT_CANNOT_TELL = 0, 1, 3
_FINE = (Verdict.HEALTHY, Verdict.IDLE)
_CANNOT_TELL = (Verdict.INSUFFICIENT_DATA, Verdict.METRICS_UNTRUSTED)
_ERASE_LINE = "\r\x1b[K"


def register(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "diagnose",
        help="one diagnosis of a capture bundle, a live cluster or a running daemon",
        description="One diagnosis, printed: of a capture bundle (folder, .tar.gz or .zip), of the targets of a "
        "configuration, polled for a while, or of a running daemon. "
        "Exit 0 healthy or idle, 1 a bottleneck or undetermined, 3 insufficient_data or metrics_untrusted, "
        "2 wrong use or unreadable input; with several deployments the worst.",
    )
    command.add_argument("bundle", type=Path, nargs="?", metavar="BUNDLE", help="folder, .tar.gz or .zip")
    command.add_argument("--config.file", dest="config_file", type=Path, metavar="F", help="poll what this file names")
    command.add_argument(
        "--for", dest="duration", metavar="60s", help="how long to poll (default: the window and one interval)"
    )
    command.add_argument("--url", metavar="URL", help="a running daemon, such as http://127.0.0.1:9836")
    command.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    command.add_argument("--deployment", metavar="NAME", help="only this deployment")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Diagnose and print. A fault of ours is no bottleneck, whose exit code Python's own would be.

    Raises:
        PdscopeError: wrong combination, unreadable input, wrong configuration, unknown deployment, no daemon.
        BrokenPipeError: nobody reads what is printed.
    """
    try:
        return _run(options)
    except (PdscopeError, BrokenPipeError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, nothing is known of the service
        traceback.print_exc()
        print(f"pdscope: no diagnosis: a fault of pdscope ({type(error).__name__}), traceback above", file=sys.stderr)
        return EXIT_CANNOT_TELL


def _run(options: argparse.Namespace) -> int:
    inputs = (options.bundle, options.config_file, options.url)
    if sum(one is not None for one in inputs) != 1:
        raise UsageError("diagnose needs exactly one of BUNDLE, --config.file and --url")
    if options.duration is not None and options.config_file is None:
        raise UsageError("--for goes with --config.file")
    if options.url is not None:
        return _remote(options)
    report = _live(options) if options.config_file is not None else _offline(options)
    from pdscope.render.json import report_json
    from pdscope.render.text import report_text

    if options.format == "json":
        print(report_json(report, deployment=options.deployment).decode())
    else:
        print(report_text(report, deployment=options.deployment), end="")
    return exit_code(report, options.deployment)


def _offline(options: argparse.Namespace) -> Report:
    from pdscope.runtime.offline import diagnose_bundle

    with _warnings_on_stderr():
        report, bundle = diagnose_bundle(options.bundle)
    for name in bundle.ignored:
        print(f"pdscope: {options.bundle}: {name} is no recorded page; left out", file=sys.stderr)
    for remark in bundle.remarks:
        print(f"pdscope: {options.bundle}: {remark}", file=sys.stderr)
    known = {name for d in report.deployments for name in d.instances} | {t.target for t in report.targets}
    for name in sorted({page.target for page in bundle.pages} - known):
        print(f"pdscope: {options.bundle}: samples/{name!a} is in no deployment of its pdscope.yml", file=sys.stderr)
    _check_deployment(options.deployment, (d.deployment.name for d in report.deployments), "the bundle")
    return report


def _live(options: argparse.Namespace) -> Report:
    from pdscope.config import UnitError, load_config, parse_duration
    from pdscope.runtime.once import diagnose_live
    from pdscope.runtime.plugins import check, load_plugins

    try:
        seconds = None if options.duration is None else parse_duration(options.duration)
    except UnitError as error:
        raise UsageError(f"--for: {error}") from None
    plugins = load_plugins()
    config = load_config(options.config_file)
    check(config, plugins)
    _check_deployment(options.deployment, (d.name for d in config.deployments), str(options.config_file))
    progress = _show_progress if sys.stderr.isatty() else None
    with _warnings_on_stderr():
        once = asyncio.run(diagnose_live(config, plugins, seconds=seconds, progress=progress))
    for item in once.unreadable:
        print(f"pdscope: {item.name}: not polled: {item.why}", file=sys.stderr)
    return once.report


def _check_deployment(wanted: str | None, known: Iterable[str], where: str) -> None:
    names = list(known)
    if wanted is not None and wanted not in names:
        raise UsageError(f"--deployment {wanted}: {where} has {', '.join(names)}")


@contextlib.contextmanager
def _warnings_on_stderr() -> Iterator[None]:
    """What goes wrong while polling, a line each; on a terminal it replaces the progress, which comes again below."""
    line_start = _ERASE_LINE if sys.stderr.isatty() else ""
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter(f"{line_start}pdscope: %(message)s"))
    logger = logging.getLogger("pdscope")
    propagated, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagated
        print(line_start, end="", file=sys.stderr, flush=True)


def _show_progress(passed_seconds: float, total_seconds: float) -> None:
    text = f"polling: {passed_seconds:.0f} s of {total_seconds:.0f} s"
    print(f"{_ERASE_LINE}{text}", end="", file=sys.stderr, flush=True)


def _remote(options: argparse.Namespace) -> int:
    from pdscope.runtime.once import Answer, ask_daemon
    from pdscope.sources.http import Fetcher

    async def ask() -> Answer:
        async with Fetcher() as fetcher:
            return await ask_daemon(options.url, fetcher, form=options.format, deployment=options.deployment)

    answer = asyncio.run(ask())
    print(answer.text, end="")
    return worst(answer.verdicts)


def exit_code(report: Report, deployment: str | None = None) -> int:
    """The worst over the deployments shown."""
    return worst(
        d.diagnosis.verdict for d in report.deployments if deployment is None or d.deployment.name == deployment
    )


def worst(verdicts: Iterable[str]) -> int:
    """A bottleneck before `cannot tell` before fine; a verdict of a newer daemon counts as a bottleneck."""
    seen = list(verdicts)
    if any(v not in _FINE and v not in _CANNOT_TELL for v in seen):
        return EXIT_BOTTLENECK
    return EXIT_CANNOT_TELL if any(v in _CANNOT_TELL for v in seen) else EXIT_FINE
