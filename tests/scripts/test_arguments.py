"""What scripts take on their command lines, and that what they cannot use ends with one line and status 2."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path

import arguments as kinds
import generate_rules
import pytest
import stack
import watch_tour

TAKEN: list[tuple[Callable[[str], object], str, object]] = [
    (kinds.factor, "0.01", 0.01),
    (kinds.factor, "1e-3", 0.001),
    (kinds.seconds, "120", 120.0),
    (kinds.seed, "0", 0),
    (kinds.port, "65535", 65535),
    (kinds.host_port, "pdscope-1.llm:9836", "pdscope-1.llm:9836"),
    (kinds.host_port, "[::1]:9836", "[::1]:9836"),
    (kinds.url, "https://wiki.example/pdscope/", "https://wiki.example/pdscope"),
    (kinds.labels, "cluster,k8s_cluster", ("cluster", "k8s_cluster")),
    (kinds.labels, "", ()),
]
REFUSED: list[tuple[Callable[[str], object], str]] = [
    *((kinds.factor, text) for text in ("0", "-1", "nan", "inf", "1e300", "", "x")),
    *((kinds.seconds, text) for text in ("0", "-3", "nan", "5s")),
    *((kinds.seed, text) for text in ("-1", "1.5", "", "٣")),
    *((kinds.port, text) for text in ("65536", "99999", "-1", "http")),
    *((kinds.host_port, text) for text in ("foo", "foo:0", "foo:99999", "http://foo:1", ":9836", "a b:1")),
    *(
        (kinds.url, text)
        for text in ("wiki", "http://", "ftp://a", 'http://a"', "http://a/{{x}}", "http://a b", "http://[a")
    ),
    *((kinds.labels, text) for text in ("a b", "x-y", "cluster,", "__name__", "a,a", "1a")),
]


@pytest.mark.parametrize(("kind", "text", "value"), TAKEN)
def test_what_makes_sense_is_taken(kind: Callable[[str], object], text: str, value: object) -> None:
    assert kind(text) == value


@pytest.mark.parametrize(("kind", "text"), REFUSED)
def test_what_makes_none_is_named(kind: Callable[[str], object], text: str) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        kind(text)
    assert text in str(caught.value)
    assert "takes" in str(caught.value) or "twice" in str(caught.value)


def refused(main: Callable[[list[str]], int], given: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What is said of a command line that ends with status 2."""
    with pytest.raises(SystemExit) as caught:
        main(given)
    assert caught.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--keep-labels", "a b"),
        ("--keep-labels", "deployment"),
        ("--standalone-worker-label", "x-y"),
        ("--standalone-worker-label", "deployment"),
        ("--standalone-worker-label", "cluster"),
        ("--diagnose-url", 'http://a"'),
        ("--runbook-url", "http://a/{{b}}"),
        ("--time-scale", "nan"),
        ("--time-scale", "0"),
        ("--standalone-window", "-3"),
        ("--standalone-interval", "0"),
    ],
)
def test_no_rules_are_written_that_prometheus_cannot_read(
    option: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(generate_rules.main, [f"{option}={value}", "--output", str(tmp_path)], capsys)
    assert option in said
    assert list(tmp_path.iterdir()) == []


def test_a_window_of_few_scrapes_is_written_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_rules.main(["--standalone-window", "30", "--output", str(tmp_path)]) == 0
    assert "warning: --standalone-window 30: a window has to hold four scrapes" in capsys.readouterr().err
    assert generate_rules.main(["--standalone-window", "60", "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("a file\n", encoding="utf-8")
    assert generate_rules.main(["--output", str(tmp_path / "taken")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(str(tmp_path / "taken"))
    assert "cannot be written: Not a directory" in line


@pytest.mark.parametrize(
    ("option", "value"),
    [("--pdscope-port", "99999"), ("--replica", "foo"), ("--seed", "-1"), ("--speed", "nan"), ("--webhook", "here")],
)
def test_a_stack_that_cannot_be_is_not_started(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"argument {option}: {value}: takes" in refused(stack.main, [f"{option}={value}"], capsys)


@pytest.mark.parametrize(("option", "value"), [("--seed", "-1"), ("--speed", "0"), ("--minutes", "inf")])
def test_nor_a_tour_watched(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"argument {option}: {value}: takes" in refused(watch_tour.main, [f"{option}={value}"], capsys)
