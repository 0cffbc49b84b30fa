"""Each scenario of the demo in simulated time and through the whole: engines, diagnosis, `/metrics`, the real rules."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from pdscope.demo.scenarios import SCENARIOS
from pdscope.model.finding import Stage, Verdict
from pdscope.render.alerting.alert import alert_name
from support.promtool_case import RULES
from support.scenario_pages import EVALUATION_SECONDS, STEP_SECONDS, Samples, held, input_series, lasting, later, pages

pytestmark = pytest.mark.promtool

SIMULATED_SECONDS = 210
"""After that what was exported since the first minute comes again, since a simulated minute takes half a second."""
QUIET_SECONDS = 3600
BEFORE_SECONDS = 600
"""Healthy before a fault comes, so that it has the memory of the rules against it."""
WITHIN_SECONDS = 600
FIXTURES = Path(__file__).parents[1] / "fixtures"
SOUND = {"healthy", "idle"}
FAULTLESS = [scenario.name for scenario in SCENARIOS.values() if scenario.is_faultless]
FAULTS = [scenario.name for scenario in SCENARIOS.values() if not scenario.is_faultless]
FIRING = 'ALERTS{alertstate="firing"}'
LOUD = 'ALERTS{alertstate="firing",severity=~"page|critical"}'
BESIDE = {"kv_pinned": {'{alertname="PdscopeKVLeaseExpired",severity="critical"}'}}
"""What else wakes somebody: of the KV that nobody fetches, the lease ends."""
EVERY_SECONDS = {"metrics_untrusted": 2}
"""That two processes answer in turn is seen from more scrapes than the few of the other scenarios."""


def sound_bundles() -> list[Path]:
    """Those of which nothing but `healthy` or `idle` is expected."""
    cases = yaml.safe_load((FIXTURES / "cases" / "expect.yaml").read_text(encoding="utf-8"))
    expected = {FIXTURES / "cases" / f"{name}.tar.gz": expect for name, expect in cases.items()}
    for run in sorted((FIXTURES / "runs").iterdir()):
        if run.is_dir():
            expected[run] = yaml.safe_load((run / "expect.yaml").read_text(encoding="utf-8"))["expect"]
    verdicts = {path: expect["verdict"] for path, expect in expected.items()}
    return [path for path, said in verdicts.items() if {*([said] if isinstance(said, str) else said)} <= SOUND]


def evaluate(promtool: str, folder: Path, exported: Sequence[Samples], asked: Mapping[str, set[str]]) -> None:
    """At the end, each expression has to give these series, and nothing else.

    Args:
        promtool: program.
        folder: to write in.
        exported: by pdscope, a page a step.
        asked: expression that has 1 as its value -> series.
    """
    end = (len(exported) - 1) * STEP_SECONDS
    tests: list[dict[str, Any]] = [
        {"expr": expr, "eval_time": f"{end}s", "exp_samples": [{"labels": labels, "value": 1} for labels in wanted]}
        for expr, wanted in asked.items()
    ]
    document = {
        "rule_files": [str(RULES / "recording.yml"), str(RULES / "alerts.yml")],
        "evaluation_interval": f"{STEP_SECONDS}s",
        "group_eval_order": ["pdscope.rules", "pdscope.alerts", "pdscope.meta"],
        "tests": [
            {
                "interval": f"{STEP_SECONDS}s",
                "input_series": input_series(exported),
                "promql_expr_test": tests,
            }
        ],
    }
    path = folder / "scenario.yml"
    path.write_text(json.dumps(document), encoding="utf-8")
    done = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", FAULTLESS)
def test_nothing_wrong_raises_nothing_for_an_hour(promtool: str, tmp_path: Path, name: str) -> None:
    """From the start of the daemon on, and at no severity."""
    exported = lasting(pages(name, SIMULATED_SECONDS), QUIET_SECONDS)
    evaluate(promtool, tmp_path, exported, {f"max_over_time({FIRING}[{QUIET_SECONDS}s])": set()})


@pytest.mark.parametrize("bundle", sound_bundles(), ids=lambda path: path.name)
def test_what_was_recorded_of_sound_services_raises_nothing_for_an_hour(
    promtool: str, tmp_path: Path, bundle: Path
) -> None:
    """Captured runs and field cases in which nothing was wrong."""
    exported = held(bundle, QUIET_SECONDS)
    evaluate(promtool, tmp_path, exported, {f"max_over_time({FIRING}[{QUIET_SECONDS}s])": set()})


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_raises_its_own_alert_in_time(promtool: str, tmp_path: Path, name: str) -> None:
    """Ten minutes after it came it fires, and in between nothing of any other stage has woken anybody.

    An answer that names no stage wakes nobody at all.
    """
    verdict = Verdict(SCENARIOS[name].verdict)
    own = alert_name(verdict)
    before = lasting(pages("healthy", SIMULATED_SECONDS), BEFORE_SECONDS)
    scraped = pages(name, SIMULATED_SECONDS, every_seconds=EVERY_SECONDS.get(name, EVALUATION_SECONDS))
    after = lasting(scraped, WITHIN_SECONDS)
    exported = (*before, *(later(samples, BEFORE_SECONDS) for samples in after))
    span = BEFORE_SECONDS + WITHIN_SECONDS
    severity = "warning" if verdict.stage is Stage.NONE else "page"
    expected = f'{{alertname="{own}",severity="{severity}",stage="{verdict.stage}"}}'
    loud = {f'{{alertname="{own}",severity="page"}}'} if severity == "page" else set()
    mine = f'{FIRING[:-1]},alertname="{own}",severity="{severity}"}}'
    asked = {
        f"count by (alertname, severity, stage) ({mine})": {expected},
        f"count by (alertname, severity) (max_over_time({LOUD}[{span}s]))": loud | BESIDE.get(name, set()),
    }
    evaluate(promtool, tmp_path, exported, asked)
