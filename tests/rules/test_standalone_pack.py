"""rules/standalone.yml as a file: real names and labels, none of the usual mistakes, complete alerts, your numbers."""

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
from prometheus_client.parser import text_string_to_metric_families

from pdscope.render.standalone.alerts import runbook, standalone_name
from pdscope.render.standalone.engines import ENGINES, ROUTERS
from pdscope.render.standalone.verdicts import VERDICTS
from support.promtool_case import ROOT, RULES

FILE = RULES / "standalone.yml"
RUNBOOKS = ROOT / "docs" / "runbooks"
EXPOSITIONS = ROOT / "tests" / "fixtures" / "expositions"
MADE = ROOT / "tests" / "fixtures" / "expositions-made"
ADDED = {"deployment", "worker", "role"}
"""Labels that /sd or relabelling puts on the series."""

OTHER_VERSIONS = {
    "sglang:num_prefill_infight_queue_reqs": "up to 0.4.10",
    "sglang:num_transfer_failed_reqs": "up to 0.5.1",
    "sglang:num_bootstrap_failed_reqs": "up to 0.5.1",
    "sglang:queue_time_s": "0.5.2",
    "vllm:gpu_cache_usage_perc": "up to 0.11",
    "vllm:time_per_output_token_seconds": "up to 0.11",
    "vllm:external_prefix_cache_hits_total": "0.11.2 to 0.15, and 0.32",
    "vllm:mooncake_num_failed_transfers_total": "from 0.33",
    "vllm:mooncake_xfer_time_seconds": "from 0.33",
    "vllm:mooncake_bytes_transferred": "from 0.33",
}
"""Not on a page of the recorded versions; the adapters say since or until when."""

NOT_PRINTED = {"sglang:num_bootstrap_failed_reqs_total": "printed from the first failure on"}
"""By the recorded version, in what was recorded of it."""

SELECTOR = re.compile(r"([a-zA-Z_][\w:]*)\{([^}]*)\}")
MATCHER = re.compile(r'(\w+)(?:=~|!=|=)"([^"]*)"')
SUFFIX = re.compile(r"_(?:bucket|sum|count)$")


@cache
def groups() -> dict[str, list[dict[str, Any]]]:
    return {g["name"]: g["rules"] for g in yaml.safe_load(FILE.read_text(encoding="utf-8"))["groups"]}


def alerts() -> list[dict[str, Any]]:
    return groups()["pdscope.standalone.alerts"]


def raw() -> Iterator[tuple[str, str, dict[str, str], str]]:
    """(rule, name in the engines' own spelling, matchers, expression) of each selector of an engine's series."""
    for rule in groups()["pdscope.standalone.rules"]:
        for name, inner in SELECTOR.findall(rule["expr"]):
            if not name.startswith("pdscope_"):
                own = re.sub(r"^(sglang|vllm)_", r"\1:", name)
                if own.startswith("vllm:router_"):
                    own = name
                yield rule["record"], own, dict(MATCHER.findall(inner)), rule["expr"]


@cache
def recorded() -> dict[str, tuple[str, set[str]]]:
    """Sample name -> (type, labels) over all recorded pages."""
    found: dict[str, tuple[str, set[str]]] = {}
    for path in (*EXPOSITIONS.glob("*.prom"), *MADE.glob("*.prom")):
        for family in text_string_to_metric_families(path.read_text(encoding="utf-8")):
            for sample in family.samples:
                _, labels = found.setdefault(sample.name, (family.type, set()))
                labels |= set(sample.labels)
    return found


def test_every_raw_name_and_label_is_on_a_recorded_page() -> None:
    """But for those of versions that nobody recorded, which are listed with their time."""
    missing = {SUFFIX.sub("", name) for _, name, _, _ in raw() if name not in recorded()}
    assert missing <= set(OTHER_VERSIONS) | set(NOT_PRINTED)
    assert {SUFFIX.sub("", name) for _, name, _, _ in raw()} >= set(OTHER_VERSIONS) | set(NOT_PRINTED), (
        "an exception that nobody needs"
    )
    wrong = [
        f"{rule}: {name} has no label {label}"
        for rule, name, matchers, _ in raw()
        for label in matchers
        if name in recorded() and label not in ADDED | {"priority"} | recorded()[name][1]
    ]
    assert wrong == []
    assert len({name for _, name, _, _ in raw()}) > 50


def test_every_name_is_one_that_the_daemon_reads() -> None:
    """In both spellings wherever the name has a colon."""
    known = {name for adapter in (*ENGINES, *ROUTERS) for name in adapter.sample_names()}
    text = FILE.read_text(encoding="utf-8")
    used = {name for name, _ in SELECTOR.findall(text) if not name.startswith("pdscope_")}
    assert used <= known
    assert all(name.replace(":", "_", 1) in used for name in used)


def test_counters_are_rated_gauges_are_not_and_quantiles_are_of_summed_buckets() -> None:
    """The mistakes of other packs."""
    functions = {"counter": {"rate"}, "histogram": {"rate"}, "gauge": {"avg_over_time", "min_over_time", "deriv"}}
    for rule in groups()["pdscope.standalone.rules"]:
        for function, name in re.findall(r"(\w+)\(([a-zA-Z_][\w:]*)\{[^}]*\}\[", rule["expr"]):
            own = re.sub(r"^(sglang|vllm)_(?!router)", r"\1:", name)
            if own in recorded():
                assert function in functions[recorded()[own][0]], (rule["record"], name)
        quantiles = re.findall(r"histogram_quantile\([\d.]+, (.*)", rule["expr"])
        assert all(re.match(r"sum by \([^)]*\ble\)|pdscope_standalone:\w+_ttft_bucket\b", q) for q in quantiles)
        if rule["record"].endswith("_bucket"):
            assert re.match(r"sum by \([^)]*\ble\)", rule["expr"])
    text = FILE.read_text(encoding="utf-8")
    assert "vector(0)" not in text
    assert not re.search(r"\b(?:quantile_over_time|irate|avg by [^(]*\([^)]*\) \(\s*histogram_quantile)", text)


def test_roles_are_never_pooled_in_latencies_or_rates_of_requests() -> None:
    """Prefill and decode both count every request; only bytes and pools are looked at in all roles."""
    everywhere = {
        SUFFIX.sub("", name)
        for _, name, matchers, _ in raw()
        if {"prefill", "decode"} <= set(matchers["role"].split("|"))
    }
    assert everywhere == {
        *("sglang:full_token_usage", "sglang:token_usage", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        *("sglang:max_total_num_tokens", "sglang:kv_transfer_total_mb", "sglang:kv_transfer_latency_ms"),
        *("vllm:nixl_bytes_transferred", "vllm:nixl_xfer_time_seconds"),
        *("vllm:mooncake_bytes_transferred", "vllm:mooncake_xfer_time_seconds"),
        *("sglang:num_transfer_failed_reqs", "sglang:num_transfer_failed_reqs_total"),
        *("sglang:num_bootstrap_failed_reqs", "sglang:num_bootstrap_failed_reqs_total"),
        *("vllm:nixl_num_failed_transfers_total", "vllm:mooncake_num_failed_transfers_total"),
    }
    for rule, name, matchers, _ in raw():
        assert set(matchers) >= ADDED, (rule, name)
        assert matchers["deployment"] == matchers["worker"] == "", "must not be empty"


@pytest.mark.parametrize("alert", alerts(), ids=lambda a: f"{a['alert']}-{a['labels']['severity']}")
def test_alert_is_complete(alert: dict[str, Any]) -> None:
    """On a verdict, never on the phase; a page only with a broken objective."""
    assert set(alert) == {"alert", "expr", "for", "keep_firing_for", "labels", "annotations"}
    assert alert["labels"]["severity"] in {"page", "warning"}
    assert re.match(r'avg_over_time\(pdscope_standalone:verdict\{verdict="\w+"\}\[5m\]\) > 0\.7', alert["expr"])
    assert ("slo_broken" in alert["expr"]) is (alert["labels"]["severity"] == "page")
    assert "phase" not in alert["expr"]
    assert re.fullmatch(r"[A-Z][^{}]*\.", alert["annotations"]["summary"])
    assert "{{" in alert["annotations"]["description"]


def test_each_alert_has_a_runbook_that_names_it_and_no_runbook_names_another() -> None:
    """They share the pages of the daemon's alerts of the same verdict."""
    named = {alert["alert"]: alert["annotations"]["runbook_url"].rpartition("/")[2] for alert in alerts()}
    assert named == {standalone_name(verdict): runbook(verdict) for verdict in VERDICTS}
    mentioned = {
        (name, path.name)
        for path in RUNBOOKS.glob("*.md")
        for name in re.findall(r"PdscopeStandalone\w+", path.read_text(encoding="utf-8"))
    }
    assert mentioned == set(named.items())


def test_every_recorded_name_is_used_or_documented() -> None:
    """What is recorded for people stands in the documentation; all that it names is there."""
    page = (ROOT / "docs" / "standalone-rules.md").read_text(encoding="utf-8")
    told = set(re.findall(r"pdscope_standalone:\w+", page))
    recorded_names = {rule["record"] for name, rules in groups().items() if "alerts" not in name for rule in rules}
    optional = {"pdscope_standalone:max_running_requests", "pdscope_standalone:routing"}
    assert told <= recorded_names | optional
    text = FILE.read_text(encoding="utf-8")
    assert [name for name in recorded_names if name not in told and len(re.findall(rf"{name}\b", text)) < 2] == []


def generate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "scripts" / "generate_rules.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


CONFIG = """
thresholds: {prefill_queue: {queue: 3}}
deployments:
- name: chat
  model: {kv: {attention: mla, layers: 61, latent_dim: 576, bytes_per_element: 2}}
  slo: {ttft_p50: 1500ms, itl_p50: 40ms}
  routing: concurrent
  interconnect: {bandwidth: 400Gb/s, scope: device}
  instances:
  - {name: p0, role: prefill, engine: sglang, url: "http://10.0.0.1:30000", tp: 4}
  - {name: d0, role: decode, engine: sglang, url: "http://10.0.0.2:30000", tp: 2, max_running: 128}
- name: draft
  instances: [{name: u0, engine: vllm, role: unified, url: "http://10.0.0.3:8000"}]
"""


@pytest.mark.promtool
def test_numbers_come_from_a_configuration(promtool: str, tmp_path: Path) -> None:
    """The daemon's own file, read as the daemon reads it; what it does not say is told."""
    (tmp_path / "pdscope.yml").write_text(CONFIG, encoding="utf-8")
    more = ("--standalone-window", "60", "--standalone-interval", "15", "--standalone-worker-label", "pod")
    done = generate(
        *("--output", str(tmp_path), "--keep-labels", "", "--standalone-config", str(tmp_path / "pdscope.yml")), *more
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == (
        "draft: not told: slo_ttft_p50_seconds, slo_itl_p50_seconds, interconnect_bytes_per_second\n"
    )
    path = tmp_path / "rules" / "standalone.yml"
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    found = {
        (rule["record"].partition(":")[2], *rule["labels"].values()): rule["expr"]
        for rule in document["groups"][0]["rules"]
    }
    assert found["slo_ttft_p50_seconds", "chat"] == "vector(1.5)"
    assert found["slo_itl_p50_seconds", "chat"] == "vector(0.04)"
    assert found["kv_bytes_per_token", "chat"] == "vector(140544)", "61 x 576 x 2, once for each of two ranks"
    assert found["interconnect_capacity_bytes_per_second", "chat"] == "vector(80000000000)", "two receivers at 0.8"
    assert found["max_running_requests", "chat"] == "vector(128)"
    assert found["routing", "chat", "concurrent"] == "vector(1)"
    assert found["threshold", "draft", "prefill_queue.queue"] == "vector(3)"
    assert ("slo_ttft_p50_seconds", "draft") not in found
    text = path.read_text(encoding="utf-8")
    assert {group["interval"] for group in document["groups"]} == {"15s"}
    assert 'pod!=""' in text
    assert "[1m]" in text
    assert "namespace" not in text
    files = [path, FILE]
    check = subprocess.run(
        [promtool, "check", "rules", "--lint=all", "--lint-fatal", *files], capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stdout + check.stderr


def parameters(tmp_path: Path, config: str) -> tuple[set[str], str]:
    """Names of the parameters that are written for the deployment `chat`, and what is said meanwhile."""
    (tmp_path / "pdscope.yml").write_text(config, encoding="utf-8")
    done = generate("--output", str(tmp_path), "--standalone-config", str(tmp_path / "pdscope.yml"))
    assert done.returncode == 0, done.stderr
    document = yaml.safe_load((tmp_path / "rules" / "standalone.yml").read_text(encoding="utf-8"))
    told = [rule for rule in document["groups"][0]["rules"] if rule["labels"]["deployment"] == "chat"]
    return {rule["record"].partition(":")[2] for rule in told}, done.stderr


def test_a_size_that_is_not_told_is_not_guessed(tmp_path: Path) -> None:
    """The daemon asks the engines for it; here nobody does."""
    told, said = parameters(tmp_path, CONFIG.replace(", tp: 4", "").replace(", tp: 2", ""))
    assert not told & {"interconnect_capacity_bytes_per_second", "kv_bytes_per_token"}
    assert "chat: not told: interconnect_bytes_per_second, kv_bytes_per_token\n" in said
    assert "write tp of p0, d0\n" in said
    told, said = parameters(tmp_path, CONFIG.replace(", tp: 4", ""))
    assert "kv_bytes_per_token" in told, "decode's size is known"
    assert "chat: not told: interconnect_bytes_per_second\n" in said
    assert "write tp of p0\n" in said


def test_a_capacity_that_no_size_changes_needs_none(tmp_path: Path) -> None:
    told, said = parameters(tmp_path, CONFIG.replace("scope: device", "scope: total").replace(", tp: 4", ""))
    assert {"interconnect_capacity_bytes_per_second", "kv_bytes_per_token"} <= told
    assert "chat" not in said


def test_a_wrong_configuration_is_named(tmp_path: Path) -> None:
    """Nothing is written."""
    (tmp_path / "pdscope.yml").write_text("deployments: []\n", encoding="utf-8")
    done = generate("--output", str(tmp_path), "--standalone-config", str(tmp_path / "pdscope.yml"))
    assert done.returncode == 2
    assert "deployments: must not be empty" in done.stderr
    assert not (tmp_path / "rules").exists()
