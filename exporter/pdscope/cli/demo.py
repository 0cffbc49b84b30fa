"""`pdscope demo`: the daemon beside a simulated deployment that speaks the engines' real formats over HTTP."""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pdscope.cli.base import Commands, add_listen_address

if TYPE_CHECKING:  # a command imports what it runs when it runs
    from pdscope.config import Config
    from pdscope.demo.runner import Demo
    from pdscope.runtime.plugins import Plugins

_LOOPBACK = "127.0.0.1"
MOST_SPEED = 60.0
"""Faster than that, scrapes and judging take longer than the time they are about."""


def register(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser("demo", help="the daemon on a built-in simulated deployment")
    command.add_argument(
        "--scenario",
        action="append",
        metavar="NAME",
        help="stay with this one; given several times, a tour of these (default: a tour of all, two minutes each)",
    )
    command.add_argument("--list", action="store_true", help="list the scenarios (those of --scenario) and stop")
    command.add_argument(
        "--seed", type=_seed, default=0, metavar="N", help="of the simulated traffic (default: %(default)s)"
    )
    command.add_argument(
        "--speed",
        type=_speed,
        default=1.0,
        metavar="FACTOR",
        help="simulated seconds a second, for the deployment and the daemon alike (default: %(default)g)",
    )
    add_listen_address(command, "where to answer; without a host on the loopback interface only (default: %(default)s)")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Simulate, scrape, diagnose, answer.

    Raises:
        UsageError: no such scenario, or one that is named twice.
    """
    names = options.scenario or []
    if options.list:
        _list(names)
        return 0
    logging.basicConfig(level="WARNING", stream=sys.stderr)
    asyncio.run(_demo(names, options.seed, options.speed, _listen_address(options.listen_address)))
    return 0


def _list(names: list[str]) -> None:
    from pdscope.demo.runner.tour import chosen

    for scenario in chosen(names):
        engine = {"sglang": "SGLang", "vllm": "vLLM"}[scenario.draw.engine]
        print(f"{scenario.name} ({engine})\n  {scenario.story}\n  Watch: {scenario.watch}")


async def _demo(names: list[str], seed: int, speed: float, listen_address: str) -> None:
    from pdscope.collect.poller import Clock
    from pdscope.demo.runner import Demo
    from pdscope.demo.runner.demo import Time
    from pdscope.runtime.live import serve
    from pdscope.runtime.plugins import load_plugins

    started, wall_seconds = time.monotonic(), time.time()

    def seconds() -> float:
        return (time.monotonic() - started) * speed

    def unix_seconds() -> float:
        return wall_seconds + seconds()

    async def sleep(simulated_seconds: float) -> None:
        await asyncio.sleep(simulated_seconds / speed)

    plugins = load_plugins()
    reload = _Reload()
    clock = Time(seconds, unix_seconds, sleep, speed)
    async with Demo(names, seed=seed, time=clock, say=_say, renewed=reload.wish) as demo:

        def load() -> Config:
            return _config(demo, plugins)

        def announce(address: str) -> None:
            _announce(demo, address, speed)
            reload.allow()

        daemon_clock = Clock(wall=unix_seconds, monotonic=seconds, sleep=sleep, stopwatch=time.monotonic)
        await serve(load(), plugins, listen_address, clock=daemon_clock, on_ready=announce, load=load)


class _Reload:
    """Tells the daemon to read its configuration again, as anybody would: by SIGHUP, once it handles that."""

    def __init__(self) -> None:
        self._allowed = False
        self._wished = False

    def wish(self) -> None:
        """Now, or as soon as it is allowed."""
        self._wished = not self._allowed
        if self._allowed:
            signal.raise_signal(signal.SIGHUP)

    def allow(self) -> None:
        """The daemon handles the signal from now on."""
        self._allowed = True
        if self._wished:
            self.wish()


def _config(demo: Demo, plugins: Plugins) -> Config:
    from pdscope.config import parse_config
    from pdscope.runtime.plugins import check

    config = parse_config(demo.config_text(), Path.cwd(), file="demo")
    check(config, plugins)
    return config


def _listen_address(given: str) -> str:
    """Without a host the loopback interface, and not all of them: nobody else has to see a simulation."""
    return f"{_LOOPBACK}{given}" if given.startswith(":") else given


def _seed(text: str) -> int:
    if not re.fullmatch("[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"{text}: takes a whole number of at least 0")
    return int(text)


def _speed(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not 0.0 < factor <= MOST_SPEED:
        raise argparse.ArgumentTypeError(f"{text}: takes a factor over 0, {MOST_SPEED:g} at most")
    return factor


def _say(words: str) -> None:
    print(f"\n{words}", flush=True)


def _announce(demo: Demo, address: str, speed: float) -> None:
    from pdscope.demo.runner.control import CONFIG_PATH

    scenario = demo.stage.scenario
    other_clock = (
        "" if speed == 1.0 else "\n    (other readers than this daemon see rates by their own clock: --speed 1)"
    )
    pace = "" if speed == 1.0 else f" All of it runs {speed:g} times as fast as time."
    print(
        f"A simulated deployment, and the daemon that reads it over HTTP.{pace} Ctrl-C stops both.\n\n"
        f"  http://{address}/              an index of what answers there\n"
        f"  http://{address}/diagnose      what holds it back, and what helps (?format=text for a terminal)\n"
        f"  http://{address}/metrics       for Prometheus\n"
        f"  {demo.control_url}/              GET: what can be changed; POST: change it, for instance\n"
        f"    curl -H 'Content-Type: application/json' {demo.control_url}/ \\\n"
        f'      -d \'{{"parameter": "link.path_bytes_per_second", "value": 4e8}}\'\n'
        f"  {demo.control_url}{CONFIG_PATH}   GET: the configuration, for pdscope doctor, diagnose, check-config"
        f"{other_clock}\n\n"
        f"{scenario.name}: {scenario.story}\n  watch: {scenario.watch}",
        flush=True,
    )
