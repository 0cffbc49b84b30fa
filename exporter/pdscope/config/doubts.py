"""What is right in form and may be meant, but is more often a slip: said as a warning, never refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pdscope.config.problems import Location, describe
from pdscope.config.root import Config, DeploymentConfig
from pdscope.config.units import duration_text
from pdscope.model.topology import Role

_PERCENT = 100.0


def doubts(config: Config, shares: Mapping[str, Mapping[str, float]]) -> tuple[str, ...]:
    """Each doubt as a line that begins with the path of what is doubted and ends with the line of the file.

    Args:
        config: as loaded.
        shares: rule -> threshold -> default, of the thresholds that are shares of a whole.
    """
    return (*_windows(config), *_shares(config, shares), *_addresses(config), *_roles(config))


def _said(config: Config, where: Location, text: str) -> str:
    line = config.origin.line(where)
    return f"{describe(where)}: {text}" + (f" (line {line})" if line else "")


def _windows(config: Config) -> Iterator[str]:
    """A window that holds no two scrapes reaches back to the one before: rates are of a single interval."""
    window, interval = config.window_seconds, config.scrape.interval_seconds
    if window < 2.0 * interval:
        text = f"a window of {duration_text(window)} holds no two scrapes that are {duration_text(interval)} apart"
        yield _said(config, ("window",), f"{text}: every diagnosis is of a single interval")


def _shares(config: Config, shares: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    written = [
        ((*place, rule, name), shares.get(rule, {}).get(name), value)
        for place, rules in config.given_thresholds
        for rule, values in rules.items()
        for name, value in values.items()
    ]
    for where, default, value in written:
        if default is not None and value > 1.0:
            meant = f"; for {value:g} % write {value / _PERCENT:g}" if value <= _PERCENT else ""
            yield _said(config, where, f"{value:g} is more than the whole, which is 1 (default: {default:g}){meant}")


def _addresses(config: Config) -> Iterator[str]:
    """An address is one instance; only a router may stand before two deployments, an engine serves one model."""
    taken: dict[str, Location] = {}
    for i, deployment in enumerate(config.deployments):
        for j, instance in enumerate(deployment.instances):
            where = ("deployments", i, "instances", j, "url")
            first = taken.setdefault(instance.url, where)
            if first == where:
                continue
            text = f"is also the address of {describe(first[:-1])}"
            if first[:2] == where[:2]:
                yield _said(config, where, f"{text}: its requests count twice")
            elif instance.role is not Role.ROUTER:
                yield _said(config, where, f"{text}, of another deployment: its requests count in both")


def _roles(config: Config) -> Iterator[str]:
    for i, deployment in enumerate(config.deployments):
        if (text := _lacking(deployment)) is not None:
            yield _said(config, ("deployments", i, "instances"), text)


def _lacking(deployment: DeploymentConfig) -> str | None:
    """What is missing in a deployment whose instances are all listed with their roles."""
    roles = {instance.role for instance in deployment.instances}
    if not roles or None in roles or deployment.discovery is not None or deployment.prometheus is not None:
        return None
    if roles == {Role.ROUTER}:
        return "routers alone: there is no engine to judge"
    if Role.UNIFIED in roles or {Role.PREFILL, Role.DECODE} <= roles:
        return None
    here, missing = ("prefill", "decode") if Role.PREFILL in roles else ("decode", "prefill")
    return f"{here} without {missing}: neither the transfer nor all of what users wait for can be judged"
