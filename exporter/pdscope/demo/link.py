"""The KV link."""

from __future__ import annotations

from collections.abc import Callable

from pdscope.demo.agenda import Agenda


class Link:
    """The KV link between the two instances: first come, first served, at its full bandwidth."""

    def __init__(self, agenda: Agenda, bytes_per_second: float, latency_seconds: float) -> None:
        self._agenda = agenda
        self._bytes_per_second = bytes_per_second
        self._latency_seconds = latency_seconds
        self._free_at = 0.0

    def send(self, size_bytes: int, confirmed: Callable[[], None]) -> None:
        """Queues `size_bytes`, and calls `confirmed` when they have arrived and the sender knows."""
        begins = max(self._agenda.now_seconds, self._free_at)
        self._free_at = begins + size_bytes / self._bytes_per_second
        self._agenda.at(self._free_at + self._latency_seconds, confirmed)
