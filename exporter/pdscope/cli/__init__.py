"""The command `pdscope`: parses words, calls what the composition root builds, prints, turns errors into exit codes.

Exit codes: 0 healthy or idle, 1 a bottleneck or `undetermined`, 3 `insufficient_data` or `metrics_untrusted`, 2 wrong
use or unreadable input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pdscope import __version__
from pdscope.cli import agent, check_config, demo, diagnose, doctor, explain, probe_link, serve, version
from pdscope.errors import PdscopeError

EXIT_WRONG_USE = 2
_COMMANDS = (serve, demo, diagnose, doctor, explain, check_config, agent, probe_link, version)


def parser() -> argparse.ArgumentParser:
    """The command line, with all its commands."""
    top = argparse.ArgumentParser(
        prog="pdscope",
        description="Says which stage holds a prefill/decode-disaggregated LLM service back, with the evidence.",
    )
    top.add_argument("--version", action="version", version=f"pdscope {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.register(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; an error meant for the user is one line on stderr and exit code 2."""
    options = parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except PdscopeError as error:
        print(f"pdscope: {error}", file=sys.stderr)
        return EXIT_WRONG_USE
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # the reader (`| head`) has gone; nothing is wrong, and nothing more can be said to it
        sys.stderr.close()
        return 0
    return code
