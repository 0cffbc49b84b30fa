"""Runs the rules, orders the evidence and forms the answer."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pdscope.diagnosis import rules as rules_package
from pdscope.diagnosis.answer import confidence_of, next_steps, summarise
from pdscope.diagnosis.base import Case, Rule
from pdscope.diagnosis.fitting import without_futile
from pdscope.diagnosis.phase import phase as phase_of
from pdscope.model.finding import Confidence, Diagnosis, Finding, Truth, Verdict
from pdscope.model.signal import Scope, ScopeKind, SignalId, SignalSet, instance_scope
from pdscope.model.topology import Deployment, Instance

ORDER: tuple[Verdict, ...] = (
    Verdict.METRICS_UNTRUSTED,
    Verdict.INSUFFICIENT_DATA,
    Verdict.KV_TRANSFER_FAILING,
    Verdict.DECODE_KV_CAPACITY,
    Verdict.DECODE_ADMISSION,
    Verdict.KV_PINNED,
    Verdict.KV_TRANSFER_BANDWIDTH,
    Verdict.KV_TRANSFER_PATH,
    Verdict.KV_TRANSFER_FRAGMENTED,
    Verdict.KV_TRANSFER_SETUP,
    Verdict.ROUTER_IMBALANCE,
    Verdict.HARDWARE_DEGRADED,
    Verdict.FRONTEND_BOUND,
    Verdict.CUDA_GRAPH_MISS,
    Verdict.HOST_BOUND,
    Verdict.PREFILL_COMPUTE,
    Verdict.PREFILL_QUEUE,
    Verdict.DECODE_HBM_BANDWIDTH,
    Verdict.WORKLOAD_MISMATCH,
    Verdict.UNDETERMINED,
    Verdict.IDLE,
    Verdict.HEALTHY,
)
"""The order of evidence: the first that holds is the verdict.

It is a default: a finding may stand elsewhere (`Finding.before`), or explain verdicts that come first (`outranks`).
"""

_PLACES = {verdict: 2 * n + 1 for n, verdict in enumerate(ORDER)}
"""Of each verdict; the even numbers are for findings that stand right before one."""

_BUSY = (SignalId.PREFILL_BUSY, SignalId.DECODE_BUSY, SignalId.DEVICE_BUSY)
_BUSY_FROM = 0.05
"""Share of the time from which an instance does something."""

_MIN_SCRAPES = 2
"""Of an instance, to say anything of it: a rate needs two points."""


@dataclass(frozen=True, slots=True)
class RuleFailure:
    """A rule that raised: a mistake of ours, counted and shown, never allowed to silence the other rules."""

    rule: str
    error: Exception


@dataclass(frozen=True, slots=True)
class Judgement:
    """A diagnosis, and the rules that failed on the way to it."""

    diagnosis: Diagnosis
    failures: tuple[RuleFailure, ...] = ()


def discover() -> tuple[Rule, ...]:
    """All rules, in the order of module names; a new file is enough to add one.

    Raises:
        TypeError: a module defines no `RULE`, or one whose id is not the module's name.
    """
    found = []
    for module in sorted(pkgutil.iter_modules(rules_package.__path__), key=lambda m: m.name):
        rule = getattr(importlib.import_module(f"{rules_package.__name__}.{module.name}"), "RULE", None)
        if not isinstance(rule, Rule) or rule.id != module.name:
            message = f"rule module {module.name} defines no RULE of that id"
            raise TypeError(message)
        found.append(rule)
    return tuple(found)


def judge(
    deployment: Deployment,
    signals: SignalSet,
    rules: Sequence[Rule],
    *,
    at: float,
    window_seconds: float,
) -> Judgement:
    """The answer for one deployment.

    Args:
        deployment: with roles resolved.
        signals: of the window.
        rules: from `discover`.
        at: unix seconds of the diagnosis.
        window_seconds: length of the window.
    """
    case = Case(deployment, signals, deployment.thresholds)
    failures: list[RuleFailure] = []
    findings = _run([(r.id, r.evaluate) for r in rules if not r.fallback], case, failures)
    if not _explained(findings):
        findings += _run([(r.id, r.last_resort) for r in rules if r.last_resort is not None], case, failures)
    if not _explained(findings):
        findings += _run([(r.id, r.evaluate) for r in rules if r.fallback], case, failures)
    findings = without_futile(findings)
    verdict, deciding = _decide(findings)
    phase = phase_of(signals, deployment.slo)
    culprits = tuple(dict.fromkeys(name for f in deciding for name in f.culprits))
    confidence = confidence_of(verdict, deciding, case)
    if failures and confidence is Confidence.HIGH:
        confidence = Confidence.MEDIUM  # an order of evidence with a hole in it
    diagnosis = Diagnosis(
        deployment=deployment.name,
        at=at,
        window_seconds=window_seconds,
        phase=phase,
        verdict=verdict,
        confidence=confidence,
        summary=summarise(case, phase, verdict, deciding, findings),
        since=at,
        culprits=culprits,
        findings=_shown(findings, deciding),
        next_steps=next_steps(case, verdict, deciding, findings),
        worker_verdicts={i.name: _worker_verdict(i, case, findings) for i in deployment.instances},
    )
    return Judgement(diagnosis, tuple(failures))


def _explained(findings: Sequence[Finding]) -> bool:
    """Whether some rule of a verdict holds."""
    return any(f.truth is Truth.TRUE and f.verdict is not None for f in findings)


def _run(
    questions: Sequence[tuple[str, Callable[[Case], Iterable[Finding]]]], case: Case, failures: list[RuleFailure]
) -> list[Finding]:
    """Findings of functions of rules, by the id of the rule."""
    findings: list[Finding] = []
    for rule, evaluate in questions:
        try:
            findings.extend(evaluate(case))
        except Exception as error:  # noqa: BLE001 - the one place: a broken rule must not silence the others
            failures.append(RuleFailure(rule, error))
    return findings


def _decide(findings: Sequence[Finding]) -> tuple[Verdict, tuple[Finding, ...]]:
    """The first verdict in the order of evidence that holds and is no symptom; its findings, the strongest first."""
    holding = [(f.verdict, f) for f in findings if f.verdict is not None and f.truth is Truth.TRUE]
    ranked = sorted(
        ((_place(verdict, f), verdict, f) for verdict, f in holding if not _is_symptom(verdict, holding)),
        key=lambda entry: (entry[0], -entry[2].strength),
    )
    if not ranked:
        return Verdict.INSUFFICIENT_DATA, ()
    first, verdict, _ = ranked[0]
    return verdict, tuple(f for place, other, f in ranked if (place, other) == (first, verdict))


def _place(verdict: Verdict, finding: Finding) -> int:
    return _PLACES[verdict] if finding.before is None else _PLACES[finding.before] - 1


def _is_symptom(verdict: Verdict, holding: Sequence[tuple[Verdict, Finding]]) -> bool:
    """Whether causes that hold explain all that holds of a verdict: on each of its culprits.

    Only what comes later in the order needs to say so. Hence no two verdicts explain each other away.
    """
    causes = [f for cause, f in holding if verdict in f.outranks and _PLACES[cause] > _PLACES[verdict]]
    return bool(causes) and all(
        any(f.culprits and {*f.culprits} <= {*cause.culprits} for cause in causes)
        for other, f in holding
        if other is verdict
    )


def _shown(findings: Sequence[Finding], deciding: Sequence[Finding]) -> tuple[Finding, ...]:
    """All that hold, those that decided first; of the others one a rule, the nearest to an answer, verdicts first."""
    rank: Callable[[Finding], int] = lambda f: {Truth.TRUE: 0, Truth.UNKNOWN: 1, Truth.FALSE: 2}[f.truth]  # noqa: E731
    shown: list[Finding] = []
    by_rule: dict[str, list[Finding]] = {}
    for finding in findings:
        by_rule.setdefault(finding.rule, []).append(finding)
    for group in by_rule.values():
        holding = [f for f in group if f.truth is Truth.TRUE]
        shown += holding or [min(group, key=rank)]
    first = [f for f in deciding if f in shown]
    rest = sorted((f for f in shown if f not in first), key=lambda f: (rank(f), _standing(f), f.rule))
    return (*first, *rest)


def _standing(finding: Finding) -> tuple[float, ...]:
    """Of what holds the strongest comes first; of what does not, the verdicts in the order of evidence."""
    if finding.truth is Truth.TRUE:
        return (-finding.strength,)
    return (len(_PLACES) * 2.0 if finding.verdict is None else float(_PLACES[finding.verdict]),)


def _worker_verdict(instance: Instance, case: Case, findings: Sequence[Finding]) -> Verdict:
    scope = instance_scope(instance.name)
    scrapes = case.signals.value(SignalId.SCRAPES, scope)
    if scrapes is None or scrapes < _MIN_SCRAPES:
        return Verdict.INSUFFICIENT_DATA
    own = [
        f
        for f in findings
        if f.scope.kind is ScopeKind.INSTANCE and (f.scope.name == instance.name or instance.name in f.culprits)
    ]
    verdict, deciding = _decide(own)
    if deciding:
        return verdict
    if any(f.loses_data for f in own):
        return Verdict.INSUFFICIENT_DATA
    return Verdict.IDLE if _is_idle(case, scope) else Verdict.HEALTHY


def _is_idle(case: Case, scope: Scope) -> bool:
    """Whether no scrape of an instance found work, it made no tokens, and nothing that counts its time says otherwise.

    Prefill at 40 % of its compute is empty at most scrapes, so that its mean work alone says nothing.
    """
    most, tokens = (case.signals.value(s, scope) for s in (SignalId.WORK_MOST, SignalId.GENERATION_RATE))
    others = case.signals.value(SignalId.FOREIGN_DEVICES, scope) is not None
    shares = [case.signals.value(s, scope) for s in _BUSY if not (others and s is SignalId.DEVICE_BUSY)]
    busy = any(share is not None and share >= _BUSY_FROM for share in shares)
    return most is not None and most < 1 and not tokens and not busy


def threshold_defaults(rules: Sequence[Rule]) -> Mapping[str, float]:
    """Every configurable number: `rule.name` -> default."""
    return {f"{rule.id}.{t.name}": t.default for rule in rules for t in rule.thresholds}
