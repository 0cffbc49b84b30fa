"""Writes rules/, the manifest of deploy/ and docs/runbooks/ from exporter/pdscope/render/alerting and .../standalone.

For rules with addresses, labels or waiting times of your own, give the options and another folder with `--output`.
"""

from __future__ import annotations

import argparse
import sys
from argparse import ArgumentTypeError
from pathlib import Path

import arguments as kinds
from written import differences, write

from pdscope.config import load_config
from pdscope.errors import PdscopeError
from pdscope.render.alerting.pack import pack, rule_files, runbook_files
from pdscope.render.alerting.settings import Settings
from pdscope.render.standalone import pack as standalone
from pdscope.render.standalone.engines import OWN_LABELS
from pdscope.render.standalone.pack import Standalone, standalone_file, with_notes
from pdscope.render.standalone.parameters import Parameters
from pdscope.runtime.named_files import read_named_files
from pdscope.runtime.plugins import known_names, load_plugins
from pdscope.runtime.topology import build_deployment

ROOT = Path(__file__).resolve().parents[1]
RUNBOOKS = "docs/runbooks"
LEAST_WINDOW_SECONDS = 60.0  # four scrapes at the 15 s that docs/alerting.md has


def files(settings: Settings, alone: Standalone) -> dict[str, str]:
    """Every generated file: path below the root -> text."""
    made = pack(settings)
    return {**rule_files(made), standalone.PATH: standalone_file(alone), **with_notes(runbook_files(made))}


def parameters_of(path: Path) -> tuple[Parameters, ...]:
    """Of each deployment of a pdscope.yml, as the daemon would have them from it.

    Raises:
        PdscopeError: the file cannot be read, or is wrong.
    """
    plugins = load_plugins()
    config = load_config(path, known_names(plugins))
    models = read_named_files(config).models
    return tuple(
        Parameters.of(
            build_deployment(deployment, {}, plugins, {}, models.get(deployment.name)),
            unsized=[instance.name for instance in deployment.instances if instance.tp is None],
        )
        for deployment in config.deployments
    )


def own_label(text: str) -> str:
    """The name of a label that the rules do not give a meaning of their own."""
    name = kinds.label(text)
    if name in OWN_LABELS:
        raise ArgumentTypeError(f"{text}: the rules use this label for something else")
    return name


def kept_labels(text: str) -> tuple[str, ...]:
    """Names of labels of targets, joined by commas."""
    names = kinds.labels(text)
    for name in names:
        own_label(name)
    return names


def read_options(given: list[str] | None) -> argparse.Namespace:
    """The command line; what does not make rules that Prometheus can read ends the program with status 2."""
    default = Settings()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; name the files that differ, and fail")
    parser.add_argument("--output", type=Path, default=ROOT, help="write below this folder (default: the repository)")
    parser.add_argument(
        "--diagnose-url", type=kinds.url, default=default.diagnose_url, help="address of pdscope (%(default)s)"
    )
    parser.add_argument(
        "--runbook-url",
        type=kinds.url,
        default=default.runbook_url,
        help="folder of the runbooks, where you serve them (%(default)s)",
    )
    parser.add_argument(
        "--keep-labels",
        type=kept_labels,
        default=",".join(default.keep_labels),
        help="labels of targets that tell deployments of one name apart; all others are aggregated away (%(default)s)",
    )
    parser.add_argument(
        "--time-scale", type=kinds.factor, default=1.0, help="factor on every window and wait (%(default)s)"
    )
    alone = Standalone()
    only = parser.add_argument_group("rules/standalone.yml")
    only.add_argument(
        "--standalone-config", type=Path, help="pdscope.yml with the deployments, instead of an example of one"
    )
    only.add_argument(
        "--standalone-window",
        type=kinds.seconds,
        default=alone.window_seconds,
        help="of rates, in seconds; at least four scrapes (%(default)g)",
    )
    only.add_argument(
        "--standalone-interval", type=kinds.seconds, help="of evaluation, in seconds (as the server does it)"
    )
    only.add_argument(
        "--standalone-worker-label",
        type=own_label,
        default=alone.worker,
        help="label that tells instances apart (%(default)s)",
    )
    options = parser.parse_args(given)
    if options.standalone_worker_label in options.keep_labels:
        parser.error(f"--standalone-worker-label: {options.standalone_worker_label} is among --keep-labels")
    return options


def main(given: list[str] | None = None) -> int:
    """The command; returns the exit status."""
    options, alone = read_options(given), Standalone()
    settings = Settings(
        time_scale=options.time_scale,
        keep_labels=options.keep_labels,
        runbook_url=options.runbook_url,
        diagnose_url=options.diagnose_url,
    )
    if options.standalone_window < LEAST_WINDOW_SECONDS:
        print(
            f"warning: --standalone-window {options.standalone_window:g}: a window has to hold four scrapes, which at "
            f"one every 15 s takes {LEAST_WINDOW_SECONDS:g} s",
            file=sys.stderr,
        )
    try:
        deployments = parameters_of(options.standalone_config) if options.standalone_config else alone.deployments
    except PdscopeError as error:
        print(error, file=sys.stderr)
        return 2
    for deployment in deployments:
        if deployment.unknown:
            print(f"{deployment.deployment}: not told: {', '.join(deployment.unknown)}", file=sys.stderr)
        if deployment.unsized:
            print(
                f"{deployment.deployment}: these hang on the number of devices: write tp of "
                f"{', '.join(deployment.unsized)}",
                file=sys.stderr,
            )
    alone = Standalone(
        settings=settings,
        deployments=deployments,
        window_seconds=options.standalone_window,
        interval_seconds=options.standalone_interval,
        worker=options.standalone_worker_label,
    )
    wanted = files(settings, alone)
    if not options.check:
        try:
            write(options.output, wanted, f"{RUNBOOKS}/*.md")
        except OSError as error:
            print(f"{error.filename or options.output}: cannot be written: {error.strerror}", file=sys.stderr)
            return 2
        return 0
    stale = differences(options.output, wanted, f"{RUNBOOKS}/*.md")
    for path in stale:
        print(f"{options.output / path}: not what scripts/generate_rules.py writes")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
