"""A configuration without a file: what answers under some addresses, or behind a router, and what it is.

The outcome is a YAML text that goes through the same checks as a file, so it can be saved and grown into one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from pdscope.config import Config, parse_config
from pdscope.errors import UsageError
from pdscope.model.metric import Fact
from pdscope.model.scrape import Scrape
from pdscope.model.topology import Role
from pdscope.runtime.behaviour import behaves_as
from pdscope.runtime.plugins import Plugins, load_plugins
from pdscope.runtime.workers import Worker, base_url, read_workers
from pdscope.sources.http import ACCEPT_JSON, ACCEPT_TEXT, Fetcher, quotable
from pdscope.sources.reader import PageReader, TargetReader, role_of

_TIMEOUT_SECONDS = 4.0
_LETTERS = {Role.PREFILL: "p", Role.DECODE: "d", Role.UNIFIED: "u", Role.ROUTER: "r"}


class Found(NamedTuple):
    """What was found, as a configuration.

    Attributes:
        config: checked.
        text: the YAML that it was read from.
        notes: what had to be assumed, or could not be read; a sentence each, for the log.
    """

    config: Config
    text: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What nobody can find out.

    Attributes:
        slo: key of the configuration -> duration: `ttft_p50` -> "2s".
        interconnect: bandwidth of the link, as the user wrote it.
        hf_config: the model's `config.json`; relative to the current folder.
        name: of the deployment.
    """

    slo: Mapping[str, str] = field(default_factory=dict)
    interconnect: str | None = None
    hf_config: Path | None = None
    name: str = "default"


@dataclass(frozen=True, slots=True)
class _Seen:
    """One address and its page. `role` None: nothing tells it."""

    url: str
    scrape: Scrape
    role: Role | None


async def find_config(
    targets: Sequence[str],
    router: str | None,
    fetcher: Fetcher,
    *,
    wanted: Wanted | None = None,
    plugins: Plugins | None = None,
) -> Found:
    """Ask every address once, and the router for its workers, and write down what they are.

    Args:
        targets: addresses of engines, or of a router's metrics.
        router: address of a router that lists its workers under `/workers`.
        fetcher: entered.
        wanted: what the user adds.
        plugins: adapters; None: all.

    Raises:
        UsageError: an address is none, the router lists no workers, or nothing answers.
        ConfigError: what the user adds is wrong.
    """
    adds, known = wanted or Wanted(), plugins or load_plugins()
    notes: list[str] = []
    workers = [Worker(base_url(target, "--target")) for target in targets]
    if router is not None:
        workers += await _behind(base_url(router, "--router"), fetcher, notes, enough=bool(workers))
    if not workers:
        raise UsageError("nothing to watch: give --router or --target")
    unique = {worker.url: worker for worker in workers}  # the router's word on a role comes last and wins
    seen = await asyncio.gather(*(_look(worker, fetcher, known, notes) for worker in unique.values()))
    if router is not None and base_url(router, "--router") not in unique:
        seen += await _router_page(base_url(router, "--router"), fetcher, known, notes)
    if not any(one.scrape.ok for one in seen):
        raise UsageError("nothing that is known answers: " + "; ".join(notes))
    notes += _remarks(seen)
    text = yaml.safe_dump(_document(seen, adds, known), sort_keys=False)
    return Found(parse_config(text, Path.cwd(), file="what was found"), text, tuple(notes))


async def _behind(router: str, fetcher: Fetcher, notes: list[str], *, enough: bool) -> list[Worker]:
    """The workers of a router; `enough`: there are targets without them."""
    fetched = await fetcher.fetch(f"{router}/workers", timeout_seconds=_TIMEOUT_SECONDS, accept=ACCEPT_JSON)
    if fetched.body is None:
        why = f"{router}/workers: {fetched.detail}"
        if not enough:
            raise UsageError(f"{why}; a router that does not list its workers needs them named with --target")
        notes.append(f"{why}; only the named targets are watched")
        return []
    workers, left_out = read_workers(fetched.body, f"{router}/workers")
    notes += left_out
    if not workers and not enough:
        raise UsageError(f"{router}/workers: the router has no workers now")
    return workers


async def _look(worker: Worker, fetcher: Fetcher, plugins: Plugins, notes: list[str]) -> _Seen:
    scrape = await read_page(worker.url, fetcher, plugins)
    if not scrape.ok:
        notes.append(f"{worker.url}: {scrape.reason}: {scrape.detail}")
        return _Seen(worker.url, scrape, worker.role)
    if any(a.router for a in plugins.engines if a.name == scrape.source):
        return _Seen(worker.url, scrape, Role.ROUTER)
    stated = worker.role or role_of(scrape.facts, plugins.engines)
    if stated is not None:
        return _Seen(worker.url, scrape, stated)
    behaves = behaves_as(scrape)
    if behaves is None:
        notes.append(f"{worker.url}: nothing tells its role, so it counts as unified; traffic or a file would tell")
    else:
        notes.append(f"{worker.url}: {behaves} by what it has done so far")
    return _Seen(worker.url, scrape, behaves or Role.UNIFIED)


async def _router_page(url: str, fetcher: Fetcher, plugins: Plugins, notes: list[str]) -> list[_Seen]:
    """The router as a target of its own, where its metrics are on the port that it serves."""
    scrape = await read_page(url, fetcher, plugins)
    if scrape.ok and any(a.router for a in plugins.engines if a.name == scrape.source):
        return [_Seen(url, scrape, Role.ROUTER)]
    notes.append(f"{url}: prints no router metrics there; name the address of its metrics port with --target")
    return []


async def read_page(url: str, fetcher: Fetcher, plugins: Plugins) -> Scrape:
    """`/metrics` of a program of which nothing is known; why not, where it cannot be read."""
    fetched = await fetcher.fetch(f"{url}/metrics", timeout_seconds=_TIMEOUT_SECONDS, accept=ACCEPT_TEXT)
    if fetched.body is None:
        return Scrape(url, "none", 0.0, reason=fetched.reason, detail=fetched.detail)
    reader = PageReader(plugins.engines)
    scrape = TargetReader(url, reader, reader.candidates(engine=None, role=None)).read(fetched.body, 0.0)
    if scrape.reason is not None and not quotable(url, None):
        return Scrape(url, "none", 0.0, reason=scrape.reason, detail="the page cannot be read")
    return scrape


def _remarks(seen: Sequence[_Seen]) -> Iterator[str]:
    roles = {one.role for one in seen}
    for role, other in ((Role.PREFILL, Role.DECODE), (Role.DECODE, Role.PREFILL)):
        if role in roles and other not in roles:
            yield f"there is a {role} instance and no {other} instance: is one missing?"
    models = sorted({one.scrape.facts[Fact.MODEL] for one in seen if Fact.MODEL in one.scrape.facts})
    if len(models) > 1:
        yield f"several models are served, though a deployment has one: {', '.join(models)}"


def _document(seen: Sequence[_Seen], adds: Wanted, plugins: Plugins) -> dict[str, Any]:
    """The configuration, in the order in which a person would write it."""
    deployment: dict[str, Any] = {"name": adds.name}
    models = {one.scrape.facts[Fact.MODEL] for one in seen if Fact.MODEL in one.scrape.facts}
    model: dict[str, Any] = {"name": models.pop()} if len(models) == 1 else {}
    if adds.hf_config is not None:
        model["hf_config"] = str(adds.hf_config.absolute())
    if model:
        deployment["model"] = model
    if adds.slo:
        deployment["slo"] = dict(adds.slo)
    if adds.interconnect is not None:
        deployment["interconnect"] = {"bandwidth": adds.interconnect}
    profiles = {a.name: a.profile for a in plugins.engines if a.profile is not None}
    counts: dict[str, int] = {}
    instances = []
    for one in seen:
        letter = _LETTERS[one.role or Role.UNIFIED]
        instance = {"name": f"{letter}{counts.setdefault(letter, 0)}", "url": one.url}
        counts[letter] += 1
        if one.role is not None:
            instance["role"] = one.role.value
        if one.scrape.source in profiles:
            instance["engine"] = profiles[one.scrape.source].name
        instances.append(instance)
    return {"deployments": [{**deployment, "instances": instances}]}
