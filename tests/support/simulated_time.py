"""An event loop whose time jumps: whoever sleeps is woken at once, and an hour passes in no time.

Sockets on 127.0.0.1 work in it: time jumps only when there is nothing to read or write.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

from pdscope.collect.poller import Clock

START_UNIX_SECONDS = 1_700_000_000.0
_GRACE_SECONDS = 0.005
"""Real time that the system gets to bring bytes from one socket of this process to another."""


class _JumpingSelector(selectors.DefaultSelector):
    """Adds the time that it would have waited to `now`."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:  # nothing is due: only a thread or a signal can go on
            return super().select(None)
        sockets = len(self.get_map()) > 1  # one is the loop's own, by which threads and signals wake it
        ready = super().select(min(timeout, _GRACE_SECONDS) if sockets else 0.0)
        if not ready:
            self.now += timeout
        return ready


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Begins at 0 s. Everything that asyncio times (`sleep`, `timeout`) lives in its time."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


SIMULATED: tuple[str, dict[str, Any]] = ("asyncio", {"loop_factory": SimulatedLoop})
"""Value of the fixture `anyio_backend` for a module whose tests run in simulated time."""


def simulated_clock() -> Clock:
    """The clock of the running simulated loop; its wall time begins at `START_UNIX_SECONDS`."""
    loop = asyncio.get_running_loop()
    return Clock(wall=lambda: START_UNIX_SECONDS + loop.time(), monotonic=loop.time, sleep=asyncio.sleep)
