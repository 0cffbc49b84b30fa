"""Which scenario is on when."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from pdscope.demo.scenarios import SCENARIOS, Scenario, find
from pdscope.errors import UsageError

SWITCH_SECONDS = 120.0
"""Simulated, of each scenario of a tour."""


def chosen(names: Sequence[str]) -> tuple[Scenario, ...]:
    """The scenarios of a tour, in order; all of them where no name is given.

    Raises:
        UsageError: there is no scenario of that name, or it is named twice.
    """
    for place, name in enumerate(names):
        if name in names[:place]:
            raise UsageError(f"scenario {name!r} is named twice")
    return tuple(find(name) for name in names or SCENARIOS)


async def tour(
    scenarios: Sequence[Scenario],
    show: Callable[[Scenario], Awaitable[None]],
    sleep: Callable[[float], Awaitable[None]],
) -> None:
    """Shows one scenario after the other, over and over, beginning with the second: the first is on already.

    Args:
        scenarios: in order. With a single one there is nothing to do.
        show: goes over to a scenario.
        sleep: waits for some simulated seconds.
    """
    place = 0
    while len(scenarios) > 1:
        await sleep(SWITCH_SECONDS)
        place = (place + 1) % len(scenarios)
        await show(scenarios[place])
