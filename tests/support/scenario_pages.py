"""What pdscope exports while a scenario of the demo runs: simulated engines, read and judged in simulated time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import yaml

from pdscope import __version__
from pdscope.config import parse_config
from pdscope.demo.pages.configuration import configuration
from pdscope.demo.runner.stage import Stage
from pdscope.demo.scenarios import SCENARIOS
from pdscope.model.scrape import FailureReason
from pdscope.render import catalogue
from pdscope.render.metrics import render_metrics
from pdscope.runtime.offline import diagnose_bundle
from pdscope.runtime.plugins import check, load_plugins
from pdscope.runtime.settling import Settling
from pdscope.runtime.watch import Watch
from pdscope.sources.bundle import PageKind
from pdscope.sources.introduction import INTRODUCTIONS

EVALUATION_SECONDS = 10
STEP_SECONDS = 30
"""From one scrape of pdscope by Prometheus to the next."""
SETTLED_SECONDS = 60
"""What is exported later is no longer of the start of the daemon."""

Samples = Mapping[str, float]
"""Series as `/metrics` prints it -> value."""

_MOMENTS = tuple(
    d.name for d in (catalogue.DIAGNOSIS_TIMESTAMP, catalogue.VERDICT_SINCE, catalogue.SOURCE_LAST_SUCCESS)
)
_PAGES = (("/metrics", PageKind.METRICS), ("/v1/loads", PageKind.LOADS))


@cache
def pages(scenario: str, seconds: int, start: int = 0, every_seconds: int = EVALUATION_SECONDS) -> tuple[Samples, ...]:
    """Every step's `/metrics` of a daemon that starts together with cold engines.

    Args:
        scenario: of the demo.
        seconds: simulated.
        start: unix seconds of the first page.
        every_seconds: from one scrape of the engines to the next, a part of the step.
    """
    now = 0
    stage = Stage(
        SCENARIOS[scenario],
        seconds=lambda: float(now),
        unix_seconds=lambda: float(start + now),
        warm_up_seconds=0.0,
    )
    watch, settling, exported = _watch(stage, every_seconds), Settling(), []
    for now in range(0, seconds, every_seconds):
        for name in stage.servers:
            _read(stage, watch, name, float(start + now), introduces=now == 0)
        report = settling.settle(watch.report(float(start + now)))
        assert not watch.rule_errors
        if now % STEP_SECONDS == 0:
            exported.append(_samples(render_metrics(report, version=__version__)))
    return tuple(exported)


def held(bundle: Path, seconds: int) -> tuple[Samples, ...]:
    """What is said of a recorded bundle, again and again, as if its minute went on; from unix time 0 on."""
    report, _ = diagnose_bundle(bundle)
    said = later(_samples(render_metrics(report, version=__version__)), -report.generated_at)
    return tuple(later(said, step * STEP_SECONDS) for step in range(seconds // STEP_SECONDS))


def later(samples: Samples, seconds: float) -> Samples:
    """The same said at another time."""
    return {name: value + seconds if name.startswith(_MOMENTS) else value for name, value in samples.items()}


def lasting(exported: Sequence[Samples], seconds: int) -> tuple[Samples, ...]:
    """`exported`, and what it says after its first minute again and again until so much time is over."""
    settled = exported[SETTLED_SECONDS // STEP_SECONDS :]
    span = len(settled) * STEP_SECONDS
    missing = seconds // STEP_SECONDS - len(exported)
    again = (later(settled[n % len(settled)], (n // len(settled) + 1) * span) for n in range(missing))
    return (*exported, *again)


def input_series(exported: Sequence[Samples]) -> list[dict[str, str]]:
    """The `input_series` of promtool: one replica that is scraped at every step."""
    names = {"up": None} | {name: None for samples in exported for name in samples}
    return [
        {
            "series": _of_target(name),
            "values": " ".join(_value(name, exported, step) for step in range(len(exported))),
        }
        for name in names
    ]


def _watch(stage: Stage, every_seconds: int) -> Watch:
    urls = {name: f"http://{name}" for name in stage.servers}
    written = configuration(stage.simulation, urls)
    written["scrape"]["interval"] = f"{every_seconds}s"
    config, plugins = parse_config(yaml.safe_dump(written), Path(), file="demo"), load_plugins()
    check(config, plugins)
    return Watch(config, plugins)


def _read(stage: Stage, watch: Watch, name: str, at: float, *, introduces: bool) -> None:
    for path, kind in _PAGES:
        page = stage.page(name, path)
        if page is None and kind is PageKind.METRICS:
            watch.fail(name, kind, at, FailureReason.HTTP_STATUS, "HTTP 404: not found")
        elif page is not None:
            assert all(scrape.ok for scrape in watch.feed(name, kind, page[1], at, 0.01))
    if introduces:
        for path, read in INTRODUCTIONS.get(stage.servers[name].engine, ()):
            page = stage.page(name, path)
            if page is not None:
                watch.learn(name, read(page[1]))


def _samples(page: bytes) -> Samples:
    lines = (line.rpartition(" ") for line in page.decode().splitlines() if line and not line.startswith("#"))
    return {series: float(value) for series, _, value in lines}


def _of_target(series: str) -> str:
    name, _, labels = series.rstrip("}").partition("{")
    target = 'job="pdscope",instance="127.0.0.1:9836"'
    return f"{name}{{{labels},{target}}}" if labels else f"{name}{{{target}}}"


def _value(name: str, exported: Sequence[Samples], step: int) -> str:
    value = 1.0 if name == "up" else exported[step].get(name)
    if value is not None:
        return repr(value)
    return "stale" if step > 0 and name in exported[step - 1] else "_"
