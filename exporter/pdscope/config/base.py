"""The base of all configuration models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self, get_args

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.fields import FieldInfo


class Model(BaseModel):
    """A mapping of the configuration. Attributes name their unit, keys (their aliases) are as the user writes them.

    A key without a value counts as left out.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    hints: ClassVar[Mapping[str, str]] = {}
    """key that does not exist, but that people will try -> what to write instead"""
    default_texts: ClassVar[Mapping[str, str]] = {}
    """key -> its default as the user would write it, where the attribute's own default does not tell"""

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:  # noqa: ARG003 - for subclasses
        """Keys that do not go together, judged by the document: (key, message); the key "" is the mapping itself.

        Args:
            given: keys with a value, as written, their values not checked yet.
        """
        return iter(())

    @classmethod
    def fields_by_key(cls) -> dict[str, FieldInfo]:
        """Key as the user writes it -> field."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}

    @model_validator(mode="before")
    @classmethod
    def _drop_empty_keys(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        keys = cls.fields_by_key()
        return {key: value for key, value in data.items() if value is not None or key not in keys}

    def over(self, base: Self) -> Self:
        """This mapping with the keys that only `base` gives added."""
        missing = base.model_fields_set - self.model_fields_set
        return self.model_copy(update={name: getattr(base, name) for name in missing})


def model_in(annotation: Any) -> type[Model] | None:
    """The model that a field holds, through `X | None` and `tuple[X, ...]`; None for a field of plain values."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation
    return next((model for part in get_args(annotation) if (model := model_in(part))), None)
