"""Test files for `promtool test rules`: what replicas of pdscope export over time, and the alerts that must follow."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from pdscope.model.finding import Confidence, Phase, Verdict

ROOT = Path(__file__).parents[2]
RULES = ROOT / "rules"
STEP_SECONDS = 30
DEPLOYMENT = "chat"
TTFT_OBJECTIVE, ITL_OBJECTIVE = 2.0, 0.05


@dataclass(frozen=True)
class State:
    """What one replica says during a time.

    Attributes:
        ttft, itl: medians; None: not known, so not exported.
        hangs: it goes on exporting, and diagnoses no more.
        extra: whole series, but for the labels of the target -> value.
    """

    verdict: Verdict = Verdict.HEALTHY
    confidence: Confidence = Confidence.HIGH
    phase: Phase = Phase.WITHIN_SLO
    ttft: float | None = 1.0
    itl: float | None = 0.04
    hangs: bool = False
    extra: Mapping[str, float] = field(default_factory=dict)

    def samples(self, at: float, deployment: str) -> dict[str, float]:
        """Series without the labels of the target -> value."""
        d = f'deployment="{deployment}"'
        known = {
            "pdscope_build_info{": 1.0,
            f"pdscope_diagnosis_timestamp_seconds{{{d}": at,
            f"pdscope_deployment_ttft_p50_seconds{{{d}": self.ttft,
            f"pdscope_deployment_itl_p50_seconds{{{d}": self.itl,
            f"pdscope_deployment_slo_ttft_p50_seconds{{{d}": TTFT_OBJECTIVE,
            f"pdscope_deployment_slo_itl_p50_seconds{{{d}": ITL_OBJECTIVE,
            **{f'pdscope_deployment_verdict{{{d},verdict="{v}"': float(v is self.verdict) for v in Verdict},
            **{f'pdscope_deployment_phase{{{d},phase="{p}"': float(p is self.phase) for p in Phase},
            **{f'pdscope_deployment_confidence{{{d},confidence="{c}"': float(c is self.confidence) for c in Confidence},
            **{f"{name}{{{d}{labels}": value for (name, labels), value in self._extra()},
        }
        return {name: value for name, value in known.items() if value is not None}

    def _extra(self) -> list[tuple[tuple[str, str], float]]:
        parts = [(name.rstrip("}").partition("{"), value) for name, value in self.extra.items()]
        return [((name, f",{labels}" if labels else ""), value) for (name, _, labels), value in parts]


Timeline = Sequence[tuple[float, State | None]]
"""Until which minute -> what is said; None: nothing is scraped."""


def replica(number: int) -> str:
    """The labels of the target; also those that only some installations have."""
    return (
        f'job="pdscope",namespace="llm",instance="10.0.0.{number}:9836",pod="pdscope-{number}",'
        f'container="pdscope",endpoint="http",node="n{number}"'
    )


def series(timeline: Timeline, number: int = 0, deployment: str = DEPLOYMENT) -> list[dict[str, str]]:
    """The `input_series` of one replica."""
    values: dict[str, dict[int, float]] = {}
    step, diagnosed = 0, 0.0
    for until, state in timeline:
        while step * STEP_SECONDS < until * 60:
            if state is not None:
                diagnosed = diagnosed if state.hangs else float(step * STEP_SECONDS)
                for name, value in state.samples(diagnosed, deployment).items():
                    values.setdefault(name, {})[step] = value
            values.setdefault("up{", {})[step] = float(state is not None)
            step += 1
    return [
        {
            "series": f"{name}{'' if name.endswith('{') else ','}{replica(number)}}}",
            "values": " ".join(_text(at, found) for at in range(step)),
        }
        for name, found in values.items()
    ]


def _text(step: int, found: Mapping[int, float]) -> str:
    if step in found:
        return repr(found[step])
    return "stale" if step - 1 in found else "_"


def rendered(
    name: str, summary: str, description: str, *, deployment: str | None = DEPLOYMENT, **labels: str
) -> dict[str, Any]:
    """One alert that is expected, with its exact labels and annotations."""
    named = {"deployment": deployment, "namespace": "llm"} if deployment is not None else {}
    query = f"?deployment={deployment}" if deployment is not None else ""
    return {
        "exp_labels": {**named, **labels},
        "exp_annotations": {
            "summary": summary,
            "description": description,
            "runbook_url": f"https://pdscope.example/docs/runbooks/{name}.md",
            "diagnose_url": f"http://pdscope.example:9836/diagnose{query}",
        },
    }


def expect(name: str, steps: Mapping[float, Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Minute -> the alerts of the name that fire then; the first step has to be without any."""
    assert not next(iter(steps.values())), "negative steps first"
    return [
        {"eval_time": f"{round(minute * 60)}s", "alertname": name, "exp_alerts": list(alerts)}
        for minute, alerts in steps.items()
    ]


def run(
    promtool: str,
    folder: Path,
    input_series: Sequence[Mapping[str, str]],
    tests: Sequence[Mapping[str, Any]],
    external_labels: Mapping[str, str] | None = None,
) -> None:
    """Run one test group of promtool on the committed rules; of the alerts, on those that the tests name."""
    alerts = folder / "alerts.yml"
    alerts.write_text(json.dumps(_only({test["alertname"] for test in tests})), encoding="utf-8")
    document = {
        "rule_files": [str(RULES / "recording.yml"), str(alerts)],
        "evaluation_interval": f"{STEP_SECONDS}s",
        "group_eval_order": ["pdscope.rules", "pdscope.alerts", "pdscope.meta"],
        "tests": [
            {
                "interval": f"{STEP_SECONDS}s",
                "input_series": list(input_series),
                "alert_rule_test": list(tests),
                "external_labels": dict(external_labels or {}),
            }
        ],
    }
    path = folder / "case.yml"
    # JSON is YAML.
    path.write_text(json.dumps(document), encoding="utf-8")
    done = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _only(names: set[str]) -> dict[str, Any]:
    """The committed alerts of these names, since each that is evaluated takes its time."""
    groups = yaml.safe_load((RULES / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    found = [{**g, "rules": [r for r in g["rules"] if r["alert"] in names]} for g in groups]
    assert {r["alert"] for g in found for r in g["rules"]} == names, "a test of an alert that does not exist"
    return {"groups": found}
