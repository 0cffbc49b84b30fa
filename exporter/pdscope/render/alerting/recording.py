"""Recording rules: what replicas of pdscope say of a deployment, as one series."""

from __future__ import annotations

from dataclasses import dataclass

from pdscope.model.finding import Confidence, Verdict
from pdscope.model.signal import SignalId
from pdscope.render import catalogue
from pdscope.render.alerting.promql import Recorded, select
from pdscope.render.alerting.settings import Settings

_LATENCIES = {
    name: next(d for d in catalogue.DEPLOYMENT_SIGNALS.values() if d.name == f"pdscope_deployment_{name}")
    for name in catalogue.SLO
}
"""Field of `Slo` -> metric of the latency that it bounds."""


ALLOWED_FAILED_SHARE = 0.05
"""Of requests, in the KV transfer: of more the users hear, whatever latencies the others have."""


@dataclass(frozen=True, slots=True)
class Recording:
    """All recording rules; alerts and dashboards name them by these fields."""

    verdict: Recorded
    confident: Recorded
    finding: Recorded
    objectives: tuple[Recorded, ...]
    failing: Recorded
    unserved: Recorded
    broken: Recorded

    @property
    def all(self) -> tuple[Recorded, ...]:
        """In the order of evaluation."""
        return (self.verdict, self.confident, self.finding, *self.objectives, self.failing, self.unserved, self.broken)


def recording(settings: Settings) -> Recording:
    """The recording rules.

    Each takes only what a replica said lately: one that hangs exports its last answer for ever. The largest of the
    replicas counts, so that an alert needs one of them to see the fault and not all of them.
    """
    age = f"time() - {select(catalogue.DIAGNOSIS_TIMESTAMP)}"
    fresh = f"({age} <= {settings.stale_after_seconds:g})"
    verdict = select(catalogue.VERDICT)
    low = select(catalogue.CONFIDENCE, confidence=Confidence.LOW)
    objectives = tuple(
        Recorded(
            "deployment_objective:pdscope_deployment_latency_per_slo:max",
            ("deployment", "objective"),
            f"max {settings.by()} (\n  ({select(latency)} / {select(catalogue.SLO[name])})\n  and {fresh}\n)",
            "Latency by its objective; above 1 it is broken.",
            (("objective", name.removesuffix("_seconds")),),
        )
        for name, latency in _LATENCIES.items()
    )
    failed = select(catalogue.DEPLOYMENT_SIGNALS[SignalId.FAILED_SHARE])
    finished, ttft = (
        select(catalogue.DEPLOYMENT_SIGNALS[signal]) for signal in (SignalId.REQUESTS_PER_SECOND, SignalId.TTFT_P50)
    )
    failing = Recorded(
        "deployment:pdscope_deployment_requests_failing:max",
        ("deployment",),
        f"max {settings.by()} (\n  ({failed} > bool {ALLOWED_FAILED_SHARE:g})\n  and {fresh}\n)",
        f"1 while more than {ALLOWED_FAILED_SHARE * 100:g} % of requests fail in the KV transfer.",
    )
    answering = select(catalogue.DEPLOYMENT_SIGNALS[SignalId.ROLES_ANSWERING])
    unserved = Recorded(
        "deployment:pdscope_deployment_unserved:max",
        ("deployment",),
        f"max {settings.by()} (\n"
        f"  (\n    ({finished} == bool 0)\n    unless {ttft}\n"
        f"    unless ignoring (verdict) {select(catalogue.VERDICT, verdict=Verdict.IDLE)} == 1\n    and {fresh}\n  )\n"
        f"  or (max {settings.by()} ({answering} and {fresh}) < bool 1)\n)",
        "1 while no request gets its first token or finishes though some are there, or a role has nobody who answers "
        "(to no replica: one may have lost its network): then no latency is known.",
    )
    return Recording(
        verdict=Recorded(
            "deployment_verdict:pdscope_deployment_verdict:max",
            catalogue.VERDICT.labels,
            f"max {settings.by('verdict')} (\n  {verdict}\n  and ignoring (verdict) {fresh}\n)",
            "1 where a replica has lately said the verdict.",
        ),
        confident=Recorded(
            "deployment_verdict:pdscope_deployment_verdict_confident:max",
            catalogue.VERDICT.labels,
            f"max {settings.by('verdict')} (\n"
            f"  {verdict} * ignoring (verdict, confidence) group_left () (1 - {low})\n"
            f"  and ignoring (verdict) {fresh}\n)",
            "The same, and 0 while that replica's confidence is low.",
        ),
        finding=Recorded(
            "deployment_rule:pdscope_finding_active:max",
            catalogue.FINDING_ACTIVE.labels,
            f"max {settings.by('rule')} (\n  {select(catalogue.FINDING_ACTIVE)}\n  and ignoring (rule) {fresh}\n)",
            "1 where a rule has lately held, 0 where it did not; absent where no replica knows.",
        ),
        objectives=objectives,
        failing=failing,
        unserved=unserved,
        broken=Recorded(
            "deployment:pdscope_deployment_slo_broken:max",
            ("deployment",),
            f"max {settings.by()} (\n  ({select(objectives[0])} > bool 1)\n  or {select(failing)}\n"
            f"  or {select(unserved)}\n)",
            "1 while any configured objective is broken, requests fail or nobody is served; absent where all of it is "
            "unknown.",
        ),
    )
