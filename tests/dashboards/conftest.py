"""A real Prometheus that has the history of every scenario of the demo."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from demo_history import START_UNIX_SECONDS, STEP_SECONDS, Act, write_history
from demo_prometheus import Prometheus, Range, prometheus_on

from support.boards import LOSES_A_SOURCE, SEEN
from support.programs import needed

SECONDS = 80.0


@dataclass(frozen=True)
class History:
    """What the boards are asked over."""

    server: Prometheus
    shown: Range


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory, promtool: str) -> Iterator[History]:
    """Each scenario that can be seen as a deployment of its name, and one that loses a source."""
    needed("prometheus", package="prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    deployments = {name: [Act(name, SECONDS)] for name in SEEN}
    lost = [Act("healthy", 30.0), Act("healthy", 30.0, lost="d0"), Act("healthy", SECONDS - 60.0)]
    write_history(folder / "history.om", {**deployments, LOSES_A_SOURCE: lost})
    shown = Range(START_UNIX_SECONDS + 20.0, START_UNIX_SECONDS + SECONDS - STEP_SECONDS, STEP_SECONDS, STEP_SECONDS)
    with prometheus_on(folder / "history.om", folder) as server:
        yield History(server, shown)
