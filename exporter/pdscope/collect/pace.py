"""How often one target is asked: less often while it fails, and never so often that its page is a burden to it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

MAX_BACK_OFF = 8
"""A target that fails is asked at least every so many intervals."""
MAX_STRETCH = 6.0
"""Greatest factor for a page that costs too much: beyond it the figures would be too few to judge by."""
MAX_INTERVAL_SECONDS = 60.0
"""Neither makes an interval longer than this, so that a target that comes back is seen within a minute."""
COST_SHARE = 0.02
"""Share of its time that a target may spend on our questions: engines make a page on the loop that serves users."""

_ANSWERS = 3


@dataclass(slots=True)
class Pace:
    """The interval of one target, from what its scrapes have brought so far.

    Attributes:
        configured_seconds: the interval of the configuration; never shortened.
        failures: failed scrapes in a row.
    """

    configured_seconds: float
    failures: int = 0
    _costs: deque[float] = field(default_factory=lambda: deque(maxlen=_ANSWERS))

    def failed(self) -> None:
        """The last scrape brought nothing."""
        self.failures += 1

    def succeeded(self, cost_seconds: float | None) -> None:
        """The last scrape brought a page that took its target so long; None: not known."""
        self.failures = 0
        if cost_seconds is not None:
            self._costs.append(cost_seconds)

    @property
    def back_off(self) -> int:
        """Factor for failures: 1 after the first, which may be an accident, then 2, 4 and 8."""
        doublings = min(max(self.failures - 1, 0), MAX_BACK_OFF.bit_length() - 1)
        return 1 << doublings

    @property
    def cost_seconds(self) -> float | None:
        """The least of the last answers, since one slow answer tells of a busy moment; None until there are enough."""
        return min(self._costs) if len(self._costs) == _ANSWERS else None

    @property
    def stretch(self) -> float:
        """Factor by which the interval is stretched so that the page costs at most its share."""
        cost = self.cost_seconds
        return 1.0 if cost is None else min(max(1.0, cost / (COST_SHARE * self.configured_seconds)), MAX_STRETCH)

    @property
    def interval_seconds(self) -> float:
        """From the start of the last scrape to the next."""
        longest = max(self.configured_seconds, MAX_INTERVAL_SECONDS)
        return min(self.configured_seconds * max(float(self.back_off), self.stretch), longest)
