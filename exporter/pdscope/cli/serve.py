"""`pdscope serve`: the daemon."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from pdscope.cli.base import Commands, add_listen_address
from pdscope.cli.logs import FORMATS, LEVELS, set_up_logs


def register(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser("serve", help="scrape, diagnose and answer over HTTP")
    command.add_argument(
        "--config.file",
        dest="config_file",
        type=Path,
        required=True,
        metavar="F",
        help="configuration file; read again on SIGHUP and on POST to /-/reload",
    )
    add_listen_address(command)
    command.add_argument(
        "--web.external-url",
        dest="external_url",
        metavar="URL",
        help="address under which clients reach the daemon, for links; its path is the default of --web.route-prefix",
    )
    command.add_argument(
        "--web.route-prefix",
        dest="route_prefix",
        metavar="PATH",
        help="path below which the daemon answers (default: the path of --web.external-url, else /)",
    )
    command.add_argument("--log.level", dest="log_level", default="info", choices=LEVELS, help="default: %(default)s")
    command.add_argument(
        "--log.format", dest="log_format", default="logfmt", choices=FORMATS, help="default: %(default)s"
    )
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT.

    Raises:
        PdscopeError: wrong configuration, listen address, address or prefix.
    """
    from pdscope.config import Config, load_config
    from pdscope.runtime.live import serve
    from pdscope.runtime.plugins import check, load_plugins
    from pdscope.web.paths import read_paths

    set_up_logs(options.log_level, options.log_format)
    paths = read_paths(options.external_url, options.route_prefix)
    plugins = load_plugins()

    def load() -> Config:
        config = load_config(options.config_file)
        check(config, plugins)
        return config

    def announce(address: str) -> None:
        base = paths.base if "://" in paths.base else f"http://{address}{paths.base}"
        print(f"pdscope answers on {base}/ (/diagnose, /metrics)", file=sys.stderr)

    asyncio.run(serve(load(), plugins, options.listen_address, on_ready=announce, load=load, paths=paths))
    return 0
