"""The rules as files: every name exists, every alert is complete, and they are what their source writes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from pdscope.diagnosis.engine import discover
from pdscope.model.finding import Confidence, Verdict
from pdscope.render import catalogue
from pdscope.render.alerting.promql import TARGET_LABELS, select
from pdscope.render.alerting.settings import Settings, duration
from support.promtool_case import ROOT, RULES

MANIFEST = ROOT / "deploy" / "prometheusrule.yaml"
RUNBOOKS = ROOT / "docs" / "runbooks"
METRICS = {d.name: {*d.labels} for d in catalogue.ALL}
ADDED = {"up": set[str]()}
VALUES = {
    "verdict": set(map(str, Verdict)),
    "confidence": set(map(str, Confidence)),
    "rule": {rule.id for rule in discover()},
    "resource": set(catalogue.HEADROOM_RESOURCES.values()),
}
WORDS = {
    "and",
    "or",
    "unless",
    "on",
    "ignoring",
    "by",
    "group_left",
    "bool",
    "max",
    "min",
    "sum",
    "count",
    "time",
    "absent",
    "increase",
}
WORDS |= {"avg_over_time", "max_over_time", "min_over_time", "last_over_time"}
GROUPING = re.compile(r"\b(?:by|on|ignoring|group_left) \(([^)]*)\)")
NAME = re.compile(r"(?<![\w:.])[a-zA-Z_][\w:]*")
SELECTOR = re.compile(r"([a-zA-Z_][\w:]*)\{([^}]*)\}")
MATCHER = re.compile(r'(\w+)(=~|=)"([^"]*)"')


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@cache
def groups() -> list[dict[str, Any]]:
    return [g for name in ("recording.yml", "alerts.yml") for g in load(RULES / name)["groups"]]


def rules() -> list[dict[str, Any]]:
    return [rule for group in groups() for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


@cache
def recorded() -> dict[str, set[str]]:
    """Recorded name -> its labels."""
    found: dict[str, set[str]] = {}
    for rule in rules():
        if "record" in rule:
            kept = GROUPING.search(rule["expr"])
            assert kept is not None
            found.setdefault(rule["record"], set()).update(kept[1].split(", "), rule.get("labels", {}))
    return found


def queries(template: str) -> list[str]:
    """The queries inside a template; `%s` is the matchers of the deployment."""
    found = re.findall(r"printf `([^`]*)` \$of", template)
    return [q.replace("{%s", '{deployment="x"').replace("%s", "time()") for q in found]


def expressions() -> Iterator[tuple[str, str]]:
    for rule in rules():
        name = rule.get("alert", rule.get("record"))
        yield name, rule["expr"]
        for text in rule.get("annotations", {}).values():
            for query in queries(text):
                yield name, query
    for page in RUNBOOKS.glob("*.md"):
        for block in re.findall(r"```promql\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            yield page.name, "\n".join(line.partition("#")[0] for line in block.splitlines())


def problems(expr: str) -> list[str]:
    """Names, labels and values of an expression that do not exist."""
    known = METRICS | recorded() | ADDED
    found = []
    for name, inner in SELECTOR.findall(expr):
        matchers = MATCHER.findall(inner)
        assert ",".join(f'{k}{op}"{v}"' for k, op, v in matchers) == inner, f"not understood: {inner}"
        found += [f"{name} has no label {k}" for k, _, _ in matchers if k not in known.get(name, set())]
        found += [
            f'{k}="{v}"' for k, _, text in matchers for v in text.split("|") if k in VALUES and v not in VALUES[k]
        ]
    bare = SELECTOR.sub(r"\1", expr)
    used = [name for name in NAME.findall(GROUPING.sub(" ", re.sub(r"\[[^]]*\]", " ", bare))) if name not in WORDS]
    found += [f"there is no {name}" for name in used if name not in known]
    labels = {*TARGET_LABELS}.union(*(known.get(name, set()) for name in used))
    grouped = {label for text in GROUPING.findall(bare) for label in text.split(", ") if label}
    return found + [f"nothing has the label {label}" for label in sorted(grouped - labels)]


def test_every_name_and_label_exists() -> None:
    """In the expressions, in the queries of descriptions, and in those of runbooks."""
    assert len(list(expressions())) > 300
    assert [(name, p) for name, expr in expressions() for p in problems(expr)] == []


@pytest.mark.parametrize(
    "wrong",
    [
        "pdscope_deployment_verdicts",
        'pdscope_deployment_verdict{verdict="kv_transfer"}',
        'pdscope_deployment_verdict{phase="prefill"}',
        'max by (deployment, phase) (pdscope_deployment_verdict{verdict="idle"})',
        'pdscope_finding_active{rule=~"idle|busy"} > 0',
        'avg_over_time(deployment:pdscope_verdict:max{verdict="idle"}[5m]) > 0.7',
    ],
)
def test_a_wrong_name_is_noticed(wrong: str) -> None:
    """The check above can fail."""
    assert problems(wrong)


def test_source_refuses_a_label_that_does_not_exist() -> None:
    """Before anything is written."""
    with pytest.raises(ValueError, match="pdscope_deployment_verdict has no label phase"):
        select(catalogue.VERDICT, phase="prefill")


def test_counters_are_under_a_rate_and_gauges_are_not() -> None:
    """The mistakes of other packs."""
    counters = {d.name for d in catalogue.ALL if d.kind is catalogue.MetricKind.COUNTER}
    assert all(name.endswith("_total") for name in counters)
    for name, expr in expressions():
        rated = set(re.findall(r"\b(?:rate|irate|increase)\((\w+)", expr))
        assert rated <= counters, name
        assert set(NAME.findall(expr)) & counters == rated, name
        assert "quantile" not in expr, name


@pytest.mark.parametrize("alert", alerts(), ids=lambda a: f"{a['alert']}-{a['labels']['severity']}")
def test_alert_is_complete(alert: dict[str, Any]) -> None:
    """As monitoring mixins have it, and evidence and addresses beside."""
    assert re.fullmatch(r"Pdscope([A-Z][A-Za-z]+)+", alert["alert"])
    assert set(alert) == {"alert", "expr", "for", "keep_firing_for", "labels", "annotations"}
    assert alert["labels"]["severity"] in {"critical", "page", "warning", "info"}
    notes = alert["annotations"]
    assert set(notes) == {"summary", "description", "runbook_url", "diagnose_url"}
    assert re.fullmatch(r"[A-Z][^{}]*\.", notes["summary"])
    assert "{{" in notes["description"]
    assert notes["runbook_url"].endswith(f"/{alert['alert']}.md")
    deployment = "?deployment={{ $labels.deployment | urlquery }}"
    assert notes["diagnose_url"].endswith(f"/diagnose{deployment if 'deployment' in alert['expr'] else ''}")
    assert "pdscope_deployment_phase" not in alert["expr"]


def test_pages_need_a_broken_promise_with_its_cause_and_critical_ones_a_wrong_read() -> None:
    """Nothing else wakes anybody."""
    for alert in alerts():
        paging = alert["labels"]["severity"] == "page"
        explained = "verdict_confident" in alert["expr"] or 'rule="instance_down"' in alert["expr"]
        assert paging <= ("slo_broken" in alert["expr"] and explained)
    critical = {a["alert"] for a in alerts() if a["labels"]["severity"] == "critical"}
    assert critical == {"PdscopeLateKVRead", "PdscopeKVLeaseExpired"}


def test_manifest_has_the_same_groups() -> None:
    """What the operator installs is what was tested."""
    manifest = load(MANIFEST)
    assert (manifest["apiVersion"], manifest["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert manifest["spec"]["groups"] == groups()


def test_each_alert_has_its_runbook_and_each_runbook_its_alert() -> None:
    """Both ways; a runbook begins its diagnosis with the call."""
    named = {alert["alert"] for alert in alerts()}
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == named | {"README"}
    index = (RUNBOOKS / "README.md").read_text(encoding="utf-8")
    for name in named:
        page = (RUNBOOKS / f"{name}.md").read_text(encoding="utf-8")
        assert re.findall(r"^## (.*)$", page, re.MULTILINE) == ["Meaning", "Impact", "Diagnosis", "Mitigation"]
        assert re.search(r"^## Diagnosis\n\n```sh\ncurl '\S+/diagnose\?\S*format=text'\n```", page, re.MULTILINE), name
        assert f"[{name}]({name}.md)" in index


def test_runbooks_link_to_pages_that_exist_for_a_rule() -> None:
    """The page of each rule is written by scripts/generate_docs.py."""
    known = {f"../rules/{rule.id}.md" for rule in discover()}
    linked = {
        link
        for path in RUNBOOKS.glob("Pdscope*.md")
        for link in re.findall(r"\]\(([^)]*)\)", path.read_text(encoding="utf-8"))
    }
    assert linked <= known
    assert len(linked) > 20


@pytest.mark.promtool
@pytest.mark.parametrize("scale", ["1", "0.01"])
def test_prometheus_takes_them(promtool: str, tmp_path: Path, scale: str) -> None:
    """As they are, and with shorter times and fewer labels; a duplicate is an error."""
    assert generate("--output", str(tmp_path), "--time-scale", scale, "--keep-labels", "").returncode == 0
    files = [folder / "rules" / name for folder in (ROOT, tmp_path) for name in ("recording.yml", "alerts.yml")]
    run = subprocess.run(
        [promtool, "check", "rules", "--lint=all", "--lint-fatal", *files], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def generate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "scripts" / "generate_rules.py", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_committed_files_are_up_to_date() -> None:
    """Run scripts/generate_rules.py when this fails."""
    run = generate("--check")
    assert run.returncode == 0, run.stdout + run.stderr


def test_check_names_what_differs_and_writing_mends_it(tmp_path: Path) -> None:
    """A file that is missing, one that was edited, and a runbook of an alert that is gone."""
    assert generate("--output", str(tmp_path)).returncode == 0
    (tmp_path / "rules" / "alerts.yml").write_text("edited\n", encoding="utf-8")
    (tmp_path / "deploy" / "prometheusrule.yaml").unlink()
    (tmp_path / "docs" / "runbooks" / "PdscopeGone.md").write_text("of old\n", encoding="utf-8")
    check = generate("--check", "--output", str(tmp_path))
    assert check.returncode == 1
    named = [line.partition(":")[0].removeprefix(f"{tmp_path}/") for line in check.stdout.splitlines()]
    assert named == ["deploy/prometheusrule.yaml", "docs/runbooks/PdscopeGone.md", "rules/alerts.yml"]

    assert generate("--output", str(tmp_path)).returncode == 0
    assert generate("--check", "--output", str(tmp_path)).returncode == 0


def test_addresses_and_labels_can_be_given(tmp_path: Path) -> None:
    """For an installation that wants its own."""
    urls = ("--diagnose-url", "https://watch.example/p/", "--runbook-url", "https://wiki.example/pdscope/")
    assert generate("--output", str(tmp_path), *urls, "--keep-labels", "region").returncode == 0
    text = (tmp_path / "rules" / "alerts.yml").read_text(encoding="utf-8")
    assert "https://wiki.example/pdscope/PdscopePrefillQueue.md" in text
    assert "}}https://watch.example/p{{ end }}/diagnose?deployment=" in text
    assert "on (region, deployment)" in text
    assert "namespace" not in text


def test_durations() -> None:
    """As Prometheus writes them; a scaled one never becomes 0."""
    assert [duration(s) for s in (300, 90, 5400, 86400, 0.25, 3)] == ["5m", "1m30s", "1h30m", "1d", "250ms", "3s"]
    assert Settings(time_scale=0.01).span(300) == "3s"
    assert Settings(time_scale=1e-9).span(300) == "1ms"
    with pytest.raises(ValueError, match="above 0"):
        duration(0)
