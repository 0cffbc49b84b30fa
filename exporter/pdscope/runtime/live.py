"""The daemon: targets polled over HTTP, judged once an interval, served from the same event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable

from pdscope import __version__
from pdscope.collect.poller import Clock, Poller, next_start
from pdscope.config import Config
from pdscope.errors import PdscopeError, UsageError
from pdscope.model.history import Past
from pdscope.model.report import Report
from pdscope.render.debug import DebugFacts
from pdscope.render.metrics import CONTENT_TYPE_OPENMETRICS, CONTENT_TYPE_TEXT, render_metrics
from pdscope.runtime.history import History
from pdscope.runtime.listening import DEFAULT_LISTEN, Server, address_of, open_listener
from pdscope.runtime.live_watch import LiveWatch
from pdscope.runtime.local_devices import LocalDevices
from pdscope.runtime.named_files import read_named_files
from pdscope.runtime.plugins import Plugins
from pdscope.runtime.process_signals import handling
from pdscope.runtime.settling import Settling
from pdscope.runtime.targets import Unreadable, make_targets, sort_out
from pdscope.runtime.unjudged import log_faults
from pdscope.sources.http import Fetcher
from pdscope.web.app import create_app
from pdscope.web.paths import Paths

__all__ = ["DEFAULT_LISTEN", "Live", "Load", "serve"]

Load = Callable[[], Config]
"""Reads the configuration again, and checks it. Raises PdscopeError when it is wrong."""

_SETTLE_RATIO = 0.1
"""Share of the interval by which judging comes after the cycle, so that the scrapes which end a cycle are in it."""

_WHOLE = "the whole report"

_log = logging.getLogger(__name__)


class Live:
    """The targets of a configuration, polled and judged; serves as the state of the web application.

    Attributes:
        unreadable: what is configured but not polled.
    """

    def __init__(
        self,
        config: Config,
        plugins: Plugins,
        *,
        clock: Clock | None = None,
        load: Load | None = None,
        local: LocalDevices | None = None,
    ) -> None:
        """Set everything up; nothing is asked yet.

        Args:
            config: what is watched.
            plugins: adapters and rules.
            clock: the time; tests bring their own.
            load: reads the configuration again; None: it did not come from a file.
            local: the devices of this host; tests bring their own.

        Raises:
            ConfigError: a file that the configuration names cannot be used.
        """
        self._plugins = plugins
        self._clock = clock or Clock()
        self._load = load
        self._local = local or LocalDevices()
        self._fetcher = Fetcher(monotonic=self._clock.timer)
        self._settling = Settling()
        self._history = History()
        self._report: Report | None = None
        self._bodies: dict[bool, bytes] = {}
        self._reload_ok = True
        self._broken: frozenset[str] = frozenset()
        self._tried = False
        self._renewed = asyncio.Event()
        self.unreadable: tuple[Unreadable, ...] = ()
        self._files = read_named_files(config)
        self._watch = LiveWatch(config, plugins, files=self._files)
        self._poller = self._make_poller()

    def _make_poller(self) -> Poller:
        polled, unreadable = sort_out(self.config, self._plugins)
        self.unreadable = tuple(unreadable)
        targets = make_targets(polled, self._watch, self._fetcher, self._clock, self._local)
        return Poller(targets, clock=self._clock)

    @property
    def report(self) -> Report | None:
        """The last cycle, with hysteresis; None before each target was tried once, and while judging fails."""
        return self._report

    @property
    def ready(self) -> bool:
        """Whether the first cycle is complete and judged."""
        return self._report is not None

    @property
    def version(self) -> str:
        """Of pdscope."""
        return __version__

    @property
    def config(self) -> Config:
        """What is watched now."""
        return self._watch.config

    @property
    def can_reload(self) -> bool:
        """Whether the configuration came from a file that can be read again."""
        return self._load is not None

    def past(self, deployment: str) -> Past:
        """What is remembered of a deployment."""
        return self._history.past(deployment)

    def debug(self, deployment: str) -> DebugFacts:
        """What is behind the diagnosis of a deployment; nothing of one that is not configured."""
        found = next((d for d in self.config.deployments if d.name == deployment), None)
        return DebugFacts() if found is None else self._watch.debug(found)

    def metrics_body(self, *, openmetrics: bool) -> tuple[bytes, str]:
        """`/metrics` of the last cycle, rendered once at the first request for it, and its content type.

        Raises:
            RuntimeError: there is no report.
        """
        if self._report is None:
            raise RuntimeError("no report yet")
        body = self._bodies.get(openmetrics)
        if body is None:
            body = render_metrics(
                self._report, version=self.version, openmetrics=openmetrics, reload_ok=self._reload_ok
            )
            self._bodies[openmetrics] = body
        return body, CONTENT_TYPE_OPENMETRICS if openmetrics else CONTENT_TYPE_TEXT

    def reload(self) -> None:
        """Read the configuration again and go on with it: unchanged targets keep their data, deployments their past.

        Raises:
            PdscopeError: the new one is wrong, or there is none to read; all goes on with the old one.
        """
        if self._load is None:
            raise UsageError("there is no configuration file to read again")
        self._bodies.clear()
        try:
            config = self._load()
            files = read_named_files(config)
            watch = LiveWatch(config, self._plugins, files=files)
        except PdscopeError as error:
            self._reload_ok = False
            _log.error("the configuration was not reloaded, the old one stays: %s", error)
            raise
        self._reload_ok = True
        if (config, files) == (self.config, self._files):
            _log.info("the configuration was reloaded: nothing has changed")
            return
        watch.take_over(self._watch)
        self._watch, self._files = watch, files
        self._poller = self._make_poller()
        self._renewed.set()
        _log.info("the configuration was reloaded")
        if self._tried:
            self._judge(counts=False)

    def reload_quietly(self) -> None:
        """The same for a signal: nobody waits for an answer, and the error is logged already."""
        with contextlib.suppress(PdscopeError):
            self.reload()

    async def run(self, stop: asyncio.Event) -> None:
        """Poll and judge until `stop` is set. Scrapes under way are dropped then."""
        with self._local.open():
            await self._run_until(stop)

    async def _run_until(self, stop: asyncio.Event) -> None:
        async with self._fetcher, asyncio.TaskGroup() as group:
            running = group.create_task(self._run_generations())
            await stop.wait()
            running.cancel()

    async def _run_generations(self) -> None:
        """Poll and judge; start anew with each new configuration."""
        while True:
            self._renewed.clear()
            for item in self.unreadable:
                _log.warning("%s: not polled: %s", item.name, item.why)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._poller.run()), group.create_task(self._judge_on())]
                await self._renewed.wait()
                for task in tasks:
                    task.cancel()

    async def _judge_on(self) -> None:
        """Judge once an interval. Only the very first judgement waits until each target was tried."""
        clock, interval_seconds = self._clock, self.config.scrape.interval_seconds
        if not self._tried:
            await self._poller.first_cycle.wait()
            self._tried = True
            self._judge()
        started = clock.monotonic() + _SETTLE_RATIO * interval_seconds
        while True:
            started = next_start(started, interval_seconds, clock.monotonic())
            await clock.sleep(max(0.0, started - clock.monotonic()))
            self._judge()

    def _judge(self, *, counts: bool = True) -> None:
        """Make the next report. A fault of ours leaves none, as an old one would pass for the present.

        What is broken is logged when it breaks: the whole, a deployment, or a rule.

        Args:
            counts: whether it is an evaluation of its own, which hysteresis counts and the history remembers.
        """
        self._bodies.clear()
        try:
            report = self._watch.report(self._clock.wall())
            self._report = self._settling.settle(report, counts=counts)
            if counts:
                self._history.add(self._report)
        except Exception:  # noqa: BLE001 - a fault of ours must not end the polling; it is logged once below
            self._report = None
            if _WHOLE not in self._broken:
                _log.exception("no diagnosis: a fault of pdscope")
            self._broken = frozenset({_WHOLE})
            return
        faults = {f"deployment {name}": error for name, error in self._watch.faults.items()}
        log_faults({what: error for what, error in faults.items() if what not in self._broken})
        broken = {failure.rule: failure.error for failure in self._watch.rule_errors}
        for rule, error in broken.items():
            if rule not in self._broken:
                _log.error("rule %s: a fault of pdscope", rule, exc_info=error)
        self._broken = frozenset((*broken, *faults))


async def serve(
    config: Config,
    plugins: Plugins,
    listen: str = DEFAULT_LISTEN,
    *,
    clock: Clock | None = None,
    on_ready: Callable[[str], None] | None = None,
    load: Load | None = None,
    paths: Paths | None = None,
) -> None:
    """Poll, judge and serve until SIGTERM or SIGINT; then end within 5 s. SIGHUP reloads where that is possible.

    Args:
        config: what is watched.
        plugins: adapters and rules.
        listen: "host:port"; port 0 is any free one, an empty host all addresses.
        clock: the time; tests bring their own.
        on_ready: called with the real address (`127.0.0.1:9836`) as soon as it can be connected to.
        load: reads the configuration again, for a reload; None: there is nothing to reload.
        paths: where the interface lies; left out: at the root.

    Raises:
        UsageError: `listen` is no address, or cannot be had.
        ConfigError: a file that the configuration names cannot be used.
    """
    stop = asyncio.Event()
    live = Live(config, plugins, clock=clock, load=load)
    handlers: dict[signal.Signals, Callable[[], None]] = {signal.SIGTERM: stop.set, signal.SIGINT: stop.set}
    if live.can_reload:
        handlers[signal.SIGHUP] = live.reload_quietly
    with contextlib.closing(open_listener(listen)) as listener:
        address = address_of(listener)
        server = Server(create_app(live, paths))
        with handling(handlers):
            async with asyncio.TaskGroup() as group:
                group.create_task(live.run(stop))
                group.create_task(server.serve(sockets=[listener]))
                _log.info("listening on %s", address)
                if on_ready is not None:
                    on_ready(address)
                await stop.wait()
                server.should_exit = True
