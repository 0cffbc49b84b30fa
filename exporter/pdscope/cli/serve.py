"""`pdscope serve`: the daemon."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pdscope.cli.base import Commands, add_listen_address
from pdscope.cli.logs import FORMATS, LEVELS, set_up_logs
from pdscope.errors import UsageError

if TYPE_CHECKING:  # a command imports what it runs when it runs
    from pdscope.config import Config
    from pdscope.runtime.plugins import Plugins

_log = logging.getLogger(__name__)


def register(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser("serve", help="scrape, diagnose and answer over HTTP")
    command.add_argument(
        "--config.file",
        dest="config_file",
        type=Path,
        metavar="F",
        help="configuration file; read again on SIGHUP and on POST to /-/reload",
    )
    _add_findings(command)
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
    from pdscope.config import load_config
    from pdscope.runtime.live import serve
    from pdscope.runtime.plugins import doubts_of, known_names, load_plugins
    from pdscope.web.paths import read_paths

    _one_way(options)
    set_up_logs(options.log_level, options.log_format)
    paths = read_paths(options.external_url, options.route_prefix)
    plugins = load_plugins()

    def load() -> Config:
        config = load_config(options.config_file, known_names(plugins))
        for doubt in doubts_of(config, plugins):
            _log.warning("configuration: %s", doubt)
        return config

    def announce(address: str) -> None:
        base = paths.base if "://" in paths.base else f"http://{address}{paths.base}"
        print(f"pdscope answers on {base}/ (/diagnose, /metrics)", file=sys.stderr)

    async def found() -> None:
        config = await _find(options, plugins)
        await serve(config, plugins, options.listen_address, on_ready=announce, paths=paths)

    if options.config_file is None:
        asyncio.run(found())
    else:
        asyncio.run(serve(load(), plugins, options.listen_address, on_ready=announce, load=load, paths=paths))
    return 0


def _add_findings(command: argparse.ArgumentParser) -> None:
    """Flags that stand in for a configuration file."""
    found = command.add_argument_group("without a configuration file: instances, roles and engines are found")
    found.add_argument("--router", metavar="URL", help="a router that lists its workers (vllm-router, smg)")
    found.add_argument("--target", action="append", default=[], metavar="URL", help="an engine; may be repeated")
    for latency in ("ttft", "itl"):
        for percentile in ("p50", "p95", "p99"):
            found.add_argument(
                f"--slo.{latency}-{percentile}",
                dest=f"slo_{latency}_{percentile}",
                metavar="DURATION",
                help=f"objective on {latency.upper()} {percentile}, such as 2s",
            )
    found.add_argument("--interconnect", metavar="BANDWIDTH", help="of one device, one way, such as 50GB/s")
    found.add_argument("--model", type=Path, metavar="F", help="the model's config.json")


def _one_way(options: argparse.Namespace) -> None:
    """A file, or addresses: never both, never neither."""
    addresses = bool(options.router or options.target)
    if options.config_file is not None and (addresses or _wished(options)):
        raise UsageError("serve: --config.file says everything; leave out --router, --target and what goes with them")
    if options.config_file is None and not addresses:
        raise UsageError("serve needs --config.file, or --router or --target")


def _wished(options: argparse.Namespace) -> dict[str, str]:
    """Objectives given as flags, by key of the configuration; the other flags beside them."""
    keys = [f"{latency}_{percentile}" for latency in ("ttft", "itl") for percentile in ("p50", "p95", "p99")]
    wished = {key: getattr(options, f"slo_{key}") for key in keys if getattr(options, f"slo_{key}") is not None}
    others = {"interconnect": options.interconnect, "model": options.model}
    return wished | {key: str(value) for key, value in others.items() if value is not None}


async def _find(options: argparse.Namespace, plugins: Plugins) -> Config:
    """Ask the addresses what they are, and tell the user what was found."""
    from pdscope.runtime.found import Wanted, find_config
    from pdscope.runtime.plugins import check
    from pdscope.sources.http import Fetcher

    slo = {key: value for key, value in _wished(options).items() if key.startswith(("ttft", "itl"))}
    wanted = Wanted(slo=slo, interconnect=options.interconnect, hf_config=options.model)
    async with Fetcher() as fetcher:
        found = await find_config(options.target, options.router, fetcher, wanted=wanted, plugins=plugins)
    check(found.config, plugins)
    print(f"Found, and watched as this configuration:\n\n{found.text}", file=sys.stderr)
    for note in found.notes:
        print(f"pdscope: {note}", file=sys.stderr)
    return found.config
