"""Kinds of values that keys take. Each checks the form and says in one sentence what is wrong with it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from pdscope.config.problems import kind_of, shown, suggestion
from pdscope.config.units import index_ranges, parse_bandwidth, parse_duration, parse_flops, parse_size


def printable(value: str) -> str:
    """Refuse what would break a line of a page or of a log, without showing it."""
    if not value.isprintable():
        raise ValueError("has a line break or another character that cannot be printed")
    if value != value.strip():
        raise ValueError("begins or ends with a space")
    return value


def number_as_text(value: object) -> object:
    """A whole number as text: it looks the same either way. `1.10` and `true` do not, so they need quotes."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _shaped(pattern: str, wanted: str) -> AfterValidator:
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(f"{shown(value)} is not {wanted}")
        return value

    return AfterValidator(check)


def choice(
    options: type[StrEnum],
    *,
    hints: Mapping[str, str] | None = None,
    also: Mapping[str, object] | None = None,
) -> BeforeValidator:
    """One of the members of `options`, written as its value.

    Args:
        options: the enum.
        hints: what to say of a word that is near but wrong.
        also: further words and what they stand for.
    """
    meanings = {option.value: option for option in options} | dict(also or {})
    words = ", ".join(meanings)

    def check(value: object) -> object:
        if not isinstance(value, str):
            raise ValueError(f"must be one of {words}, not {kind_of(value)}")  # noqa: TRY004 - pydantic's
        if value not in meanings:
            hint = (hints or {}).get(value)
            near = f"; {hint}" if hint else suggestion(value, meanings, otherwise="")
            raise ValueError(f"{shown(value)} is not one of {words}{near}")
        return meanings[value]

    return BeforeValidator(check)


def shorthand(expand: Callable[[str], dict[str, Any]]) -> BeforeValidator:
    """A text stands for the mapping that `expand` makes of it."""

    def mapping(value: object) -> object:
        if isinstance(value, str):
            return expand(value)
        if isinstance(value, bool | int | float | list):
            raise ValueError(f"must be text or a mapping, not {kind_of(value)}")  # noqa: TRY004 - pydantic's
        return value

    return BeforeValidator(mapping)


def _listed(value: object) -> object:
    return value if isinstance(value, list) else [value]


LISTED = BeforeValidator(_listed)
"""One value stands for a list of one."""

Text = Annotated[str, Field(strict=True, min_length=1, max_length=1024), AfterValidator(printable)]
Switch = Annotated[bool, Field(strict=True)]
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]
Count = Annotated[int, Field(strict=True, ge=1, le=10**9)]
CountOrZero = Annotated[int, Field(strict=True, ge=0, le=10**9)]
Number = Annotated[float, Field(strict=True, gt=0, le=1e18, allow_inf_nan=False)]
NumberOrZero = Annotated[float, Field(strict=True, ge=0, le=1e18, allow_inf_nan=False)]
Share = Annotated[float, Field(strict=True, gt=0, le=1, allow_inf_nan=False)]

Seconds = Annotated[float, BeforeValidator(parse_duration)]
BytesPerSecond = Annotated[float, BeforeValidator(parse_bandwidth)]
Bytes = Annotated[float, BeforeValidator(parse_size)]
FlopPerSecond = Annotated[float, BeforeValidator(parse_flops)]


def _weights(value: object) -> object:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return parse_size(value)
    if value < 1e6:
        raise ValueError("is too few bytes for a model; write it with its unit, such as 141GB")
    return value


WeightBytes = Annotated[Number, BeforeValidator(_weights)]
"""A size; also a plain number, since the key says that it counts bytes."""

_NAME_IS = "a name of letters, digits and . _ : - that begins with a letter or digit"
TargetName = Annotated[Text, _shaped(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,252}", _NAME_IS)]
"""Of an instance or device. It also names a folder in a capture bundle, so no path can hide in it."""
DeploymentName = Annotated[Text, _shaped(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,252}", _NAME_IS.replace(" -", " - /"))]
Identifier = Annotated[Text, _shaped(r"[a-z][a-z0-9_]*", "a name of small letters, digits and _")]

LabelName = Annotated[Text, _shaped(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*", "a label name that Prometheus takes")]
LabelValue = Annotated[Text, BeforeValidator(number_as_text)]

_TAKEN_LABELS = {"deployment": "pdscope", "model": "pdscope", "instance": "Prometheus", "job": "Prometheus"}


def _free(name: str) -> str:
    if name in _TAKEN_LABELS:
        raise ValueError(f"the label is taken: {_TAKEN_LABELS[name]} sets it")
    return name


UserLabelName = Annotated[LabelName, AfterValidator(_free)]


def _pattern(value: str) -> str:
    if index_ranges(value) is None:
        try:
            with warnings.catch_warnings(action="ignore"):
                re.compile(value)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"{shown(value)} is no regular expression: {error}") from None
    return value


Pattern = Annotated[Text, BeforeValidator(number_as_text), AfterValidator(_pattern)]
"""Device indices (`0-3`, `0,2`) or a regular expression that the whole value must match."""

_MATCHER = r"""\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*"""
Selector = Annotated[
    Text,
    _shaped(rf"{_MATCHER}(?:,{_MATCHER})*", """label matchers without braces, such as namespace="llm\""""),
]
KubernetesLabel = Annotated[
    Text,
    _shaped(r"(?:[a-z0-9][a-z0-9.-]*/)?[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", "a label key of Kubernetes"),
]
