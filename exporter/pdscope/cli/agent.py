"""`pdscope agent`: exports the devices of this host for a daemon that runs elsewhere."""

from __future__ import annotations

import argparse
import asyncio
import sys

from pdscope.cli.base import Commands
from pdscope.cli.logs import FORMATS, LEVELS, set_up_logs

_DEFAULT_LISTEN = "127.0.0.1:9837"


def register(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "agent",
        help="export this host's NVIDIA devices and who computes on them, for a daemon elsewhere",
        description="Samples the NVIDIA devices of this host through NVML and serves them as pdscope_device_* under "
        "/metrics, with the ports on which the processes on each device listen. The daemon reads it with "
        "`source: pdscope`. To see processes of containers, run it in the host's pid namespace.",
    )
    command.add_argument(
        "--web.listen-address",
        dest="listen_address",
        default=_DEFAULT_LISTEN,
        metavar="HOST:PORT",
        help="default: %(default)s",
    )
    command.add_argument("--log.level", dest="log_level", default="info", choices=LEVELS, help="default: %(default)s")
    command.add_argument(
        "--log.format", dest="log_format", default="logfmt", choices=FORMATS, help="default: %(default)s"
    )
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT.

    Raises:
        PdscopeError: wrong listen address.
    """
    from pdscope.runtime.agent import serve_agent

    set_up_logs(options.log_level, options.log_format)

    def announce(address: str) -> None:
        print(f"pdscope agent answers on http://{address}/metrics", file=sys.stderr)

    asyncio.run(serve_agent(options.listen_address, on_ready=announce))
    return 0
