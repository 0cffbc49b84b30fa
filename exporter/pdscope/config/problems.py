"""What is wrong with a configuration, and where: all of it at once, one line each, and never a secret."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pdscope.errors import ConfigError

_KINDS = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a mapping",
}

Location = tuple[str | int, ...]
"""Keys and list indices from the top of the document to a value."""

_MAX_LINES = 50
_MAX_KNOWN = 20
_PLAIN_KEY = re.compile(r"[\w-]+")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. `where` is empty when it is the document as a whole."""

    where: Location
    message: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a configuration was read. Two of them are always equal: a moved line changes no meaning.

    Attributes:
        file: as the user named it; None for text that came from no file.
        lines: location -> line number, counted from 1.
        document: as it was written; not shown, since a secret may stand in it.
    """

    file: str | None = field(default=None, compare=False)
    lines: Mapping[Location, int] = field(default_factory=dict, compare=False)
    document: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def line(self, where: Location) -> int | None:
        """Line of `where`, or of the nearest value around it that is written down."""
        while where and where not in self.lines:
            where = where[:-1]
        return self.lines.get(where) if where else None


class InvalidConfigError(ConfigError):
    """All problems of one configuration; `path` is where the first of them is.

    Attributes:
        problems: in the order of the document.
    """

    def __init__(self, problems: Iterable[Problem], origin: Origin) -> None:
        def position(problem: Problem) -> int:
            return origin.line(problem.where) or 0

        self.problems = tuple(sorted(dict.fromkeys(problems), key=position))
        lines = [_line(problem, origin) for problem in self.problems[:_MAX_LINES]]
        if len(self.problems) > _MAX_LINES:
            lines.append(f"... and {len(self.problems) - _MAX_LINES} more")
        super().__init__("", "\n".join(lines))
        self.path = describe(self.problems[0].where) if self.problems else ""


def _line(problem: Problem, origin: Origin) -> str:
    line = origin.line(problem.where)
    path = describe(problem.where)
    parts = (origin.file or ("" if path else "configuration"), path, problem.message)
    return ": ".join(part for part in parts if part) + (f" (line {line})" if line else "")


def describe(where: Location) -> str:
    """The path as a person writes it: `deployments[0].instances[2].url`."""
    text = ""
    for part in where:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{shown(part)}]"
    return text


def shown(value: str) -> str:
    """A text of the user's, quoted and cut to a length that leaves the message readable. Not for secrets."""
    return repr(value if len(value) <= 60 else value[:57] + "...")


def kind_of(value: object) -> str:
    """What a YAML value is, in words; never the value itself."""
    return "nothing" if value is None else _KINDS.get(type(value), type(value).__name__)


def suggestion(word: str, known: Iterable[str], otherwise: str = "; known: {}") -> str:
    """`; did you mean role?` when something near is known, else `otherwise` with all that is known."""
    names = [name if _PLAIN_KEY.fullmatch(name) else shown(name) for name in known]
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]}?"
    more = ["..."] if len(names) > _MAX_KNOWN else []
    return otherwise.format(", ".join(names[:_MAX_KNOWN] + more) or "none")
