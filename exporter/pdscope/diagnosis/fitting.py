"""Which remedies fit the case: a remedy whose precondition is seen to fail is never offered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pdscope.diagnosis.remedies import futile_while
from pdscope.model.finding import Finding, Truth
from pdscope.model.signal import SignalId, SignalSet, instance_scope
from pdscope.model.topology import Deployment, Role

_ROLE_REMEDIES = ("add_prefill", "add_decode")
_WHOLE_CORE = 0.9


def fitting(remedies: Sequence[str], deployment: Deployment, signals: SignalSet) -> tuple[str, ...]:
    """Those that this deployment can use, in their order; what is not known of it excludes nothing."""
    split = deployment.disaggregated
    fit = (i if split or i not in _ROLE_REMEDIES else "add_instances" for i in remedies)
    return tuple(dict.fromkeys(i for i in fit if i not in _PRECONDITIONS or _PRECONDITIONS[i](deployment, signals)))


def without_futile(findings: Sequence[Finding]) -> list[Finding]:
    """The findings without remedies that do no good while some verdict holds, whichever of them proposes it."""
    holding = {f.verdict for f in findings if f.verdict is not None and f.truth is Truth.TRUE}
    return [replace(f, remedies=tuple(r for r in f.remedies if not futile_while(r) & holding)) for f in findings]


def _wide_cache(deployment: Deployment, _signals: SignalSet) -> bool:
    """A cache of 8 bits is not quantised to 8 bits."""
    kv = deployment.model.kv
    return kv is None or kv.bytes_per_element > 1


def _several_decodes(deployment: Deployment, _signals: SignalSet) -> bool:
    """SGLang picks the queue by the decode session: one peer uses one queue, with its part of the threads."""
    return len(deployment.of_role(Role.DECODE)) > 1


def _idle_cpu(deployment: Deployment, signals: SignalSet) -> bool:
    """No process of a prefill instance is seen to use a whole core."""
    used = (signals.value(SignalId.FRONTEND_CPU, instance_scope(i.name)) for i in deployment.of_role(Role.PREFILL))
    return all(share is None or share < _WHOLE_CORE for share in used)


_PRECONDITIONS: Mapping[str, Callable[[Deployment, SignalSet], bool]] = {
    "quantise_kv": _wide_cache,
    "more_transfer_queues": _several_decodes,
    "more_transfer_threads": _idle_cpu,
}
