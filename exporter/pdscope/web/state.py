"""What the HTTP interface asks of the daemon."""

from __future__ import annotations

from typing import Protocol

from pdscope.config import Config
from pdscope.model.history import Past
from pdscope.model.report import Report
from pdscope.render.debug import DebugFacts


class AppState(Protocol):
    """What the interface serves; it may change between two requests, never during one."""

    @property
    def report(self) -> Report | None:
        """The last cycle; None before the first, or while judging fails."""

    @property
    def ready(self) -> bool:
        """Whether there is something to serve."""

    @property
    def version(self) -> str:
        """Of pdscope."""

    @property
    def config(self) -> Config:
        """What is watched."""

    @property
    def can_reload(self) -> bool:
        """Whether the configuration came from a file that can be read again."""

    def metrics_body(self, *, openmetrics: bool) -> tuple[bytes, str]:
        """`/metrics` of the last cycle and its content type; the same object until the next. Needs a report."""

    def past(self, deployment: str) -> Past:
        """What is remembered of a deployment."""

    def debug(self, deployment: str) -> DebugFacts:
        """What is behind the diagnosis of a deployment; nothing of one that is not configured."""

    def reload(self) -> None:
        """Read the configuration again and go on with it.

        Raises:
            PdscopeError: the new one is wrong; all goes on with the old.
        """
