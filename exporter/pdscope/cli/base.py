"""What the commands share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - argparse names no public type
else:
    Commands = Any

DEFAULT_ADDRESS = "127.0.0.1:9836"


def add_listen_address(
    command: argparse.ArgumentParser,
    meaning: str = "where to answer; without a host on all interfaces (default: %(default)s)",
) -> None:
    """`--web.listen-address`, spelt as in all Prometheus exporters; `meaning` is its help."""
    command.add_argument(
        "--web.listen-address",
        dest="listen_address",
        default=DEFAULT_ADDRESS,
        metavar="HOST:PORT",
        help=meaning,
    )
