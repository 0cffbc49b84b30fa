"""The JSON of `/diagnose`: the contract's schema, no null signal, no number that is not finite."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from pdscope.model.finding import PendingChange, Verdict
from pdscope.model.report import Report, TargetState
from pdscope.render.json import report_json, timestamp

DEPLOYMENT_KEYS = [
    "name",
    "model",
    "phase",
    "verdict",
    "stage",
    "confidence",
    "since",
    "pending",
    "summary",
    "culprits",
    "findings",
    "signals",
    "instances",
    "silent_sources",
    "next_steps",
]


def leaves(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from leaves(value, f"{path}.{key}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from leaves(value, f"{path}[{index}]")
    else:
        yield path, node


def document(report: Report) -> dict[str, Any]:
    return json.loads(report_json(report))


def test_keys_and_order_of_the_contract(transfer_bound: Report) -> None:
    """Top level and deployment have the keys of the contract, in its order."""
    found = document(transfer_bound)
    assert list(found) == ["schema_version", "generated_at", "window_seconds", "deployments"]
    assert found["schema_version"] == 1
    assert list(found["deployments"][0]) == DEPLOYMENT_KEYS


def test_nothing_is_null_but_pending_and_every_number_is_finite(transfer_bound: Report, healthy: Report) -> None:
    """What is unknown is absent."""
    for report in (transfer_bound, healthy):
        for path, value in leaves(document(report)):
            assert value is not None or path.endswith(".pending"), path
            assert not isinstance(value, float) or math.isfinite(value), path


def test_findings_have_the_contract_s_form(transfer_bound: Report) -> None:
    """Evidence with value, threshold and origin; remedies with cost and precondition."""
    findings = document(transfer_bound)["deployments"][0]["findings"]
    mine = next(f for f in findings if f["rule"] == "kv_transfer_bandwidth")
    assert mine["truth"] == "true"
    assert mine["verdict"] == "kv_transfer_bandwidth"
    assert {"signal", "value", "unit", "op", "threshold", "truth", "source", "quality", "age_seconds"} <= set(
        mine["evidence"][0]
    )
    assert all(r["cost"] and r["precondition"] for r in mine["remedies"])
    assert mine["headline"].startswith("KV demand of 9.13 MB/s meets a link")
    assert not any("headline" in f for f in findings if f["truth"] != "true")


def test_silent_sources_are_listed(transfer_bound: Report) -> None:
    """With what is lost, and when they were last heard where they ever were."""
    at = transfer_bound.generated_at
    states = [TargetState("pd", "gpu-node0", "dcgm", up=False), TargetState("pd", "n0", "node", False, last_success=at)]
    found = document(replace(transfer_bound, targets=(*transfer_bound.targets, *states)))["deployments"][0]
    first, second = found["silent_sources"]
    assert (first["target"], first["source"], sorted(first)) == ("gpu-node0", "dcgm", ["lost", "source", "target"])
    assert second["last_success"] == timestamp(at)
    assert document(transfer_bound)["deployments"][0]["silent_sources"] == []


def test_instances_carry_their_signals(transfer_bound: Report) -> None:
    """Role, engine, state and figures of each instance."""
    decode = next(i for i in document(transfer_bound)["deployments"][0]["instances"] if i["name"] == "d0")
    assert (decode["role"], decode["engine"], decode["up"]) == ("decode", "vllm", True)
    assert decode["signals"]["kv_usage_ratio"]["unit"] == "ratio"


def test_pending_change_is_shown(transfer_bound: Report) -> None:
    """A change that is being confirmed names its verdict and the windows so far."""
    first = transfer_bound.deployments[0]
    waiting = replace(first, diagnosis=replace(first.diagnosis, pending=PendingChange(Verdict.HEALTHY, 2)))
    found = document(replace(transfer_bound, deployments=(waiting,)))
    assert found["deployments"][0]["pending"] == {"verdict": "healthy", "windows": 2}


def test_one_deployment_of_several(transfer_bound: Report, healthy: Report) -> None:
    """The filter keeps the named one."""
    other = healthy.deployments[0]
    renamed = replace(
        other,
        deployment=replace(other.deployment, name="other"),
        diagnosis=replace(other.diagnosis, deployment="other"),
    )
    both = replace(transfer_bound, deployments=(transfer_bound.deployments[0], renamed))
    found = json.loads(report_json(both, deployment="other"))
    assert [d["name"] for d in found["deployments"]] == ["other"]


def test_golden_document(transfer_bound: Report, golden: Callable[[str, str], None]) -> None:
    """The whole answer to a real transfer-bound run."""
    golden("diagnose-vllm-transferbound.json", report_json(transfer_bound).decode() + "\n")


def test_timestamps_are_rfc3339_in_utc() -> None:
    """Milliseconds, Z."""
    assert timestamp(1790000000.25) == "2026-09-21T14:13:20.250Z"
