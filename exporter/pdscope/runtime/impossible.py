"""Tells of numbers that cannot be: dropped without a word, a figure would be missing and nobody would know why."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from pdscope.model.metric import Metric
from pdscope.model.scrape import Scrape

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Impossible:
    """Logs each metric of a target once: what a page prints wrong, it prints wrong at every scrape."""

    _told: set[tuple[str, Metric]] = field(default_factory=set)

    def note(self, scrape: Scrape) -> None:
        """Log what was dropped of a scrape, unless it was told before."""
        for metric, value in scrape.quality.impossible:
            if (scrape.target, metric) not in self._told:
                self._told.add((scrape.target, metric))
                _log.warning(
                    "target %s: %s cannot be %g (%s): such values are dropped, the figure counts as missing",
                    scrape.target,
                    metric.name.lower(),
                    value,
                    metric.spec.unit,
                )
