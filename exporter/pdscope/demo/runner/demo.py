"""The demo as a whole: a stage behind addresses, a tour over it, and control over both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import yaml

from pdscope.demo.pages.configuration import configuration
from pdscope.demo.runner.addresses import Addresses
from pdscope.demo.runner.control import Control
from pdscope.demo.runner.http import listen
from pdscope.demo.runner.stage import How, Stage
from pdscope.demo.runner.tour import chosen, tour
from pdscope.demo.scenarios import Scenario

_WARNING = (
    "# The demo runs {speed:g} times as fast as time. By any clock but its own daemon's, rates are\n"
    "# {speed:g} times as high as they are: for other readers, start it with --speed 1.\n"
)


@dataclass(frozen=True, slots=True)
class Time:
    """Simulated time, which the demo and whoever reads it share.

    Attributes:
        monotonic: seconds that never go back.
        wall: unix seconds.
        sleep: waits for some seconds of `monotonic`.
        speed: how many of its seconds pass in one of everybody else's.
    """

    monotonic: Callable[[], float]
    wall: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    speed: float = 1.0


class Demo:
    """An async context manager: while it is entered, simulated servers listen and the tour goes on.

    Args:
        scenarios: names of those to show; none means all, a single one stays on.
        seed: of traffic and jitter.
        time: simulated time.
        say: told in words what happens.
        renewed: called when `config_text` may have changed.

    Attributes:
        control_url: where things are changed by hand.

    Raises:
        UsageError: there is no scenario of that name, or it is named twice.
    """

    def __init__(
        self,
        scenarios: Sequence[str] = (),
        *,
        seed: int = 0,
        time: Time,
        say: Callable[[str], None] = lambda _: None,
        renewed: Callable[[], None] = lambda: None,
    ) -> None:
        self._scenarios = chosen(scenarios)
        self._time = time
        self._say = say
        self._renewed = renewed
        self.stage = Stage(self._scenarios[0], seconds=time.monotonic, unix_seconds=time.wall, seed=seed)
        self._addresses = Addresses(self.stage)
        self._stack = AsyncExitStack()
        self.control_url = ""

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._addresses)
            control = Control(self.stage, self.config_text, self._changed)
            self.control_url = await stack.enter_async_context(listen(control.answer))
            touring = asyncio.create_task(tour(self._scenarios, self._show, self._time.sleep))
            stack.push_async_callback(_end, touring)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def config_text(self) -> str:
        """A configuration of pdscope, YAML, for the deployment that runs now.

        At another speed than that of time it begins with a warning: only readers in simulated time read true rates.
        """
        written = configuration(self.stage.simulation, self._addresses.urls)
        text = yaml.safe_dump(written, sort_keys=False, width=110)
        return text if self._time.speed == 1.0 else _WARNING.format(speed=self._time.speed) + text

    async def _show(self, scenario: Scenario) -> None:
        how = self.stage.play(scenario)
        await self._changed(how, f"{scenario.name}: {scenario.story}\n  watch: {scenario.watch}")

    async def _changed(self, how: How, words: str) -> None:
        await self._addresses.open()
        self._renewed()
        self._say(f"{words}\n  ({how})")


async def _end(task: asyncio.Task[None]) -> None:
    """Calls it off; what had broken it is raised here."""
    task.cancel()
    done, _ = await asyncio.wait([task])
    for one in done:
        if not one.cancelled():
            one.result()
