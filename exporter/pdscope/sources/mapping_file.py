"""A user's own mapping of an exporter of device signals: a YAML file that becomes an adapter.

The form is strict, as the configuration's: an unknown key, a key that stands twice or a unit that does not fit its
metric is an error with its path and line, because a mapping that is quietly half right makes wrong verdicts.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pdscope.config.document import read_document
from pdscope.config.problems import InvalidConfigError, Location, Origin, Problem, kind_of, shown, suggestion
from pdscope.config.units import UnitError, parse_duration
from pdscope.model.metric import Metric
from pdscope.model.units import Unit
from pdscope.sources import devices
from pdscope.sources.adapter import Adapter, Owner, Ownership, Series, discover

_MAX_BYTES = 2**18
_SERIES_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_SOURCE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_ANYTHING = re.compile(r".*", re.DOTALL)

_KEYS = ("source", "probe", "rank_labels", "refresh", "aliases", "metrics")
_SERIES_KEYS = ("series", "unit", "scale", "where", "valid")
_Empty = TypeVar("_Empty")

METRICS: Mapping[str, Metric] = {
    name.lower(): metric
    for name, metric in Metric.__members__.items()
    if name.startswith(("DEVICE_", "FABRIC_", "PCIE_", "NIC_", "KV_AGENT_"))
    or metric in (Metric.SM_ACTIVE, Metric.TENSOR_ACTIVE, Metric.ENGINE_ACTIVE, Metric.DRAM_ACTIVE)
}
"""What a device exporter can tell: the metrics that a mapping may name."""

_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}
_SIZES = {f"{prefix}B": factor for prefix, factor in _PREFIXES.items()}
UNITS: Mapping[Unit, Mapping[str, float]] = {
    Unit.RATIO: {"ratio": 1.0, "percent": 0.01},
    Unit.BYTES: _SIZES,
    Unit.BYTES_PER_SECOND: {
        **{f"{size}/s": factor for size, factor in _SIZES.items()},
        **{f"{prefix}b/s": factor / 8 for prefix, factor in _PREFIXES.items() if not prefix.endswith("i")},
    },
    Unit.HERTZ: {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9},
    Unit.WATTS: {"W": 1.0, "mW": 1e-3, "uW": 1e-6},
    Unit.SECONDS: {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    Unit.COUNT: {"count": 1.0},
}
"""Words for `unit` by what the metric measures, and their factor to its base unit."""


def read_mapping(path: Path) -> Adapter:
    """The adapter that a mapping file describes.

    Raises:
        ConfigError: the file cannot be read or is wrong; a line for each problem, with file, key and line.
    """
    origin = Origin(str(path))
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InvalidConfigError([Problem((), f"cannot be read: {error.strerror or error}")], origin) from None
    if len(content) > _MAX_BYTES:
        raise InvalidConfigError([Problem((), "is larger than 256 KiB")], origin)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidConfigError([Problem((), f"is not UTF-8 text (byte {error.start})")], origin) from None
    document = read_document(text, str(path))
    if not isinstance(document.data, dict):
        wrong = Problem((), f"must be a mapping, not {kind_of(document.data)}")
        raise InvalidConfigError(document.problems or [wrong], document.origin)
    form = _Form(list(document.problems))
    adapter = form.adapter(document.data)
    if form.problems:
        raise InvalidConfigError(form.problems, document.origin)
    return adapter


@dataclass(slots=True)
class _Form:
    """Reads values and notes what is wrong with them; a wrong value reads as its default."""

    problems: list[Problem] = field(default_factory=list)

    def wrong(self, where: Location, message: str) -> None:
        self.problems.append(Problem(where, message))

    def adapter(self, data: Mapping[str, Any]) -> Adapter:
        data = self._keys(data, (), _KEYS, required=("source", "probe", "metrics"))
        probe = self._names(data.get("probe"), ("probe",), _SERIES_NAME, "the beginning of a series name")
        aliases = self._labels(data.get("aliases"), ("aliases",))
        adapter = Adapter(
            name=self._source(data.get("source")),
            probe=probe,
            rank_labels=self._names(data.get("rank_labels"), ("rank_labels",), _LABEL_NAME, "a label"),
            devices=True,
            refresh_seconds=self._refresh(data.get("refresh")),
            owners=(Owner("pod", Ownership.NAME),),
            aliases={
                label: self._names(names, ("aliases", label), _LABEL_NAME, "a label")
                for label, names in aliases.items()
            },
            series=self._metrics(data.get("metrics")),
        )
        names = adapter.sample_names() - {""}
        if probe and names and not any(name.startswith(probe) for name in names):
            self.wrong(("probe",), "no series of this file begins so: its page would never be recognised")
        return adapter

    def _source(self, value: Any) -> str:
        name = self._text(value, ("source",), _SOURCE_NAME, "a short name in lower case")
        if name in {adapter.name for adapter in discover(devices)}:
            self.wrong(("source",), f"{name} is a source that pdscope brings along: choose another name")
        return name

    def _refresh(self, value: Any) -> float:
        if value is None:
            return 0.0
        try:
            return parse_duration(value)
        except UnitError as error:
            self.wrong(("refresh",), str(error))
            return 0.0

    def _metrics(self, value: Any) -> dict[Metric, tuple[Series, ...]]:
        found: dict[Metric, tuple[Series, ...]] = {}
        for name, spellings in self._mapping(value, ("metrics",)).items():
            where = ("metrics", name)
            if name not in METRICS:
                self.wrong(where, f"is no metric of devices{suggestion(name, METRICS)}")
                continue
            metric = METRICS[name]
            items = self._list(spellings, where)
            found[metric] = tuple(self._series(item, (*where, i), metric) for i, item in enumerate(items))
        return found

    def _series(self, value: Any, where: Location, metric: Metric) -> Series:
        data = self._keys(self._mapping(value, where), where, _SERIES_KEYS, required=("series",))
        labels = self._labels(data.get("where"), (*where, "where"))
        return Series(
            self._text(data.get("series"), (*where, "series"), _SERIES_NAME, "the name of a series"),
            {label: self._text(text, (*where, "where", label), _ANYTHING, "text") for label, text in labels.items()},
            self._scale(data, where, metric),
            valid=self._valid(data.get("valid"), (*where, "valid")),
        )

    def _scale(self, data: Mapping[str, Any], where: Location, metric: Metric) -> float:
        if "unit" in data and "scale" in data:
            self.wrong(where, "has both unit and scale: choose one")
        elif "unit" in data:
            units = UNITS[metric.spec.unit]
            if isinstance(data["unit"], str) and data["unit"] in units:
                return units[data["unit"]]
            self.wrong((*where, "unit"), f"must be one of {', '.join(units)}")
        elif "scale" in data:
            scale = self._number(data["scale"], (*where, "scale"))
            if scale <= 0:
                self.wrong((*where, "scale"), "must be greater than 0")
            return scale
        return 1.0

    def _valid(self, value: Any, where: Location) -> tuple[float, float] | None:
        if value is None:
            return None
        bounds = self._list(value, where)
        if len(bounds) != 2:
            self.wrong(where, "must be two numbers as printed: the least and the greatest")
            return None
        low, high = (self._number(bound, (*where, i)) for i, bound in enumerate(bounds))
        if low > high:
            self.wrong(where, "begins with the greater number")
        return low, high

    def _keys(
        self, data: Mapping[str, Any], where: Location, known: tuple[str, ...], required: tuple[str, ...]
    ) -> Mapping[str, Any]:
        """`data` without the keys that have no value."""
        for key in data:
            if key not in known:
                self.wrong((*where, key), f"is not a known key{suggestion(key, known)}")
        given = {key: value for key, value in data.items() if value is not None}
        for key in required:
            if key not in given:
                self.wrong((*where, key), "is required")
        return given

    def _labels(self, value: Any, where: Location) -> Mapping[str, Any]:
        found = self._mapping(value, where)
        for label in found:
            self._text(label, (*where, label), _LABEL_NAME, "a label")
        return found

    def _mapping(self, value: Any, where: Location) -> Mapping[str, Any]:
        return value if isinstance(value, dict) and value else self._empty(value, where, "a mapping", {})

    def _list(self, value: Any, where: Location) -> list[Any]:
        return value if isinstance(value, list) and value else self._empty(value, where, "a list", [])

    def _empty(self, value: Any, where: Location, wanted: str, empty: _Empty) -> _Empty:
        """Of a value that is not what is wanted. A key of the form that is missing has been told where it matters."""
        if value == empty:
            self.wrong(where, "must not be empty")
        elif value is not None or where[-1] not in (*_KEYS, *_SERIES_KEYS):
            self.wrong(where, f"must be {wanted}, not {kind_of(value)}")
        return empty

    def _names(self, value: Any, where: Location, pattern: re.Pattern[str], wanted: str) -> tuple[str, ...]:
        return tuple(self._text(item, (*where, i), pattern, wanted) for i, item in enumerate(self._list(value, where)))

    def _text(self, value: Any, where: Location, pattern: re.Pattern[str], wanted: str) -> str:
        if isinstance(value, str):
            if not pattern.fullmatch(value):
                self.wrong(where, f"{shown(value)} is not {wanted}")
            return value
        if value is not None or where[-1] not in (*_KEYS, *_SERIES_KEYS):
            quotes = ": put it in quotes" if isinstance(value, bool | int | float) else ""
            self.wrong(where, f"must be text, not {kind_of(value)}{quotes}")
        return ""

    def _number(self, value: Any, where: Location) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max:
            return float(value)
        self.wrong(where, "must be a finite number")
        return math.nan
