"""YAML text to plain values with line numbers. Stricter than YAML: one document, text keys, no key twice, no tags.

Scalars follow YAML 1.2: `no` and `on` are text, `1e9` is a number, `010` and `1:30` are text. So nothing that a person
writes turns into another value behind their back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from pdscope.config.problems import InvalidConfigError, Location, Origin, Problem

MAX_BYTES = 4 * 2**20
_MAX_DEPTH = 40
_MAX_VALUES = 200_000
_TAG = "tag:yaml.org,2002:"
_TOO_DEEP = "nested too deeply; does an alias hold itself?"
_LONGEST_NUMBER = 400
"""Digits; Python refuses to convert very long ones, and nothing measured in this world has as many."""


class _Loader(yaml.SafeLoader):
    """SafeLoader with the scalars of YAML 1.2 and a bound on nesting."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - shadows PyYAML's own class attribute
    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="nested too deeply", problem_mark=mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _resolve(kind: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(_TAG + kind, re.compile(f"^(?:{pattern})$"), list(first) or [""])


_resolve("null", "~|null|Null|NULL", "~nN")
_resolve("null", "", "")
_resolve("bool", "true|True|TRUE|false|False|FALSE", "tTfF")
_resolve("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789")
_resolve(
    "float",
    r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    "-+.0123456789",
)
_resolve("merge", "<<", "<")


@dataclass(frozen=True, slots=True)
class Document:
    """Plain values (dict, list, str, int, float, bool, None), where each stands, and what is wrong with the form."""

    data: Any
    origin: Origin
    problems: tuple[Problem, ...]


def read_document(text: str, file: str | None = None) -> Document:
    """Read one YAML document.

    Args:
        text: of at most 4 MiB.
        file: the name to show in errors.

    Raises:
        InvalidConfigError: it is no YAML, too large, or nested too deeply. Lesser faults are in `Document.problems`.
    """
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise InvalidConfigError([Problem((), "is larger than 4 MiB")], Origin(file))
    try:
        node = _Loader(text).get_single_node()
    except yaml.YAMLError as error:
        raise InvalidConfigError([Problem((), _syntax(error, text))], Origin(file)) from None
    except (ValueError, OverflowError):  # PyYAML hands the number of an escape such as "\UFFFFFFFF" to chr()
        raise InvalidConfigError([Problem((), "an escape in a quoted text is no character")], Origin(file)) from None
    reader = _Reader(file)
    try:
        data = None if node is None else reader.value(node, ())
    except RecursionError:  # mappings that merge each other
        raise InvalidConfigError([Problem((), _TOO_DEEP)], Origin(file)) from None
    document = data if isinstance(data, dict) else {}
    return Document(data, Origin(file, reader.lines, document), tuple(reader.problems))


def _syntax(error: yaml.YAMLError, text: str) -> str:
    """What PyYAML says, less the excerpt of the file and any word of it: they could be a secret."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        problem = re.sub(r"'([^']*)'|\"([^\"]*)\"", _without_words, error.problem or "is no YAML")
        if "another document" in problem:
            problem = "another document begins; only one is read"
        if "undefined alias" in problem or "anchor" in problem:
            problem += " (a text that begins with * or & must be in quotes)"
        return f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: {problem}"
    position = getattr(error, "position", 0)
    return f"line {text.count(chr(10), 0, position) + 1}: a character that YAML does not allow"


def _without_words(quoted: re.Match[str]) -> str:
    """Signs and PyYAML's names of tokens are kept, words of the file are not."""
    content = quoted[1] or quoted[2] or ""
    sign = len(content.removeprefix("\\")) < 2
    return quoted[0] if sign or content.startswith("<") else "'...'"


@dataclass(slots=True)
class _Reader:
    """Turns nodes into values. Aliases are copied, so their number is bounded by the number of values made."""

    file: str | None
    lines: dict[Location, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    count: int = 0

    def value(self, node: yaml.Node, where: Location) -> Any:
        self._count()
        self.lines[where] = node.start_mark.line + 1
        if len(where) > _MAX_DEPTH:
            self._stop(_TOO_DEEP)
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node, where)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self.value(item, (*where, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.tag.startswith(_TAG):
            return self._scalar(node, where)
        self.problems.append(Problem(where, "has a YAML tag (!); a text that begins with ! must be in quotes"))
        return None

    def _count(self) -> None:
        self.count += 1
        if self.count > _MAX_VALUES:
            self._stop("holds too many values; do aliases multiply?")

    def _stop(self, message: str) -> NoReturn:
        raise InvalidConfigError([Problem((), message)], Origin(self.file))

    def _scalar(self, node: yaml.ScalarNode, where: Location) -> Any:
        text: str = node.value
        match node.tag.removeprefix(_TAG):
            case "null":
                return None
            case "bool" if text.lower() in ("true", "false"):
                return text.lower() == "true"
            case "int" if re.fullmatch("[-+]?[0-9]+", text):
                return int(text) if len(text) <= _LONGEST_NUMBER else float("inf")
            case "float" if re.fullmatch(r"[-+]?\.(inf|nan)", text.lower()):
                return float(text.replace(".", ""))
            case "float" if re.fullmatch(r"[-+0-9.eE]+", text):
                return float(text)
            case "str" | "merge":
                if any("\ud800" <= character <= "\udfff" for character in text):
                    self.problems.append(Problem(where, "has an escape that is no character"))
                    return None
                return text
        self.problems.append(Problem(where, "does not fit its YAML tag (!)"))
        return None

    def _mapping(self, node: yaml.MappingNode, where: Location) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for source in reversed(list(self._merged(node, where))):
            made |= self._mapping(source, where)
        first_line: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                continue
            line = key_node.start_mark.line + 1
            key = self._key(key_node, where)
            if key in first_line:
                twice = "in one line" if first_line[key] == line else f"in lines {first_line[key]} and {line}"
                self.problems.append(Problem((*where, key), f"the key stands twice, {twice}"))
            elif key:
                first_line[key] = line
                made[key] = self.value(value_node, (*where, key))
                self.lines[*where, key] = line
        return made

    def _key(self, node: yaml.Node, where: Location) -> str:
        """The key; empty when it is none, which is a problem."""
        if isinstance(node, yaml.ScalarNode) and node.value:
            at = (*where, node.value)
            self.lines.setdefault(at, node.start_mark.line + 1)
            if isinstance(key := self._scalar(node, at), str):
                return key
            message = "a key must be text: put it in quotes"
        else:
            at, message = where, "a key must be text, and not empty"
        self.problems.append(Problem(at, message))
        return ""

    def _merged(self, node: yaml.MappingNode, where: Location) -> Iterator[yaml.MappingNode]:
        """Mappings that `<<` brings in; the first of them wins, the mapping's own keys over all."""
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                sources = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                for source in sources:
                    if isinstance(source, yaml.MappingNode):
                        self._count()
                        yield source
                    else:
                        self.problems.append(Problem(where, "the key << takes a mapping or a list of mappings"))
