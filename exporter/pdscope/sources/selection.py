"""Which samples of a page belong to the instance that it is read for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pdscope.sources.adapter import Adapter, Owner, Ownership
from pdscope.sources.exposition import SampleId

_RANGES = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_NUMBER = re.compile("[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Selection:
    """What is meant of a page.

    Attributes:
        select: label -> device numbers or a pattern, as configured; all have to fit.
        name, port: of the instance, by which an unselected device may say that it is its own.
    """

    select: tuple[tuple[str, str], ...] = ()
    name: str = ""
    port: str = ""

    @classmethod
    def of(cls, select: Mapping[str, str], *, name: str = "", port: str = "") -> Selection:
        """With the labels in one order, so that equal selections are equal."""
        return cls(tuple(sorted(select.items())), name, port)

    def indices(self, samples: Sequence[SampleId], adapters: Sequence[Adapter]) -> Iterator[int]:
        """Positions of the samples that are meant."""
        aliases = {label: names for adapter in adapters for label, names in adapter.aliases.items()}
        labels = [dict(sample.labels) for sample in samples]
        if self.select:
            return (i for i, found in enumerate(labels) if _selected(found, self.select, aliases))
        for owner in dict.fromkeys(owner for adapter in adapters for owner in adapter.owners):
            own = self._own(owner, labels, aliases)
            if own is not None:
                return iter(own)
        return iter(range(len(samples)))

    def _own(
        self, owner: Owner, labels: Sequence[Mapping[str, str]], aliases: Mapping[str, tuple[str, ...]]
    ) -> list[int] | None:
        """The samples that name the instance; None where this label decides nothing."""
        wanted = self.name if owner.by is Ownership.NAME else self.port
        if not wanted:
            return None
        said = [_value(found, owner.label, aliases) for found in labels]
        own = [i for i, value in enumerate(said) if wanted in value.split(";")]
        return own if own or (owner.strict and any(said)) else None


EVERYTHING = Selection()
"""The whole page."""


def _selected(
    labels: Mapping[str, str], select: Sequence[tuple[str, str]], aliases: Mapping[str, tuple[str, ...]]
) -> bool:
    return all(matcher(pattern)(_value(labels, label, aliases)) for label, pattern in select)


def _value(labels: Mapping[str, str], label: str, aliases: Mapping[str, tuple[str, ...]]) -> str:
    """The label under the first of its spellings that is there and not empty."""
    return next((value for name in (label, *aliases.get(label, ())) if (value := labels.get(name))), "")


def matcher(pattern: str) -> Callable[[str], bool]:
    """`0-3,6`: numbers; anything else: a regular expression for the whole value."""
    if not _RANGES.fullmatch(pattern):
        return lambda value: re.fullmatch(pattern, value) is not None
    ranges = [part.partition("-") for part in pattern.split(",")]
    return lambda value: (
        _NUMBER.fullmatch(value) is not None
        and any(int(first) <= int(value) <= int(last or first) for first, _, last in ranges)
    )
