"""From a file or a text to a `Config`, or to one error that names everything that is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pdscope.config.checks import document_problems
from pdscope.config.document import MAX_BYTES, read_document
from pdscope.config.names import Names, name_problems
from pdscope.config.problems import InvalidConfigError, Location, Origin, Problem, kind_of
from pdscope.config.root import Config


def load_config(path: Path, names: Names | None = None) -> Config:
    """Read a configuration file. Paths in it are relative to its folder.

    Args:
        path: of the file.
        names: what engines, devices, rules and so on may be called; None: any name is taken.

    Raises:
        ConfigError: it cannot be read, or is wrong; the text has a line for each problem, with file, path and line.
    """
    origin = Origin(str(path))
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidConfigError([Problem((), f"cannot be read: {error.strerror or error}")], origin) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if len(content) <= MAX_BYTES:  # else the cut may have hit the middle of a character
            raise InvalidConfigError([Problem((), f"is not UTF-8 text (byte {error.start})")], origin) from None
        text = content.decode(errors="replace")
    return parse_config(text, path.parent, file=str(path), names=names)


def parse_config(text: str, base_dir: Path, *, file: str | None = None, names: Names | None = None) -> Config:
    """Read a configuration from a text.

    Args:
        text: YAML, at most 4 MiB.
        base_dir: what paths in it are relative to.
        file: name to show in errors.
        names: what may be named in it; None: any name is taken.

    Raises:
        ConfigError: it is wrong; the text has a line for each problem.
    """
    document = read_document(text, file)
    origin = document.origin
    if not isinstance(document.data, dict):
        what = "is empty" if document.data is None else f"must be a mapping, not {kind_of(document.data)}"
        raise InvalidConfigError(document.problems or [Problem((), what)], origin)
    problems = [*document.problems, *document_problems(document.data)]
    if names is not None:
        problems += name_problems(document.data, names)
    config = None
    try:
        config = Config.model_validate(document.data, context={"base_dir": base_dir, "origin": origin})
    except ValidationError as error:
        problems += _value_problems(error, origin)
    if problems or config is None:
        raise InvalidConfigError(problems, origin)
    return config.resolved()


def _value_problems(error: ValidationError, origin: Origin) -> Iterator[Problem]:
    for detail in error.errors(include_url=False):
        if detail["type"] == "extra_forbidden":
            continue  # reported with the nearest known key
        where = _written(detail["loc"], origin)
        if detail["type"] == "missing":
            where = (*where, detail["loc"][-1])
        yield Problem(where, _message(detail))


def _written(where: Location, origin: Origin) -> Location:
    """The part of pydantic's location that is in the document: shorthands and marks of keys are not."""
    written: Location = ()
    for part in where:
        if (*written, part) in origin.lines:
            written = (*written, part)
        elif not isinstance(part, int):  # an index is of a list of one that was written without the list
            break
    return written


_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "model_type": "a mapping",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "tuple_type": "a list",
}


def _message(detail: ErrorDetails) -> str:
    kind: str = detail["type"]
    context: dict[str, Any] = detail.get("ctx", {})
    if kind in _WANTED:
        return _wrong_kind(_WANTED[kind], detail["input"])
    match kind:
        case "missing":
            return "is required"
        case "value_error":
            return str(context["error"])
        case "finite_number":
            return "must be a finite number"
        case "string_too_short" | "too_short":
            return "must not be empty"
        case "string_too_long" | "too_long":
            return f"must have at most {context['max_length']} characters"
        case "greater_than":
            return f"must be greater than {context['gt']:g}"
        case "greater_than_equal":
            return f"must be at least {context['ge']:g}"
        case "less_than_equal":
            return f"must be at most {context['le']:.15g}"
    return detail["msg"]


def _wrong_kind(wanted: str, value: object) -> str:
    if isinstance(value, float) and wanted == "a whole number":
        return "must be a whole number, without a point or exponent"
    quotes = ": put it in quotes" if wanted == "text" and isinstance(value, bool | int | float) else ""
    return f"must be {wanted}, not {kind_of(value)}{quotes}"
