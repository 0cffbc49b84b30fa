"""`pdscope probe-link`: how fast blocks of the model's size really get from one host to another."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pdscope.cli.base import Commands
from pdscope.cli.logs import FORMATS, LEVELS, set_up_logs
from pdscope.errors import UsageError

if TYPE_CHECKING:  # a command imports what it runs
    from pdscope.probe.client import Progress
    from pdscope.probe.plan import Blocks, Step

DEFAULT_LISTEN = "127.0.0.1:9838"
_DEFAULT_MAX_BYTES = "4GiB"
_LONGEST_TOKEN = 4096


def register(commands: Commands) -> None:
    """Add the command and its two ends."""
    command = commands.add_parser(
        "probe-link",
        help="measure the bandwidth between two hosts at the model's block size",
        description="Start `probe-link serve` on a prefill host and `probe-link run` on a decode host. It loads the "
        "link while it runs, so choose a quiet moment. Nothing of it runs unless it is started.",
    )
    ends = command.add_subparsers(dest="end", required=True, metavar="END")
    _register_serve(ends)
    _register_run(ends)


def _register_serve(ends: Commands) -> None:
    serve = ends.add_parser("serve", help="let one client at a time pull blocks from here, until stopped")
    serve.add_argument("--listen", default=DEFAULT_LISTEN, metavar="HOST:PORT", help="default: %(default)s")
    serve.add_argument(
        "--max-bytes",
        default=_DEFAULT_MAX_BYTES,
        metavar="SIZE",
        help="that one client may pull at most (default: %(default)s)",
    )
    _add_token(serve)
    serve.add_argument("--log.level", dest="log_level", default="info", choices=LEVELS, help="default: %(default)s")
    serve.add_argument(
        "--log.format", dest="log_format", default="logfmt", choices=FORMATS, help="default: %(default)s"
    )
    serve.set_defaults(run=run_serve)


def _register_run(ends: Commands) -> None:
    run = ends.add_parser("run", help="pull blocks from the other host, and say how fast they came")
    run.add_argument("server", metavar="HOST:PORT", help="where `probe-link serve` listens")
    run.add_argument("--transport", choices=("nixl", "tcp"), default="nixl", help="default: %(default)s")
    size = run.add_argument_group("what a block is; --block-bytes, or --model and what goes with it")
    size.add_argument("--block-bytes", metavar="SIZE", help="of one block, such as 32KiB or 32768")
    size.add_argument("--model", type=Path, metavar="F", help="the model's config.json")
    size.add_argument("--kv-dtype", metavar="TYPE", help="of the KV cache, where it is not the one of the model")
    size.add_argument("--page-tokens", type=int, default=16, metavar="N", help="of a KV page (default: %(default)s)")
    size.add_argument("--tp", type=int, default=1, metavar="N", help="ranks that share the heads (default: 1)")
    size.add_argument("--tokens", type=int, default=2048, metavar="N", help="of the prompt (default: %(default)s)")
    size.add_argument("--blocks", type=int, default=1024, metavar="N", help="with --block-bytes (default: %(default)s)")
    budget = run.add_argument_group("how much")
    budget.add_argument(
        "--max-bytes",
        default=_DEFAULT_MAX_BYTES,
        metavar="SIZE",
        help="that cross the link at most (default: %(default)s)",
    )
    budget.add_argument("--seconds", type=float, default=10.0, metavar="S", help="of all rounds (default: %(default)s)")
    budget.add_argument("--streams", type=int, default=4, metavar="N", help="requests at once (default: %(default)s)")
    run.add_argument(
        "--scope",
        choices=("pair", "device", "node", "total"),
        default="node",
        help="what was measured: the network port of a device, or all that the host has (default: %(default)s)",
    )
    _add_token(run)
    run.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    run.set_defaults(run=run_probe)


def _add_token(command: argparse.ArgumentParser) -> None:
    command.add_argument("--token-file", type=Path, metavar="F", help="file with a token that both ends share")


def run_serve(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT.

    Raises:
        PdscopeError: wrong address, size or token file.
    """
    from pdscope.probe.server import Limits, ProbeServer
    from pdscope.runtime.listening import address_of, open_listener

    set_up_logs(options.log_level, options.log_format)
    limits = Limits(max_bytes=_size("--max-bytes", options.max_bytes))
    token = _token(options.token_file)
    listener = open_listener(options.listen)
    print(f"pdscope probe-link listens on {address_of(listener)}", file=sys.stderr)
    server = ProbeServer(listener, limits=limits, token=token)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    server.serve()
    return 0


def run_probe(options: argparse.Namespace) -> int:
    """Pull, and print what came out.

    Raises:
        PdscopeError: wrong use, or the other end cannot be reached or refuses.
    """
    import orjson

    from pdscope.model.topology import LinkScope
    from pdscope.probe.client import Server, probe
    from pdscope.probe.plan import make_plan
    from pdscope.probe.result import document, text_lines

    plan = make_plan(
        _blocks(options),
        max_bytes=_size("--max-bytes", options.max_bytes),
        seconds=options.seconds,
        streams=options.streams,
    )
    server = Server.at(options.server, _token(options.token_file))
    try:
        result = probe(server, plan, options.transport, _progress())
    finally:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    scope = LinkScope(options.scope)
    if options.format == "json":
        print(orjson.dumps(document(result, scope), option=orjson.OPT_INDENT_2).decode())
    else:
        print("\n".join(text_lines(result, scope)))
    return 0


def _progress() -> Progress:
    """One line that is written over, where a person looks at it."""
    shown = sys.stderr.isatty()

    def on_round(step: Step, number: int) -> None:
        if shown:
            line = f"{step.name}: round {number + 1} of at most {step.rounds}"
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    return on_round


def _blocks(options: argparse.Namespace) -> Blocks:
    """From the model or as given, never both and never neither."""
    from pdscope.probe.plan import Blocks, blocks_of
    from pdscope.sources.hf_config import read_hf_config

    if (options.block_bytes is None) == (options.model is None):
        raise UsageError("probe-link run needs one of --block-bytes and --model")
    if options.block_bytes is not None:
        return Blocks(_size("--block-bytes", options.block_bytes), options.blocks)
    for flag in ("tokens", "page_tokens", "tp"):
        if getattr(options, flag) < 1:
            raise UsageError(f"--{flag.replace('_', '-')} must be at least 1")
    shape = read_hf_config(options.model, kv_dtype=options.kv_dtype).kv
    return blocks_of(shape, tokens=options.tokens, page_tokens=options.page_tokens, ranks=options.tp)


def _size(flag: str, text: str) -> int:
    from pdscope.config.units import UnitError, parse_size

    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    try:
        return int(parse_size(text))
    except UnitError as error:
        raise UsageError(f"{flag}: {error}") from None


def _token(path: Path | None) -> bytes:
    if path is None:
        return b""
    try:
        with path.open("rb") as file:
            token = file.read(_LONGEST_TOKEN + 1).strip()
    except OSError as error:
        raise UsageError(f"--token-file: {path}: {error.strerror}") from None
    if not token or len(token) > _LONGEST_TOKEN:
        raise UsageError(f"--token-file: {path}: must hold 1 to {_LONGEST_TOKEN} bytes")
    return token
