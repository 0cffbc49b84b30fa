"""What a rule is, and the bench on which it weighs its evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pdscope.diagnosis.fitting import fitting
from pdscope.diagnosis.remedies import remedies_for
from pdscope.model.finding import Evidence, Finding, Op, Truth, Verdict
from pdscope.model.signal import Quality, Scope, Signal, SignalId, SignalSet, instance_scope, worst
from pdscope.model.topology import Deployment, Instance, Role
from pdscope.model.units import Unit, format_quantity


@dataclass(frozen=True, slots=True)
class Threshold:
    """A configurable number of a rule, with the reason for its default."""

    name: str
    default: float
    unit: Unit
    why: str


@dataclass(frozen=True, slots=True)
class Case:
    """What a rule sees: the deployment, its signals, the configured thresholds. Nothing else exists for it."""

    deployment: Deployment
    signals: SignalSet
    thresholds: Mapping[str, float] = field(default_factory=dict)

    def threshold(self, rule: Rule, name: str) -> float:
        """The configured value, else the rule's default."""
        configured = self.thresholds.get(f"{rule.id}.{name}")
        return configured if configured is not None else rule.default(name)

    def instances(self, *roles: Role) -> tuple[Instance, ...]:
        """Instances of the given roles."""
        return self.deployment.of_role(*roles)

    @property
    def slo_broken(self) -> Truth:
        """Whether any configured objective is exceeded; unknown when none is set or none of the set ones is known."""
        return self.broken("ttft") | self.broken("itl")

    def broken(self, latency: str) -> Truth:
        """Whether an objective on `ttft` or `itl` (any percentile) is exceeded."""
        truths = [
            Truth.of(None if value is None else value > limit)
            for signal, limit in objectives(self.deployment, latency)
            for value in (self.signals.value(signal),)
        ]
        if not truths:
            return Truth.UNKNOWN
        result = truths[0]
        for truth in truths[1:]:
            result = result | truth
        return result


_PERCENTILES = {
    "ttft": (SignalId.TTFT_P50, SignalId.TTFT_P95, SignalId.TTFT_P99),
    "itl": (SignalId.ITL_P50, SignalId.ITL_P95, SignalId.ITL_P99),
}


def objectives(deployment: Deployment, latency: str) -> list[tuple[SignalId, float]]:
    """The configured objectives on `ttft` or `itl`: (signal, limit in seconds)."""
    slo = deployment.slo
    limits = {
        "ttft": (slo.ttft_p50_seconds, slo.ttft_p95_seconds, slo.ttft_p99_seconds),
        "itl": (slo.itl_p50_seconds, slo.itl_p95_seconds, slo.itl_p99_seconds),
    }[latency]
    return [(signal, limit) for signal, limit in zip(_PERCENTILES[latency], limits, strict=True) if limit is not None]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: data and a pure function.

    Attributes:
        id: name of the verdict or of the finding; also the file's name and the page's.
        verdict: what it concludes; None for a finding that stands beside the verdict.
        thresholds: its configurable numbers.
        remedies: ids in the catalogue, most useful first.
        fallback: judged only when no other rule of a verdict holds: it says what is left, not what is wrong.
        evaluate: the function; yields one finding for each scope that it judges.
        last_resort: asked in addition when no other rule of a verdict holds: evidence that says nothing as long as
            something explains the state.
        outranks: verdicts earlier in the order of evidence that a finding of this rule may explain; it says so itself
            where it does (`Finding.outranks`).
        covers: ids of rules that tell of its symptoms, or of a milder side of the same trouble. While this one is the
            verdict, they need no remedy; while its alert fires, they need none of their own, unless the order of
            evidence would name them first.
        covers_culprits_only: what is seen on instances that it does not name is not its doing (remedies only: an alert
            is one of the deployment).
        urgent: its remedies come before those of any verdict.
    """

    id: str
    verdict: Verdict | None
    evaluate: Callable[[Case], Iterable[Finding]]
    thresholds: tuple[Threshold, ...] = ()
    remedies: tuple[str, ...] = ()
    fallback: bool = False
    last_resort: Callable[[Case], Iterable[Finding]] | None = None
    outranks: tuple[Verdict, ...] = ()
    covers: frozenset[str] = frozenset()
    covers_culprits_only: bool = False
    urgent: bool = False

    def default(self, name: str) -> float:
        """The default of one of its thresholds.

        Raises:
            KeyError: the rule has no such threshold.
        """
        for threshold in self.thresholds:
            if threshold.name == name:
                return threshold.default
        raise KeyError(f"{self.id}.{name}")


_COMPARE: Mapping[Op, Callable[[float, float], bool]] = {
    Op.GE: lambda value, limit: value >= limit,
    Op.GT: lambda value, limit: value > limit,
    Op.LE: lambda value, limit: value <= limit,
    Op.LT: lambda value, limit: value < limit,
}


@dataclass(slots=True)
class Bench:
    """Weighs the evidence of one rule for one scope: every comparison made here is shown to the reader."""

    rule: Rule
    case: Case
    scope: Scope
    evidence: list[Evidence] = field(default_factory=list)
    missing: list[SignalId] = field(default_factory=list)

    def weigh(self, signal: SignalId, op: Op, limit: float | str, scope: Scope | None = None) -> Truth:
        """Compare a signal with a threshold of the rule (by name) or with a number.

        A missing signal is unknown and noted. Where buckets hide the true value and the limit lies inside the bucket,
        the comparison uses the interpolated value and its evidence says `estimated`.
        """
        found = self.signal(signal, scope)
        if found is None:
            if signal not in self.missing:
                self.missing.append(signal)
            return Truth.UNKNOWN
        number = self.case.threshold(self.rule, limit) if isinstance(limit, str) else limit
        truth = Truth.of(_COMPARE[op](found.value, number))
        inside = found.bounds is not None and found.bounds[0] < number < found.bounds[1]
        self.evidence.append(
            Evidence(
                signal=signal,
                scope=found.scope,
                value=found.value,
                unit=signal.unit,
                op=op,
                threshold=number,
                truth=truth,
                source=found.source,
                quality=worst(found.quality, Quality.ESTIMATED) if inside else found.quality,
                age_seconds=found.age_seconds,
                bounds=found.bounds,
            )
        )
        return truth

    def signal(self, signal: SignalId, scope: Scope | None = None) -> Signal | None:
        """The signal of the bench's scope, else of the deployment."""
        if scope is not None:
            return self.case.signals.get(signal, scope)
        return self.case.signals.get(signal, self.scope) or self.case.signals.get(signal)

    def value(self, signal: SignalId, scope: Scope | None = None) -> float | None:
        """Its value, or None."""
        found = self.signal(signal, scope)
        return None if found is None else found.value

    def text(self, signal: SignalId, scope: Scope | None = None) -> str:
        """The value as a person writes it; `unknown` when it is."""
        value = self.value(signal, scope)
        return "unknown" if value is None else format_quantity(value, signal.unit)

    def count(self, signal: SignalId) -> str:
        """The bare number, where the sentence says what it counts."""
        value = self.value(signal)
        return "an unknown number" if value is None else format_quantity(value, Unit.COUNT)

    def finding(
        self,
        truth: Truth,
        *,
        headline: str = "",
        strength: float = 0.0,
        decisive: Sequence[SignalId] = (),
        at_best: Quality = Quality.MEASURED,
        culprits: Sequence[str] = (),
        remedies: Sequence[str] | None = None,
    ) -> Finding:
        """Close the bench.

        Args:
            truth: the rule's answer.
            headline: one clause with the numbers; kept only where the rule holds.
            strength: how far past the threshold, 0..1 after clipping.
            decisive: signals on which the answer hangs; their worst quality is that of the finding.
            at_best: ceiling of that quality, where the threshold itself is a configured figure.
            culprits: instances at fault.
            remedies: catalogue ids, when the rule's own list does not fit the case.
        """
        holds = truth is Truth.TRUE
        qualities = [e.quality for e in self.evidence if e.signal in decisive]
        known = {e.signal for e in self.evidence}
        complete = all(signal in known for signal in decisive)
        proposed = remedies if remedies is not None else self.rule.remedies
        deployment, signals = self.case.deployment, self.case.signals
        return Finding(
            rule=self.rule.id,
            scope=self.scope,
            truth=truth,
            verdict=self.rule.verdict,
            strength=min(1.0, max(0.0, strength)) if holds else 0.0,
            evidence=tuple(self.evidence),
            missing=tuple(self.missing) if truth is not Truth.FALSE else (),
            remedies=remedies_for(fitting(proposed, deployment, signals, culprits), deployment, culprits)
            if holds
            else (),
            headline=headline if holds else "",
            decisive=worst(at_best, *qualities) if holds and qualities and complete else None,
            culprits=tuple(culprits) if holds else (),
            covers=self.rule.covers,
            covers_culprits_only=self.rule.covers_culprits_only,
            urgent=self.rule.urgent,
        )


def bench(rule: Rule, case: Case, instance: Instance | None = None) -> Bench:
    """A bench for an instance, or for the whole deployment."""
    return Bench(rule, case, instance_scope(instance.name) if instance is not None else case.signals.deployment)


def past(value: float | None, limit: float) -> float:
    """Strength of a value that should stay below a limit: 0.5 at the limit, towards 1 far beyond it."""
    if value is None or limit <= 0:
        return 0.5
    return value / (value + limit)
