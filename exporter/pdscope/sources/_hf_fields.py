"""Checked access to a `config.json`: every value of a known type, every error with the path of its key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pdscope.errors import ConfigError

MAX_BYTES = 4 * 2**20
_LARGEST = 2**31 - 1
REMEDY = "write the shape under model.kv in the configuration"


def load_document(path: Path) -> Any:
    """The JSON of a file of at most 4 MiB, not checked any further.

    Infinity and NaN, which JSON does not know, stand in published files and are taken.

    Raises:
        ConfigError: it cannot be read, is too large or no JSON.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror or error}") from None
    if len(content) > MAX_BYTES:
        raise ConfigError(str(path), f"is larger than {MAX_BYTES:,} bytes: no config.json of a model")
    return parse_document(content, str(path))


def parse_document(content: bytes, name: str) -> Any:
    """The same of a content that has been read.

    Raises:
        ConfigError: it is no JSON; names `name`.
    """
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ConfigError(name, f"is not JSON: {error}") from None


class Fields:
    """One object of the document. Remembers what it was asked for, so that what nobody asked for can be refused.

    A null counts as left out, as transformers has it.
    """

    def __init__(self, values: Mapping[str, Any], prefix: str = "") -> None:
        self._values = values
        self._prefix = prefix
        self._asked: set[str] = set()

    def refusal(self, key: str, what: str) -> ConfigError:
        """The error that names `key`."""
        return ConfigError(self._prefix + key, f"{what}; {REMEDY}")

    def has(self, key: str) -> bool:
        """Whether the key is written, be it as null."""
        return key in self._values

    def get(self, key: str) -> Any:
        """The value as it stands, or None."""
        self._asked.add(key)
        return self._values.get(key)

    def count(self, key: str) -> int | None:
        """A whole number from 1, or None."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _LARGEST:
            raise self.refusal(key, f"must be a whole number from 1 to {_LARGEST:,}, not {shown(value)}")
        return value

    def needed(self, key: str) -> int:
        """A whole number from 1 that must be there."""
        value = self.count(key)
        if value is None:
            raise self.refusal(key, "is required")
        return value

    def word(self, key: str) -> str | None:
        """A text, or None."""
        value = self.get(key)
        if value is not None and not isinstance(value, str):
            raise self.refusal(key, f"must be a text, not {shown(value)}")
        return value

    def words(self, key: str) -> list[str] | None:
        """A list of texts, or None."""
        return self._list(key, str, "texts")

    def counts(self, key: str) -> list[int] | None:
        """A list of whole numbers, or None."""
        return self._list(key, int, "whole numbers")

    def part(self, key: str) -> Fields | None:
        """An object in the object, or None."""
        value = self.get(key)
        if value is not None and not isinstance(value, Mapping):
            raise self.refusal(key, f"must be an object, not {shown(value)}")
        return None if value is None else Fields(value, f"{self._prefix}{key}.")

    def refuse_unread(self, keys: Mapping[str, tuple[object, ...]]) -> None:
        """Refuse what nobody asked for.

        Args:
            keys: to look at, with the values that may stand there, alone or in a list; what is empty, 0 or false may.

        Raises:
            ConfigError: another value stands there.
        """
        for key in sorted(keys.keys() - self._asked):
            value = self._values.get(key)
            items = value if isinstance(value, list) else [value]
            if value and not all(item in keys[key] for item in items):
                raise self.refusal(key, f"is {shown(value)}, which this architecture is not known to have")

    def _list(self, key: str, kind: type, name: str) -> list[Any] | None:
        value = self.get(key)
        if value is not None and not (isinstance(value, list) and all(type(item) is kind for item in value)):
            raise self.refusal(key, f"must be a list of {name}, not {shown(value)}")
        return value


def shown(value: object) -> str:
    """A value for a message, shortened."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
