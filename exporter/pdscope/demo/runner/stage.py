"""The deployment that runs now: its simulated time, its servers, and what may be done to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum

from pdscope.demo.pages.servers import Server, servers
from pdscope.demo.physics.draw import Draw
from pdscope.demo.physics.simulation import Simulation
from pdscope.demo.runner.changes import alter, cut_off, differences, kill_prefills, private, with_value
from pdscope.demo.runner.parameters import PARAMETERS, Parameter, Value
from pdscope.demo.scenarios import Scenario
from pdscope.errors import UsageError


class How(StrEnum):
    """How a change came about."""

    NOTHING = "nothing to change"
    LIVE = "live"
    RESTART = "engines restarted"


class Stage:
    """Runs one deployment at a time; simulated time follows a clock, and stands still between two looks at it.

    Args:
        scenario: to begin with.
        seconds: monotonic, simulated: the clock times the speed-up.
        unix_seconds: the wall clock that pages print, at the same speed.
        seed: of traffic and jitter.
        warm_up_seconds: simulated before the first look; later engines start cold, as engines do.

    Attributes:
        scenario: whose draw was taken last; what was changed by hand since is in `draw`.
        simulation: that runs.
        killed: names of servers that have stopped answering.
        restarts: how often the engines were started again.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        seconds: Callable[[], float],
        unix_seconds: Callable[[], float],
        seed: int = 0,
        warm_up_seconds: float = 60.0,
    ) -> None:
        self._seconds = seconds
        self._unix_seconds = unix_seconds
        self._seed = seed
        self.scenario = scenario
        self.killed: frozenset[str] = frozenset()
        self.restarts = -1
        self._origin_seconds = 0.0
        self._shown_seconds = seconds()
        self._is_touched = False
        self._launch(scenario.draw)
        self.simulation.run(warm_up_seconds)
        self._origin_seconds = seconds() - warm_up_seconds

    @property
    def draw(self) -> Draw:
        """Causes of what runs."""
        return self.simulation.draw

    @property
    def servers(self) -> Mapping[str, Server]:
        """What listens, by name."""
        return self._servers

    @property
    def on_seconds(self) -> float:
        """Simulated seconds since the scenario came on."""
        return self._seconds() - self._shown_seconds

    def page(self, server: str, path: str) -> tuple[str, bytes] | None:
        """Content type and body at the present moment; None where there is no such page.

        Raises:
            LookupError: that server is not there, or was killed.
        """
        if server in self.killed or server not in self._servers:
            raise LookupError(server)
        page = self._servers[server].pages.get(path)
        if page is None:
            return None
        self.catch_up()
        return page.content_type, page.read()

    def catch_up(self) -> None:
        """Lets happen what the clock says has happened."""
        self.simulation.run(max(self.simulation.now_seconds, self._seconds() - self._origin_seconds))

    def play(self, scenario: Scenario) -> How:
        """Goes over to `scenario`.

        The deployment goes on with changed causes if all of them can be changed while it runs and nothing was wrong
        with it so far: the queues of a deployment in trouble would outlive their cause.
        """
        found = differences(self.draw, self._seeded(scenario.draw))
        sound = self.scenario.is_faultless and not self._is_touched
        live = found is not None and all(one.is_live for one in found) and sound
        self.scenario = scenario
        self._shown_seconds = self._seconds()
        if not live:
            self._launch(scenario.draw)
            return How.RESTART
        self.catch_up()
        for one in found or ():
            alter(self.draw, one, one.of(scenario.draw))
        return How.LIVE if found else How.NOTHING

    def change(self, parameter: Parameter, value: Value) -> How:
        """Changes one cause by hand.

        Raises:
            UsageError: the deployment cannot be made that way, or would not notice; all goes on as it was.
        """
        if parameter is PARAMETERS["traffic.requests_per_second"] and self.draw.traffic.concurrency is not None:
            raise UsageError(
                f"{parameter.name}: users ask again when they are answered; make traffic.concurrency null first"
            )
        if parameter.of(self.draw) == value:
            return How.NOTHING
        if not parameter.is_live:
            self._launch(with_value(self._alive(), parameter, value))
            self._is_touched = True
            return How.RESTART
        self.catch_up()
        alter(self.draw, parameter, value)
        self._is_touched = True
        return How.LIVE

    def kill(self, names: frozenset[str]) -> How:
        """Just these servers are dead from now on: they answer nobody, and no transfer from or to them succeeds.

        Raises:
            UsageError: there is no server of one of these names.
        """
        for name in sorted(names):
            if name not in self._servers:
                raise UsageError(f"there is no server {name[:80]!r}; there are {', '.join(self._servers)}")
        if names == self.killed:
            return How.NOTHING
        self.catch_up()
        dead = {(self._servers[name].role, self._number(name)) for name in names}
        cut_off(
            self.draw.link,
            {
                (prefill.number, decode.number)
                for prefill in self.simulation.prefills
                for decode in self.simulation.decodes
                if ("prefill", prefill.number) in dead or ("decode", decode.number) in dead
            }
            | set(self.scenario.draw.link.failing_pairs),
        )
        kill_prefills(self.draw.deployment, (number for role, number in dead if role == "prefill"))
        self.killed = names
        self._is_touched = True
        return How.LIVE

    def values(self) -> dict[str, Value]:
        """The parameters as they are."""
        return {name: parameter.of(self.draw) for name, parameter in PARAMETERS.items()}

    def _alive(self) -> Draw:
        """The causes without what killing has added to them: whatever starts the engines brings all of them back."""
        draw, pairs = self.draw, self.scenario.draw.link.failing_pairs
        return replace(
            draw,
            link=replace(draw.link, failing_pairs=pairs),
            deployment=replace(draw.deployment, dead_prefills=()),
        )

    def _number(self, name: str) -> int:
        """Of an instance among those of its role, in the order of the servers."""
        role = self._servers[name].role
        return [one.name for one in self._servers.values() if one.role == role].index(name)

    def _seeded(self, draw: Draw) -> Draw:
        return replace(draw, seed=self._seed)

    def _launch(self, draw: Draw) -> None:
        simulation = Simulation(private(self._seeded(draw)))
        listening = {one.name: one for one in servers(simulation, unix_seconds=self._unix_seconds)}
        self.simulation, self._servers, self.killed = simulation, listening, frozenset()
        self._origin_seconds = self._seconds()
        self._is_touched = False
        self.restarts += 1
