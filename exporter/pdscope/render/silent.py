"""Sources beside the instances that give nothing: an instance that is down shows as such, its exporters do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pdscope.model.report import DeploymentReport, Report

_OF_DEVICES = "compute, tensor and memory activity, clocks, power and faults of its devices"
_RAREST_SECONDS = 180.0
"""Three refreshes of an exporter that measures once a minute: its newest data are as old, and yet it is well."""
_LOST: Mapping[str, str] = {
    "node": "bytes, line rate and congestion of its ports",
    "nixl": "times, bytes and failures of transfers as NIXL counts them",
    **dict.fromkeys(("dcgm", "nvml", "pdscope", "npu", "amd", "intel"), _OF_DEVICES),
}
"""What is known from nowhere else, by the source that says it."""


@dataclass(frozen=True, slots=True)
class Silent:
    """A source without data.

    Attributes:
        target: its name in the configuration.
        source: what is read there.
        last_success: unix seconds of its newest good scrape; None: there was none.
        lost: what is not known for lack of it.
    """

    target: str
    source: str
    last_success: float | None
    lost: str


def silent_sources(report: Report, deployment: DeploymentReport) -> tuple[Silent, ...]:
    """Exporters of a deployment whose last scrape failed, or whose newest data are too old to be used.

    Args:
        report: of one cycle.
        deployment: one of its deployments.
    """
    oldest = report.generated_at - max(report.window_seconds, _RAREST_SECONDS)
    return tuple(
        Silent(t.target, t.source, t.last_success, _LOST.get(t.source, "all that it alone tells"))
        for t in report.targets
        if t.deployment == deployment.deployment.name
        and t.target not in deployment.instances
        and (not t.up or t.last_success is None or t.last_success < oldest)
    )
