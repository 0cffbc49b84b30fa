"""`/metrics`: golden page, promtool, one-hot families, nothing unknown, nothing foreign."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from pdscope.diagnosis.engine import discover
from pdscope.model.finding import Confidence, Finding, Phase, Truth, Verdict
from pdscope.model.report import Report, TargetState
from pdscope.model.scrape import FailureReason
from pdscope.model.topology import Role
from pdscope.render import catalogue
from pdscope.render.metrics import render_metrics, worker_states

VOLATILE = re.compile(r"^(pdscope_diagnosis_duration_seconds|pdscope_build_info)[ {].*$", re.MULTILINE)


def page(report: Report) -> str:
    return render_metrics(report, version="1.2.3").decode()


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in parse_text(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_golden_page(transfer_bound: Report, golden: Callable[[str, str], None]) -> None:
    """The whole page of a real transfer-bound run."""
    golden("metrics-vllm-transferbound.prom", VOLATILE.sub(r"# volatile: \1", page(transfer_bound)))


@pytest.mark.promtool
def test_promtool_accepts_both_reports(transfer_bound: Report, healthy: Report, promtool: str) -> None:
    """The checker has nothing to say, not even a lint remark."""
    for report in (transfer_bound, healthy):
        command = [promtool, "check", "metrics"]
        done = subprocess.run(command, input=page(report), capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


def test_openmetrics_parses_strictly(transfer_bound: Report) -> None:
    """The strict OpenMetrics parser reads the page and finds the same families."""
    body = render_metrics(transfer_bound, version="1.2.3", openmetrics=True).decode()
    assert body.endswith("# EOF\n")
    names = {f.name for f in parse_openmetrics(body)}
    assert names == {f.name for f in parse_text(page(transfer_bound))}


@pytest.mark.parametrize(
    ("definition", "states", "current"),
    [
        (catalogue.VERDICT, [*Verdict], "kv_transfer_bandwidth"),
        (catalogue.PHASE, [*Phase], "prefill"),
        (catalogue.CONFIDENCE, [*Confidence], "medium"),
    ],
)
def test_one_hot_exports_all_states(
    transfer_bound: Report, definition: catalogue.MetricDef, states: list[str], current: str
) -> None:
    """Exactly one state is 1 and every state of the vocabulary is there."""
    rows = samples(page(transfer_bound))[definition.name]
    values = {labels[definition.labels[1]]: value for labels, value in rows}
    assert set(values) == {str(s) for s in states}
    assert {name for name, value in values.items() if value == 1.0} == {current}


def test_worker_verdicts_are_one_hot_over_the_states_of_the_role(transfer_bound: Report) -> None:
    """A prefill instance never exports a decode verdict."""
    rows = samples(page(transfer_bound))[catalogue.WORKER_VERDICT.name]
    prefill = {labels["verdict"]: value for labels, value in rows if labels["worker"] == "p0"}
    assert set(prefill) == {str(v) for v in worker_states(Role.PREFILL)}
    assert "decode_admission" not in prefill
    assert sum(prefill.values()) == 1.0


def test_all_samples_are_in_the_catalogue(transfer_bound: Report, healthy: Report) -> None:
    """Names and labels come from the catalogue; `instance` is never a label."""
    by_name = {d.name: d for d in catalogue.ALL}
    for report in (transfer_bound, healthy):
        for name, rows in samples(page(report)).items():
            for labels, _ in rows:
                assert "instance" not in labels
                if name != catalogue.DEPLOYMENT_INFO.name:
                    assert sorted(labels) == sorted(by_name[name].labels), name


def test_unknown_signals_are_absent(healthy: Report) -> None:
    """A Dynamo mocker counts no transferred bytes, so there is no achieved rate: absent and not 0."""
    found = samples(page(healthy))
    assert "pdscope_deployment_kv_transfer_achieved_bytes_per_second" not in found
    assert "pdscope_deployment_decode_hbm_bandwidth_utilization_ratio" not in found
    assert found["pdscope_deployment_requests_per_second"][0][1] == pytest.approx(15.8, abs=0.3)
    assert all(value == value for rows in found.values() for _, value in rows)  # noqa: PLR0124 - NaN


def test_headroom_is_one_family_by_resource(transfer_bound: Report) -> None:
    """A link that is asked for more than it carries has nothing left; slots of an unknown limit are absent."""
    rows = samples(page(transfer_bound))[catalogue.HEADROOM.name]
    found = {labels["resource"]: value for labels, value in rows}
    assert found["link"] == 0.0
    assert found["decode_kv"] == pytest.approx(0.833, abs=0.001)
    assert set(found) == {"link", "decode_kv"}
    assert {*catalogue.HEADROOM_RESOURCES.values()} == {"link", "prefill", "decode_slots", "decode_kv"}
    assert not any("{" in name for name in samples(page(transfer_bound)))


def test_every_finding_can_be_active(transfer_bound: Report) -> None:
    """Those beside the verdict too: 1 while one of a rule holds, 0 while none does, absent while nobody knows."""
    first = transfer_bound.deployments[0]
    where = first.signals.deployment
    beside = [rule.id for rule in discover() if rule.verdict is None]
    for truth, expected in ((Truth.TRUE, 1.0), (Truth.FALSE, 0.0), (Truth.UNKNOWN, None)):
        diagnosis = replace(first.diagnosis, findings=tuple(Finding(rule, where, truth) for rule in beside))
        report = replace(transfer_bound, deployments=(replace(first, diagnosis=diagnosis),))
        rows = samples(page(report)).get(catalogue.FINDING_ACTIVE.name, [])
        active = {labels["rule"]: value for labels, value in rows}
        assert [active.get(rule) for rule in beside] == [expected] * len(beside)
    named = {"pd_ratio", "kv_lease_expired", "late_kv_read", "decode_recompute", "instance_down", "telemetry_lost"}
    named |= {"engine_setting", "decode_starved", "itl_unstable", "link_shared", "scrape_cost"}
    assert named <= set(beside)


def test_user_labels_are_on_info_only(healthy: Report) -> None:
    """Labels of the configuration appear on pdscope_deployment_info and nowhere else, escaped."""
    first = healthy.deployments[0]
    labelled = replace(first, deployment=replace(first.deployment, labels={"team": 'search "x"\n'}))
    found = samples(page(replace(healthy, deployments=(labelled,))))
    assert found["pdscope_deployment_info"][0][0]["team"] == 'search "x"\n'
    others = [labels for name, rows in found.items() if name != "pdscope_deployment_info" for labels, _ in rows]
    assert not any("team" in labels for labels in others)


def test_credentials_of_a_url_never_reach_the_address(healthy: Report) -> None:
    """Defence in depth: the configuration refuses them already."""
    first = healthy.deployments[0]
    instances = tuple(replace(i, url="http://user:hunter2@10.0.0.1:8000/x") for i in first.deployment.instances)
    changed = replace(first, deployment=replace(first.deployment, instances=instances))
    text = page(replace(healthy, deployments=(changed,)))
    assert "hunter2" not in text
    assert 'address="10.0.0.1:8000"' in text


def test_target_states(healthy: Report) -> None:
    """A target that was never reached has no duration, no last success, and its failures by reason."""
    target = TargetState("pd", "p9", "sglang", up=False, failures={FailureReason.TIMEOUT: 3})
    found = samples(page(replace(healthy, targets=(target,))))
    assert found["pdscope_source_up"] == [({"deployment": "pd", "target": "p9", "source": "sglang"}, 0.0)]
    assert found["pdscope_source_scrape_failures_total"] == [
        ({"deployment": "pd", "target": "p9", "source": "sglang", "reason": "timeout"}, 3.0)
    ]
    assert "pdscope_source_last_success_timestamp_seconds" not in found


def test_catalogue_is_sound() -> None:
    """Unique names, the prefix, help that ends as a sentence, counters that end in _total."""
    names = [d.name for d in catalogue.ALL]
    assert len(names) == len(set(names))
    for definition in catalogue.ALL:
        assert definition.name.startswith("pdscope_")
        assert definition.help.endswith(".")
        assert (definition.kind is catalogue.MetricKind.COUNTER) == definition.name.endswith("_total")
