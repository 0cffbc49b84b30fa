"""`pdscope serve`: the daemon."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from pdscope.cli.base import Commands, add_listen_address


def register(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser("serve", help="scrape, diagnose and answer over HTTP")
    command.add_argument(
        "--config.file", dest="config_file", type=Path, required=True, metavar="F", help="configuration file"
    )
    add_listen_address(command)
    command.add_argument(
        "--log.level",
        dest="log_level",
        default="info",
        choices=("debug", "info", "warning", "error"),
        help="default: %(default)s",
    )
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT.

    Raises:
        PdscopeError: wrong configuration or listen address.
    """
    from pdscope.config import load_config
    from pdscope.runtime.live import serve
    from pdscope.runtime.plugins import check, load_plugins

    logging.basicConfig(
        level=options.log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    plugins = load_plugins()
    config = load_config(options.config_file)
    check(config, plugins)
    asyncio.run(serve(config, plugins, options.listen_address, on_ready=_announce))
    return 0


def _announce(address: str) -> None:
    print(f"pdscope answers on http://{address}/ (/diagnose, /metrics)", file=sys.stderr)
