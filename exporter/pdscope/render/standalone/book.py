"""The rules that are recorded, in the order in which they are evaluated; each is named once and used by that name."""

from __future__ import annotations

from dataclasses import dataclass, field

from pdscope.render.alerting.promql import Recorded
from pdscope.render.standalone.engines import Reader
from pdscope.render.standalone.parameters import PREFIX


@dataclass(slots=True)
class Book:
    """What has been recorded so far.

    Attributes:
        reader: how the engines' series are read.
        records: in order.
    """

    reader: Reader
    records: list[Recorded] = field(default_factory=list)

    def deployment(self, name: str, expr: str, why: str, **static: str) -> str:
        """Record a series of each deployment; returns its selector."""
        return self._add(name, self.reader.settings.identity, expr, why, static)

    def worker(self, name: str, expr: str, why: str, **static: str) -> str:
        """Record a series of each worker; returns its selector."""
        return self._add(name, (*self.reader.settings.identity, self.reader.worker), expr, why, static)

    def total(self, expr: str) -> str:
        """Workers added up."""
        return f"sum {self.reader.settings.by()} (\n{expr}\n)"

    def any_worker(self, condition: str) -> str:
        """1 where the condition holds on some worker, 0 where it is known to hold on none that is known."""
        return f"max {self.reader.settings.by()} ({condition})"

    def same_worker(self) -> str:
        """`on (…)` for two series of one worker."""
        return f"on ({', '.join((*self.reader.settings.identity, self.reader.worker))})"

    def of_deployment(self, worker: str, operator: str, deployment: str) -> str:
        """A series of workers with one of their deployment beside it."""
        return f"{worker} {operator} {self.reader.settings.on()} group_left () {deployment}"

    def _add(self, name: str, labels: tuple[str, ...], expr: str, why: str, static: dict[str, str]) -> str:
        full = PREFIX + name
        self.records.append(Recorded(full, (*labels, *static), expr, why, tuple(static.items())))
        if not static:
            return full
        matchers = ",".join(f'{label}="{value}"' for label, value in static.items())
        return f"{full}{{{matchers}}}"
