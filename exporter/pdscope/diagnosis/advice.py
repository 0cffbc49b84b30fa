"""Which of all remedies are offered, and in which order: the verdict's own, and never two that contradict each other.

Each finding keeps its remedies. What a person reads first is chosen from them: beside a cause nobody treats a symptom.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pdscope.diagnosis.remedies import undo_each_other
from pdscope.model.finding import Finding, Remedy, Truth, Verdict

_OF_A_RULE = 2
"""Remedies of a rule beside the verdict."""
_BESIDE = 4
"""Of all of them together."""

_BLIND = frozenset({Verdict.METRICS_UNTRUSTED, Verdict.INSUFFICIENT_DATA})


class Place(StrEnum):
    """Why a group of remedies is offered."""

    FIRST = "first"
    VERDICT = "verdict"
    BESIDE = "beside"


@dataclass(frozen=True, slots=True)
class Advice:
    """Remedies that are offered because of one rule.

    Attributes:
        place: where the group stands.
        rule: whose remedies they are.
        culprits: instances that the rule names.
        remedies: most useful first; none stands in two groups.
    """

    place: Place
    rule: str
    culprits: tuple[str, ...]
    remedies: tuple[Remedy, ...]


def advise(verdict: Verdict, findings: Sequence[Finding]) -> tuple[Advice, ...]:
    """What to do, the most pressing first: what is urgent, what helps against the verdict, a little beside it.

    Args:
        verdict: the answer.
        findings: all of it, those of the verdict in the order in which they speak.

    Returns:
        Groups that are not empty. No remedy stands there twice, and none with its opposite: the first one counts.
    """
    holding = [f for f in findings if f.truth is Truth.TRUE]
    own = [f for f in holding if f.verdict is verdict]
    urgent = [f for f in holding if f.urgent]
    rest = [f for f in holding if not f.urgent and _counts_beside(f, verdict, own)]
    chosen = _Chosen()
    groups = [chosen.take(Place.FIRST, rule, (f for f in urgent if f.rule == rule)) for rule in _rules(urgent)]
    groups.append(chosen.take(Place.VERDICT, verdict.value, own))
    left = _BESIDE
    for rule in _rules(rest):
        group = chosen.take(Place.BESIDE, rule, (f for f in rest if f.rule == rule), most=min(left, _OF_A_RULE))
        left -= len(group.remedies)
        groups.append(group)
    return tuple(group for group in groups if group.remedies)


def own_first(verdict: Verdict, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings with those that hold for the verdict in front; else in their order."""
    return tuple(sorted(findings, key=lambda f: not (f.truth is Truth.TRUE and f.verdict is verdict)))


def _counts_beside(finding: Finding, verdict: Verdict, own: Sequence[Finding]) -> bool:
    """Whether it is worth treating: no other verdict is, where figures are wrong or too few to believe it."""
    if finding.verdict is verdict or (finding.verdict is not None and verdict in _BLIND):
        return False
    return not _explained(finding, own)


def _explained(finding: Finding, own: Sequence[Finding]) -> bool:
    """Whether a finding tells of a symptom of the verdict; nothing is one of a verdict that no longer holds."""
    on_them = {*finding.culprits} <= {name for f in own for name in f.culprits}
    if any(finding.verdict in f.outranks for f in own):
        return on_them
    causes = [f for f in own if finding.rule in f.covers]
    return bool(causes) and (on_them or not all(f.covers_culprits_only for f in causes))


def _rules(findings: Iterable[Finding]) -> Iterable[str]:
    """Each rule once, in the order of the findings."""
    return dict.fromkeys(f.rule for f in findings)


class _Chosen:
    """What is offered already."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def take(self, place: Place, rule: str, findings: Iterable[Finding], most: int | None = None) -> Advice:
        """The remedies of a rule that are new and contradict none before them."""
        taken: list[Remedy] = []
        culprits: dict[str, None] = {}
        for finding in findings:
            culprits.update(dict.fromkeys(finding.culprits))
            for remedy in finding.remedies:
                if (most is None or len(taken) < most) and self._fits(remedy.id):
                    self._ids.add(remedy.id)
                    taken.append(remedy)
        return Advice(place, rule, tuple(culprits), tuple(taken))

    def _fits(self, remedy: str) -> bool:
        return remedy not in self._ids and not any(undo_each_other(remedy, other) for other in self._ids)
