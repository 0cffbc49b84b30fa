"""Every name and label exists, only counters are under a rate, and nothing is averaged that must not be."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from pdscope.model.finding import Confidence, Phase, Verdict
from pdscope.model.topology import Role
from pdscope.render import catalogue
from pdscope.render.alerting.promql import TARGET_LABELS
from pdscope.render.catalogue import MetricKind
from pdscope.render.dashboards.query import pick
from support.boards import ROOT, boards

EXPOSITIONS = ROOT / "tests" / "fixtures" / "expositions"
PAGES = ("sglang-0.5.23-*.prom", "vllm-0.32.0-*.prom")
"""Of the versions that the board of engines claims."""

TARGET = {"deployment", "role", "worker"}
METRICS = {d.name: {*d.labels, *TARGET_LABELS} for d in catalogue.ALL}
COUNTERS = {d.name for d in catalogue.ALL if d.kind is MetricKind.COUNTER}
VALUES = {
    "verdict": set(map(str, Verdict)),
    "phase": set(map(str, Phase)),
    "confidence": set(map(str, Confidence)),
    "role": set(map(str, Role)),
}
SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)?\{([^{}]*)\}")
MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
GROUPING = re.compile(r"\b(?:by|on|without) \(([^)]*)\)")
ENGINE = re.compile(r"(sglang|vllm)\[:_\](\w+)")


@cache
def recorded() -> dict[str, tuple[str, frozenset[str]]]:
    """Sample name on a real page -> type of its family and the labels that it bears."""
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for pattern in PAGES:
        for path in EXPOSITIONS.glob(pattern):
            if "loads" in path.name:
                continue
            for family in text_string_to_metric_families(path.read_text(encoding="utf-8")):
                for sample in family.samples:
                    kind, labels = found.get(sample.name, (family.type, frozenset()))
                    found[sample.name] = (kind, labels | sample.labels.keys())
    return found


def expressions() -> list[tuple[str, str]]:
    return [found for board in boards() for found in board.expressions()]


def problems(expr: str) -> list[str]:
    """Names, labels and values of an expression that do not exist."""
    found = []
    bare = SELECTOR.sub(lambda match: match[1] or "", expr)
    known: set[str] = set()
    for name, inner in SELECTOR.findall(expr):
        matchers = MATCHER.findall(inner)
        assert ",".join(f'{label}{op}"{value}"' for label, op, value in matchers) == inner, f"not understood: {inner}"
        names = (
            [name] if name else [f"{a}:{b}" for k, _, v in matchers if k == "__name__" for a, b in ENGINE.findall(v)]
        )
        assert names, f"no name: {inner}"
        for one in names:
            labels = METRICS[one] if one in METRICS else _engine_labels(one)
            found += [f"there is no {one}"] if not labels else []
            known |= labels
            found += [f"{one} has no label {k}" for k, _, _ in matchers if k != "__name__" and k not in labels]
        for label, _, value in matchers:
            wanted = {v for v in value.removeprefix("!").split("|") if v and "$" not in v}
            found += [f'{label}="{v}"' for v in wanted if label in VALUES and v not in VALUES[label]]
    found += [
        f"there is no {name}"
        for name in re.findall(r"\bpdscope_\w+|\b(?:sglang|vllm):\w+", bare)
        if name not in METRICS
    ]
    # A bare metric of ours, as a variable has it, has labels too.
    known |= {label for name in METRICS if re.search(rf"\b{name}\b", bare) for label in METRICS[name]}
    grouped = {label for text in GROUPING.findall(bare) for label in text.split(", ") if label}
    return found + [f"nothing has the label {label}" for label in sorted(grouped - known - {"le"})]


def _engine_labels(name: str) -> set[str]:
    if name not in recorded():
        return set()
    # Ranks of parallelism are printed in SGLang's gauges and counters as of their setting: all of them may be there.
    return {*recorded()[name][1], *TARGET, *TARGET_LABELS, "tp_rank", "pp_rank", "moe_ep_rank", "priority"}


def test_every_name_and_label_exists() -> None:
    """In our catalogue, or on a page that an engine of the claimed version has printed."""
    assert len(expressions()) > 100
    assert [(place, problem) for place, expr in expressions() for problem in problems(expr)] == []


@pytest.mark.parametrize(
    "wrong",
    [
        'max by (deployment) (pdscope_deployment_verdicts{cluster=~"$cluster"})',
        'max by (deployment) (pdscope_deployment_verdict{verdict="kv_transfer"})',
        'max by (phase) (pdscope_deployment_verdict{verdict="idle"})',
        'pdscope_deployment_verdict{phase="prefill"}',
        'sum by (role) (rate({__name__=~"sglang[:_]num_requests"}[1m]))',
        'sum by (role) (rate({__name__=~"sglang[:_]num_requests_total",engine="0"}[1m]))',
        'sum by (role) ({__name__=~"vllm[:_]num_requests_running",role="prefil"})',
    ],
)
def test_a_wrong_name_is_noticed(wrong: str) -> None:
    """The check above can fail."""
    assert problems(wrong)


def test_the_source_refuses_a_label_that_does_not_exist() -> None:
    """Before anything is written."""
    with pytest.raises(ValueError, match="pdscope_deployment_verdict has no label phase"):
        pick(catalogue.VERDICT, {"phase": "prefill"})
    with pytest.raises(ValueError, match="pdscope_build_info is not of a deployment"):
        pick(catalogue.BUILD_INFO)


def kind_problems(expr: str) -> list[str]:
    """Counters that stand as they are, and rates of what is no counter."""
    found = []
    for match in SELECTOR.finditer(expr):
        name, inner = match[1] or "", match[2]
        names = [name] if name else ["{}:{}".format(*parts) for parts in ENGINE.findall(inner)]
        before = expr[: match.start()]
        function = re.search(r"(\w+)\($", before)
        rated = function is not None and function[1] in ("rate", "increase")
        for one in names:
            grows = one in COUNTERS or (one in recorded() and (recorded()[one][0] in ("counter", "histogram")))
            if rated != grows:
                found.append(f"{one} {'is no counter' if rated else 'is a counter without a rate'}")
    return found


def test_counters_are_under_a_rate_and_gauges_are_not() -> None:
    """Of a page's own TYPE, not of a name's ending."""
    assert [(place, found) for place, expr in expressions() for found in kind_problems(expr)] == []


@pytest.mark.parametrize(
    "wrong",
    [
        'rate({__name__=~"sglang[:_]num_running_reqs"}[1m])',
        'sum({__name__=~"vllm[:_]generation_tokens_total"})',
        'sum({__name__=~"vllm[:_]time_to_first_token_seconds_sum"})',
        'rate(pdscope_source_up{deployment="a"}[1m])',
        'max(pdscope_source_scrape_failures_total{deployment="a"})',
    ],
)
def test_a_wrong_kind_is_noticed(wrong: str) -> None:
    """The check above can fail."""
    assert kind_problems(wrong)


def test_nothing_is_made_up_averaged_or_pooled() -> None:
    """No zero in place of nothing, no lifetime means, no averaged percentiles, no roles thrown together."""
    for place, expr in expressions():
        assert "vector(" not in expr, place
        assert "avg(" not in expr, place
        assert not re.search(r"(_sum|_count)\"?[^\[]*\}\s*/", expr), place
        for quantile in re.findall(r"(.{0,40})histogram_quantile\(([\d.]+), sum by \(([^)]*)\)", expr):
            assert not re.search(r"(avg|sum|max)[^(]*\($", quantile[0]), place
            assert {"role", "le"} <= set(quantile[2].split(", ")), place
        if place.startswith("engines: ") and "variable" not in place:
            folded = re.findall(r"\bby \(([^)]*)\)", expr)
            assert folded, place
            assert all("role" in labels.split(", ") for labels in folded), place
        for window in re.findall(r"\b(?:rate|increase)\([^{]*\{[^}]*\}\[([^\]]*)\]", expr):
            assert window == "$__rate_interval", place


def test_legends_name_labels_that_the_query_keeps() -> None:
    for board in boards():
        for panel in board.panels:
            for target in panel["targets"]:
                kept = {label for text in GROUPING.findall(target["expr"]) for label in text.split(", ")}
                assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= kept, panel["title"]


@pytest.mark.promtool
def test_promtool_parses_every_expression(promtool: str, tmp_path: Path) -> None:
    """Debian's, the oldest that is supported; variables replaced as Grafana does."""
    rules = []
    for number, (_, expr) in enumerate(expressions()):
        plain = re.sub(r"\$__(rate_interval|interval|range)\b", "1m", expr)
        rules.append({"record": f"expression:{number}", "expr": re.sub(r"\$\w+", "(a|b)", plain)})
    path = tmp_path / "expressions.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "boards", "rules": rules}]}), encoding="utf-8")
    run = subprocess.run([promtool, "check", "rules", path], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{len(rules)} rules found" in run.stdout
