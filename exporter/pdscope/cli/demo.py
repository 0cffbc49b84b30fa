"""`pdscope demo`: the daemon on built-in simulated deployments that speak the engines' real formats over HTTP."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from pathlib import Path

from pdscope.cli.base import Commands, add_listen_address
from pdscope.errors import UsageError


def register(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser("demo", help="the daemon on a built-in simulated deployment")
    command.add_argument("--scenario", action="append", metavar="NAME", help="one scenario (default: all of them)")
    command.add_argument("--list", action="store_true", help="list the scenarios and stop")
    command.add_argument("--seed", type=int, default=0, help="of the simulated traffic (default: %(default)s)")
    add_listen_address(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Simulate, scrape, diagnose, answer.

    Raises:
        UsageError: no such scenario.
    """
    from pdscope.demo import SCENARIOS

    if options.list:
        for scenario in SCENARIOS.values():
            print(f"{scenario.name:<12} {scenario.description}")
        return 0
    names = options.scenario or list(SCENARIOS)
    for name in names:
        if name not in SCENARIOS:
            raise UsageError(f"--scenario {name}: there are {', '.join(SCENARIOS)}")
    logging.basicConfig(level="WARNING", stream=sys.stderr)
    asyncio.run(_demo(names, options.seed, options.listen_address))
    return 0


async def _demo(names: list[str], seed: int, listen_address: str) -> None:
    from pdscope.config import parse_config
    from pdscope.demo import SCENARIOS, DemoDeployment
    from pdscope.runtime.live import serve
    from pdscope.runtime.plugins import check, load_plugins

    async with DemoDeployment(names, seed=seed, clock=time.monotonic) as deployment:
        plugins = load_plugins()
        config = parse_config(deployment.config_text(), Path.cwd(), file="demo")
        check(config, plugins)
        print("Simulated deployments (SGLang 0.5.23, one prefill and one decode instance each):", flush=True)
        for name in names:
            print(f"  {name:<12} {SCENARIOS[name].description}")
        await serve(config, plugins, listen_address, on_ready=_announce)


def _announce(address: str) -> None:
    print(
        f"\nFirst answer in about 5 s; Ctrl-C stops everything.\n"
        f"  curl 'http://{address}/diagnose?format=text'   what holds each of them back, and what helps\n"
        f"  curl http://{address}/diagnose                 the same as JSON\n"
        f"  curl http://{address}/metrics                  for Prometheus\n",
        flush=True,
    )
