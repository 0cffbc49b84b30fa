"""What was said lately, and what changed when the verdict did: for whoever comes five minutes after the alert."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from pdscope.model.history import Change, Entry, Past, Shift
from pdscope.model.report import DeploymentReport, Report
from pdscope.model.signal import SignalId

_NOTABLE_RATIO = 0.2
_MAX_SHIFTS = 8


@dataclass(slots=True)
class _Track:
    """Of one deployment; `values` reach back to the last cycle at or before the beginning of the window."""

    entries: deque[Entry]
    changes: deque[Change]
    values: deque[tuple[float, Mapping[SignalId, float]]] = field(default_factory=deque)


@dataclass(slots=True)
class History:
    """Bounded memory of diagnoses, and, kept longer because they are fewer, of verdict changes.

    Attributes:
        max_entries: diagnoses kept of each deployment.
        max_changes: changes kept of each deployment, so that one that flaps does not push out the others.
    """

    max_entries: int = 360
    max_changes: int = 100
    _tracks: dict[str, _Track] = field(default_factory=dict)

    def add(self, report: Report) -> None:
        """Remember one cycle; deployments that are not in it any more are forgotten."""
        for gone in set(self._tracks) - {d.deployment.name for d in report.deployments}:
            del self._tracks[gone]
        for deployment in report.deployments:
            self._add(deployment, report)

    def past(self, deployment: str) -> Past:
        """What is remembered of a deployment; nothing of one that was in no cycle."""
        track = self._tracks.get(deployment)
        return Past(deployment) if track is None else Past(deployment, tuple(track.entries), tuple(track.changes))

    def _add(self, deployment: DeploymentReport, report: Report) -> None:
        diagnosis = deployment.diagnosis
        name = diagnosis.deployment
        track = self._tracks.get(name)
        if track is None:
            track = self._tracks[name] = _Track(deque(maxlen=self.max_entries), deque(maxlen=self.max_changes))
        values = {s.id: s.value for s in deployment.signals.of(deployment.signals.deployment)}
        begins = report.generated_at - report.window_seconds
        while len(track.values) > 1 and track.values[1][0] <= begins:
            track.values.popleft()
        previous = track.entries[-1] if track.entries else None
        if previous is not None and previous.verdict is not diagnosis.verdict:
            shifts = _shifts(track.values[0][1], values)
            track.changes.append(
                Change(diagnosis.at, name, previous.verdict, diagnosis.verdict, diagnosis.summary, shifts)
            )
        track.values.append((report.generated_at, values))
        track.entries.append(
            Entry(diagnosis.at, diagnosis.verdict, diagnosis.phase, diagnosis.confidence, diagnosis.summary)
        )


def _shifts(before: Mapping[SignalId, float], after: Mapping[SignalId, float]) -> tuple[Shift, ...]:
    """Signals that moved by a fifth or more, the largest relative moves first."""
    moved = [
        (abs(after[signal] - old) / max(abs(old), abs(after[signal])), Shift(signal, old, after[signal]))
        for signal, old in before.items()
        if signal in after and after[signal] != old
    ]
    notable = sorted((move for move in moved if move[0] >= _NOTABLE_RATIO), key=lambda move: -move[0])
    return tuple(shift for _, shift in notable[:_MAX_SHIFTS])
