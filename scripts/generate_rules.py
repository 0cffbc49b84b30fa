"""Writes rules/, the manifest of deploy/ and docs/runbooks/ from exporter/pdscope/render/alerting and .../standalone.

For rules with addresses, labels or waiting times of your own, give the options and another folder with `--output`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from written import differences, write

from pdscope.config import load_config
from pdscope.errors import PdscopeError
from pdscope.render.alerting.pack import pack, rule_files, runbook_files
from pdscope.render.alerting.settings import Settings
from pdscope.render.standalone import pack as standalone
from pdscope.render.standalone.pack import Standalone, standalone_file, with_notes
from pdscope.render.standalone.parameters import Parameters
from pdscope.runtime.named_files import read_named_files
from pdscope.runtime.plugins import check, load_plugins
from pdscope.runtime.topology import build_deployment

ROOT = Path(__file__).resolve().parents[1]
RUNBOOKS = "docs/runbooks"


def files(settings: Settings, alone: Standalone) -> dict[str, str]:
    """Every generated file: path below the root -> text."""
    made = pack(settings)
    return {**rule_files(made), standalone.PATH: standalone_file(alone), **with_notes(runbook_files(made))}


def parameters_of(path: Path) -> tuple[Parameters, ...]:
    """Of each deployment of a pdscope.yml, as the daemon would have them from it.

    Raises:
        PdscopeError: the file cannot be read, or is wrong.
    """
    config, plugins = load_config(path), load_plugins()
    check(config, plugins)
    models = read_named_files(config).models
    return tuple(
        Parameters.of(build_deployment(deployment, {}, plugins, {}, models.get(deployment.name)))
        for deployment in config.deployments
    )


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
    alone = Standalone()
    only = parser.add_argument_group("rules/standalone.yml")
    only.add_argument(
        "--standalone-config", type=Path, help="pdscope.yml with the deployments, instead of an example of one"
    )
    only.add_argument(
        "--standalone-window", type=float, default=alone.window_seconds, help="of rates, in seconds (%(default)g)"
    )
    only.add_argument("--standalone-interval", type=float, help="of evaluation, in seconds (as the server does it)")
    only.add_argument(
        "--standalone-worker-label", default=alone.worker, help="label that tells instances apart (%(default)s)"
    )
    options = parser.parse_args(arguments)
    settings = Settings(
        time_scale=options.time_scale,
        keep_labels=tuple(label for label in options.keep_labels.split(",") if label),
        runbook_url=options.runbook_url,
        diagnose_url=options.diagnose_url.rstrip("/"),
    )
    try:
        deployments = parameters_of(options.standalone_config) if options.standalone_config else alone.deployments
    except PdscopeError as error:
        print(error, file=sys.stderr)
        return 2
    for deployment in deployments:
        if deployment.unknown:
            print(f"{deployment.deployment}: not told: {', '.join(deployment.unknown)}", file=sys.stderr)
    alone = Standalone(
        settings=settings,
        deployments=deployments,
        window_seconds=options.standalone_window,
        interval_seconds=options.standalone_interval,
        worker=options.standalone_worker_label,
    )
    wanted = files(settings, alone)
    if not options.check:
        write(options.output, wanted, f"{RUNBOOKS}/*.md")
        return 0
    stale = differences(options.output, wanted, f"{RUNBOOKS}/*.md")
    for path in stale:
        print(f"{options.output / path}: not what scripts/generate_rules.py writes")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
