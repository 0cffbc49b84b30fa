"""Words and confidence: what a person reads first."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from pdscope.diagnosis.answer import confidence_of, next_steps, summarise
from pdscope.diagnosis.base import Case
from pdscope.diagnosis.rules.telemetry_lost import RULE as TELEMETRY_LOST
from pdscope.model.finding import Confidence, Evidence, Finding, Op, Phase, Stage, Truth, Verdict
from pdscope.model.signal import Quality, Scope, ScopeKind, Signal, SignalId, instance_scope
from pdscope.model.topology import Deployment, EngineProfile, Role, Slo
from pdscope.render import catalogue
from pdscope.runtime.plugins import load_plugins
from support.signals import (
    ENGINE,
    STORIES,
    Figure,
    Figures,
    changed,
    deployment,
    instance,
    on,
    signal_set,
    verdict_of,
)

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
    rest = ", and no rule sees a limit reached" if verdict is Verdict.HEALTHY else ""
    assert (clause in text) if clause else (text == f"31 requests wait on p0{rest}.")


def test_summary_is_a_sentence() -> None:
    """It begins with a capital and counts the other places."""
    many = [held(headline="the KV pool of d0 is full"), held(), held()]
    text = summarise(case_of(), Phase.UNKNOWN, Verdict.DECODE_KV_CAPACITY, many, many)
    assert text == "The KV pool of d0 is full; the same on 2 more."
    assert "the same on 1 more" in summarise(case_of(), Phase.UNKNOWN, Verdict.PREFILL_QUEUE, many[:2], many)
    assert "more" not in summarise(case_of(), Phase.UNKNOWN, Verdict.PREFILL_QUEUE, many[:1], many)


@pytest.mark.parametrize(
    ("headline", "begins"),
    [
        ("p0 holds 99 %", "p0 holds"),
        ("p0, p1 of prefill", "p0, p1 of"),
        ("p0's pool", "P0's pool"),
        ("gone waits", "gone waits"),
        ("ports tell", "Ports tell"),
    ],
)
def test_a_name_at_the_start_keeps_its_spelling(headline: str, begins: str) -> None:
    """That of an instance of the deployment, or of a culprit; any other word gets its capital."""
    found = held(headline=headline, culprits=("gone",))
    assert summarise(case_of(), Phase.UNKNOWN, Verdict.PREFILL_QUEUE, [found], []).startswith(begins)


LATE = Finding("late_kv_read", WHERE, Truth.TRUE, headline="blocks of p0 were read too late: answers may be WRONG")


@pytest.mark.parametrize("verdict", [Verdict.HEALTHY, Verdict.PREFILL_QUEUE])
def test_wrong_answers_come_first(verdict: Verdict) -> None:
    """Whatever else is said, and nobody says that no limit is reached."""
    text = summarise(case_of(), Phase.UNKNOWN, verdict, [held()], [LATE])
    assert text == ("Blocks of p0 were read too late: answers may be WRONG; apart from that, 31 requests wait on p0.")
    unknown = summarise(case_of(), Phase.UNKNOWN, Verdict.INSUFFICIENT_DATA, [], [LATE])
    assert unknown.startswith("Blocks of p0 were read too late: answers may be WRONG; apart from that, cannot tell: ")
    said_no = replace(LATE, truth=Truth.FALSE)
    assert "WRONG" not in summarise(case_of(), Phase.UNKNOWN, verdict, [held()], [said_no])


OVERASKED: Figures = changed(
    BUSY,
    {
        SignalId.LINK_UTILIZATION: Figure(3.31, Quality.ESTIMATED),
        SignalId.LINK_CAPACITY: 10e9,
        SignalId.KV_ACHIEVED: 2e9,
    },
)


def test_health_beside_a_link_that_is_asked_for_too_much() -> None:
    """Demand is arithmetic: what it says and what is seen, no word of a limit, and not the highest confidence."""
    text = summarise(case_of(OVERASKED), Phase.WITHIN_SLO, Verdict.HEALTHY, [held()], [])
    assert text == (
        "31 requests wait on p0; KV demand (estimated) is 331 % of what the link should carry, while 2 GB/s (20 %) "
        "really cross it."
    )
    assert confidence_of(Verdict.HEALTHY, [held()], case_of(OVERASKED)) is Confidence.MEDIUM
    assert confidence_of(Verdict.PREFILL_QUEUE, [held()], case_of(OVERASKED)) is Confidence.HIGH
    unseen = case_of(changed(OVERASKED, {SignalId.KV_ACHIEVED: None}))
    assert "really crosses it is not known" in summarise(unseen, Phase.WITHIN_SLO, Verdict.HEALTHY, [held()], [])
    below = case_of(changed(OVERASKED, {SignalId.LINK_UTILIZATION: 0.89}))
    assert "should carry" not in summarise(below, Phase.WITHIN_SLO, Verdict.HEALTHY, [held()], [])
    assert confidence_of(Verdict.HEALTHY, [held()], below) is Confidence.HIGH


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


@pytest.mark.parametrize(
    ("blind", "begins", "ends"),
    [
        ([0], False, "d0 (decode) answers, but 3 times in a row without metrics: whether it serves well is not known."),
        ([0, 1, 2, 3], True, ""),
        ([0, 1, 2], False, "; no data from 1 more either."),
        ([], False, "first of all ttft_p50_seconds, itl_p50_seconds, requests_finished."),
    ],
)
def test_summary_of_nothing_says_who_gives_no_data(blind: list[int], begins: bool, ends: str) -> None:
    """First where that is all of a role, and so explains what is missing; else after it."""
    of = deployment(*(instance(f"d{n}", Role.DECODE) for n in range(4)))
    silent = {SignalId.SILENT_SCRAPES: 3.0, SignalId.ANSWERS: 1.0}
    figures = changed({}, *(on(f"d{n}", silent) for n in blind))
    who = [f for f in TELEMETRY_LOST.evaluate(Case(of, signal_set(figures))) if f.truth is Truth.TRUE]
    lacking = held(truth=Truth.UNKNOWN, missing=(SignalId.ITL_P95,))
    text = summarise(Case(of, signal_set(figures)), Phase.UNKNOWN, Verdict.INSUFFICIENT_DATA, [], [lacking, *who])
    assert text.startswith("Cannot tell: d0 (decode) answers") is begins
    assert text.endswith(ends)


def test_summary_of_nothing_tells_of_a_wait_for_transfers() -> None:
    """What is known of them stays known."""
    figures = {SignalId.TTFT_P50: 3.0, SignalId.TRANSFER_TTFT_SHARE: 0.6, SignalId.TRANSFER_TIME: 1.8}
    text = summarise(case_of(figures), Phase.UNKNOWN, Verdict.INSUFFICIENT_DATA, [], [])
    assert "transfers take 1.8 s, 60 % of TTFT; set interconnect.bandwidth" in text


def test_what_an_answer_lacks_is_what_verdicts_lack() -> None:
    """First what the last verdicts ask for, then what most rules wait for; never what only a note beside them does."""
    known = {**BUSY, SignalId.ITL_P50: 0.02}
    findings = [
        held(rule="link_shared", verdict=None, truth=Truth.UNKNOWN, missing=(SignalId.NIC_CAPACITY,)),
        held(rule="a", truth=Truth.UNKNOWN, missing=(SignalId.RUNNING, SignalId.KV_USAGE)),
        held(rule="b", truth=Truth.UNKNOWN, missing=(SignalId.KV_USAGE,)),
        held(rule="healthy", verdict=Verdict.HEALTHY, truth=Truth.UNKNOWN, missing=(SignalId.TTFT_P95,)),
    ]
    text = summarise(case_of(known), Phase.UNKNOWN, Verdict.INSUFFICIENT_DATA, [], findings)
    assert text.endswith("3 signal(s) are missing, first of all ttft_p95_seconds, kv_usage_ratio, running_requests.")
    nothing = summarise(case_of(known), Phase.UNKNOWN, Verdict.INSUFFICIENT_DATA, [], findings[:1])
    assert nothing.endswith("300 requests finished in the window, and no rule of a verdict holds.")


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
    """Its own figure, and never whether the verdict is the verdict."""
    steps = [step for story in STORIES.values() for step in verdict_of(story).diagnosis.next_steps]
    assert 'pdscope_worker_hbm_bandwidth_utilization_ratio{deployment="pd",worker="d0"}' in steps
    assert not any("_verdict{" in step for step in steps)


MEASURED = EngineProfile("measured", queries={SignalId.PREFILL_QUEUE: "max(q$at)", SignalId.TRANSFER_TIME: "t{a,$in}"})


@pytest.mark.parametrize(
    ("signal", "truth", "scope", "query"),
    [
        (SignalId.PREFILL_QUEUE, Truth.TRUE, instance_scope("p0"), 'max(q{instance="p0.lan:30000"})'),
        (SignalId.TRANSFER_TIME, Truth.TRUE, WHERE, 't{a,instance=~"p0.lan:30000|p1.lan:30000"}'),
        (SignalId.PREFILL_QUEUE, Truth.FALSE, instance_scope("p0"), None),
        (SignalId.PREFILL_QUEUE, Truth.TRUE, instance_scope("d0"), None),
        (SignalId.PREFILL_QUEUE, Truth.TRUE, instance_scope("p2"), None),
        (SignalId.DESCRIPTOR_BYTES, Truth.TRUE, WHERE, None),
    ],
    ids=["an instance's", "all instances'", "speaks against it", "another engine", "no address", "no series"],
)
def test_the_engine_s_own_series_stand_in(signal: SignalId, truth: Truth, scope: Scope, query: str | None) -> None:
    """Where `/metrics` exports no figure that decides; and where the engine has none either, what users wait."""
    told = [instance(f"p{n}", Role.PREFILL, profile=MEASURED, url=f"http://p{n}.lan:30000/") for n in (0, 1)]
    case = Case(
        deployment(*told, instance("p2", Role.PREFILL, profile=MEASURED), instance("d0", Role.DECODE, url="http://d0")),
        signal_set({SignalId.TTFT_P50: 1.0, SignalId.ITL_P50: 0.06}),
    )
    other = replace(evidence(SignalId.KV_USAGE), scope=scope)
    found = held(evidence=(replace(evidence(signal), scope=scope, truth=truth), other))
    steps = next_steps(case, Verdict.PREFILL_QUEUE, [found], [found])
    assert steps[1] == (query or 'pdscope_deployment_itl_p50_seconds{deployment="pd"}')


def test_what_stands_in_is_what_is_over() -> None:
    """TTFT where no objective is broken."""
    found = held(evidence=(evidence(SignalId.PREFILL_QUEUE),))
    for figures, latencies in (({SignalId.TTFT_P50: 9.0, SignalId.ITL_P50: 9.0}, ["ttft", "itl"]), ({}, ["ttft"])):
        steps = next_steps(Case(deployment(), signal_set(figures)), Verdict.PREFILL_QUEUE, [found], [found])
        assert steps[1:] == tuple(f'pdscope_deployment_{name}_p50_seconds{{deployment="pd"}}' for name in latencies)


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
            command, _, remark = text.format(url="http://h:1").partition("  # ")
            assert command.startswith("curl -X POST http://h:1/start_profile")
            assert all(shlex.split(part) for part in command.split("&&"))
            assert "TORCH_PROFILER_DIR" in remark
    sglang = told["sglang"].profiling
    assert "--pd-separated --profile-prefill-url" in sglang[Role.PREFILL]
    assert "decode-url" not in sglang[Role.PREFILL]
    assert "--pd-separated --profile-decode-url" in sglang[Role.DECODE]
    for router in ("smg", "vllm_router", "dynamo", "llm_d"):
        workers = told[router].workers
        assert workers is not None
        assert workers.format(url="http://h:1").startswith("curl -s http://h:1/metrics | grep ")


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
    assert text == f"31 requests wait on p0, and no rule sees a limit reached{said}."
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


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_devices_of_others_have_a_step(count: int) -> None:
    """One, whatever the number of instances; it names the first two."""
    named = [f"d{n}" for n in range(count)]
    figures = changed({}, *(on(name, {SignalId.FOREIGN_DEVICES: 4.0}) for name in named))
    case = Case(deployment(*(instance(f"d{n}", Role.DECODE) for n in range(3))), signal_set(figures))
    steps = [step for step in next_steps(case, Verdict.HEALTHY, [], []) if "select" in step]
    assert len(steps) == min(count, 1)
    assert [name for name in named if any(f"{name} (" in step for step in steps)] == named[:2]
    assert any("and 1 more" in step for step in steps) == (count == 3)


@pytest.mark.parametrize(("blind", "asked"), [([], 0), ([0], 1)])
def test_doctor_is_a_step_wherever_data_are_lost(blind: list[int], asked: int) -> None:
    """Also beside a verdict that was found without them."""
    of = deployment(instance("d0", Role.DECODE))
    silent = {SignalId.SILENT_SCRAPES: 3.0, SignalId.ANSWERS: 1.0}
    case = Case(of, signal_set(changed({}, *(on(f"d{n}", silent) for n in blind))))
    steps = next_steps(case, Verdict.UNDETERMINED, [], list(TELEMETRY_LOST.evaluate(case)))
    assert len([step for step in steps if step.startswith("pdscope doctor --config.file=")]) == asked


@pytest.mark.parametrize(("answers", "asked"), [(1.0, 1), (None, 1), (0.0, 0)])
def test_a_router_that_does_not_answer_is_not_asked(answers: float | None, asked: int) -> None:
    """Nothing would come of it."""
    router = instance("r0", Role.ROUTER, profile=load_plugins().profile("smg"))
    case = Case(deployment(router), signal_set(changed({}, on("r0", {SignalId.ANSWERS: answers}))))
    steps = next_steps(case, Verdict.UNDETERMINED, [], [])
    assert len([step for step in steps if step.startswith("ask r0")]) == asked
