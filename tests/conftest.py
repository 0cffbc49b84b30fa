"""What all tests share: fixture files, golden files, external programs, and CI's refusal of skipped tests."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
IN_CI = bool(os.environ.get("PDSCOPE_CI"))

# No deadline: a shared machine may stall during any example. CI draws the same examples every time.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if IN_CI else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the files of tests/golden instead of comparing with them",
    )


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI a skipped test is a missing prerequisite, so the run has failed."""
    if exitstatus == pytest.ExitCode.OK and skipped_in_ci(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if skipped := skipped_in_ci(config):
        terminalreporter.section("skipped, which PDSCOPE_CI does not allow", red=True)
        for report in skipped:
            terminalreporter.line(f"{report.nodeid}: {report.longreprtext}")


def skipped_in_ci(config: pytest.Config) -> list[pytest.TestReport | pytest.CollectReport]:
    """The tests and modules that this run skipped; none outside CI, where skipping is fine."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return reporter.stats.get("skipped", []) if IN_CI and reporter else []


@pytest.fixture(autouse=True)
def signals_left_alone() -> Iterator[None]:
    """A test that left a handler behind would fail another one, and only in some orders."""
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio, as the daemon does."""
    return "asyncio"


@pytest.fixture(scope="session")
def fixtures_dir() -> Path:
    """Recorded pages, configurations and bundles."""
    return TESTS / "fixtures"


@pytest.fixture(scope="session")
def promtool() -> str:
    """Path of Prometheus' checker, version 2.42 in Debian 12."""
    path = shutil.which("promtool")
    if path is None:
        pytest.skip("promtool is not on the PATH (Debian: apt-get install prometheus)")
    return path


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)`: the text is that of tests/golden/<name>, or becomes it with --update-golden."""

    def check(name: str, text: str) -> None:
        path = TESTS / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{path} does not exist: run pytest with --update-golden and read what it wrote"
        assert text == path.read_text(encoding="utf-8")

    return check
