"""What `/diagnose?debug=true` adds: the values behind a diagnosis, for whoever doubts it. No secrets, no pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pdscope.model.scrape import FailureReason
from pdscope.render.json import timestamp


@dataclass(frozen=True, slots=True)
class ScrapeNote:
    """One line of the scrape log.

    Attributes:
        page: which page of the target was asked for.
        at: unix seconds.
        reason: why it brought nothing; None: it brought data. Details stay in the log: they may quote the target.
    """

    target: str
    page: str
    at: float
    reason: FailureReason | None = None
    duration_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class DebugFacts:
    """What is behind the diagnosis of one deployment.

    Attributes:
        instances: instance -> canonical metric -> value of the newest scrape, in the metric's base unit.
        thresholds: rule -> threshold -> what applies.
        scrapes: the last ones, oldest first.
    """

    instances: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    thresholds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    scrapes: tuple[ScrapeNote, ...] = ()


def debug_document(facts: DebugFacts) -> dict[str, Any]:
    """The value of the key `debug` of a deployment."""
    return {
        "instances": {name: dict(values) for name, values in facts.instances.items()},
        "thresholds": {rule: dict(values) for rule, values in facts.thresholds.items()},
        "scrapes": [
            {
                "target": note.target,
                "page": note.page,
                "at": timestamp(note.at),
                "ok": note.reason is None,
                "reason": note.reason,
                "duration_seconds": note.duration_seconds,
            }
            for note in facts.scrapes
        ],
    }
