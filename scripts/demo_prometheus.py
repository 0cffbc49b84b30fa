"""A real Prometheus on a recorded history, asked what Grafana would ask for the panels of a board."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from urllib.request import urlopen

_READY = "Server is ready to receive web requests"
_ANSWER_SECONDS = 30.0
_LABEL_VALUES = re.compile(r"label_values\((.*), (\w+)\)", re.DOTALL)
_VARIABLE = re.compile(r"\$(\w+)")


@dataclass(frozen=True, slots=True)
class Series:
    """One line: points are (unix seconds, value)."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Range:
    """What a board shows.

    Attributes:
        start: unix seconds.
        end: the same.
        step_seconds: between two points, which is Grafana's `$__interval`.
        scrape_seconds: between two scrapes, as the data source is told.
    """

    start: float
    end: float
    step_seconds: float
    scrape_seconds: float

    def substituted(self, expr: str, values: Mapping[str, str]) -> str:
        """The query that Grafana sends.

        Args:
            expr: with variables.
            values: of the board's variables, as patterns.

        Raises:
            KeyError: a variable has no value.
        """
        # As Grafana does: four scrapes at least, so that a rate has points also where one fails.
        rate = max(self.step_seconds + self.scrape_seconds, 4 * self.scrape_seconds)
        own = {
            "__rate_interval": f"{rate:.0f}s",
            "__interval": f"{self.step_seconds:.0f}s",
            "__range": f"{self.end - self.start:.0f}s",
        }
        return _VARIABLE.sub(lambda found: (own | dict(values))[found[1]], expr)


class Prometheus:
    """A server that runs.

    Attributes:
        url: of its root.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expr: str, at: float) -> list[Series]:
        """An instant query.

        Raises:
            urllib.error.HTTPError: Prometheus refuses it.
        """
        found = self._get("query", {"query": expr, "time": f"{at}"})["result"]
        return [Series(_labels(one), (_point(one["value"]),)) for one in found]

    def query_range(self, expr: str, shown: Range) -> list[Series]:
        """A range query.

        Raises:
            urllib.error.HTTPError: Prometheus refuses it.
        """
        asked = {"query": expr, "start": f"{shown.start}", "end": f"{shown.end}", "step": f"{shown.step_seconds}"}
        found = self._get("query_range", asked)["result"]
        return [Series(_labels(one), tuple(_point(p) for p in one["values"])) for one in found]

    def choices(self, definition: str, values: Mapping[str, str], shown: Range) -> list[str]:
        """The values that a variable offers.

        Args:
            definition: `label_values(selector, label)`.
            values: of the variables before it.
            shown: which time.

        Raises:
            ValueError: it is something else.
        """
        asked = _LABEL_VALUES.fullmatch(definition)
        if asked is None:
            raise ValueError(f"not label_values(selector, label): {definition}")
        selector = shown.substituted(asked[1], values)
        query = {"match[]": selector, "start": f"{shown.start}", "end": f"{shown.end}"}
        found: list[str] = self._get(f"label/{quote(asked[2])}/values", query)
        return found

    def _get(self, path: str, query: Mapping[str, str]) -> Any:
        with urlopen(f"{self.url}/api/v1/{path}?{urlencode(query)}", timeout=_ANSWER_SECONDS) as answer:  # noqa: S310 - http, on this host
            return json.load(answer)["data"]


@contextmanager
def prometheus_on(history: Path, folder: Path, lookback_seconds: int = 15) -> Iterator[Prometheus]:
    """A Prometheus that knows a history and scrapes nothing, until the block ends.

    Args:
        history: OpenMetrics with time stamps.
        folder: for its data.
        lookback_seconds: for which a sample counts; more than the time between two.

    Raises:
        subprocess.CalledProcessError: promtool refuses the history.
        RuntimeError: Prometheus ends before it is ready; the text has its log.
    """
    data, config = folder / "data", folder / "prometheus.yml"
    config.write_text("global: {}\n", encoding="utf-8")
    blocks = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(history), str(data)]
    subprocess.run(blocks, check=True, capture_output=True)  # noqa: S603 - fixed words and our own paths
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        # The history is as old as its fixed time stamps.
        "--storage.tsdb.retention.time=100y",
        # A series ends with its last sample: a history has none of the marks by which a scrape ends one.
        f"--query.lookback-delta={lookback_seconds}s",
        f"--web.listen-address={address}",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 - the same
        try:
            _wait(process)
            yield Prometheus(f"http://{address}")
        finally:
            process.terminate()


def _wait(process: subprocess.Popen[str]) -> None:
    """Until it says that it is ready; its log is read on, so that it never waits for a reader."""
    log, lines = process.stderr, []
    if log is None:
        raise RuntimeError("the log of Prometheus is not read")
    for line in log:
        lines.append(line)
        if _READY in line:
            threading.Thread(target=log.read, daemon=True).start()
            return
    raise RuntimeError("Prometheus ended:\n" + "".join(lines))


def _labels(one: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for name, value in one["metric"].items() if name != "__name__"}


def _point(raw: tuple[float, str]) -> tuple[float, float]:
    return float(raw[0]), float(raw[1])
