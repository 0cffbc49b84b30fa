"""What was said lately of a deployment, short: values that the daemon keeps and every output may show."""

from __future__ import annotations

from dataclasses import dataclass

from pdscope.model.finding import Confidence, Phase, Verdict
from pdscope.model.signal import SignalId


@dataclass(frozen=True, slots=True)
class Entry:
    """One diagnosis, short. `at` is unix seconds."""

    at: float
    verdict: Verdict
    phase: Phase
    confidence: Confidence
    summary: str


@dataclass(frozen=True, slots=True)
class Shift:
    """A signal that moved around a change: its values a window before the change and at it, in the signal's unit."""

    signal: SignalId
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Change:
    """The verdict of a deployment became another one. `at` is unix seconds; the signals that moved most come first."""

    at: float
    deployment: str
    before: Verdict
    after: Verdict
    summary: str
    shifts: tuple[Shift, ...]


@dataclass(frozen=True, slots=True)
class Past:
    """All that is remembered of one deployment, oldest first."""

    deployment: str
    entries: tuple[Entry, ...] = ()
    changes: tuple[Change, ...] = ()
