"""Programs whose series can be given another prefix: why such a page is of nobody that is known."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from pdscope.sources.adapter import Adapter


def renamed(adapters: Iterable[Adapter], body: bytes) -> str | None:
    """Whose series are on a page under another prefix, and what gives them that; None where there is no such thing.

    Args:
        adapters: that do not recognise the page.
        body: of the page, as received.
    """
    for adapter in adapters:
        if not adapter.prefix_setting:
            continue
        if _other_prefix(adapter).search(body):
            # the prefix is not told: what stands on a page that needs a password is not for everybody
            return (
                f"the page prints the {_prefix(adapter)}_ series under another prefix, which nobody reads: "
                f"start the program without {adapter.prefix_setting}"
            )
    return None


def _prefix(adapter: Adapter) -> str:
    return adapter.probe[0].partition("_")[0]


@lru_cache
def _pattern(own: str, names: frozenset[str]) -> re.Pattern[bytes]:
    endings = "|".join(sorted(map(re.escape, names)))
    # bounded, so that a line without end costs no more than any other
    return re.compile(rf"^(?!{own}_)[A-Za-z]\w{{0,63}}?_(?:{endings})(?:_count)?[{{ ]".encode(), re.MULTILINE)


def _other_prefix(adapter: Adapter) -> re.Pattern[bytes]:
    own = _prefix(adapter)
    names = (series.name for spellings in adapter.series.values() for series in spellings)
    return _pattern(own, frozenset(n.removeprefix(f"{own}_") for n in names if n.startswith(adapter.probe)))
