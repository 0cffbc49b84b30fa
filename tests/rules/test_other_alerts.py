"""Alerts on findings and on pdscope itself in promtool: quiet first, then exact, then quiet again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pdscope.model.finding import Confidence, Verdict
from support.promtool_case import State as Say
from support.promtool_case import Timeline, expect, rendered, run, series

pytestmark = pytest.mark.promtool

QUIET = "TTFT p50 1s (objective 2s). ITL p50 40ms (objective 50ms)."
BROKEN = "ttft_p50 is 1.5 times its objective. TTFT p50 3s (objective 2s). ITL p50 40ms (objective 50ms)."
LINK = Verdict.KV_TRANSFER_BANDWIDTH
SOURCE = 'target="d0",source="vllm"'


def finding(rule: str, value: float = 1, **more: float) -> Say:
    return Say(extra={f'pdscope_finding_active{{rule="{rule}"}}': value, **more})


def beside(name: str, rule: str, summary: str, severity: str, more: str = "") -> dict[str, Any]:
    return rendered(name, summary, f"Deployment chat: {summary}{more} {QUIET}", severity=severity, rule=rule)


LATE = "Decode has read KV after its lease had ended, so answers may be wrong."
EXPIRED = "Prefill has dropped KV that decode had not fetched."


@pytest.mark.parametrize(
    ("name", "rule", "summary"),
    [("PdscopeLateKVRead", "late_kv_read", LATE), ("PdscopeKVLeaseExpired", "kv_lease_expired", EXPIRED)],
)
def test_one_wrong_read_is_critical(promtool: str, tmp_path: Path, name: str, rule: str, summary: str) -> None:
    """It holds for one window of pdscope and no longer; verdict and objectives are fine."""
    timeline: Timeline = [(10, finding(rule, 0)), (20, Say()), (21, finding(rule)), (80, finding(rule, 0))]
    fires = [beside(name, rule, summary, "critical")]
    run(promtool, tmp_path, series(timeline), expect(name, {9: [], 19: [], 22: fires, 50: fires, 60: []}))


def test_wrong_read_seen_by_two_replicas_is_one_alert(promtool: str, tmp_path: Path) -> None:
    """Whichever of them sees it first."""
    one = series([(10, finding("late_kv_read", 0)), (30, finding("late_kv_read"))], 0)
    two = series([(12, finding("late_kv_read", 0)), (30, finding("late_kv_read"))], 1)
    fires = [beside("PdscopeLateKVRead", "late_kv_read", LATE, "critical")]
    run(promtool, tmp_path, one + two, expect("PdscopeLateKVRead", {9: [], 20: fires}))


@pytest.mark.parametrize(
    ("name", "rule", "summary"),
    [
        ("PdscopeInstanceDown", "instance_down", "An instance does not answer."),
        ("PdscopeTelemetryLost", "telemetry_lost", "An instance answers but gives no metrics."),
    ],
)
def test_silent_instance_is_named(promtool: str, tmp_path: Path, name: str, rule: str, summary: str) -> None:
    """A short silence is none; targets that answer are not named."""
    up = 'pdscope_source_up{target="p0",source="vllm"}'
    down = finding(rule, **{f"pdscope_source_up{{{SOURCE}}}": 0, up: 1})
    timeline: Timeline = [
        (10, finding(rule, 0)),
        (11, down),
        (20, finding(rule, 0)),
        (40, down),
        (70, finding(rule, 0)),
    ]
    fires = [beside(name, rule, summary, "warning", " No data from: d0.")]
    run(promtool, tmp_path, series(timeline), expect(name, {9: [], 15: [], 22: [], 39: fires, 69: []}))


@pytest.mark.parametrize(
    ("state", "numbers", "severities"),
    [
        (Say(), QUIET, ("warning",)),
        (Say(ttft=3.0), BROKEN, ("page", "warning")),
        (
            Say(
                Verdict.INSUFFICIENT_DATA,
                Confidence.LOW,
                ttft=None,
                itl=None,
                extra={"pdscope_deployment_roles_answering_ratio": 0.5},
            ),
            "Nobody is served.",
            ("page", "warning"),
        ),
        (
            Say(
                Verdict.INSUFFICIENT_DATA,
                Confidence.LOW,
                ttft=None,
                itl=None,
                extra={"pdscope_deployment_requests_per_second": 0.0},
            ),
            "Nobody is served.",
            ("page", "warning"),
        ),
    ],
    ids=["the others make up for it", "an objective is broken", "a role has nobody left", "nobody is served"],
)
def test_an_instance_that_is_down_pages_where_users_feel_it(
    promtool: str, tmp_path: Path, state: Say, numbers: str, severities: tuple[str, ...]
) -> None:
    """The router still counts what finishes, if it is nothing."""
    down = replace(state, extra={**state.extra, 'pdscope_finding_active{rule="instance_down"}': 1})
    summary = "An instance does not answer."
    fires = [
        rendered(
            "PdscopeInstanceDown", summary, f"Deployment chat: {summary} {numbers}", rule="instance_down", severity=s
        )
        for s in severities
    ]
    run(promtool, tmp_path, series([(10, Say()), (30, down)]), expect("PdscopeInstanceDown", {9: [], 29: fires}))


def test_a_replica_that_has_lost_its_network_wakes_nobody(promtool: str, tmp_path: Path) -> None:
    """The other one reaches everything."""
    roles = "pdscope_deployment_roles_answering_ratio"
    lost = Say(
        Verdict.INSUFFICIENT_DATA,
        Confidence.LOW,
        ttft=None,
        itl=None,
        extra={'pdscope_finding_active{rule="instance_down"}': 1, roles: 0},
    )
    both = series([(10, Say()), (30, lost)], 0) + series([(30, Say(extra={roles: 1}))], 1)
    fires = [beside("PdscopeInstanceDown", "instance_down", "An instance does not answer.", "warning")]
    run(promtool, tmp_path, both, expect("PdscopeInstanceDown", {9: [], 29: fires}))


def test_wrong_ratio_is_for_information(promtool: str, tmp_path: Path) -> None:
    """After half an hour: it is a matter of sizing."""
    timeline: Timeline = [(10, finding("pd_ratio", 0)), (60, finding("pd_ratio")), (80, finding("pd_ratio", 0))]
    fires = [beside("PdscopePDRatio", "pd_ratio", "Prefill and decode are sized wrongly for each other.", "info")]
    run(promtool, tmp_path, series(timeline), expect("PdscopePDRatio", {9: [], 40: [], 50: fires, 79: []}))


def exactly(name: str, summary: str, description: str, **labels: str) -> dict[str, Any]:
    labels = {"severity": "warning", **labels}
    return rendered(name, summary, description, **labels)


def of_pdscope(name: str, summary: str, description: str, **labels: str) -> dict[str, Any]:
    return rendered(name, summary, description, deployment=None, severity="warning", **labels)


def test_no_replica_left(promtool: str, tmp_path: Path) -> None:
    """One of two is none of this alert's business; a restart neither."""
    up, gone = Say(), None
    one = series([(10, up), (11.5, gone), (20, up), (40, gone), (60, up)], 0)
    two = series([(10, up), (40, gone), (60, gone)], 1)
    down = [
        of_pdscope(
            "PdscopeExporterDown",
            "No replica of pdscope answers.",
            "Prometheus has no series `pdscope_build_info` any more: "
            "every replica of pdscope is down, or is not scraped.",
        )
    ]
    lost = [
        of_pdscope(
            "PdscopeReplicaDown",
            "A replica of pdscope does not answer.",
            "1 replicas of pdscope of job pdscope have been scraped within the hour and do not answer.",
            namespace="llm",
            job="pdscope",
        )
    ]
    tests = expect("PdscopeExporterDown", {9: [], 12: [], 19: [], 22: [], 39: down, 50: []})
    run(promtool, tmp_path, one + two, tests + expect("PdscopeReplicaDown", {9: [], 14: [], 19: lost, 59: lost}))


def test_other_targets_that_are_down_are_not_ours(promtool: str, tmp_path: Path) -> None:
    """Only what has once been pdscope is a replica of it."""
    foreign = {"series": 'up{job="node",instance="10.0.0.9:9100"}', "values": "0x120"}
    run(promtool, tmp_path, [*series([(60, Say())]), foreign], expect("PdscopeReplicaDown", {10: [], 59: []}))


STALE = "No replica of pdscope has diagnosed the deployment lately."


def test_diagnosis_that_stands_still(promtool: str, tmp_path: Path) -> None:
    """While one replica goes on, it is only behind."""
    one = series([(40, Say()), (50, Say(hangs=True)), (70, Say())], 0)
    two = series([(20, Say()), (50, Say(hangs=True)), (70, Say())], 1)
    behind = exactly(
        "PdscopeReplicaStale",
        "A replica of pdscope is behind the others.",
        "A replica's diagnosis of deployment chat is 17m 30s older than another's.",
    )
    stale = exactly("PdscopeDiagnosisStale", STALE, "The last diagnosis of deployment chat is 9m 30s old.")
    tests = expect("PdscopeDiagnosisStale", {19: [], 39: [], 41: [], 49: [stale], 60: []})
    tests += expect("PdscopeReplicaStale", {19: [], 22: [], 37: [behind], 69: []})
    run(promtool, tmp_path, one + two, tests)


def test_replicas_that_disagree(promtool: str, tmp_path: Path) -> None:
    """Not while one of them is a little later, and not with a single one."""
    one = series([(10, Say()), (60, Say(LINK)), (90, Say())], 0)
    two = series([(12, Say()), (30, Say(LINK)), (60, Say(Verdict.PREFILL_QUEUE)), (90, Say())], 1)
    fires = exactly(
        "PdscopeReplicasDisagree",
        "Replicas of pdscope give different verdicts.",
        "Of deployment chat replicas say: kv_transfer_bandwidth prefill_queue.",
    )
    run(promtool, tmp_path, one + two, expect("PdscopeReplicasDisagree", {9: [], 29: [], 40: [], 55: [fires], 85: []}))


def test_broken_objective_at_low_confidence(promtool: str, tmp_path: Path) -> None:
    """What no verdict may page for is said all the same; a low confidence without a broken objective is not."""
    timeline: Timeline = [
        (10, Say(confidence=Confidence.LOW)),
        (30, Say(LINK, Confidence.LOW)),
        (50, Say(LINK, ttft=3.0)),
        (70, Say(LINK, Confidence.LOW, ttft=3.0)),
        (90, Say()),
    ]
    fires = exactly(
        "PdscopeLowConfidence",
        "An objective is broken, and the verdict lacks a decisive signal.",
        "Deployment chat: what limits it hangs on a signal that is missing. ttft_p50 is 1.5 times its objective. "
        "TTFT p50 3s (objective 2s). ITL p50 40ms (objective 50ms).",
    )
    run(
        promtool,
        tmp_path,
        series(timeline),
        expect("PdscopeLowConfidence", {9: [], 29: [], 49: [], 69: [fires], 85: []}),
    )


DOWN = exactly(
    "PdscopeSourceDown",
    "A target of pdscope brings no data.",
    "No replica of pdscope has had data from d0 (vllm) of deployment chat for some minutes.",
    target="d0",
    source="vllm",
)
DRIFT = exactly(
    "PdscopeSchemaDrift",
    "A page lacks metrics that its program should have.",
    "3 metrics that every program of its version and role has are missing from d0 (vllm) of deployment chat.",
    target="d0",
    source="vllm",
)


@pytest.mark.parametrize(
    ("name", "metric", "good_and_bad", "fires"),
    [
        ("PdscopeSourceDown", "pdscope_source_up", (1, 0), DOWN),
        ("PdscopeSchemaDrift", "pdscope_source_missing_metrics", (0, 3), DRIFT),
    ],
)
def test_target(
    promtool: str, tmp_path: Path, name: str, metric: str, good_and_bad: tuple[float, float], fires: dict[str, Any]
) -> None:
    """Two replicas see the same; a moment of it is nothing."""
    good, bad = (Say(extra={f"{metric}{{{SOURCE}}}": value}) for value in good_and_bad)
    timeline: Timeline = [(10, good), (11, bad), (20, good), (35, bad), (60, good)]
    both = series(timeline, 0) + series(timeline, 1)
    run(promtool, tmp_path, both, expect(name, {9: [], 12: [], 19: [], 22: [], 34.5: [fires], 59: []}))


def counters(values: Mapping[int, str]) -> list[dict[str, str]]:
    return [
        {
            "series": f'pdscope_rule_evaluation_failures_total{{rule="idle",namespace="llm",instance="{n}"}}',
            "values": text,
        }
        for n, text in values.items()
    ]


def test_rule_that_raises(promtool: str, tmp_path: Path) -> None:
    """A restart sets the counter back to 0, which is no failure; two replicas are one alert."""
    # Steps of 30 s: nothing; a restart after old failures; then one failure in each step on both replicas.
    quiet, failing = "7x30 0x30", "1+1x29 30x60"
    fires = of_pdscope(
        "PdscopeRuleFailures",
        "A rule of pdscope raises: a bug.",
        "The rule idle has raised 40 times within 10m; what it would say is missing from all answers.",
        namespace="llm",
        rule="idle",
    )
    both = counters({0: f"{quiet} {failing}", 1: f"{quiet} {failing}"})
    run(promtool, tmp_path, both, expect("PdscopeRuleFailures", {14: [], 16: [], 29: [], 44: [fires], 70: []}))


def test_configuration_that_was_not_taken(promtool: str, tmp_path: Path) -> None:
    """One of two replicas is enough; an error that is mended at once is none."""
    good, bad = (Say(extra={"pdscope_config_last_reload_successful": v}) for v in (1, 0))
    plain = [
        {**s, "series": s["series"].replace('deployment="chat",', "", 1)} if "reload" in s["series"] else s
        for s in series([(10, good), (12, bad), (20, good), (40, bad), (60, good)], 1) + series([(60, good)], 0)
    ]
    fires = of_pdscope(
        "PdscopeConfigReloadFailed",
        "The configuration of pdscope is wrong and was not taken.",
        "1 replicas of pdscope run on with their old configuration: the new one has an error.",
        namespace="llm",
    )
    run(promtool, tmp_path, plain, expect("PdscopeConfigReloadFailed", {9: [], 13: [], 22: [], 39: [fires], 59: []}))
