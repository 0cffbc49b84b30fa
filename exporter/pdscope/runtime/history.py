"""What was said lately, and what changed when the verdict did: for whoever comes five minutes after the alert."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from pdscope.model.finding import Confidence, Phase, Verdict
from pdscope.model.report import DeploymentReport, Report
from pdscope.model.signal import SignalId

_NOTABLE = 0.2
_MAX_SHIFTS = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """One diagnosis, short."""

    at: float
    verdict: Verdict
    phase: Phase
    confidence: Confidence
    summary: str


@dataclass(frozen=True, slots=True)
class Shift:
    """A signal that moved around a change: its values a window before the change and at it."""

    signal: SignalId
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Change:
    """The verdict of a deployment became another one."""

    at: float
    deployment: str
    before: Verdict
    after: Verdict
    summary: str
    shifts: tuple[Shift, ...]


@dataclass(slots=True)
class _Track:
    entries: deque[Entry]
    values: deque[tuple[float, Mapping[SignalId, float]]]


@dataclass(slots=True)
class History:
    """Bounded memory of diagnoses, and, kept longer because they are fewer, of verdict changes.

    Attributes:
        max_entries: diagnoses kept of each deployment.
        max_changes: changes kept of all deployments together.
    """

    max_entries: int = 360
    max_changes: int = 200
    changes: deque[Change] = field(default_factory=deque)
    _tracks: dict[str, _Track] = field(default_factory=dict)

    def add(self, report: Report) -> None:
        """Remember one cycle; deployments that are not in it any more are forgotten."""
        names = {d.deployment.name for d in report.deployments}
        for gone in set(self._tracks) - names:
            del self._tracks[gone]
        for deployment in report.deployments:
            self._add(deployment, report)

    def entries(self, deployment: str) -> tuple[Entry, ...]:
        """Diagnoses of a deployment, oldest first."""
        track = self._tracks.get(deployment)
        return tuple(track.entries) if track is not None else ()

    def deployments(self) -> tuple[str, ...]:
        """Deployments with a history."""
        return tuple(self._tracks)

    def _add(self, deployment: DeploymentReport, report: Report) -> None:
        diagnosis = deployment.diagnosis
        name = diagnosis.deployment
        track = self._tracks.get(name)
        if track is None:
            track = self._tracks[name] = _Track(deque(maxlen=self.max_entries), deque())
        values = {s.id: s.value for s in deployment.signals.of(deployment.signals.deployment)}
        while track.values and track.values[0][0] < report.generated_at - report.window_seconds:
            earlier = track.values.popleft()
            if not track.values or track.values[0][0] > report.generated_at - report.window_seconds:
                track.values.appendleft(earlier)  # the last one before the window is its beginning
                break
        previous = track.entries[-1] if track.entries else None
        if previous is not None and previous.verdict is not diagnosis.verdict:
            shifts = _shifts(track.values[0][1], values) if track.values else ()
            change = Change(diagnosis.at, name, previous.verdict, diagnosis.verdict, diagnosis.summary, shifts)
            self.changes.append(change)
            while len(self.changes) > self.max_changes:
                self.changes.popleft()
        track.values.append((report.generated_at, values))
        track.entries.append(
            Entry(diagnosis.at, diagnosis.verdict, diagnosis.phase, diagnosis.confidence, diagnosis.summary)
        )


def _shifts(before: Mapping[SignalId, float], after: Mapping[SignalId, float]) -> tuple[Shift, ...]:
    """Signals that moved by a fifth or more, the largest relative moves first."""
    moved = [
        Shift(signal, old, after[signal])
        for signal, old in before.items()
        if signal in after
        and abs(after[signal] - old) >= _NOTABLE * max(abs(old), abs(after[signal]))
        and after[signal] != old
    ]
    moved.sort(key=lambda s: -abs(s.after - s.before) / max(abs(s.before), abs(s.after)))
    return tuple(moved[:_MAX_SHIFTS])
