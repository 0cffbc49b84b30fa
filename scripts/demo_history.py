"""What Prometheus would have scraped of simulated deployments and of the pdscope that watches them, in simulated time.

Each deployment has its own pdscope, as with `--shard`. Nothing waits: an hour is simulated in seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from pdscope import __version__
from pdscope.config import Config, parse_config
from pdscope.demo.pages.configuration import configuration
from pdscope.demo.runner.stage import Stage
from pdscope.demo.scenarios import find
from pdscope.model.scrape import FailureReason
from pdscope.render.metrics import render_metrics
from pdscope.runtime.live_watch import LiveWatch
from pdscope.runtime.plugins import Plugins, check, load_plugins
from pdscope.runtime.settling import Settling
from pdscope.sources.bundle import PageKind
from pdscope.sources.introduction import INTRODUCTIONS

START_UNIX_SECONDS = 1_700_000_000.0
STEP_SECONDS = 10.0
"""Between two scrapes, and between two diagnoses."""

_SCRAPE_SECONDS = 0.02
_WARM_UP_SECONDS = 15.0
_CLUSTER = {"cluster": "demo", "namespace": "llm"}
_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Act:
    """A scenario for some time.

    Attributes:
        scenario: as on the command line of the demo.
        seconds: how long.
        lost: a server whose scrapes fail meanwhile; none where empty.
    """

    scenario: str
    seconds: float
    lost: str = ""


def write_history(path: Path, deployments: Mapping[str, Sequence[Act]]) -> None:
    """Write the samples of all deployments in OpenMetrics, for `promtool tsdb create-blocks-from openmetrics`.

    Args:
        path: of the file.
        deployments: by name, what happens to each from `START_UNIX_SECONDS` on.

    Raises:
        UsageError: there is no scenario of that name.
    """
    plugins = load_plugins()
    with path.open("w", encoding="utf-8") as file:
        for name, acts in deployments.items():
            file.writelines(line + "\n" for line in _Deployment(name, acts, plugins).samples())
        file.write("# EOF\n")


class _Deployment:
    """One deployment and its pdscope."""

    def __init__(self, name: str, acts: Sequence[Act], plugins: Plugins) -> None:
        self._name = name
        self._acts = acts
        self._plugins = plugins
        self._seconds = 0.0
        self._stage = Stage(
            find(acts[0].scenario),
            seconds=lambda: self._seconds,
            unix_seconds=self._unix_seconds,
            warm_up_seconds=_WARM_UP_SECONDS,
        )
        # What no adapter reads is not recorded: it would be nine tenths of the file.
        self._names = frozenset[str]().union(*(adapter.sample_names() for adapter in plugins.engines))
        self._series: dict[tuple[str, str], str] = {}
        self._settling = Settling()
        self._introduced: set[str] = set()
        self._config = self._configuration()
        self._watch = LiveWatch(self._config, plugins)

    def samples(self) -> Iterator[str]:
        """Line by line, in the order of time."""
        for number, act in enumerate(self._acts):
            if number:
                self._play(act)
            for _ in range(round(act.seconds / STEP_SECONDS)):
                yield from self._step(act.lost)
                self._seconds += STEP_SECONDS

    def _unix_seconds(self) -> float:
        return START_UNIX_SECONDS + self._seconds

    def _configuration(self) -> Config:
        urls = {name: f"http://{name}:30000" for name in self._stage.servers}
        text = yaml.safe_dump(configuration(self._stage.simulation, urls, name=self._name))
        config = parse_config(text, Path(), file="demo")
        check(config, self._plugins)
        return config

    def _play(self, act: Act) -> None:
        self._stage.play(find(act.scenario))
        self._config = self._configuration()
        previous, self._watch = self._watch, LiveWatch(self._config, self._plugins)
        self._watch.take_over(previous)
        self._introduced.clear()

    def _step(self, lost: str) -> Iterator[str]:
        at = self._unix_seconds()
        for name in self._stage.servers:
            if name == lost:
                self._watch.fail(name, PageKind.METRICS, at, FailureReason.TIMEOUT, "no answer")
            else:
                yield from self._scrape(name, at)
        report = self._settling.settle(self._watch.report(at))
        page = render_metrics(report, version=__version__).decode()
        yield from self._lines(page, {**_CLUSTER, "job": "pdscope", "instance": f"{self._name}:9836"}, at)

    def _scrape(self, name: str, at: float) -> Iterator[str]:
        server = self._stage.servers[name]
        for path, kind in (("/metrics", PageKind.METRICS), ("/v1/loads", PageKind.LOADS)):
            page = self._stage.page(name, path)
            if page is None:
                continue
            self._watch.feed(name, kind, page[1], at, _SCRAPE_SECONDS)
            if kind is PageKind.METRICS and server.role != "devices":
                labels = {"deployment": self._name, "worker": name, "role": server.role}
                target = {**_CLUSTER, **labels, "job": "engines", "instance": f"{self._name}-{name}:30000"}
                yield from self._lines(page[1].decode(), target, at, self._names)
        if name not in self._introduced:
            self._introduced.add(name)
            for path, read in INTRODUCTIONS.get(server.engine, ()):
                page = self._stage.page(name, path)
                if page is not None:
                    self._watch.learn(name, read(page[1]))

    def _lines(self, page: str, target: Mapping[str, str], at: float, names: frozenset[str] | None = None) -> list[str]:
        """The samples of a page as Prometheus keeps them: with the labels of the target, and each series once."""
        found: dict[str, str] = {}
        for line in page.splitlines():
            if line.startswith("#"):
                continue
            printed, _, value = line.rpartition(" ")
            key = (target["instance"], printed)
            if key not in self._series:
                self._series[key] = _series(printed, target, names)
            series = self._series[key]
            if series:
                found[series] = value
        return [f"{series} {value} {at:.3f}" for series, value in found.items()]


def _series(printed: str, target: Mapping[str, str], names: frozenset[str] | None) -> str:
    """A series as it is kept; empty for one that is not."""
    sample = _SAMPLE.fullmatch(printed)
    if sample is None or (names is not None and sample[1] not in names):
        return ""
    own = {k: v for k, v in _LABEL.findall(sample[2] or "") if v}
    kept = {f"exported_{k}" if k in target else k: v for k, v in own.items()}
    labels = ",".join(f'{k}="{v}"' for k, v in sorted({**target, **kept}.items()))
    return f"{sample[1]}{{{labels}}}"
