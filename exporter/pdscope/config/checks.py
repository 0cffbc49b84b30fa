"""What one value alone does not show: unknown keys, contradictions, names that are taken or that nothing bears.

Everything here reads the document as it was written, whether or not its values are right, so that one run reports all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, get_origin

from pdscope.config.access import ScrapeConfig
from pdscope.config.base import Model, model_in
from pdscope.config.fields import LISTED
from pdscope.config.problems import Location, Problem, describe, shown, suggestion
from pdscope.config.reading import given, items, mapping
from pdscope.config.root import Config
from pdscope.config.units import UnitError, duration_text, parse_duration
from pdscope.model.topology import LinkTopology

_MIN_INTERVAL_SECONDS = 0.01
_MAX_SCRAPES = 10_000
_PERCENTILES = tuple(
    (f"{latency}_{low}", f"{latency}_{high}")
    for latency in ("ttft", "itl")
    for low, high in (("p50", "p95"), ("p50", "p99"), ("p95", "p99"))
)


def document_problems(data: Mapping[str, Any]) -> Iterator[Problem]:
    """All problems of the document that do not lie in a single value."""
    yield from _walk(Config, data, ())
    yield from _names(data)
    yield from _served(data)
    yield from _objectives(data)
    yield from _links(data)
    yield from _timing(data)


def _walk(model: type[Model], data: Any, where: Location) -> Iterator[Problem]:
    """Unknown keys and contradictions of `data`, which should be the mapping that `model` describes, and below."""
    if not isinstance(data, dict):
        return
    keys = model.fields_by_key()
    for key, value in data.items():
        if key not in keys:
            hint = f"; {model.hints[key]}" if key in model.hints else suggestion(key, keys)
            yield Problem((*where, key), f"is not a known key{hint}")
            continue
        field = keys[key]
        below = model_in(field.annotation)
        if below is not None and isinstance(value, list):
            for index, item in enumerate(value):
                yield from _walk(below, item, (*where, key, index))
        elif below is not None and (get_origin(field.annotation) is not tuple or LISTED in field.metadata):
            yield from _walk(below, value, (*where, key))
    given = {key: value for key, value in data.items() if value is not None}
    for key, message in model.contradictions(given):
        yield Problem((*where, key) if key else where, message)


def _targets(deployment: Mapping[str, Any], where: Location) -> Iterator[tuple[Location, dict[str, Any]]]:
    yield from items(deployment, "instances", where)
    yield from items(deployment, "devices", where)


def _names(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Deployments' names are unique among themselves, those of instances and devices in the whole file."""
    deployments: dict[str, Location] = {}
    targets: dict[str, Location] = {}
    for where, deployment in items(data, "deployments", ()):
        named = [
            (deployments, where, deployment),
            *((targets, *target) for target in _targets(deployment, where)),
        ]
        for taken, place, one in named:
            name = one.get("name")
            if isinstance(name, str) and taken.setdefault(name, place) != place:
                yield Problem((*place, "name"), f"{shown(name)} is already the name of {describe(taken[name])}")


def _served(data: Mapping[str, Any]) -> Iterator[Problem]:
    """A device serves instances of its own deployment, each once."""
    everywhere = {
        name: where
        for where, deployment in items(data, "deployments", ())
        for _, item in items(deployment, "instances", where)
        if isinstance(name := item.get("name"), str)
    }
    for where, deployment in items(data, "deployments", ()):
        own = [name for _, item in items(deployment, "instances", where) if isinstance(name := item.get("name"), str)]
        found = deployment.get("discovery") or deployment.get("prometheus")
        for device_at, device in items(deployment, "devices", where):
            entries = [*items(device, "serves", device_at)] or [(device_at, device)]
            seen: dict[str, Location] = {}
            for place, entry in entries:
                name = entry.get("instance")
                if not isinstance(name, str):
                    continue
                if seen.setdefault(name, place) != place:
                    yield Problem((*place, "instance"), f"{shown(name)} is already served by {describe(seen[name])}")
                if name in own or found:
                    continue
                if name in everywhere:
                    text = (
                        f"{shown(name)} is an instance of {describe(everywhere[name])}, not of the device's deployment"
                    )
                else:
                    text = f"{shown(name)} is no instance of {describe(where)}{suggestion(name, own)}"
                yield Problem((*place, "instance"), text)


def _objectives(data: Mapping[str, Any]) -> Iterator[Problem]:
    """No percentile is promised to be lower than a lower one, with what a deployment inherits."""
    inherited = given(mapping(data.get("defaults")).get("slo"))
    at_defaults: list[tuple[Location, dict[str, Any]]] = [(("defaults", "slo"), inherited)]
    own = [((*where, "slo"), given(one.get("slo"))) for where, one in items(data, "deployments", ())]
    for where, written in [*at_defaults, *own]:
        slo = inherited | written
        for low, high in _PERCENTILES:
            least, most = _seconds(slo.get(low), 0.0), _seconds(slo.get(high), math.inf)
            if most < least and (low in written or high in written):
                place = high if high in written else low
                text = f"{high} of {duration_text(most)} is less than {low} of {duration_text(least)}"
                yield Problem((*where, place), f"{text}: a higher percentile is never lower")


def _links(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Each deployment's interconnect, with what it inherits, has a bandwidth, and a mesh its number of peers."""
    inherited = given(mapping(data.get("defaults")).get("interconnect"))
    for where, deployment in items(data, "deployments", ()):
        own = deployment.get("interconnect")
        if not isinstance(own, dict) and (own is not None or "bandwidth" not in inherited):
            continue
        link = inherited | given(own)
        at = (*where, "interconnect")
        if "bandwidth" not in link:
            yield Problem((*at, "bandwidth"), "is required, here or in defaults.interconnect")
        if link.get("topology") == LinkTopology.MESH and "peers" not in link:
            yield Problem((*at, "peers"), "is required with topology: mesh")


def _seconds(value: Any, otherwise: float) -> float:
    """A duration; where it is left out or wrong (which is reported elsewhere), what to judge the others by."""
    try:
        return otherwise if value is None else parse_duration(value)
    except UnitError:
        return otherwise


def _timing(data: Mapping[str, Any]) -> Iterator[Problem]:
    """A scrape ends before the next begins, and a window holds no endless number of them."""
    window = _seconds(data.get("window"), Config.model_fields["window_seconds"].default)
    top = given(data.get("scrape"))
    top_interval = _seconds(top.get("interval"), ScrapeConfig().interval_seconds)
    places: list[tuple[Location, dict[str, Any]]] = [(("scrape",), top)]
    for where, deployment in items(data, "deployments", ()):
        places += [((*at, "scrape"), given(target.get("scrape"))) for at, target in _targets(deployment, where)]
    for where, scrape in places:
        interval = _seconds(scrape.get("interval"), top_interval)
        if interval < _MIN_INTERVAL_SECONDS and "interval" in scrape:
            yield Problem((*where, "interval"), f"must be at least {duration_text(_MIN_INTERVAL_SECONDS)}")
        elif window / interval > _MAX_SCRAPES and ("interval" in scrape or where == ("scrape",)):
            place = (*where, "interval") if "interval" in scrape else ("window",)
            held = f"would hold {window / interval:.0f} scrapes; at most {_MAX_SCRAPES}"
            yield Problem(place, f"a window of {duration_text(window)} {held}")
        if _seconds(scrape.get("timeout"), 0.0) > interval:
            yield Problem((*where, "timeout"), f"must be at most the interval, which is {duration_text(interval)}")
