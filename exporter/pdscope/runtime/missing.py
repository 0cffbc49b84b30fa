"""What the pages lack of what their adapters promise for the version and role of their programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pdscope.collect.store import Stream
from pdscope.model.metric import Kind, Metric
from pdscope.model.scrape import Scrape, SeriesKey
from pdscope.model.topology import Role
from pdscope.sources.adapter import Adapter
from pdscope.sources.promises import promised_metrics


@dataclass(slots=True)
class Missing:
    """Compares pages with promises. Series that come with their first event are missed once they were there.

    Attributes:
        adapters: by name, as scrapes call their source.
    """

    adapters: Mapping[str, Adapter]
    _seen: dict[Stream, frozenset[Metric]] = field(default_factory=dict)
    _counters: dict[Stream, dict[SeriesKey, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, adapters: Sequence[Adapter]) -> Missing:
        """For all these adapters."""
        return cls({adapter.name: adapter for adapter in adapters})

    def note(self, stream: Stream, scrape: Scrape) -> None:
        """Remember the series of first events on a page, until the program restarts.

        It has restarted when a counter fell or when none of those series is left.
        """
        if scrape.schema is None:
            return
        there = _on_page(scrape) & scrape.schema.lazy
        counters = _counters(scrape)
        before = self._counters.get(stream, {})
        restarted = not there or any(counters[key] < value for key, value in before.items() if key in counters)
        self._seen[stream] = there if restarted else self._seen.get(stream, frozenset()) | there
        self._counters[stream] = counters

    def metrics(self, stream: Stream, scrape: Scrape, version: str | None, role: Role | None) -> frozenset[Metric]:
        """What the page lacks; nothing where it could not be read, since then something else is wrong.

        Args:
            stream: of the scrape.
            scrape: the newest.
            version: of the program; None: only what every version promises counts.
            role: of the program; None: only what every role promises counts.
        """
        adapter = self.adapters.get(scrape.source)
        if adapter is None or not scrape.ok or scrape.schema is None:
            return frozenset()
        not_yet = scrape.schema.lazy - self._seen.get(stream, frozenset())
        return promised_metrics(adapter.promised, version, role) - _on_page(scrape) - not_yet


def _counters(scrape: Scrape) -> dict[SeriesKey, float]:
    schema, row = scrape.schema, scrape.row
    if schema is None or row is None:
        return {}
    found = schema.scalars.items()
    return {key: float(row[index]) for key, index in found if key.metric.spec.kind is Kind.COUNTER}


def _on_page(scrape: Scrape) -> frozenset[Metric]:
    schema = scrape.schema
    return frozenset() if schema is None else frozenset(key.metric for key in (*schema.scalars, *schema.histograms))
