"""What the page of a program must have, by version and role: a series that is gone was renamed or switched off."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pdscope.model.metric import Metric
from pdscope.model.topology import Role

_RELEASE = re.compile(r"v?(\d{1,9}(?:\.\d{1,9}){0,5})")


@dataclass(frozen=True, slots=True)
class Promise:
    """Metrics that stand on every page of some versions of a program once it has served requests.

    Attributes:
        metrics: what is promised. One that an adapter calls lazy is missed only after it was there.
        since: first version, `0.5.10`; None: all that the adapter reads.
        until: first version without it; None: none so far.
        roles: of the programs that promise it; None: whatever the role.
    """

    metrics: frozenset[Metric]
    since: str | None = None
    until: str | None = None
    roles: frozenset[Role] | None = None

    def holds(self, version: str | None, role: Role | None) -> bool:
        """Whether it was made by a program of this version and role; what is not known promises nothing."""
        if self.roles is not None and role not in self.roles:
            return False
        if self.since is None and self.until is None:
            return True
        release = release_of(version or "")
        if release is None:
            return False
        return (self.since is None or release >= _known(self.since)) and (
            self.until is None or release < _known(self.until)
        )


def promise(
    *metrics: Metric, since: str | None = None, until: str | None = None, roles: Iterable[Role] = ()
) -> Promise:
    """A promise as adapters write it; without `roles` it is made in every role."""
    return Promise(frozenset(metrics), since, until, frozenset(roles) or None)


def promised_metrics(promises: Iterable[Promise], version: str | None, role: Role | None) -> frozenset[Metric]:
    """Everything that a program of this version and role promises."""
    return frozenset(metric for made in promises if made.holds(version, role) for metric in made.metrics)


def release_of(version: str) -> tuple[int, ...] | None:
    """The numbers of a version, without post, dev and local parts: `0.5.1.post3` is (0, 5, 1); None: it has none."""
    found = _RELEASE.match(version)
    if found is None:
        return None
    numbers = [int(number) for number in found[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:  # 0.16 and 0.16.0 are the same release
        numbers.pop()
    return tuple(numbers)


def _known(version: str) -> tuple[int, ...]:
    release = release_of(version)
    if release is None:
        message = f"no version: {version!r}"
        raise ValueError(message)
    return release
