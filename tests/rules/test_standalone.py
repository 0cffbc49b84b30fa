"""The standalone rules in promtool: they fire where they should, and say nothing that the daemon does not say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.analysis.histograms import Distribution, sum_of_waits
from pdscope.model.finding import Truth, Verdict
from pdscope.render.standalone.alerts import runbook, standalone_name
from pdscope.render.standalone.latency import AT_LEAST, AT_MOST, PASS_BY
from pdscope.render.standalone.pack import Standalone, standalone_file
from pdscope.render.standalone.parameters import Parameters
from pdscope.render.standalone.truth import all_of, any_of, negated
from pdscope.render.standalone.verdicts import VERDICTS
from support.standalone_case import CHAT, State, histogram, holds, quiet, run, series, ttft

pytestmark = pytest.mark.promtool

SLOW = "TTFT p50 at least 6.25s. TTFT p50 at most 6.25s. ITL p50 37.5ms."
WAITING = 'd0/decode|vllm:num_requests_kv_fetch_by_stage{stage="waiting_to_start"}'
FETCHING = 'd0/decode|vllm:num_requests_kv_fetch_by_stage{stage="in_progress"}'


def fault(**changes: float) -> dict[str, float]:
    """TTFT is broken, nothing else."""
    return quiet() | ttft("d0/decode", late=True) | changes


FAULTS: Mapping[Verdict, tuple[State, str, str]] = {
    Verdict.KV_TRANSFER_FAILING: (
        fault(**{"d0/decode|vllm:nixl_num_failed_transfers_total{}": 1}),
        "KV transfers or bootstraps fail or time out.",
        "Failures of the worst worker 1/s. Requests that end 10/s.",
    ),
    Verdict.DECODE_KV_CAPACITY: (
        fault(**{"d0/decode|vllm:num_preemptions_total{}": 1, "d0/decode|vllm:kv_cache_usage_perc{}": 0.9}),
        "The KV pool of decode is full: requests are pushed out, or nothing moves any more.",
        "Fullest pool 90%. Preemptions of the worst worker 1/s.",
    ),
    Verdict.DECODE_ADMISSION: (
        fault(**{WAITING: 24}),
        "Decode cannot let transferred requests in: no slot, or no memory for the next one.",
        "Longest queue before admission 24. Its wait by TTFT 40%.",
    ),
    Verdict.KV_TRANSFER_BANDWIDTH: (
        fault(**{FETCHING: 20})
        | histogram("d0/decode", "vllm:nixl_bytes_transferred", 10, 9.5e8)
        | histogram("d0/decode", "vllm:nixl_xfer_time_seconds", 10, 1.5),
        "KV demand reaches what the interconnect can carry.",
        "KV demand 9.5GB/s. Interconnect capacity 10GB/s. KV achieved 9.5GB/s. A transfer by TTFT 25%.",
    ),
    Verdict.PREFILL_QUEUE: (
        fault(**{'p0/prefill|vllm:num_requests_waiting_by_reason{reason="capacity"}': 30})
        | histogram("p0/prefill", "vllm:request_queue_time_seconds", 10, 3.0),
        "Requests wait for prefill; without device telemetry nobody knows whether it computes at its limit.",
        "Longest queue before prefill 30. Its wait by TTFT 50%.",
    ),
}


def expected(verdict: Verdict, severity: str, numbers: str = "") -> dict[str, Any]:
    _, said, evidence = FAULTS[verdict]
    return {
        "exp_labels": {
            "deployment": "chat",
            "namespace": "llm",
            "severity": severity,
            "stage": str(verdict.stage),
            "verdict": str(verdict),
        },
        "exp_annotations": {
            "summary": said,
            "description": f"Deployment chat: {said} {SLOW} {numbers or evidence}",
            "runbook_url": f"https://pdscope.example/docs/runbooks/{runbook(verdict)}",
        },
    }


def firing(name: str, steps: Mapping[float, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The first step has to be without any."""
    assert not next(iter(steps.values())), "negative steps first"
    return [{"eval_time": f"{round(m * 60)}s", "alertname": name, "exp_alerts": alerts} for m, alerts in steps.items()]


def test_every_verdict_of_the_pack_is_tried() -> None:
    """And no other."""
    assert set(FAULTS) == set(VERDICTS)


@pytest.mark.parametrize("verdict", VERDICTS)
def test_alert(promtool: str, tmp_path: Path, verdict: Verdict) -> None:
    """Quiet, quiet with TTFT broken by something else, then both severities with their numbers, then quiet."""
    timeline = [(5.0, quiet()), (15.0, fault()), (30.0, FAULTS[verdict][0]), (48.0, quiet())]
    fires = [expected(verdict, severity) for severity in ("page", "warning")]
    steps = {4.0: [], 14.0: [], 16.0: [], 29.0: fires, 47.0: []}
    other = next(v for v in VERDICTS if v is not verdict)
    alerts = firing(standalone_name(verdict), steps) + firing(standalone_name(other), {4.0: [], 14.0: [], 29.0: []})
    run(promtool, tmp_path, series(timeline), alerts=alerts)


def test_no_page_while_objectives_hold(promtool: str, tmp_path: Path) -> None:
    """A limit that nobody feels is a warning."""
    near = FAULTS[Verdict.KV_TRANSFER_BANDWIDTH][0] | ttft("d0/decode", late=False)
    text = "KV demand 9.5GB/s. Interconnect capacity 10GB/s. KV achieved 9.5GB/s. A transfer by TTFT 100%."
    warning = expected(Verdict.KV_TRANSFER_BANDWIDTH, "warning", text)
    notes = warning["exp_annotations"]
    notes["description"] = notes["description"].replace("6.25s", "250ms")
    alerts = firing("PdscopeStandaloneKVTransferBandwidth", {4.0: [], 21.0: [warning]})
    run(promtool, tmp_path, series([(5, quiet()), (22, near)]), alerts=alerts)


def test_requests_that_fail_page_though_the_others_are_quick(promtool: str, tmp_path: Path) -> None:
    """Latencies are those of whoever was served. Three in a hundred are a warning."""
    name, verdict = standalone_name(Verdict.KV_TRANSFER_FAILING), Verdict.KV_TRANSFER_FAILING
    for failures, severities in ((0.3, ["warning"]), (1.0, ["page", "warning"])):
        failing = quiet() | {"d0/decode|vllm:nixl_num_failed_transfers_total{}": failures}
        numbers = f"Failures of the worst worker {'1/s' if failures == 1.0 else '300m/s'}. Requests that end 10/s."
        fires = [expected(verdict, severity, numbers) for severity in severities]
        for one in fires:
            notes = one["exp_annotations"]
            notes["description"] = notes["description"].replace("6.25s", "250ms")
        run(promtool, tmp_path, series([(5, quiet()), (22, failing)]), alerts=firing(name, {4.0: [], 21.0: fires}))


def test_phase_alone_fires_nothing(promtool: str, tmp_path: Path) -> None:
    """Each phase, with no cause for any of them."""
    slow = histogram("d0/decode", "vllm:inter_token_latency_seconds", 1000, 0.08, le0_025=0.0, le0_05=0.0, le0_1=1.0)
    timeline = [(4.0, quiet()), (16.0, quiet() | slow), (28.0, fault()), (40.0, fault() | slow)]
    phases = {3: "within_slo", 15: "decode_steady_state", 27: "prefill", 39: "both_over_slo"}
    values = [
        holds(m, "pdscope_standalone:phase == 1", f'__name__="pdscope_standalone:phase",phase="{phase}"')
        for m, phase in phases.items()
    ]
    steps: dict[float, list[dict[str, Any]]] = {float(minute): [] for minute in phases}
    alerts = [a for v in VERDICTS for a in firing(standalone_name(v), steps)]
    run(promtool, tmp_path, series(timeline), alerts=alerts, values=values)


def near(signal: str, value: float, percent: float = 2.0) -> str:
    return f"abs(pdscope_standalone:{signal} / {value!r} - 1) < bool {percent / 100!r}"


def test_restart_of_an_engine_moves_no_number(promtool: str, tmp_path: Path) -> None:
    """Counters begin anew; nothing fires, demand and latencies stay."""
    values = [
        {
            "expr": near(name, value),
            "eval_time": f"{minute}m",
            "exp_samples": [{"labels": '{deployment="chat",namespace="llm"}', "value": 1}],
        }
        for minute in (8, 9, 10)
        for name, value in (("kv_transfer_demand_bytes_per_second", 1e9), ("itl_p50_seconds", 0.0375))
    ]
    steps: dict[float, list[dict[str, Any]]] = {7.0: [], 10.0: [], 19.0: []}
    alerts = [a for v in VERDICTS for a in firing(standalone_name(v), steps)]
    run(promtool, tmp_path, series([(20, quiet())], restarts=[8]), alerts=alerts, values=values)


def test_engines_that_are_gone_leave_no_verdict(promtool: str, tmp_path: Path) -> None:
    """Stale series are no zeros: verdict, phase and demand are absent, and the alert resolves."""
    everything = '{__name__=~"pdscope_standalone:(verdict|phase|finding|kv_transfer_demand_bytes_per_second)"}'
    name = standalone_name(Verdict.DECODE_ADMISSION)
    fires = [expected(Verdict.DECODE_ADMISSION, severity) for severity in ("page", "warning")]
    timeline = [(5.0, quiet()), (22.0, FAULTS[Verdict.DECODE_ADMISSION][0]), (42.0, None)]
    run(
        promtool,
        tmp_path,
        series(timeline),
        alerts=firing(name, {4.0: [], 21.0: fires, 41.0: []}),
        values=[{"expr": everything, "eval_time": "28m", "exp_samples": []}],
    )


@pytest.mark.parametrize(
    ("parameters", "silent"),
    [
        (Parameters("chat", slo_ttft_p50_seconds=2.0, slo_itl_p50_seconds=0.05), "kv_transfer_bandwidth"),
        (Parameters("other", slo_ttft_p50_seconds=2.0, slo_itl_p50_seconds=0.05), "decode_admission"),
    ],
    ids=["no capacity", "another deployment"],
)
def test_what_is_not_told_has_no_verdict(promtool: str, tmp_path: Path, parameters: Parameters, silent: str) -> None:
    """Not even 0."""
    state = FAULTS[Verdict(silent)][0]
    question = {
        "expr": f'pdscope_standalone:verdict{{verdict="{silent}"}}',
        "eval_time": "5m",
        "exp_samples": [],
    }
    made = Standalone(deployments=(parameters,))
    run(promtool, tmp_path, series([(6, state)]), values=[question], made=made)


def test_series_without_role_or_worker_are_not_judged(promtool: str, tmp_path: Path) -> None:
    """Roles are never pooled, and workers never added up as one."""
    bare = [
        {**s, "series": s["series"].replace('worker="d0",', "").replace('role="prefill"', 'role=""')}
        for s in series([(6, FAULTS[Verdict.DECODE_ADMISSION][0])])
    ]
    everything = '{__name__=~"pdscope_standalone:(verdict|phase|itl_p50_seconds|requests_per_second|prefill_queue)"}'
    run(promtool, tmp_path, bare, values=[{"expr": everything, "eval_time": "5m", "exp_samples": []}])


def test_both_spellings_say_the_same(promtool: str, tmp_path: Path) -> None:
    """As OpenMetrics gateways write them; and a page that prints both counts once."""
    state = FAULTS[Verdict.DECODE_ADMISSION][0]
    escaped = {name.replace("vllm:", "vllm_"): value for name, value in state.items()}
    question = [
        holds(
            5,
            'pdscope_standalone:verdict{verdict="decode_admission"} == 1',
            '__name__="pdscope_standalone:verdict",verdict="decode_admission"',
        ),
        holds(5, "pdscope_standalone:requests_per_second == bool 10", ""),
    ]
    for n, shown in enumerate((escaped, {**state, **escaped})):
        folder = tmp_path / str(n)
        folder.mkdir()
        run(promtool, folder, series([(6, shown)]), values=question)


def test_legs_in_a_row_whose_bounds_lie_on_both_sides_have_no_phase(promtool: str, tmp_path: Path) -> None:
    """The median of a sum is not known from two histograms; it is where both bounds agree."""
    made = Standalone(deployments=(Parameters("chat", slo_ttft_p50_seconds=2.0, slo_itl_p50_seconds=0.05),))
    name = "vllm:time_to_first_token_seconds"
    clear = quiet() | ttft("p0/prefill", late=False)
    unclear = clear | histogram("p0/prefill", name, 10, 1.5, le0_5=0.3, le1_0=0.3, le2_5=1.0, le10_0=1.0)
    late = clear | ttft("p0/prefill", late=True)
    phase = "pdscope_standalone:phase == 1"
    named = '__name__="pdscope_standalone:phase",phase='
    values = [
        holds(4, phase, f'{named}"within_slo"'),
        {"expr": "pdscope_standalone:phase", "eval_time": "9m", "exp_samples": []},
        holds(14, phase, f'{named}"prefill"'),
    ]
    run(promtool, tmp_path, series([(5, clear), (10, unclear), (15, late)]), values=values, made=made)


def test_logic_is_that_of_the_daemon(promtool: str, tmp_path: Path) -> None:
    """1, 0 and absent behave as true, false and unknown."""
    states = {Truth.TRUE: 1, Truth.FALSE: 0, Truth.UNKNOWN: None}
    cases = [(a, b) for a in Truth for b in Truth]
    found = [
        {"series": f'{name}{{deployment="{n}"}}', "values": f"{states[truth]}x1"}
        for n, pair in enumerate(cases)
        for name, truth in zip("ab", pair, strict=True)
        if states[truth] is not None
    ]
    questions = []
    for expr, truths in (
        (all_of("a", "b"), [a & b for a, b in cases]),
        (any_of("a", "b"), [a | b for a, b in cases]),
        (negated("a"), [~a for a, _ in cases]),
    ):
        samples = [
            {"labels": f'{{deployment="{n}"}}', "value": states[truth]}
            for n, truth in enumerate(truths)
            if states[truth] is not None
        ]
        # the name of a condition is of no importance
        questions.append({"expr": f"({expr}) + 0", "eval_time": "0s", "exp_samples": samples})
    run(promtool, tmp_path, found, values=questions)


BUCKET_SECONDS, BUCKETS = 0.5, 16
BOUNDS = (*(BUCKET_SECONDS * (n + 1) for n in range(BUCKETS)), math.inf)
SHARES = st.lists(st.integers(0, 40), min_size=BUCKETS, max_size=BUCKETS).filter(lambda counts: sum(counts) >= 20)


def distribution(counts: list[int]) -> Distribution:
    values = np.array([*counts, 0], dtype=np.float64)
    return Distribution(BOUNDS, values, float(values.sum()), 60.0)


def quantile(of: Distribution, q: str) -> float:
    found = of.quantile(float(q))
    assert found is not None
    return found.value


@given(first=SHARES, second=SHARES, share=st.floats(float(PASS_BY), 1.0))
def test_daemons_median_of_two_legs_is_within_the_bounds(first: list[int], second: list[int], share: float) -> None:
    """Whatever the histograms; a little is lost since the daemon takes some points of each bucket."""
    prefill, decode = distribution(first), distribution(second)
    both = sum_of_waits(prefill, decode, share)
    assert both is not None
    median = both.quantile(0.5).value
    grid = BUCKET_SECONDS / 4
    assert median <= min(quantile(prefill, p) + quantile(decode, d) for p, d in AT_MOST) + grid
    low = [quantile(prefill, p) + quantile(decode, d) for p, d in AT_LEAST]
    assert median >= max(*low, quantile(decode, "0.5"), quantile(prefill, "0.45")) - grid


def test_parameters_are_checked() -> None:
    """A mistake in a name would be a rule that nobody reads."""
    with pytest.raises(ValueError, match="same name"):
        standalone_file(Standalone(deployments=(CHAT, CHAT)))
    with pytest.raises(ValueError, match=r"there is no threshold prefill_queue\.quue"):
        standalone_file(Standalone(deployments=(Parameters("chat", thresholds={"prefill_queue.quue": 2}),)))
