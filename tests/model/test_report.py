"""The result of a cycle."""

from __future__ import annotations

from pdscope.model.finding import Confidence, Diagnosis, Phase, Verdict
from pdscope.model.report import DeploymentReport, Report
from pdscope.model.signal import SignalSet
from support.windows import deployment


def test_a_deployment_is_found_by_name() -> None:
    """Or is unknown, which the web answers with 404."""
    nothing = Diagnosis(
        "pd", 0.0, 60.0, Phase.UNKNOWN, Verdict.INSUFFICIENT_DATA, Confidence.LOW, "", 0.0, (), (), (), {}
    )
    one = DeploymentReport(deployment(), nothing, SignalSet("pd", []), {})
    report = Report(0.0, 60.0, (one,))
    assert report.deployment("pd") is one
    assert report.deployment("other") is None
