"""One answer of a simulated server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

TEXT = "text/plain; version=0.0.4; charset=utf-8"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Page:
    """What is behind one path.

    Attributes:
        content_type: of the answer.
        read: gives the body at the simulation's present time; calling it does not change the run.
    """

    content_type: str
    read: Callable[[], bytes]
