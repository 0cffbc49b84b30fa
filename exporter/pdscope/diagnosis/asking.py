"""What to ask next: the query that confirms, the profile of the stage at fault, the router's view of its workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pdscope.diagnosis.base import Case
from pdscope.model.finding import Evidence, Finding, Stage, Truth, Verdict
from pdscope.model.signal import ScopeKind, SignalId, instance_scope
from pdscope.model.topology import Instance, Role

_QUERIES = 2
_DEPLOYMENT = frozenset(
    (
        *(
            SignalId.TTFT_P50,
            SignalId.TTFT_P95,
            SignalId.TTFT_P99,
            SignalId.ITL_P50,
            SignalId.ITL_P95,
            SignalId.ITL_P99,
        ),
        *(SignalId.REQUESTS_PER_SECOND, SignalId.PROMPT_TOKENS_PER_REQUEST, SignalId.ROLE_IMBALANCE),
        *(SignalId.KV_DEMAND, SignalId.KV_ACHIEVED, SignalId.LINK_CAPACITY, SignalId.LINK_UTILIZATION),
    )
)
"""Signals that `/metrics` exports of a deployment, under their own names."""
_WORKER = frozenset((SignalId.COMPUTE_UTILIZATION, SignalId.HBM_UTILIZATION))
"""Signals that it exports of an instance."""
_ROLES: Mapping[Stage, tuple[Role, ...]] = {Stage.PREFILL: (Role.PREFILL,), Stage.DECODE: (Role.DECODE,)}
_FINE = (Verdict.HEALTHY, Verdict.IDLE)


def queries(case: Case, verdict: Verdict, deciding: Sequence[Finding]) -> list[str]:
    """PromQL that shows the foremost figures of the answer: our own series, else those of the engine behind them.

    Where nobody exports any of them the latency whose objective is broken shows whether it lasts.
    """
    weighed = [e for f in deciding[:1] for e in f.evidence]
    evidence = [e for e in weighed if e.truth is Truth.TRUE] or weighed
    asked = list(dict.fromkeys(query for e in evidence if (query := _query(e, case)) is not None))[:_QUERIES]
    if asked or verdict.stage is Stage.NONE:
        return asked
    latencies = [name for name in ("ttft", "itl") if case.broken(name) is Truth.TRUE] or ["ttft"]
    return [f'pdscope_deployment_{name}_p50_seconds{{deployment="{case.deployment.name}"}}' for name in latencies]


def _query(evidence: Evidence, case: Case) -> str | None:
    """The series of a figure; None where neither `/metrics` nor the engine exports it."""
    place = f'deployment="{case.deployment.name}"'
    if evidence.signal in _DEPLOYMENT and evidence.scope.kind is ScopeKind.DEPLOYMENT:
        return f"pdscope_deployment_{evidence.signal}{{{place}}}"
    if evidence.signal in _WORKER and evidence.scope.kind is ScopeKind.INSTANCE:
        return f'pdscope_worker_{evidence.signal}{{{place},worker="{evidence.scope.name}"}}'
    one = evidence.scope.name if evidence.scope.kind is ScopeKind.INSTANCE else None
    members = [i for i in case.deployment.instances if one in (None, i.name) and evidence.signal in i.profile.queries]
    targets = [t for i in members if i.profile == members[0].profile and (t := _target(i))]
    if not targets:
        return None
    inside = f'instance="{targets[0]}"' if len(targets) == 1 else f'instance=~"{"|".join(targets)}"'
    return members[0].profile.queries[evidence.signal].replace("$at", f"{{{inside}}}").replace("$in", inside)


def _target(instance: Instance) -> str:
    """The label `instance` that Prometheus gives a target by itself: host and port."""
    return instance.url.partition("://")[2].partition("/")[0]


def profiles(case: Case, verdict: Verdict, deciding: Sequence[Finding]) -> list[str]:
    """How to profile the stage at fault; prefill and decode apart, since they cannot be profiled at once."""
    culprits = [i for i in case.deployment.instances if any(i.name in f.culprits for f in deciding)]
    roles: Iterable[Role] = _ROLES.get(verdict.stage, ())
    if verdict.stage in (Stage.HOST, Stage.HARDWARE):
        roles = dict.fromkeys(i.role for i in culprits)
    elif verdict is Verdict.UNDETERMINED:
        roles = (Role.PREFILL, Role.DECODE)
    found = (_first(role, culprits, case) for role in roles)
    return list(
        dict.fromkeys(
            f"profile {i.name} ({i.role}): {i.profile.profiling[i.role].format(url=i.url)}"
            for i in found
            if i is not None and i.role in i.profile.profiling
        )
    )


def _first(role: Role, culprits: Sequence[Instance], case: Case) -> Instance | None:
    """An instance of the role, or one that does both: one at fault before any other."""
    known = case.instances(role, Role.UNIFIED)
    return next((i for i in (*culprits, *known) if i in known), None)


def router_views(case: Case, verdict: Verdict) -> list[str]:
    """How the routers see their workers: whom they take for healthy, and what they send to whom."""
    if verdict in _FINE:
        return []
    # what does not answer cannot be asked
    routers = [
        i
        for i in case.instances(Role.ROUTER)
        if i.profile.workers is not None and case.signals.value(SignalId.ANSWERS, instance_scope(i.name)) != 0.0
    ]
    return [f"ask {i.name}: {str(i.profile.workers).format(url=i.url)}" for i in routers]
