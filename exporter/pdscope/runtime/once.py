"""One diagnosis of what runs now: the targets polled for a while, or a running daemon asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

from pdscope.collect.poller import Clock, Poller
from pdscope.config import Config
from pdscope.errors import UsageError
from pdscope.model.report import Report
from pdscope.render.json import SCHEMA_VERSION
from pdscope.runtime.local_devices import LocalDevices
from pdscope.runtime.named_files import read_named_files
from pdscope.runtime.plugins import Plugins
from pdscope.runtime.targets import Unreadable, make_targets, sort_out
from pdscope.runtime.unjudged import log_faults
from pdscope.runtime.watch import Watch
from pdscope.sources.http import ACCEPT_JSON, Fetched, Fetcher

_TELL_SECONDS = 1.0
_MARGIN_SECONDS = 120.0
"""By which scrapes are kept longer than the polling lasts: none may be forgotten before it is judged."""
_ASK_SECONDS = 10.0
_TURNS = 3
"""How often a text and its verdicts may miss each other because the daemon judged between the two requests."""

Progress = Callable[[float, float], None]
"""Told the seconds that have passed, and of how many."""


@dataclass(frozen=True, slots=True)
class Once:
    """One diagnosis of a live cluster, and what of the configuration was not polled for it."""

    report: Report
    unreadable: tuple[Unreadable, ...]


def default_seconds(config: Config) -> float:
    """One window and the longest interval: the scrapes of all targets are spread over it before each has been tried."""
    scrapes = [i.scrape for d in config.deployments for i in d.instances]
    scrapes += [i.scrape for d in config.deployments for i in d.devices]
    return config.window_seconds + max((scrape.interval_seconds for scrape in scrapes), default=0.0)


async def diagnose_live(
    config: Config,
    plugins: Plugins,
    *,
    seconds: float | None = None,
    clock: Clock | None = None,
    progress: Progress | None = None,
    local: LocalDevices | None = None,
) -> Once:
    """Poll all targets for a while, then judge the window that ends now.

    Args:
        config: checked.
        plugins: adapters and rules.
        seconds: how long to poll; None: `default_seconds`.
        clock: the time; tests bring their own.
        progress: told every second, and at the end.
        local: the devices of this host; tests bring their own.

    Raises:
        UsageError: there is nothing that can be polled.
        ConfigError: a `config.json` cannot be read.
    """
    time = clock or Clock()
    polled, unreadable = sort_out(config, plugins)
    if not polled:
        raise UsageError("nothing to poll: " + "; ".join(f"{item.name}: {item.why}" for item in unreadable))
    total_seconds = default_seconds(config) if seconds is None else seconds
    kept_seconds = max(total_seconds, config.window_seconds) + _MARGIN_SECONDS
    watch = Watch(config, plugins, files=read_named_files(config), retention_seconds=kept_seconds)
    with (local or LocalDevices()).open() as devices:
        async with Fetcher(monotonic=time.monotonic) as fetcher, asyncio.TaskGroup() as group:
            targets = make_targets(polled, watch, fetcher, time, devices)
            polling = group.create_task(Poller(targets, clock=time).run())
            await _wait(time, total_seconds, progress)
            polling.cancel()
    report = watch.report(time.wall())
    log_faults({f"deployment {name}": error for name, error in watch.faults.items()})
    return Once(report, tuple(unreadable))


async def _wait(clock: Clock, total_seconds: float, progress: Progress | None) -> None:
    if progress is None:
        await clock.sleep(total_seconds)
        return
    started = clock.monotonic()
    while (passed := clock.monotonic() - started) < total_seconds:
        progress(passed, total_seconds)
        await clock.sleep(min(_TELL_SECONDS, total_seconds - passed))
    progress(total_seconds, total_seconds)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a daemon answered.

    Attributes:
        text: to print, with a line break at its end.
        verdicts: of the deployments in it.
    """

    text: str
    verdicts: tuple[str, ...]


async def ask_daemon(url: str, fetcher: Fetcher, *, form: str = "text", deployment: str | None = None) -> Answer:
    """The diagnosis of a running daemon.

    The verdicts come from its JSON. Its text is another request, repeated until both are of the same cycle.

    Args:
        url: of the daemon, with its route prefix; `/diagnose` at its end does no harm.
        fetcher: entered.
        form: "text" or "json".
        deployment: only this one.

    Raises:
        UsageError: there is no daemon, or it has no answer; the text names the address and says why.
    """
    place = url.rstrip("/").removesuffix("/diagnose")
    if not place.lower().startswith(("http://", "https://")):
        raise UsageError(f"--url {url}: an address begins with http:// or https://")
    document = await _document(place, fetcher, deployment)
    if form == "json":
        text = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
        return Answer(text, _verdicts(document))
    query = "?format=text" + ("" if deployment is None else f"&deployment={quote(deployment, safe='')}")
    for _ in range(_TURNS):
        text = _body(place, await fetcher.fetch(f"{place}/diagnose{query}", timeout_seconds=_ASK_SECONDS)).decode(
            "utf-8", errors="replace"
        )
        after = await _document(place, fetcher, deployment)
        if after["generated_at"] == document["generated_at"]:
            return Answer(_harmless(text), _verdicts(after))
        document = after
    raise UsageError(f"{place}: judges faster than it can be asked; use --format json")


async def _document(place: str, fetcher: Fetcher, deployment: str | None) -> dict[str, Any]:
    """Its JSON, cut down to the deployment that is asked for."""
    body = _body(place, await fetcher.fetch(f"{place}/diagnose", timeout_seconds=_ASK_SECONDS, accept=ACCEPT_JSON))
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise UsageError(f"{place}/diagnose: no JSON, so it is no pdscope") from None
    if not isinstance(document, dict) or not _is_diagnosis(document):
        raise UsageError(f"{place}/diagnose: not the JSON of a pdscope")
    if document["schema_version"] != SCHEMA_VERSION:
        version = document["schema_version"]
        raise UsageError(f"{place}: answers in schema version {version}; this pdscope reads {SCHEMA_VERSION}")
    if deployment is None:
        return document
    known: Sequence[Mapping[str, Any]] = document["deployments"]
    chosen = [one for one in known if one["name"] == deployment]
    if not chosen:
        names = ", ".join(str(one["name"]) for one in known)
        raise UsageError(f"--deployment {deployment}: {place} has {names}")
    return {**document, "deployments": chosen}


def _is_diagnosis(document: Mapping[str, Any]) -> bool:
    found = document.get("deployments")
    return (
        {"schema_version", "generated_at"} <= document.keys()
        and isinstance(found, list)
        and all(isinstance(one, dict) and {"name", "verdict"} <= one.keys() for one in found)
    )


def _verdicts(document: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(one["verdict"]) for one in document["deployments"])


def _body(place: str, fetched: Fetched) -> bytes:
    if fetched.body is not None:
        return fetched.body
    if fetched.status == 503:
        raise UsageError(f"{place}: has no diagnosis yet, its first cycle is not complete; ask again in a moment")
    if fetched.status == 404:
        raise UsageError(f"{place}: has no /diagnose (HTTP 404): no pdscope, or its route prefix is missing")
    raise UsageError(f"{place}: {fetched.detail}")


def _harmless(text: str) -> str:
    """Without what a terminal would take for orders: the other side may be anything."""
    return "".join(c for c in text if c.isprintable() or c == "\n")
