"""What an engine that states no role has done so far: its counters tell prefill from decode."""

from __future__ import annotations

from pdscope.collect.store import Store, Stream
from pdscope.config import DeploymentConfig
from pdscope.model.metric import Metric
from pdscope.model.scrape import Scrape, SeriesKey
from pdscope.model.topology import Role
from pdscope.sources.bundle import PageKind

_MOSTLY = 0.9
"""Share of prompt tokens, one way or the other, that shows what an instance does; between lies no answer."""
_PAGES = 3


def shown_roles(config: DeploymentConfig, store: Store) -> dict[str, Role]:
    """By instance name, of those whose role is not configured; one that has done nothing yet is not in it."""
    pages = {i.name: newest_good(store, i.name) for i in config.instances if i.role is None}
    shown = {name: behaves_as(page) for name, page in pages.items() if page is not None}
    return {name: role for name, role in shown.items() if role is not None}


def newest_good(store: Store, instance: str) -> Scrape | None:
    """The newest of its last few pages that was read: one failure changes nothing of what a program is."""
    pages = store.recent(Stream(instance, PageKind.METRICS, instance), _PAGES)
    return next((page for page in reversed(pages) if page.ok), None)


def behaves_as(scrape: Scrape) -> Role | None:
    """The role that an engine's counters show, where it states none; None without traffic, or between roles.

    A decode instance has received nearly all its prompt tokens, a prefill instance none, and that one generates a
    single token a request: no time between two tokens.
    """
    received = _total(scrape, Metric.KV_RECEIVED_TOKENS)
    own = _total(scrape, Metric.PREFILL_COMPUTED_TOKENS) + _total(scrape, Metric.PREFILL_CACHED_TOKENS)
    if received + own <= 0:
        return None
    share, gaps = received / (received + own), _observations(scrape, Metric.ITL)
    if share >= _MOSTLY:
        return Role.DECODE
    if share > 1 - _MOSTLY or gaps is None:
        return None
    if gaps > 0:
        return Role.UNIFIED
    finished = _total(scrape, Metric.REQUESTS_FINISHED)
    return Role.PREFILL if finished > 0 and _total(scrape, Metric.GENERATED_TOKENS) <= finished / _MOSTLY else None


def requests_finished(scrape: Scrape) -> float:
    """How many requests the program has finished since its start: what it did for a few of them proves little."""
    return _total(scrape, Metric.REQUESTS_FINISHED)


def _total(scrape: Scrape, metric: Metric) -> float:
    """A counter; what is not on the page counts for nothing."""
    if scrape.schema is None or scrape.row is None or SeriesKey(metric) not in scrape.schema.scalars:
        return 0.0
    value = float(scrape.row[scrape.schema.scalars[SeriesKey(metric)]])
    return max(0.0, value) if value == value else 0.0  # noqa: PLR0124 - NaN is no event


def _observations(scrape: Scrape, metric: Metric) -> float | None:
    """How often a histogram was fed; None where the page has none and will have none."""
    if scrape.schema is None or scrape.row is None:
        return None
    slot = scrape.schema.histograms.get(SeriesKey(metric))
    if slot is None:
        return 0.0 if metric in scrape.schema.lazy else None
    return float(scrape.row[slot.start + len(slot.bounds) - 1])
