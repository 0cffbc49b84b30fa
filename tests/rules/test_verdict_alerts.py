"""Alerts on verdicts in promtool: quiet first, then with exact labels and annotations, then quiet again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pdscope.model.finding import Confidence, Phase, Stage, Verdict
from pdscope.render.pages import MEANINGS
from support.promtool_case import State as Say
from support.promtool_case import Timeline, expect, rendered, run, series

pytestmark = pytest.mark.promtool

NAMES = {
    Verdict.INSUFFICIENT_DATA: "PdscopeInsufficientData",
    Verdict.METRICS_UNTRUSTED: "PdscopeMetricsUntrusted",
    Verdict.UNDETERMINED: "PdscopeUndetermined",
    Verdict.PREFILL_COMPUTE: "PdscopePrefillCompute",
    Verdict.PREFILL_QUEUE: "PdscopePrefillQueue",
    Verdict.KV_TRANSFER_BANDWIDTH: "PdscopeKVTransferBandwidth",
    Verdict.KV_TRANSFER_PATH: "PdscopeKVTransferPath",
    Verdict.KV_TRANSFER_FRAGMENTED: "PdscopeKVTransferFragmented",
    Verdict.KV_TRANSFER_SETUP: "PdscopeKVTransferSetup",
    Verdict.KV_TRANSFER_FAILING: "PdscopeKVTransferFailing",
    Verdict.KV_PINNED: "PdscopeKVPinned",
    Verdict.DECODE_HBM_BANDWIDTH: "PdscopeDecodeHBMBandwidth",
    Verdict.DECODE_KV_CAPACITY: "PdscopeDecodeKVCapacity",
    Verdict.DECODE_ADMISSION: "PdscopeDecodeAdmission",
    Verdict.ROUTER_IMBALANCE: "PdscopeRouterImbalance",
    Verdict.FRONTEND_BOUND: "PdscopeFrontendBound",
    Verdict.HOST_BOUND: "PdscopeHostBound",
    Verdict.CUDA_GRAPH_MISS: "PdscopeCUDAGraphMiss",
    Verdict.HARDWARE_DEGRADED: "PdscopeHardwareDegraded",
    Verdict.WORKLOAD_MISMATCH: "PdscopeWorkloadMismatch",
}
LINK = Verdict.KV_TRANSFER_BANDWIDTH
LINK_NAME = NAMES[LINK]
QUIET = "TTFT p50 1s (objective 2s). ITL p50 40ms (objective 50ms)."
BROKEN = "ttft_p50 is 1.5 times its objective. TTFT p50 3s (objective 2s). ITL p50 40ms (objective 50ms)."


def alert(verdict: Verdict, severity: str, numbers: str, deployment: str = "chat") -> dict[str, Any]:
    return rendered(
        NAMES[verdict],
        MEANINGS[verdict],
        f"Deployment {deployment}: {MEANINGS[verdict]} {numbers}".rstrip(),
        deployment=deployment,
        severity=severity,
        stage=verdict.stage,
        verdict=verdict,
    )


def other(verdict: Verdict) -> Verdict:
    return Verdict.DECODE_ADMISSION if verdict is not Verdict.DECODE_ADMISSION else Verdict.PREFILL_COMPUTE


def test_every_verdict_that_asks_for_something_has_an_alert() -> None:
    """Healthy and idle do not."""
    assert set(NAMES) == set(Verdict) - {Verdict.HEALTHY, Verdict.IDLE}


@pytest.mark.parametrize("verdict", [v for v in Verdict if v.stage is not Stage.NONE])
def test_verdict_of_a_stage(promtool: str, tmp_path: Path, verdict: Verdict) -> None:
    """Quiet on phase, another verdict, confidence low and while pending; pages only with an objective broken."""
    phase = Phase.DECODE_STEADY_STATE if verdict.stage is Stage.DECODE else Phase.PREFILL
    timeline: Timeline = [
        (10, Say()),
        (25, Say(other(verdict), phase=phase, ttft=3.0)),
        (40, Say(verdict, Confidence.LOW, phase=phase, ttft=3.0)),
        (55, Say(verdict, Confidence.MEDIUM)),
        (70, Say(verdict, phase=phase, ttft=3.0)),
        (90, Say()),
    ]
    page, warning = (alert(verdict, severity, BROKEN) for severity in ("page", "warning"))
    steps = {
        9: [],
        24: [],
        39: [],
        44: [],
        54: [alert(verdict, "warning", QUIET)],
        64: [page, warning],
        75: [alert(verdict, severity, QUIET) for severity in ("page", "warning")],
        85: [],
    }
    run(promtool, tmp_path, series(timeline), expect(NAMES[verdict], steps))


@pytest.mark.parametrize("verdict", [v for v in NAMES if v.stage is Stage.NONE])
def test_verdict_that_explains_nothing_never_pages(promtool: str, tmp_path: Path, verdict: Verdict) -> None:
    """Its confidence is always low; a broken objective changes nothing."""
    timeline: Timeline = [
        (10, Say()),
        (25, Say(other(verdict), phase=Phase.PREFILL, ttft=3.0)),
        (40, Say(verdict, Confidence.LOW, phase=Phase.PREFILL, ttft=3.0)),
        (60, Say()),
    ]
    steps = {9: [], 24: [], 29: [], 39: [alert(verdict, "warning", BROKEN)], 58: []}
    run(promtool, tmp_path, series(timeline), expect(NAMES[verdict], steps))


def test_no_phase_alone_fires_anything(promtool: str, tmp_path: Path) -> None:
    """Healthy by all the evidence, whatever the rule of thumb says: each phase for a quarter of an hour."""
    timeline: Timeline = [(15 * (n + 1), Say(phase=phase)) for n, phase in enumerate(Phase)]
    steps: dict[float, list[dict[str, Any]]] = {15 * (n + 1) - 1: [] for n in range(len(Phase))}
    run(promtool, tmp_path, series(timeline), [t for name in NAMES.values() for t in expect(name, steps)])


@pytest.mark.parametrize("number", ["ttft_p95", "ttft_p99", "itl_p50", "itl_p95", "itl_p99"])
def test_each_objective_can_page(promtool: str, tmp_path: Path, number: str) -> None:
    """Not only the medians; a latency without an objective breaks nothing."""
    beside = {f"pdscope_deployment_{number}_seconds": 0.08}
    objective = {f"pdscope_deployment_slo_{number}_seconds": 0.05}
    itl = 0.08 if number == "itl_p50" else 0.04
    timeline: Timeline = [
        (10, Say()),
        (30, Say(LINK, extra={} if number == "itl_p50" else beside)),
        (50, Say(LINK, itl=itl, extra=objective | beside)),
    ]
    numbers = (
        f"{number} is 1.6 times its objective. TTFT p50 1s (objective 2s). ITL p50 {itl * 1000:g}ms (objective 50ms)."
    )
    steps = {9: [], 29: [alert(LINK, "warning", QUIET)], 49: [alert(LINK, s, numbers) for s in ("page", "warning")]}
    run(promtool, tmp_path, series(timeline), expect(LINK_NAME, steps))


@pytest.mark.parametrize(("share", "pages"), [(0.05, False), (0.25, True)])
def test_requests_that_fail_page_though_the_others_are_quick(
    promtool: str, tmp_path: Path, share: float, *, pages: bool
) -> None:
    """Latencies are those of whoever was served. A failure in twenty is a warning still."""
    failing = Say(Verdict.KV_TRANSFER_FAILING, extra={"pdscope_deployment_kv_transfer_failed_ratio": share})
    numbers = f"{QUIET} Requests that fail {share * 100:g}%."
    fires = [alert(Verdict.KV_TRANSFER_FAILING, s, numbers) for s in (("page", "warning") if pages else ("warning",))]
    name = NAMES[Verdict.KV_TRANSFER_FAILING]
    run(promtool, tmp_path, series([(10, Say()), (30, failing)]), expect(name, {9: [], 29: fires}))


def nobody_served(verdict: Verdict, **other: Any) -> Say:
    """Nothing finishes, and there is no first token of which to know a latency."""
    return Say(verdict, ttft=None, itl=None, extra={"pdscope_deployment_requests_per_second": 0.0}, **other)


def test_a_service_that_serves_nobody_pages_though_no_latency_is_known(promtool: str, tmp_path: Path) -> None:
    verdict = Verdict.DECODE_KV_CAPACITY
    timeline: Timeline = [(10, Say()), (30, nobody_served(verdict)), (60, Say())]
    fires = [alert(verdict, severity, "Nobody is served.") for severity in ("page", "warning")]
    run(promtool, tmp_path, series(timeline), expect(NAMES[verdict], {9: [], 29: fires, 58: []}))


def test_a_service_that_nobody_asks_has_broken_nothing(promtool: str, tmp_path: Path) -> None:
    """Idle for a quarter of an hour, then slots that are all taken: it pages after that, not at once."""
    verdict = Verdict.DECODE_ADMISSION
    timeline: Timeline = [(20, nobody_served(Verdict.IDLE)), (23, nobody_served(verdict)), (40, Say(verdict))]
    run(
        promtool,
        tmp_path,
        series(timeline),
        expect(NAMES[verdict], {19: [], 28: [], 39: [alert(verdict, "warning", QUIET)]}),
    )


def test_a_replica_that_does_not_see_the_latencies_pages_nobody(promtool: str, tmp_path: Path) -> None:
    """Requests finish there: latencies that nobody exports are no sign that nobody is served."""
    verdict = Verdict.DECODE_ADMISSION
    blind = Say(verdict, ttft=None, itl=None, extra={"pdscope_deployment_requests_per_second": 3.0})
    fires = [alert(verdict, "warning", "")]
    run(promtool, tmp_path, series([(10, Say()), (40, blind)]), expect(NAMES[verdict], {9: [], 39: fires}))


LINK_EVIDENCE = {
    "pdscope_deployment_kv_transfer_demand_bytes_per_second": 36e9,
    "pdscope_deployment_interconnect_capacity_bytes_per_second": 28e9,
    "pdscope_deployment_kv_transfer_achieved_bytes_per_second": 27.5e9,
}


@pytest.mark.parametrize(
    ("verdict", "extra", "numbers"),
    [
        (LINK, LINK_EVIDENCE, "KV demand 36GB/s. Interconnect capacity 28GB/s. KV achieved 27.5GB/s."),
        (
            Verdict.DECODE_HBM_BANDWIDTH,
            {
                "pdscope_deployment_decode_hbm_bandwidth_utilization_ratio": 0.75,
                "pdscope_deployment_generation_tokens_per_second": 4000,
                'pdscope_worker_verdict{worker="d0",verdict="decode_hbm_bandwidth"}': 1,
                'pdscope_worker_verdict{worker="d1",verdict="decode_hbm_bandwidth"}': 0,
                'pdscope_worker_verdict{worker="d2",verdict="decode_hbm_bandwidth"}': 1,
            },
            "Decode HBM bandwidth 75%. Tokens generated 4k/s. Instances: d0 d2.",
        ),
        (
            Verdict.DECODE_ADMISSION,
            {
                'pdscope_deployment_headroom_ratio{resource="decode_slots"}': 0,
                'pdscope_deployment_headroom_ratio{resource="decode_kv"}': 0.4,
            },
            "Headroom of decode's slots 0%. Headroom of decode's KV pool 40%.",
        ),
        (Verdict.ROUTER_IMBALANCE, {"pdscope_deployment_role_imbalance_ratio": 5.25}, "Imbalance of a role 5.25."),
        (
            Verdict.PREFILL_COMPUTE,
            {
                "pdscope_deployment_prefill_compute_utilization_ratio": 0.97,
                "pdscope_deployment_prompt_tokens_per_request": 8200,
                "pdscope_deployment_requests_per_second": 12.5,
            },
            "Prefill compute 97%. Mean prompt in tokens 8.2k. Requests 12.5/s.",
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, Verdict) else "",
)
def test_description_has_the_evidence(
    promtool: str, tmp_path: Path, verdict: Verdict, extra: dict[str, float], numbers: str
) -> None:
    """The numbers that decide, as a person reads them."""
    timeline: Timeline = [(10, Say()), (30, Say(verdict, ttft=3.0, extra=extra))]
    fires = [alert(verdict, severity, f"{BROKEN} {numbers}") for severity in ("page", "warning")]
    run(promtool, tmp_path, series(timeline), expect(NAMES[verdict], {9: [], 29: fires}))


def test_two_replicas_make_one_page(promtool: str, tmp_path: Path) -> None:
    """The labels of the target are aggregated away; the second replica comes a little later."""
    fault = Say(LINK, ttft=3.0)
    both = series([(10, Say()), (40, fault)], 0) + series([(11, Say()), (40, fault)], 1)
    steps = {9: [], 30: [alert(LINK, s, BROKEN) for s in ("page", "warning")]}
    run(promtool, tmp_path, both, expect(LINK_NAME, steps))


def test_loss_of_one_of_two_replicas_changes_nothing(promtool: str, tmp_path: Path) -> None:
    """Neither its stop nor its return."""
    fault = Say(LINK, ttft=3.0)
    one = series([(10, Say()), (60, fault)], 0)
    two = series([(10, Say()), (25, fault), (35, None), (60, fault)], 1)
    fires = [alert(LINK, s, BROKEN) for s in ("page", "warning")]
    run(promtool, tmp_path, one + two, expect(LINK_NAME, {9: [], 24: fires, 30: fires, 36: fires, 59: fires}))


def test_the_numbers_of_a_replica_that_hangs_are_in_no_description(promtool: str, tmp_path: Path) -> None:
    """Its last answer was a worse one."""
    hung = series([(10, Say(ttft=90.0)), (40, Say(ttft=90.0, hangs=True))], 1)
    live = series([(10, Say()), (40, Say(LINK, ttft=3.0))], 0)
    fires = [alert(LINK, s, BROKEN) for s in ("page", "warning")]
    run(promtool, tmp_path, live + hung, expect(LINK_NAME, {9: [], 39: fires}))


def test_replica_that_hangs_says_nothing(promtool: str, tmp_path: Path) -> None:
    """It would repeat for ever what was true when it stopped."""
    one = series([(10, Say()), (60, Say())], 0)
    two = series([(10, Say()), (11, Say(LINK, ttft=3.0)), (60, Say(LINK, ttft=3.0, hangs=True))], 1)
    run(promtool, tmp_path, one + two, expect(LINK_NAME, {9: [], 20: [], 59: []}))


@pytest.mark.parametrize("gap", [0.5, 1.0])
def test_failed_scrapes_do_not_start_the_wait_again(promtool: str, tmp_path: Path, gap: float) -> None:
    """The verdict is averaged over what was scraped."""
    fault = Say(LINK, ttft=3.0)
    timeline: Timeline = [(10, Say()), (14, fault), (14 + gap, None), (30, fault)]
    # Without the gap: 0.7 of the window are reached 3.5 minutes after the change, the page 2 minutes after that.
    page = [alert(LINK, "page", BROKEN)]
    run(promtool, tmp_path, series(timeline), expect(LINK_NAME, {9: [], 13: [], 16.5: page}))


def test_restart_of_pdscope_keeps_the_alert(promtool: str, tmp_path: Path) -> None:
    """Gone for a minute, then a window of insufficient data: nobody is told that all is well."""
    fault = Say(LINK, ttft=3.0)
    unknown = Say(Verdict.INSUFFICIENT_DATA, Confidence.LOW, Phase.UNKNOWN)
    timeline: Timeline = [(10, Say()), (30, fault), (31, None), (32.5, unknown), (60, fault)]
    names = (LINK_NAME, NAMES[Verdict.INSUFFICIENT_DATA])
    fires = [alert(LINK, s, BROKEN) for s in ("page", "warning")]
    shown = expect(names[0], {9: [], 29: fires, 40: fires, 59: fires})
    run(promtool, tmp_path, series(timeline), shown + expect(names[1], {9: [], 33: [], 40: [], 59: []}))


def test_deployment_that_is_taken_out_resolves(promtool: str, tmp_path: Path) -> None:
    """Its series are stale at once, its alerts end after their time."""
    timeline: Timeline = [(10, Say()), (30, Say(LINK, ttft=3.0)), (60, None)]
    fires = [alert(LINK, s, BROKEN) for s in ("page", "warning")]
    run(promtool, tmp_path, series(timeline), expect(LINK_NAME, {9: [], 29: fires, 50: []}))


def test_deployments_do_not_share_what_is_broken(promtool: str, tmp_path: Path) -> None:
    """One has the verdict, the other a broken objective: nobody is paged. A name may have any characters."""
    verdict_only = series([(10, Say()), (40, Say(LINK))], deployment="a b&c")
    broken_only = series([(10, Say()), (40, Say(ttft=3.0))], deployment="other")
    wanted = alert(LINK, "warning", QUIET, deployment="a b&c")
    wanted["exp_annotations"]["diagnose_url"] = "http://pdscope.example:9836/diagnose?deployment=a+b%26c"
    only = [s for s in broken_only if "build_info" not in s["series"] and not s["series"].startswith("up{")]
    run(promtool, tmp_path, verdict_only + only, expect(LINK_NAME, {9: [], 39: [wanted]}))


def test_external_label_gives_the_address(promtool: str, tmp_path: Path) -> None:
    """The shipped rules need not be generated again for an address."""
    timeline: Timeline = [(10, Say()), (40, Say(LINK))]
    wanted = alert(LINK, "warning", QUIET)
    wanted["exp_annotations"]["diagnose_url"] = "https://watch.example/pdscope/diagnose?deployment=chat"
    tests = expect(LINK_NAME, {9: [], 39: [wanted]})
    run(promtool, tmp_path, series(timeline), tests, {"pdscope_url": "https://watch.example/pdscope"})
