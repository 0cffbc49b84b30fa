"""`pdscope version`."""

from __future__ import annotations

import argparse
import platform

from pdscope import __version__
from pdscope.cli.base import Commands


def register(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser("version", help="print the version")
    command.set_defaults(run=run)


def run(_options: argparse.Namespace) -> int:
    """Print versions of pdscope and Python."""
    print(f"pdscope {__version__} (Python {platform.python_version()})")
    return 0
