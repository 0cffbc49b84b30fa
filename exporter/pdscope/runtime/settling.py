"""Hysteresis over whole reports: each deployment's verdict is shown when it has been seen often enough."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pdscope.diagnosis.hysteresis import Standing, settle
from pdscope.model.finding import Diagnosis, Verdict
from pdscope.model.report import Report


@dataclass(slots=True)
class Settling:
    """What is shown for each deployment, by name; deployments that are gone are forgotten."""

    _standings: dict[str, Standing] = field(default_factory=dict)
    _answered: set[str] = field(default_factory=set)

    def settle(self, report: Report, *, counts: bool = True) -> Report:
        """The report to show.

        Args:
            report: of one cycle, without hysteresis.
            counts: whether it is an evaluation of its own; False for one between two cycles, which repeats the last.
        """
        standings: dict[str, Standing] = {}
        shown = []
        for deployment in report.deployments:
            name = deployment.deployment.name
            standings[name], diagnosis = settle(self._previous(name, deployment.diagnosis), deployment.diagnosis)
            shown.append(replace(deployment, diagnosis=diagnosis))
        if counts:
            self._standings = standings
            self._answered &= set(standings)
            self._answered |= {
                name for name, standing in standings.items() if standing.shown.verdict is not Verdict.INSUFFICIENT_DATA
            }
        return replace(report, deployments=tuple(shown))

    def _previous(self, name: str, now: Diagnosis) -> Standing | None:
        """What to go on from. The first answer replaces "too few scrapes yet" at once: it contradicts nothing."""
        if name not in self._answered and now.verdict is not Verdict.INSUFFICIENT_DATA:
            return None
        return self._standings.get(name)
