"""Collects signals while they are computed; unknown values never get in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from pdscope.analysis.histograms import Quantile
from pdscope.model.signal import Quality, Scope, ScopeKind, Signal, SignalId, SignalSet


@dataclass(slots=True)
class Board:
    """Signals of one deployment in the making.

    Attributes:
        ages_seconds: age of the newest datum of each instance, by its name.
    """

    deployment: str
    ages_seconds: Mapping[str, float] = field(default_factory=dict)
    signals: list[Signal] = field(default_factory=list)
    _known: dict[tuple[SignalId, Scope], Signal] = field(default_factory=dict)

    @property
    def scope(self) -> Scope:
        """The deployment's own scope."""
        return Scope(ScopeKind.DEPLOYMENT, self.deployment)

    def put(  # noqa: PLR0913 - a figure without one of these could not be judged by its reader
        self,
        signal: SignalId,
        value: float | None,
        quality: Quality,
        source: str,
        *,
        scope: Scope | None = None,
        age_seconds: float | None = None,
        samples: int = 0,
        bounds: tuple[float, float] | None = None,
    ) -> None:
        """Add a figure; None and numbers that are not finite mean unknown and are left out.

        A figure that does not say how old it is, is as old as the data of its instance, or of the deployment's instance
        that answered longest ago; a configured one has no age.
        """
        if value is None or not math.isfinite(value):
            return
        where = scope or self.scope
        limits = bounds if bounds is not None and all(map(math.isfinite, bounds)) else None
        age = self._age(where, quality) if age_seconds is None else age_seconds
        self.add(Signal(signal, where, float(value), quality, source, max(0.0, age), samples, limits))

    def add(self, made: Signal) -> None:
        """Add a figure that is complete."""
        self.signals.append(made)
        self._known[made.id, made.scope] = made

    def put_quantile(
        self,
        signal: SignalId,
        quantile: Quantile | None,
        quality: Quality,
        source: str,
        *,
        samples: int,
        age_seconds: float,
    ) -> None:
        """Add a quantile with the bucket that hides it; the overflow bucket gives but a lower bound: `estimated`."""
        if quantile is None:
            return
        overflow = math.isinf(quantile.high)
        self.put(
            signal,
            quantile.value,
            Quality.ESTIMATED if overflow else quality,
            f"{source}, at least: beyond the last bucket" if overflow else source,
            samples=samples,
            age_seconds=age_seconds,
            bounds=(quantile.low, quantile.high),
        )

    def value(self, signal: SignalId, scope: Scope | None = None) -> float | None:
        """A figure put before, or None."""
        known = self._known.get((signal, scope or self.scope))
        return None if known is None else known.value

    def signal(self, signal: SignalId, scope: Scope) -> Signal | None:
        """A figure put before with all that is known of it, or None."""
        return self._known.get((signal, scope))

    def withdraw(self, signal: SignalId, scope: Scope) -> Signal | None:
        """Take a figure back that is not to be used; returns it, or None where there was none."""
        known = self._known.pop((signal, scope), None)
        if known is not None:
            self.signals.remove(known)
        return known

    def quality(self, signal: SignalId) -> Quality:
        """Quality of a figure of the deployment put before; of an unknown one, the worst."""
        known = self._known.get((signal, self.scope))
        return Quality.ASSUMED if known is None else known.quality

    def source(self, signal: SignalId) -> str:
        """Origin of a figure of the deployment put before."""
        known = self._known.get((signal, self.scope))
        return "unknown" if known is None else known.source

    def _age(self, where: Scope, quality: Quality) -> float:
        if quality is Quality.ASSUMED:
            return 0.0
        oldest = max(self.ages_seconds.values(), default=0.0)
        return self.ages_seconds.get(where.name, oldest) if where.kind is ScopeKind.INSTANCE else oldest

    def finish(self) -> SignalSet:
        """The immutable set."""
        return SignalSet(self.deployment, self.signals)
