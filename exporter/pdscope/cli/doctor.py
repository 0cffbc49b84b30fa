"""`pdscope doctor`: what each target of a configuration is, what it yields, and what is missing."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from pdscope.cli.base import Commands

if TYPE_CHECKING:  # a command imports what it runs
    from pdscope.runtime.doctor import Checkup, TargetCheck
    from pdscope.runtime.needs import Lack

EXIT_FINE, EXIT_UNHEALTHY = 0, 1
_WIDTH = 110


def register(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "doctor",
        help="what each target is, which signals it yields, and how to get those that are missing",
        description="Asks every target of a configuration twice and says what it is, which signals it yields, which "
        "are missing and how to get each. "
        "Exit 0 when every target is reachable and recognised, 1 when one is not, 2 wrong use.",
    )
    command.add_argument(
        "--config.file", dest="config_file", type=Path, required=True, metavar="F", help="configuration file"
    )
    command.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Examine and print.

    Raises:
        PdscopeError: wrong configuration.
    """
    import orjson

    from pdscope.config import load_config
    from pdscope.runtime.doctor import examine
    from pdscope.runtime.plugins import known_names, load_plugins

    plugins = load_plugins()
    config = load_config(options.config_file, known_names(plugins))
    checkup = asyncio.run(examine(config, plugins))
    if options.format == "json":
        document = {"schema_version": 1, **dataclasses.asdict(checkup)}
        print(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
    else:
        print("\n".join(lines_of(checkup)))
    return EXIT_FINE if checkup.ok else EXIT_UNHEALTHY


def lines_of(checkup: Checkup) -> Iterator[str]:
    """The text for people: what is wrong stands where it is wrong, and the count at the end."""
    for deployment in checkup.deployments:
        yield f"deployment {deployment.name}"
        for target in deployment.targets:
            yield from _target(target)
        if deployment.missing or deployment.contradictions:
            yield "  the deployment as a whole"
            yield from _troubles(deployment.contradictions, deployment.missing)
        yield ""
    targets = [target for deployment in checkup.deployments for target in deployment.targets]
    fine = sum(target.recognised for target in targets)
    yield f"{fine} of {len(targets)} target(s) reachable and recognised"


def _target(target: TargetCheck) -> Iterator[str]:
    if not target.recognised:
        state = "answers, but is not recognised" if target.reachable else "not reachable"
        yield f"  {target.kind} {target.name}: {state}"
        yield from _indented("why", target.reason)
    else:
        program = " ".join(part for part in (target.engine, target.engine_version) if part)
        version = "" if target.engine_version or target.kind == "device" else ", version unknown"
        role = "" if target.role is None else f", {target.role} ({target.role_from})"
        yield f"  {target.kind} {target.name}: {program or 'unnamed'}{version}{role}"
        yield from _indented("yields", ", ".join(target.yields) or "nothing")
        if target.not_yet:
            yield from _indented("from the first event on", ", ".join(target.not_yet))
    yield from _troubles(target.contradictions, target.missing)
    for remark in target.remarks:
        yield from _indented("note", remark)


def _troubles(contradictions: tuple[str, ...], missing: tuple[Lack, ...]) -> Iterator[str]:
    for contradiction in contradictions:
        yield from _indented("contradiction", contradiction)
    for lack in missing:
        yield from _indented("missing", f"{lack.signal} <- {lack.how}")


def _indented(title: str, text: str) -> Iterator[str]:
    yield fill(
        f"{title}: {text}",
        width=_WIDTH,
        initial_indent="    ",
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )
