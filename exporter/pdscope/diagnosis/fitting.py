"""Which remedies fit the case: a remedy whose precondition is seen to fail is never offered."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from pdscope.diagnosis.preconditions import PRECONDITIONS
from pdscope.diagnosis.remedies import futile_while, lacking
from pdscope.model.finding import Finding, Truth
from pdscope.model.signal import SignalSet
from pdscope.model.topology import Deployment

_ROLE_REMEDIES = ("add_prefill", "add_decode")


def fitting(
    remedies: Sequence[str], deployment: Deployment, signals: SignalSet, culprits: Collection[str] = ()
) -> tuple[str, ...]:
    """Those that this deployment and its engines can use, in their order; what is not known excludes nothing."""
    split = deployment.disaggregated
    fit = (i if split or i not in _ROLE_REMEDIES else "add_instances" for i in remedies)
    return tuple(dict.fromkeys(i for i in fit if _fits(i, deployment, signals, culprits)))


def _fits(remedy: str, deployment: Deployment, signals: SignalSet, culprits: Collection[str]) -> bool:
    if lacking(remedy, deployment, culprits):
        return False
    return remedy not in PRECONDITIONS or PRECONDITIONS[remedy](deployment, signals)


def without_futile(findings: Sequence[Finding]) -> list[Finding]:
    """The findings without remedies that do no good while some verdict holds, whichever of them proposes it."""
    holding = {f.verdict for f in findings if f.verdict is not None and f.truth is Truth.TRUE}
    return [replace(f, remedies=tuple(r for r in f.remedies if not futile_while(r) & holding)) for f in findings]
