"""Names of devices, compared as a person would: a vendor in front, spaces, dashes and capitals make no difference."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final

_VENDOR_WORDS: Final = ("nvidia", "amd", "instinct", "intel", "huawei", "ascend")
_GAPS = re.compile(r"[\s_-]+")
_NEAR = 0.6


def plain(name: str) -> str:
    """The name without what makes no difference; a vendor word alone stays, since then it is all there is."""
    text = _GAPS.sub("", name).lower()
    shortened = True
    while shortened:
        shortened = False
        for word in _VENDOR_WORDS:
            if text.startswith(word) and text != word:
                text, shortened = text.removeprefix(word), True
    return text


def nearest(name: str, known: Mapping[str, Iterable[str]], most: int = 3) -> tuple[str, ...]:
    """Names that `name` may be a slip of, the nearest first.

    Args:
        name: as written.
        known: plain name -> the names to propose for it.
        most: how many at most.
    """
    matches = difflib.get_close_matches(plain(name), known, n=most, cutoff=_NEAR)
    return tuple(dict.fromkeys(proposed for match in matches for proposed in known[match]))[:most]
