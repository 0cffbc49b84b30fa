"""How the libraries that programs print their pages with differ, although all of it is text format 0.0.4."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite

from prometheus_client.utils import floatToGoString

from pdscope.demo.pages.families import Family


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one library does.

    Attributes:
        number: prints a value, or a bucket's bound.
        parts: order of a histogram's lines.
        sorts_labels: by name, `le` among them; else they stand in the order of the family, `le` last.
        has_created: a gauge `_created` follows counters, histograms and summaries.
        shows_empty: a labelled family has its comments before it has a series.
        separator: after each family.
    """

    number: Callable[[float], str]
    parts: tuple[str, ...]
    sorts_labels: bool = True
    has_created: bool = False
    shows_empty: bool = False
    separator: str = ""

    def prefix(self, name: str, labels: Mapping[str, str]) -> str:
        """A line up to its value."""
        pairs = sorted(labels.items()) if self.sorts_labels else labels.items()
        text = ",".join(f'{key}="{_escape(value)}"' for key, value in pairs)
        return f"{name}{{{text}}} " if text else f"{name} "

    def created_name(self, family: Family) -> str:
        """Of the gauge that tells when a series came into being."""
        name = family.name.removesuffix("_total") if family.kind == "counter" else family.name
        return f"{name}_created"


def _go(number: float) -> str:
    return str(floatToGoString(number))  # type: ignore[no-untyped-call]


def _rust(number: float) -> str:
    if isfinite(number) and number == int(number):
        return str(int(number))
    return _go(number)


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


PYTHON_PROCESSES = Dialect(_go, ("sum", "bucket", "count"))
"""`prometheus_client` in multiprocess mode."""
PYTHON = Dialect(_go, ("bucket", "count", "sum"), has_created=True, shows_empty=True)
"""`prometheus_client` in one process."""
RUST = Dialect(_rust, ("bucket", "sum", "count"), sorts_labels=False, separator="\n")
"""`metrics-exporter-prometheus`."""
GO = Dialect(_rust, ("bucket", "sum", "count"), sorts_labels=False)
"""The template of dcgm-exporter."""
