"""The report of a deployment whose judging broke: a fault of ours, which must not pass for health or for a cause."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pdscope.config import DeploymentConfig
from pdscope.model.finding import Confidence, Diagnosis, Phase, Verdict
from pdscope.model.report import DeploymentReport, InstanceState
from pdscope.model.signal import SignalSet
from pdscope.runtime.plugins import Plugins
from pdscope.runtime.topology import build_deployment

JUDGING = "judging"
"""Stands among the rules in the count of failures: all that is done for a deployment around them."""

_log = logging.getLogger(__name__)


def unjudged(
    config: DeploymentConfig,
    plugins: Plugins,
    states: Mapping[str, InstanceState],
    error: Exception,
    *,
    at: float,
    window_seconds: float,
) -> DeploymentReport:
    """A report that says that nothing is known, and why.

    Args:
        config: of the deployment; no page takes part, since one of them may be what broke the judging.
        plugins: adapters and rules.
        states: of its instances.
        error: what was raised. Its text may quote a page, so the log alone has it.
        at: unix seconds of the diagnosis.
        window_seconds: length of the window.
    """
    diagnosis = Diagnosis(
        deployment=config.name,
        at=at,
        window_seconds=window_seconds,
        phase=Phase.UNKNOWN,
        verdict=Verdict.INSUFFICIENT_DATA,
        confidence=Confidence.LOW,
        summary=f"No answer: a fault of pdscope ({type(error).__name__}) ended the judging of this deployment; nothing "
        "is said of the service, and its log has the traceback.",
        since=at,
        culprits=(),
        findings=(),
        next_steps=("Upgrade pdscope, or report the fault with the traceback from its log and a capture bundle.",),
        worker_verdicts={instance.name: Verdict.INSUFFICIENT_DATA for instance in config.instances},
    )
    return DeploymentReport(build_deployment(config, {}, plugins, {}), diagnosis, SignalSet(config.name, []), states)


def log_faults(faults: Mapping[str, Exception]) -> None:
    """Say what broke, by name, with the traceback of each."""
    for name, error in faults.items():
        _log.error("%s: no diagnosis: a fault of pdscope", name, exc_info=error)
