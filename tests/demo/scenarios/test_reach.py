"""What the simulated servers answer, read as the daemon reads it, leads to the verdict of the scenario."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pdscope.config import parse_config
from pdscope.demo.pages.configuration import configuration
from pdscope.demo.runner.stage import How, Stage
from pdscope.demo.scenarios import SCENARIOS
from pdscope.model.scrape import FailureReason
from pdscope.runtime.live_watch import LiveWatch
from pdscope.runtime.plugins import Plugins, check, load_plugins
from pdscope.runtime.settling import Settling
from pdscope.sources.bundle import PageKind
from pdscope.sources.introduction import INTRODUCTIONS

START_UNIX_SECONDS = 1_700_000_000.0
INTERVAL_SECONDS = 2.0
WINDOW_SECONDS = 30.0
DETECTION_SECONDS = WINDOW_SECONDS + 3 * INTERVAL_SECONDS
END_SECONDS = 56.0
OTHER_SEEDS = (
    ("healthy", 1),
    ("kv_transfer_bandwidth", 1),
    ("kv_pinned", 1),
    ("decode_kv_capacity", 1),
    ("router_imbalance", 1),
)
FIRST_LOOKS = ((0, 0.0), (0, 1.5), (0, 2.0), (1, 1.0), (2, 2.0), (3, 0.5), (4, 1.0), (5, 0.5))
"""(seed, seconds from the start of the demo to the first scrape)"""


@pytest.fixture(scope="session")
def plugins() -> Plugins:
    return load_plugins()


class Bench:
    """A stage and a watch in simulated time, without sockets."""

    def __init__(self, name: str, plugins: Plugins, seed: int = 0, warm_up_seconds: float = 0.0) -> None:
        self.seconds = 0.0
        self.stage = Stage(
            SCENARIOS[name],
            seconds=lambda: self.seconds,
            unix_seconds=self.unix_seconds,
            seed=seed,
            warm_up_seconds=warm_up_seconds,
        )
        self._plugins = plugins
        self._settling = Settling()
        self._introduced: set[str] = set()
        self._watch = self._new_watch()

    def unix_seconds(self) -> float:
        return START_UNIX_SECONDS + self.seconds

    def verdicts(self, until_seconds: float) -> Iterator[tuple[float, str]]:
        """One evaluation after the other: the moment, and the verdict that is shown then."""
        while self.seconds < until_seconds:
            for name in self.stage.servers:
                self._read(name)
            report = self._settling.settle(self._watch.report(self.unix_seconds()))
            assert not self._watch.rule_errors
            yield self.seconds, str(report.deployments[0].diagnosis.verdict)
            self.seconds += INTERVAL_SECONDS

    def play(self, name: str) -> How:
        """Goes over to a scenario; the watch takes the new configuration over, as the daemon's does."""
        how = self.stage.play(SCENARIOS[name])
        previous, self._watch = self._watch, self._new_watch()
        self._watch.take_over(previous)
        self._introduced.clear()
        return how

    def _new_watch(self) -> LiveWatch:
        urls = {name: f"http://{name}" for name in self.stage.servers}
        text = yaml.safe_dump(configuration(self.stage.simulation, urls))
        config = parse_config(text, Path(), file="demo")
        check(config, self._plugins)
        assert (config.window_seconds, config.scrape.interval_seconds) == (WINDOW_SECONDS, INTERVAL_SECONDS)
        return LiveWatch(config, self._plugins)

    def _read(self, name: str) -> None:
        at, duration_seconds = self.unix_seconds(), 0.01
        for path, kind in (("/metrics", PageKind.METRICS), ("/v1/loads", PageKind.LOADS)):
            page = self.stage.page(name, path)
            if page is None and kind is PageKind.METRICS:
                self._watch.fail(name, kind, at, FailureReason.HTTP_STATUS, "HTTP 404: not found")
            elif page is not None:
                scrapes = self._watch.feed(name, kind, page[1], at, duration_seconds)
                assert scrapes
                assert all(scrape.ok for scrape in scrapes)
        if name not in self._introduced:
            self._introduced.add(name)
            for path, read in INTRODUCTIONS.get(self.stage.servers[name].engine, ()):
                page = self.stage.page(name, path)
                if page is not None:
                    self._watch.learn(name, read(page[1]))


@pytest.mark.parametrize(("name", "seed"), [*((name, 0) for name in SCENARIOS), *OTHER_SEEDS], ids=str)
def test_the_verdict_is_there_in_time_and_stays(name: str, seed: int, plugins: Plugins) -> None:
    warm_up_seconds = 60.0 if name == "idle" else 0.0
    bench = Bench(name, plugins, seed, warm_up_seconds)
    shown = [verdict for at, verdict in bench.verdicts(END_SECONDS) if at >= DETECTION_SECONDS]
    assert shown
    assert set(shown) == {SCENARIOS[name].verdict}


def test_a_tour_is_followed_through_a_live_switch_and_through_restarts(plugins: Plugins) -> None:
    """Counters that begin again, another engine behind the same names: the old verdict goes, the new one comes."""
    bench = Bench("healthy", plugins, warm_up_seconds=60.0)
    tour = [("cuda_graph_miss", How.LIVE), ("kv_transfer_bandwidth", How.RESTART), ("healthy_vllm", How.RESTART)]
    for name, how in tour:
        assert bench.play(name) is how
        switched = bench.seconds
        latest = switched + DETECTION_SECONDS + INTERVAL_SECONDS  # the switch falls between two scrapes
        shown = [verdict for at, verdict in bench.verdicts(switched + END_SECONDS) if at >= latest]
        assert set(shown) == {SCENARIOS[name].verdict}


@pytest.mark.parametrize(("seed", "first_look_seconds"), FIRST_LOOKS, ids=str)
def test_the_first_minute_of_the_demo_shows_nothing_but_a_healthy_deployment(
    seed: int, first_look_seconds: float, plugins: Plugins
) -> None:
    """Its first answers are of windows with a few requests, wherever these fall."""
    bench = Bench(next(iter(SCENARIOS)), plugins, seed, warm_up_seconds=60.0)
    bench.seconds = first_look_seconds
    shown = [verdict for _, verdict in bench.verdicts(60.0)]
    assert set(shown) == {"insufficient_data", "healthy"}
    assert "insufficient_data" not in shown[shown.index("healthy") :]
