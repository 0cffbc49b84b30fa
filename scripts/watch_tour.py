"""Runs `pdscope demo` as a user would and asks it over HTTP, all the while, whether it says the truth.

The truth is the verdict of the scenario that is on; the daemon has its stated time to come to it (a window, and three
evaluations to show a trouble or five to end one), and from then on each other verdict is a wrong one. Prints a line a
scenario, and returns 1 if anything was wrong. docs/demo.md says what came out.

    .venv/bin/python scripts/watch_tour.py                    an hour of the tour, four times as fast as time
    .venv/bin/python scripts/watch_tour.py --scenario idle    one that stays on
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import arguments as kinds
import httpx

from pdscope.demo.scenarios import SCENARIOS
from pdscope.diagnosis.hysteresis import CLEAR_AFTER, RAISE_AFTER
from pdscope.model.finding import Verdict

WINDOW_SECONDS = 30.0
EVALUATION_SECONDS = 2.0
"""Simulated, both; a trouble is shown after `RAISE_AFTER` of them, and that it is over after `CLEAR_AFTER`."""
NO_TROUBLE = frozenset((Verdict.HEALTHY, Verdict.IDLE))
BETWEEN_SCRAPES_SECONDS = 2.0
"""Simulated: a switch falls somewhere between two scrapes."""
LAST_ANSWERS_SECONDS = 15.0
"""Simulated: the longest answers to what was asked before `idle` came on; until then it is no idle deployment."""
ANSWER_TIMEOUT_SECONDS = 10.0


class WatchError(Exception):
    """The demo does not start or has ended; the text says what it printed."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was shown at one moment.

    Attributes:
        scenario: that was on.
        on_seconds: simulated, since it came on.
        verdict: as `/diagnose` says it; None while it has none.
        confidence: of the verdict.
    """

    scenario: str
    on_seconds: float
    verdict: str | None
    confidence: str = ""


@dataclass(slots=True)
class Tally:
    """What was shown while one scenario was on, over all its turns.

    Attributes:
        expected: verdict of the scenario.
        first_right_seconds: of each turn, simulated, until the verdict was there to stay; None where it never was.
        right: looks after the detection time that saw the verdict.
        wrong: the others: verdict and confidence -> looks.
    """

    expected: str
    first_right_seconds: list[float | None] = field(default_factory=list)
    right: int = 0
    wrong: Counter[tuple[str, str]] = field(default_factory=Counter)


def verdicts() -> dict[str, str]:
    """The truth of each scenario."""
    return {name: scenario.verdict for name, scenario in SCENARIOS.items()}


def detection_seconds(verdict: str) -> float:
    """Simulated time from a switch on, after which another verdict is wrong."""
    evaluations = CLEAR_AFTER if verdict in NO_TROUBLE else RAISE_AFTER
    wait = LAST_ANSWERS_SECONDS if verdict == "idle" else 0.0
    return WINDOW_SECONDS + evaluations * EVALUATION_SECONDS + BETWEEN_SCRAPES_SECONDS + wait


def tally(looks: Iterable[Seen], expected: Mapping[str, str]) -> dict[str, Tally]:
    """Count by scenario.

    Args:
        looks: in the order of time.
        expected: scenario -> verdict.
    """
    counted: dict[str, Tally] = {}
    previous: Seen | None = None
    for seen in looks:
        one = counted.setdefault(seen.scenario, Tally(expected[seen.scenario]))
        if previous is None or previous.scenario != seen.scenario or seen.on_seconds < previous.on_seconds:
            one.first_right_seconds.append(None)
        is_right = seen.verdict == one.expected
        if not is_right:
            one.first_right_seconds[-1] = None
        elif one.first_right_seconds[-1] is None:
            one.first_right_seconds[-1] = seen.on_seconds
        if seen.on_seconds >= detection_seconds(one.expected):
            one.right += is_right
            if not is_right:
                one.wrong[seen.verdict or "none", seen.confidence] += 1
        previous = seen
    return counted


@contextmanager
def demo(options: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The demo as a process, while entered; the addresses of its daemon and of its control interface.

    Raises:
        WatchError: it ends before it has said where it listens.
    """
    command = [sys.executable, "-m", "pdscope", "demo", "--web.listen-address=127.0.0.1:0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own demo
        try:
            text = ""
            for line in process.stdout or ():
                text += line
                if line.strip().startswith("watch:"):
                    break
            daemon = re.search(r"(http://\S+)/diagnose", text)
            control = re.search(r"(http://\S+)/ +GET", text)
            if daemon is None or control is None:
                raise WatchError(f"the demo does not say where it listens:\n{text}")
            yield daemon[1], control[1]
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()


def looks(daemon: str, control: str, *, simulated_seconds: float, speed: float) -> Iterator[Seen]:
    """Look about once a simulated second, for so long; a look that a switch interrupts is left out.

    Raises:
        WatchError: the demo has gone.
    """
    ends = time.monotonic() + simulated_seconds / speed
    with httpx.Client(timeout=ANSWER_TIMEOUT_SECONDS) as client:
        while time.monotonic() < ends:
            try:
                before, answer, after = client.get(control), client.get(f"{daemon}/diagnose"), client.get(control)
            except httpx.TransportError as error:
                raise WatchError(f"the demo does not answer: {error}") from None
            on = [state.json()["on_seconds"] for state in (before, after)]
            if on[0] <= on[1]:
                yield _seen(before.json()["scenario"], on[0], answer)
            time.sleep(1.0 / speed)


def _seen(scenario: str, on_seconds: float, answer: httpx.Response) -> Seen:
    deployments = answer.json().get("deployments", []) if answer.status_code == httpx.codes.OK else []
    if not deployments:
        return Seen(scenario, on_seconds, None)
    return Seen(scenario, on_seconds, deployments[0]["verdict"], deployments[0]["confidence"])


def row(scenario: str, one: Tally) -> str:
    """A line of what is printed."""
    times = ", ".join("never" if at is None else f"{at:.0f} s" for at in one.first_right_seconds)
    wrong = "".join(f"; {count} x {' '.join(what).rstrip()}" for what, count in one.wrong.items())
    return f"{scenario:24} {one.right:5} right, {sum(one.wrong.values()):3} wrong{wrong}; there to stay after {times}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", action="append", help="of the demo (default: the tour of all)")
    parser.add_argument(
        "--speed", type=kinds.factor, default=4.0, help="simulated seconds a second (default: %(default)g)"
    )
    parser.add_argument("--minutes", type=kinds.factor, default=60.0, help="simulated (default: %(default)g)")
    parser.add_argument("--seed", type=kinds.seed, default=0, help="of the simulated traffic (default: %(default)s)")
    options = parser.parse_args(arguments)
    asked = [f"--speed={options.speed:g}", f"--seed={options.seed}"]
    asked += [f"--scenario={name}" for name in options.scenario or ()]
    try:
        with demo(asked) as (daemon, control):
            seen = looks(daemon, control, simulated_seconds=options.minutes * 60.0, speed=options.speed)
            counted = tally(seen, verdicts())
    except WatchError as error:
        print(f"watch_tour: {error}", file=sys.stderr)
        return 2
    for name, one in counted.items():
        print(row(name, one))
    is_wrong = any(one.wrong or None in one.first_right_seconds[:-1] for one in counted.values())
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
