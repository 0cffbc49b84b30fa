"""What of the servers can be reached, and whose answer it is: causes that only those who watch notice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import Random

from pdscope.demo.pages.page import Page
from pdscope.demo.pages.server import Server
from pdscope.demo.physics.draw import Draw

_METRICS = "/metrics"


def exposed(listening: Sequence[Server], draw: Draw) -> tuple[Server, ...]:
    """The servers as they can be reached.

    Args:
        listening: all that there are.
        draw: its `exposure` is applied, its seed draws who answers behind a shared address.
    """
    exposure = draw.exposure
    shown = tuple(listening)
    if not exposure.decode_metrics:
        shown = tuple(_without_metrics(one) if one.role == "decode" else one for one in shown)
    if exposure.decode_address_shared:
        behind = [one for one in shown if one.role == "decode"]
        shown = tuple(
            _by_lot(behind, draw.seed) if one in behind[:1] else one for one in shown if one not in behind[1:]
        )
    return shown


def _without_metrics(server: Server) -> Server:
    """A path that was not switched on is not found."""
    return replace(server, pages={path: page for path, page in server.pages.items() if path != _METRICS})


def _by_lot(behind: Sequence[Server], seed: int) -> Server:
    """One address for all of them, under the name of the first. A proxy draws, for each request, who answers it."""
    drawn = Random(seed)

    def read(path: str) -> bytes:
        return drawn.choice(behind).pages[path].read()

    first = behind[0]
    return replace(
        first, pages={path: Page(page.content_type, partial(read, path)) for path, page in first.pages.items()}
    )
