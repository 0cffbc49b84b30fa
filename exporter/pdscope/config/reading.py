"""Parts of a document as it was written, of any shape: what is not there, or not of the right kind, is empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pdscope.config.problems import Location


def mapping(value: Any) -> dict[str, Any]:
    """The value where it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def given(value: Any) -> dict[str, Any]:
    """The same without keys that have no value, which count as left out."""
    return {key: item for key, item in mapping(value).items() if item is not None}


def items(holder: Mapping[str, Any], key: str, where: Location) -> Iterator[tuple[Location, dict[str, Any]]]:
    """The mappings in the list `holder[key]`, each with its place; `where` is that of `holder`."""
    value = holder.get(key)
    for index, item in enumerate(value if isinstance(value, list) else ()):
        if isinstance(item, dict):
            yield (*where, key, index), item
