"""`pdscope check-config`: read a configuration and say what is wrong with it, or print every default."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pdscope.cli.base import Commands
from pdscope.errors import UsageError


def register(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser("check-config", help="check a configuration file, or print all defaults")
    command.add_argument("file", type=Path, nargs="?", metavar="F", help="configuration file")
    command.add_argument("--defaults", action="store_true", help="print every key and every threshold with its default")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check, or print the defaults.

    Raises:
        ConfigError: with the path of everything that is wrong.
    """
    from pdscope.config import dump_defaults, load_config
    from pdscope.runtime.plugins import doubts_of, known_names, load_plugins

    plugins = load_plugins()
    if options.file is not None:
        config = load_config(options.file, known_names(plugins))
        count = sum(len(d.instances) for d in config.deployments)
        warnings = doubts_of(config, plugins)
        for warning in warnings:
            print(f"{options.file}: warning: {warning}", file=sys.stderr)
        if not options.defaults:
            said = f"no errors, {len(warnings)} warning(s)" if warnings else "no errors"
            print(f"{options.file}: {len(config.deployments)} deployment(s), {count} instance(s): {said}")
    elif not options.defaults:
        raise UsageError("check-config needs a file, or --defaults")
    if options.defaults:
        specs = [(r.id, t.name, t.default, str(t.unit), t.why) for r in plugins.rules for t in r.thresholds]
        print(dump_defaults(specs), end="")
    return 0
