"""YAML as the configuration reads it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pdscope.config import InvalidConfigError, document
from pdscope.config.document import read_document


def data(text: str) -> Any:
    read = read_document(text)
    assert not read.problems
    return read.data


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("", None),
        ("1e9", 1e9),
        ("1.0e+9", 1e9),
        ("5100000000.0", 5.1e9),
        (".5", 0.5),
        ("+5", 5),
        ("010", "010"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("'5'", "5"),
        ('"true"', "true"),
        ("!!str 5", "5"),
        ("-.inf", float("-inf")),
        ("=", "="),
    ],
)
def test_scalars_are_what_they_look_like(text: str, value: object) -> None:
    read = data(f"key: {text}\n")["key"]
    assert read == value
    assert type(read) is type(value)


def test_nan_and_numbers_without_end_are_numbers() -> None:
    assert data("key: .nan\n")["key"] != data("key: .nan\n")["key"]
    assert data(f"key: {'9' * 5000}\n")["key"] == float("inf")


def test_lines() -> None:
    read = read_document("a: 1\nb:\n- c: 2\n- d: 3\n  e: {f: 4,\n      g: 5}\n")
    lines = read.origin.lines
    assert lines["a",] == 1
    assert lines["b", 0, "c"] == 3
    assert lines["b", 1, "e"] == 5
    assert lines["b", 1, "e", "g"] == 6
    assert read.origin.line(("b", 1, "e", "missing")) == 5
    assert read.origin.line(("missing",)) is None


def test_aliases_and_merges() -> None:
    read = data("""
one: &one {a: 1, b: {c: 2}}
two: &two {a: 2, d: 4}
first: {<<: [*one, *two], b: 3}
same: *one
""")
    assert read["first"] == {"a": 1, "b": 3, "d": 4}
    assert read["same"] == read["one"]


def test_merged_keys_may_be_given_again_but_own_ones_may_not() -> None:
    assert data("one: &one {a: 1}\ntwo: {<<: *one, a: 2}\n")["two"] == {"a": 2}
    (problem,) = read_document("two: {a: 1, a: 1}\n").problems
    assert problem.where == ("two", "a")


@pytest.mark.parametrize(
    ("first", "doubled"),
    [("a: &a [x, x]", "{1}: &{1} [*{0}, *{0}]"), ("a: &a {k: 1}", "{1}: &{1} {{<<: [*{0}, *{0}]}}")],
)
def test_aliases_that_multiply_are_stopped(first: str, doubled: str) -> None:
    lines = [first, *(doubled.format(*pair) for pair in itertools.pairwise("abcdefghijklmnopqrstu"))]
    with pytest.raises(InvalidConfigError, match="too many values"):
        read_document("\n".join(lines))


@pytest.mark.parametrize(
    "text",
    ["[" * 5000, "a: &a {b: {<<: *a}}", "a: &a {<<: {<<: *a}}", "a: &a [{b: *a}]"],
)
def test_endless_nesting_is_stopped(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="nested too deeply"):
        read_document(text)


def test_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert document.MAX_BYTES == 4 * 2**20
    monkeypatch.setattr(document, "MAX_BYTES", 100)
    assert read_document("# " + "x" * 98).data is None
    for text in ("# " + "x" * 99, "# " + "é" * 50):
        with pytest.raises(InvalidConfigError, match="larger than 4 MiB"):
            read_document(text)


@pytest.mark.parametrize(
    "text",
    [
        "password: *hunter2\n",
        "a: &hunter2 1\nb: &hunter2 2\n",
        "password: !hunter2!x y\n",
        "password: !<hunter2\n",
        "password: 'hunter2\n",
        'password: "hunter2\\q"\n',
        "password: %hunter2\n",
        "password: hunter2: hunter2\n",
        "password: [hunter2\n",
        "password: |hunter2\n",
        "password: !!hunter2 x\n",
        "password: !!int hunter2\n",
        "? [hunter2]\n: 1\n",
    ],
)
def test_what_is_wrong_is_said_without_words_of_the_file(text: str) -> None:
    try:
        said = " ".join(problem.message for problem in read_document(text).problems)
    except InvalidConfigError as error:
        said = str(error)
    assert said or "&hunter2" in text, "only anchors that are given twice are allowed by YAML"
    assert "hunter2" not in said
