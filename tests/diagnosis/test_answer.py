"""Words and confidence: what a person reads first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdscope.diagnosis.answer import confidence_of, next_steps, summarise
from pdscope.diagnosis.base import Case
from pdscope.model.finding import Confidence, Evidence, Finding, Op, Phase, Stage, Truth, Verdict
from pdscope.model.signal import Quality, Scope, ScopeKind, Signal, SignalId, instance_scope
from pdscope.model.topology import Deployment, EngineProfile, Role, Slo
from pdscope.render import catalogue
from pdscope.runtime.plugins import load_plugins
from support.signals import ENGINE, STORIES, Figure, Figures, changed, deployment, instance, signal_set, verdict_of

WHERE = Scope(ScopeKind.DEPLOYMENT, "pd")
BUSY: Figures = {SignalId.REQUESTS_FINISHED: 300.0, SignalId.TTFT_P50: 7.0}


def case_of(figures: Figures = BUSY, slo: Slo | None = None) -> Case:
    return Case(deployment() if slo is None else deployment(slo=slo), signal_set(figures))


def held(quality: Quality | None = Quality.MEASURED, **fields: object) -> Finding:
    found = Finding(
        "prefill_queue", WHERE, Truth.TRUE, Verdict.PREFILL_QUEUE, headline="31 requests wait on p0", decisive=quality
    )
    return replace(found, **fields)


@pytest.mark.parametrize(
    ("quality", "confidence"),
    [
        (Quality.MEASURED, Confidence.HIGH),
        (Quality.DERIVED, Confidence.MEDIUM),
        (Quality.ESTIMATED, Confidence.MEDIUM),
        (Quality.ASSUMED, Confidence.MEDIUM),
        (None, Confidence.LOW),
    ],
)
def test_confidence_is_that_of_the_decisive_evidence(quality: Quality | None, confidence: Confidence) -> None:
    """High only when measured, low when something decisive is missing; the strongest finding counts."""
    assert confidence_of(Verdict.PREFILL_QUEUE, [held(quality), held()], case_of()) is confidence


@pytest.mark.parametrize(
    ("finished", "confidence"), [(20.0, Confidence.HIGH), (19.0, Confidence.MEDIUM), (None, Confidence.MEDIUM)]
)
def test_few_requests_lower_it(finished: float | None, confidence: Confidence) -> None:
    """Quantiles of a handful of requests are guesses; counting them for `idle` is not."""
    case = case_of(changed({}, {SignalId.REQUESTS_FINISHED: finished}))
    assert confidence_of(Verdict.PREFILL_QUEUE, [held()], case) is confidence
    assert confidence_of(Verdict.IDLE, [held()], case) is Confidence.HIGH


@pytest.mark.parametrize(
    ("ratio", "scope", "confidence"),
    [
        (2.9, instance_scope("p0"), Confidence.HIGH),
        (3.0, instance_scope("p0"), Confidence.MEDIUM),
        (3.0, WHERE, Confidence.HIGH),
        (None, instance_scope("p0"), Confidence.HIGH),
    ],
)
def test_a_hot_instance_lowers_it(ratio: float | None, scope: Scope, confidence: Confidence) -> None:
    """Beside idle ones the fault may be where requests are sent; a cause of the whole deployment is not affected."""
    case = case_of(changed(BUSY, {SignalId.ROLE_IMBALANCE: ratio}))
    assert confidence_of(Verdict.PREFILL_QUEUE, [held(scope=scope)], case) is confidence


@pytest.mark.parametrize("verdict", [Verdict.INSUFFICIENT_DATA, Verdict.UNDETERMINED])
def test_not_knowing_is_never_sure(verdict: Verdict) -> None:
    """Whatever the quality of what is known."""
    assert confidence_of(verdict, [held()], case_of()) is Confidence.LOW


def test_nothing_that_holds_is_low() -> None:
    """No finding, no confidence."""
    assert confidence_of(Verdict.HEALTHY, [], case_of()) is Confidence.LOW


@pytest.mark.parametrize(
    ("slo", "confidence"),
    [
        (Slo(ttft_p50_seconds=2.0, itl_p50_seconds=0.05), Confidence.HIGH),
        (Slo(ttft_p99_seconds=2.0, itl_p95_seconds=0.05), Confidence.HIGH),
        (Slo(ttft_p50_seconds=2.0, ttft_p95_seconds=3.0), Confidence.LOW),
        (Slo(itl_p50_seconds=0.05), Confidence.LOW),
        (Slo(), Confidence.LOW),
    ],
)
def test_healthy_needs_objectives_for_both(slo: Slo, confidence: Confidence) -> None:
    """Of any percentile; for other verdicts it does not matter."""
    assert confidence_of(Verdict.HEALTHY, [held()], case_of(slo=slo)) is confidence
    assert confidence_of(Verdict.PREFILL_QUEUE, [held()], case_of(slo=slo)) is Confidence.HIGH


@pytest.mark.parametrize(
    ("phase", "verdict", "clause"),
    [
        (Phase.PREFILL, Verdict.PREFILL_QUEUE, ""),
        (Phase.PREFILL, Verdict.HEALTHY, ""),
        (Phase.PREFILL, Verdict.DECODE_ADMISSION, "; TTFT p50 7 s is over because requests wait for this"),
        (Phase.PREFILL, Verdict.KV_TRANSFER_BANDWIDTH, "; TTFT p50 7 s is over because requests wait for this"),
        (Phase.DECODE_STEADY_STATE, Verdict.DECODE_HBM_BANDWIDTH, ""),
        (Phase.DECODE_STEADY_STATE, Verdict.DECODE_KV_CAPACITY, ""),
        (
            Phase.DECODE_STEADY_STATE,
            Verdict.HOST_BOUND,
            "; ITL is over although decode itself is not what holds it back",
        ),
        (Phase.DECODE_STEADY_STATE, Verdict.UNDETERMINED, ""),
        (Phase.BOTH_OVER_SLO, Verdict.DECODE_ADMISSION, ""),
        (Phase.WITHIN_SLO, Verdict.DECODE_ADMISSION, ""),
        (Phase.UNKNOWN, Verdict.DECODE_ADMISSION, ""),
    ],
)
def test_summary_says_why_phase_and_stage_disagree(phase: Phase, verdict: Verdict, clause: str) -> None:
    """In a clause, and only where they do."""
    text = summarise(case_of(), phase, verdict, [held()], [])
    assert text.startswith("31 requests wait on p0")
    assert text.endswith(".")
    assert (clause in text) if clause else (text == "31 requests wait on p0.")


def test_summary_is_a_sentence() -> None:
    """It begins with a capital and counts the other places."""
    many = [held(headline="the KV pool of d0 is full"), held(), held()]
    text = summarise(case_of(), Phase.UNKNOWN, Verdict.DECODE_KV_CAPACITY, many, many)
    assert text == "The KV pool of d0 is full; the same on 2 more."
    assert "the same on 1 more" in summarise(case_of(), Phase.UNKNOWN, Verdict.PREFILL_QUEUE, many[:2], many)
    assert "more" not in summarise(case_of(), Phase.UNKNOWN, Verdict.PREFILL_QUEUE, many[:1], many)


def test_unknown_latency_is_left_out_of_the_clause() -> None:
    """No figure rather than a wrong one."""
    text = summarise(case_of({}), Phase.PREFILL, Verdict.DECODE_ADMISSION, [held()], [])
    assert "; TTFT is over because" in text


@pytest.mark.parametrize(
    ("figures", "count"),
    [
        (BUSY, "300 requests finished in the window"),
        ({}, "how many requests finished in the window is not known"),
    ],
)
def test_summary_of_nothing_names_what_is_missing(figures: Figures, count: str) -> None:
    """Latencies first, then what undecided rules lack, each once; those of rules that said no do not matter."""
    missing = (SignalId.ITL_P50, SignalId.KV_USAGE, SignalId.RUNNING, SignalId.QUEUED, SignalId.SCRAPES)
    findings = [
        held(truth=Truth.FALSE, missing=(SignalId.TTFT_P99,)),
        held(truth=Truth.UNKNOWN, missing=(SignalId.TTFT_P50, SignalId.ITL_P50)),
        held(truth=Truth.UNKNOWN, missing=missing),
    ]
    text = summarise(case_of(figures), Phase.UNKNOWN, Verdict.INSUFFICIENT_DATA, [], findings)
    assert text.startswith(f"Cannot tell: {count}, and ")
    first = [SignalId.TTFT_P50, SignalId.ITL_P50] if not figures else [SignalId.ITL_P50]
    assert ", ".join(first) in text.partition("first of all ")[2]
    assert "p99" not in text


def evidence(signal: SignalId) -> Evidence:
    return Evidence(signal, WHERE, 1.0, signal.unit, Op.GE, 0.5, Truth.TRUE, "test", Quality.MEASURED, 0.0)


def test_next_steps_begin_with_the_page_and_the_query() -> None:
    """Only figures that `/metrics` exports can be asked for, and only the two foremost."""
    signals = (SignalId.PREFILL_QUEUE, SignalId.KV_DEMAND, SignalId.TTFT_P50, SignalId.ITL_P50)
    found = held(evidence=tuple(map(evidence, signals)))
    assert next_steps(case_of(), Verdict.PREFILL_QUEUE, [found], [found]) == (
        "pdscope explain prefill_queue",
        'pdscope_deployment_kv_transfer_demand_bytes_per_second{deployment="pd"}',
        'pdscope_deployment_ttft_p50_seconds{deployment="pd"}',
    )


@pytest.mark.parametrize("verdict", STORIES)
def test_queries_name_what_metrics_exports(verdict: str) -> None:
    """Nobody is sent to look for a series that is not there."""
    exported = {d.name: set(d.labels) for d in catalogue.ALL}
    queries = [s for s in verdict_of(STORIES[verdict]).diagnosis.next_steps if s.startswith("pdscope_")]
    for query in queries:
        name, _, rest = query.partition("{")
        assert {pair.partition("=")[0] for pair in rest.partition("}")[0].split(",")} <= exported[name], query
    assert queries or Verdict(verdict).stage is Stage.NONE


def test_next_steps_ask_for_the_instance_at_fault() -> None:
    """Its own figure and its own verdict, after those of the deployment."""
    diagnosis = verdict_of(STORIES["decode_hbm_bandwidth"]).diagnosis
    assert 'pdscope_worker_hbm_bandwidth_utilization_ratio{deployment="pd",worker="d0"}' in diagnosis.next_steps
    assert 'pdscope_worker_verdict{deployment="pd",worker="d0"} == 1' in diagnosis.next_steps


PROFILED = EngineProfile("profiled", profiling={role: f"trace {role} at {{url}}" for role in Role})


def profiled(*roles: Role) -> Deployment:
    """Two instances of each role, of an engine that can be profiled."""
    return deployment(
        *(
            instance(f"{role[0]}{n}", role, profile=PROFILED, url=f"http://{role[0]}{n}")
            for role in roles
            for n in (0, 1)
        )
    )


@pytest.mark.parametrize(
    ("verdict", "culprits", "traced"),
    [
        (Verdict.PREFILL_COMPUTE, ("p1",), ["profile p1 (prefill): trace prefill at http://p1"]),
        (Verdict.PREFILL_QUEUE, (), ["profile p0 (prefill): trace prefill at http://p0"]),
        (Verdict.DECODE_HBM_BANDWIDTH, ("d1",), ["profile d1 (decode): trace decode at http://d1"]),
        (Verdict.HOST_BOUND, ("d1",), ["profile d1 (decode): trace decode at http://d1"]),
        (Verdict.HARDWARE_DEGRADED, ("p1",), ["profile p1 (prefill): trace prefill at http://p1"]),
        (Verdict.FRONTEND_BOUND, (), []),
        (Verdict.KV_TRANSFER_BANDWIDTH, ("p0",), []),
        (Verdict.HEALTHY, (), []),
        (
            Verdict.UNDETERMINED,
            (),
            ["profile p0 (prefill): trace prefill at http://p0", "profile d0 (decode): trace decode at http://d0"],
        ),
    ],
)
def test_next_steps_profile_the_stage_at_fault(verdict: Verdict, culprits: tuple[str, ...], traced: list[str]) -> None:
    """The culprit before any other of its role, and the two roles apart."""
    case = Case(profiled(Role.PREFILL, Role.DECODE), signal_set(BUSY))
    steps = next_steps(case, verdict, [held(culprits=culprits)], [])
    assert [s for s in steps if s.startswith("profile")] == traced


def test_a_unified_engine_is_profiled_once() -> None:
    """Whichever stage is at fault, it does both."""
    case = Case(profiled(Role.UNIFIED), signal_set(BUSY))
    for verdict in (Verdict.PREFILL_COMPUTE, Verdict.UNDETERMINED):
        steps = next_steps(case, verdict, [], [])
        assert [s for s in steps if s.startswith("profile")] == ["profile u0 (unified): trace unified at http://u0"]


def test_an_engine_without_a_profiler_is_not_profiled() -> None:
    """What cannot be done is not advised."""
    steps = next_steps(case_of(), Verdict.PREFILL_COMPUTE, [held(culprits=("p0",))], [])
    assert not any(s.startswith("profile") for s in steps)


@pytest.mark.parametrize(("verdict", "asked"), [(Verdict.ROUTER_IMBALANCE, 1), (Verdict.HEALTHY, 0), (Verdict.IDLE, 0)])
def test_a_router_is_asked_what_it_sees(verdict: Verdict, asked: int) -> None:
    """Where something is wrong and the router has an answer."""
    asking = EngineProfile("asking", workers="curl {url}/workers")
    routers = (
        instance("r0", Role.ROUTER, profile=asking, url="http://r0"),
        instance("r1", Role.ROUTER, profile=EngineProfile("mute")),
    )
    case = Case(deployment(*deployment().instances, *routers), signal_set(BUSY))
    steps = [s for s in next_steps(case, verdict, [], []) if s.startswith("ask")]
    assert steps == ["ask r0: curl http://r0/workers"] * asked


def test_every_engine_spells_its_profile_and_its_workers() -> None:
    """With the address in it where there is one, and nothing left to fill in."""
    told = {a.profile.name: a.profile for a in load_plugins().engines if a.profile is not None}
    for engine in ("sglang", "vllm"):
        texts = {role: told[engine].profiling[role] for role in (Role.PREFILL, Role.DECODE, Role.UNIFIED)}
        for text in texts.values():
            assert "http://h:1" in text.format(url="http://h:1")
            assert "{" not in text.format(url="u").replace('{"profiler"', "")
            assert "TORCH_PROFILER_DIR" in text
    sglang = told["sglang"].profiling
    assert "--pd-separated --profile-prefill-url" in sglang[Role.PREFILL]
    assert "decode-url" not in sglang[Role.PREFILL]
    assert "--pd-separated --profile-decode-url" in sglang[Role.DECODE]
    for router in ("smg", "vllm_router", "dynamo", "llm_d"):
        workers = told[router].workers
        assert workers is not None
        assert "{" not in workers.format(url="u")


@pytest.mark.parametrize(
    ("rate", "resource", "said"),
    [
        (8.0, "decode_slots", "; as load grows decode slots is used up first, at about 8 requests/s"),
        (8.0, "link", "; as load grows link is used up first, at about 8 requests/s"),
        (50.0, "prefill", "; as load grows prefill is used up first, at about 50 requests/s"),
        (50.1, "prefill", ""),
        (None, "prefill", ""),
    ],
)
def test_a_healthy_service_is_told_what_comes_first(rate: float | None, resource: str, said: str) -> None:
    """Up to ten times the present load; beyond it nothing is known."""
    figures = signal_set(changed(BUSY, {SignalId.ARRIVALS_PER_SECOND: 5.0}))
    if rate is not None:
        told = f"{resource} is the first to be used up"
        signal = Signal(SignalId.SATURATION_RATE, figures.deployment, rate, Quality.ESTIMATED, told)
        figures = figures.extended([signal])
    case = Case(deployment(), figures)
    text = summarise(case, Phase.WITHIN_SLO, Verdict.HEALTHY, [held()], [])
    assert text == f"31 requests wait on p0{said}."
    busy = summarise(case, Phase.WITHIN_SLO, Verdict.PREFILL_QUEUE, [held()], [])
    assert "as load grows" not in busy


def test_without_arrivals_no_rate_is_near() -> None:
    """How far away it is cannot be told."""
    figures = signal_set(changed(BUSY, {SignalId.SATURATION_RATE: Figure(8.0, Quality.ESTIMATED)}))
    assert "as load grows" not in summarise(
        Case(deployment(), figures), Phase.WITHIN_SLO, Verdict.HEALTHY, [held()], []
    )


def test_next_steps_name_the_switch_for_a_missing_signal() -> None:
    """Once for each engine that has one, also for rules that could not decide; not for those that said no."""
    other = EngineProfile("other", enable={"max_running_requests": "--show-limit", "queued_requests": "--show-queue"})
    of = deployment(
        instance("p0", Role.PREFILL), instance("d0", Role.DECODE), instance("d1", Role.DECODE, profile=other)
    )
    case = Case(of, signal_set(BUSY))
    lacking = held(truth=Truth.UNKNOWN, missing=(SignalId.MAX_RUNNING, SignalId.KV_USAGE))
    refused = held(truth=Truth.FALSE, missing=(SignalId.QUEUED,))
    assert next_steps(case, Verdict.HEALTHY, [], [lacking, lacking, refused]) == (
        "pdscope explain healthy",
        f"to know max_running_requests on engine: {ENGINE.enable['max_running_requests']}",
        "to know max_running_requests on other: --show-limit",
    )


@pytest.mark.parametrize(
    ("used", "said", "told"),
    [
        (110.0, 100.0, False),
        (90.0, 100.0, False),
        (111.0, 100.0, True),
        (89.0, 100.0, True),
        (None, 100.0, False),
        (111.0, None, False),
    ],
)
def test_contradiction_between_configuration_and_engine_is_told(
    used: float | None, said: float | None, told: bool
) -> None:
    """Beyond a tenth of what the engine says, in either direction, with both figures."""
    case = case_of(changed({}, {SignalId.KV_BYTES_PER_TOKEN: used, SignalId.KV_BYTES_PER_TOKEN_ENGINE: said}))
    steps = next_steps(case, Verdict.HEALTHY, [], [])
    assert len(steps) == 1 + told
    if told:
        assert steps[1].startswith(f"check model.kv: it makes {used:.0f} B/token, the engine {said:.0f} B/token")


@pytest.mark.parametrize("verdict", STORIES)
def test_every_answer_has_numbers_and_a_next_step(verdict: str) -> None:
    """Whatever the verdict."""
    diagnosis = verdict_of(STORIES[verdict]).diagnosis
    assert any(c.isdigit() for c in diagnosis.summary)
    assert "unknown" not in diagnosis.summary
    assert diagnosis.next_steps[0] == f"pdscope explain {verdict}"
