"""Signals of the process, for as long as it serves."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping


@contextlib.contextmanager
def handling(handlers: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    """Call these functions from the running event loop; afterwards the signals do what they did before.

    What a handler left behind would do to whoever comes after (a SIGHUP that ends the process below `nohup`), nobody
    looks for here: asyncio on its own leaves the default, whatever was there. One of these within another on the same
    loop is not meant: the outer handlers are asyncio's own, which cannot be put back.

    Raises:
        ValueError: not in the main thread, which alone may handle signals.
    """
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in handlers}
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number, handled in before.items():
            loop.remove_signal_handler(number)
            if handled is not None:  # None: by a handler that is not Python's, which Python cannot put back
                signal.signal(number, handled)
