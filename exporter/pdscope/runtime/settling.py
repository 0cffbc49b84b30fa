"""What needs a memory over reports: verdicts that were seen often enough, and how long latency has been stable."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pdscope.analysis.stability import Stretch, extend
from pdscope.diagnosis.hysteresis import Standing, settle
from pdscope.model.finding import Diagnosis, Verdict
from pdscope.model.report import DeploymentReport, Report
from pdscope.model.signal import Quality, Signal, SignalId


@dataclass(slots=True)
class Settling:
    """What is shown for each deployment, by name; deployments that are gone are forgotten."""

    _standings: dict[str, Standing] = field(default_factory=dict)
    _answered: set[str] = field(default_factory=set)
    _stretches: dict[str, Stretch] = field(default_factory=dict)

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
            shown.append(self._with_stability(replace(deployment, diagnosis=diagnosis), report.generated_at))
        self._stretches = {name: stretch for name, stretch in self._stretches.items() if name in standings}
        if counts:
            self._standings = standings
            self._answered &= set(standings)
            self._answered |= {
                name for name, standing in standings.items() if standing.shown.verdict is not Verdict.INSUFFICIENT_DATA
            }
        return replace(report, deployments=tuple(shown))

    def _with_stability(self, deployment: DeploymentReport, at: float) -> DeploymentReport:
        name = deployment.deployment.name
        stretch = extend(self._stretches.get(name), at, deployment.signals, deployment.deployment.slo)
        if stretch is None:
            self._stretches.pop(name, None)
            return deployment
        self._stretches[name] = stretch
        stable = Signal(
            SignalId.STABILITY_WINDOW,
            deployment.signals.deployment,
            at - stretch.since,
            Quality.DERIVED,
            "TTFT and ITL p95 within 20 % of their running median, objectives kept",
        )
        return replace(deployment, signals=deployment.signals.extended([stable]))

    def _previous(self, name: str, now: Diagnosis) -> Standing | None:
        """What to go on from. The first answer replaces "too few scrapes yet" at once: it contradicts nothing."""
        if name not in self._answered and now.verdict is not Verdict.INSUFFICIENT_DATA:
            return None
        return self._standings.get(name)
