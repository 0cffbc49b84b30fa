"""A verdict that does not flap: a change is shown only when it has been seen often enough. For the live daemon only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from pdscope.diagnosis.advice import own_first
from pdscope.model.finding import Diagnosis, PendingChange, Verdict

RAISE_AFTER = 3
CLEAR_AFTER = 5
_CLEAR = (Verdict.HEALTHY, Verdict.IDLE)


@dataclass(frozen=True, slots=True)
class Standing:
    """What is shown for one deployment.

    Attributes:
        shown: the last evaluation that agreed with the verdict shown.
        since: unix seconds since which the verdict holds.
        against: verdicts of the evaluations in a row that disagreed, oldest first.
    """

    shown: Diagnosis
    since: float
    against: tuple[Verdict, ...] = ()


def settle(previous: Standing | None, now: Diagnosis) -> tuple[Standing, Diagnosis]:
    """Fold a new evaluation into what is shown.

    Evaluations that disagree in a row are counted whatever they say, so that a service that alternates between two
    troubles does not look healthy; when there are enough, the most frequent is shown (of equal ones the newest).
    A trouble is shown after three, its end after five. The first evaluation is shown as it is.

    Args:
        previous: what was shown before; None at the start.
        now: the new evaluation, without hysteresis.

    Returns:
        The new standing, and the diagnosis to show: signals, phase and findings are always those of now; verdict,
        summary, culprits and next steps are those of the last evaluation that agreed, with the pending change: the
        verdict that most of those that disagree name, and how many of them do.
    """
    if previous is None:
        return Standing(now, now.at), replace(now, since=now.at)
    if now.verdict is previous.shown.verdict:
        return Standing(now, previous.since), replace(now, since=previous.since)
    against = (*previous.against, now.verdict)
    winner = _most_frequent(against)
    if len(against) >= (CLEAR_AFTER if winner in _CLEAR else RAISE_AFTER) and winner is now.verdict:
        return Standing(now, now.at), replace(now, since=now.at)
    kept = against[-CLEAR_AFTER:]  # what is older than the longest count can no longer matter
    shown = replace(
        now,
        verdict=previous.shown.verdict,
        confidence=previous.shown.confidence,
        summary=f"{previous.shown.summary} Now, to be confirmed: {now.summary}",
        culprits=previous.shown.culprits,
        next_steps=previous.shown.next_steps,
        since=previous.since,
        findings=own_first(previous.shown.verdict, now.findings),
        pending=PendingChange(winner, against.count(winner)),
    )
    return Standing(previous.shown, previous.since, kept), shown


def _most_frequent(verdicts: tuple[Verdict, ...]) -> Verdict:
    counts = Counter(verdicts)
    newest_first = list(dict.fromkeys(reversed(verdicts)))
    return max(newest_first, key=lambda verdict: counts[verdict])
