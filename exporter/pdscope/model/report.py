"""The immutable result of one cycle: every output, `/metrics` and `/diagnose` alike, is rendered from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pdscope.model.finding import Diagnosis
from pdscope.model.scrape import FailureReason
from pdscope.model.signal import SignalSet
from pdscope.model.topology import Deployment


@dataclass(frozen=True, slots=True)
class InstanceState:
    """One instance as it was last seen.

    Attributes:
        up: whether its last scrape brought data that are not old.
        reason: why the last scrape brought none; None also for an instance that was never asked.
    """

    name: str
    up: bool
    engine_version: str | None = None
    model: str | None = None
    reason: FailureReason | None = None


@dataclass(frozen=True, slots=True)
class TargetState:
    """How the scraping of one target goes.

    Attributes:
        failures: count by reason since the start.
        last_success: unix seconds; None: never.
        missing_metrics: what its adapter promised for this version and the page lacks.
    """

    deployment: str
    target: str
    source: str
    up: bool
    duration_seconds: float | None = None
    last_success: float | None = None
    missing_metrics: int = 0
    failures: Mapping[FailureReason, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeploymentReport:
    """Everything known of one deployment at the end of a cycle."""

    deployment: Deployment
    diagnosis: Diagnosis
    signals: SignalSet
    instances: Mapping[str, InstanceState]


@dataclass(frozen=True, slots=True)
class Report:
    """One cycle. `generated_at` is unix seconds, in the time of the data for a bundle."""

    generated_at: float
    window_seconds: float
    deployments: tuple[DeploymentReport, ...]
    targets: tuple[TargetState, ...] = ()
    duration_seconds: float = 0.0
    rule_failures: Mapping[str, int] = field(default_factory=dict)

    def deployment(self, name: str) -> DeploymentReport | None:
        """The report of one deployment, or None."""
        return next((d for d in self.deployments if d.deployment.name == name), None)
