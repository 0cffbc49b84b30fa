"""The last scrapes of every target, and windows over them. Memory is bounded by age and by count."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from pdscope.model.scrape import Scrape
from pdscope.model.window import Window, build_window


@dataclass(frozen=True, slots=True)
class Stream:
    """One source of one target, read for one instance: the key under which scrapes are kept.

    Attributes:
        target: instance or device that is asked.
        kind: which of its pages: `metrics`, `loads` ...
        serves: instance that the data are about.
    """

    target: str
    kind: str
    serves: str


@dataclass(slots=True)
class Store:
    """Scrapes by stream.

    Attributes:
        retention_seconds: a scrape older than this, as seen from the newest of its stream, is forgotten.
        max_scrapes: of one stream, whatever their age.
    """

    retention_seconds: float
    max_scrapes: int = 720
    _scrapes: dict[Stream, deque[Scrape]] = field(default_factory=dict)
    _failed: dict[Stream, int] = field(default_factory=dict)

    def add(self, stream: Stream, scrape: Scrape) -> None:
        """Keep a scrape; failures are kept too, so that the window shows gaps where there were gaps."""
        kept = self._scrapes.setdefault(stream, deque(maxlen=self.max_scrapes))
        kept.append(scrape)
        self._failed[stream] = 0 if scrape.ok else self._failed.get(stream, 0) + 1
        while kept and kept[0].at < scrape.at - self.retention_seconds:
            kept.popleft()

    def window(self, stream: Stream, now: float, seconds: float) -> Window | None:
        """From the last good scrape at or before `now - seconds` to the newest at or before `now`; None without any.

        The scrape just before the window is part of it: a rate over the whole window needs its value at the beginning.
        """
        good = [s for s in self._scrapes.get(stream, ()) if s.ok and s.at <= now]
        before = [i for i, s in enumerate(good) if s.at <= now - seconds]
        return build_window(good[before[-1] :] if before else good)

    def newest(self, stream: Stream) -> Scrape | None:
        """The last scrape, good or not."""
        kept = self._scrapes.get(stream)
        return kept[-1] if kept else None

    def recent(self, stream: Stream, count: int) -> tuple[Scrape, ...]:
        """The last scrapes, good or not, at most `count` of them, the newest last."""
        return tuple(self._scrapes.get(stream, ()))[-count:]

    def failed_in_a_row(self, stream: Stream) -> int:
        """How many of the newest scrapes brought nothing, since the last good one; also those that are not kept."""
        return self._failed.get(stream, 0)

    def streams(self) -> tuple[Stream, ...]:
        """All streams that have scrapes."""
        return tuple(self._scrapes)

    def forget(self, stream: Stream) -> None:
        """Drop a stream whose target is gone."""
        self._scrapes.pop(stream, None)
        self._failed.pop(stream, None)
