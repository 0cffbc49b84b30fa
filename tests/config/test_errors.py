"""What is said of a wrong configuration."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pdscope.config import Config, InvalidConfigError, describe, load_config, parse_config
from pdscope.errors import ConfigError

CONFIGS = Path(__file__).parents[1] / "fixtures" / "configs"
WRONG = yaml.safe_load((CONFIGS / "wrong.yml").read_text(encoding="utf-8"))
COMPLETE = yaml.safe_load((CONFIGS / "complete.yml").read_text(encoding="utf-8"))

GOOD = 'deployments:\n- name: d\n  instances:\n  - {name: p0, url: "http://h:1"}\n'
PLACES = {
    "document": "{}",
    "top": "{}\n" + GOOD.replace("{", "{{").replace("}", "}}"),
    "deployment": GOOD.replace("{", "{{").replace("}", "}}") + "  {}\n",
    "instance": 'deployments:\n- name: d\n  instances:\n  - {{name: p0, url: "http://h:1", {}}}\n',
    "url": 'deployments:\n- name: d\n  instances:\n  - {{name: p0, url: "{}"}}\n',
    "name": 'deployments:\n- name: d\n  instances:\n  - {{name: "{}", url: "http://h:1"}}\n',
}


def parse(text: str) -> Config:
    return parse_config(text, Path("/base"))


def test_the_good_file_around_each_wrong_one_is_good() -> None:
    assert parse(GOOD).deployments[0].instances[0].name == "p0"


@pytest.mark.parametrize("case", WRONG, ids=[f"{case['at']}: {case['write'][:50]}" for case in WRONG])
def test_every_wrong_file_says_exactly_this(case: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(PLACES[case["at"]].format(case["write"]))
    assert str(caught.value).split("\n") == case["says"]


def test_the_table_is_long_and_its_cases_differ() -> None:
    inputs = {(case["at"], case["write"]) for case in WRONG}
    assert len(inputs) == len(WRONG) >= 60


def test_file_path_and_line_are_named(tmp_path: Path) -> None:
    file = tmp_path / "pdscope.yml"
    file.write_text(GOOD.replace("http://h:1", "h:1") + "  labels: {model: x}\n", encoding="utf-8")
    with pytest.raises(InvalidConfigError) as caught:
        load_config(file)
    assert str(caught.value) == (
        f"{file}: deployments[0].instances[0].url: must begin with http:// or https:// (line 4)\n"
        f"{file}: deployments[0].labels.model: the label is taken: pdscope sets it (line 5)"
    )
    assert caught.value.path == "deployments[0].instances[0].url"
    assert [describe(problem.where) for problem in caught.value.problems] == [
        "deployments[0].instances[0].url",
        "deployments[0].labels.model",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"\xff\xfe\x00", "is not UTF-8 text (byte 0)"),
        (b"# " + b"x" * (4 * 2**20), "is larger than 4 MiB"),
        (b"# " + "é".encode() * 2**21, "is larger than 4 MiB"),
        (b"", "is empty"),
    ],
)
def test_files_that_are_none(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "pdscope.yml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert str(caught.value) == f"{file}: {message}"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path)


def test_many_problems_are_cut() -> None:
    keys = "".join(f"key{i}: 1\n" for i in range(60))
    with pytest.raises(InvalidConfigError) as caught:
        parse(keys + GOOD)
    lines = str(caught.value).split("\n")
    assert len(lines) == 51
    assert lines[-1] == "... and 10 more"
    assert len(caught.value.problems) == 60


def test_paths_are_written_as_a_person_would() -> None:
    assert describe(("deployments", 0, "instances", 2, "url")) == "deployments[0].instances[2].url"
    assert describe(("prometheus", "headers", "X-A")) == "prometheus.headers.X-A"
    assert describe(("thresholds", "a.b")) == "thresholds['a.b']"
    assert describe(()) == ""


# Places of the complete file, to break one at a time.


def places(value: Any, where: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if where:
        yield where
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*where, key))


ALL_PLACES = list(places(COMPLETE))
junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["5s", "1GB/s", "gqa", "mesh", "p0", "d0", "http://h", "H200", "-", "\ud800", "0-3", "10" * 400]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.just("name"), inner, max_size=3)
    ),
    max_leaves=6,
)


def replaced(where: tuple[str | int, ...], value: Any) -> Any:
    document = copy.deepcopy(COMPLETE)
    inner = document
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    return document


@settings(max_examples=60)
@given(st.sampled_from(ALL_PLACES), junk)
def test_whatever_stands_anywhere_is_taken_or_refused(where: tuple[str | int, ...], value: Any) -> None:
    """No other exception, no message of the validation library, nothing that cannot be printed."""
    lines = []
    try:
        assert parse(yaml.safe_dump(replaced(where, value), allow_unicode=True)).deployments
    except ConfigError as error:
        lines = str(error).split("\n")
    for line in lines:
        assert line.isprintable()
        assert len(line.encode()) < 600
        assert not re.search("Input should|Value should|validat", line)


SECRET_KEYS = {
    "url",
    "router",
    "http_sd",
    "headers",
    "X-Scope-OrgID",
    "bearer_token_file",
    "password_file",
    "auth",
    "basic",
}
SECRET_PLACES = [where for where in ALL_PLACES if where[-1] in SECRET_KEYS]
secrets = st.sampled_from(
    [
        "hunter2",
        "Bearer hunter2",
        "http://user:hunter2@host",
        "https://hunter2@host:port",
        "hunter2@host:1",
        "http://host:hunter2",
        "hunter2\n",
        "\x00hunter2",
        " hunter2",
        "http://host/?token=hunter2#",
        "http://[hunter2]",
        "hunter2" * 1000,
    ]
)
wrapped = (
    secrets
    | st.lists(secrets, min_size=1)
    | st.fixed_dictionaries({"password": secrets, "x": secrets, "token": secrets})
)


@settings(max_examples=60)
@given(st.sampled_from(SECRET_PLACES), wrapped)
def test_a_secret_is_never_said(where: tuple[str | int, ...], value: Any) -> None:
    said = ""
    try:
        server = parse(yaml.safe_dump(replaced(where, value))).deployments[2].prometheus
        said = repr(server.headers if server else None)
    except ConfigError as error:
        said = f"{error} {error!r}"
    assert "hunter2" not in said


@given(st.text(max_size=60))
def test_any_text_is_a_configuration_or_an_error(text: str) -> None:
    with pytest.raises(ConfigError):
        parse(text)
