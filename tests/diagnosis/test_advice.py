"""What is offered of all remedies: the verdict's own first, no symptom treated, no two that undo each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest

from pdscope.diagnosis.advice import Advice, Place, advise, own_first
from pdscope.diagnosis.base import Rule
from pdscope.diagnosis.engine import discover
from pdscope.diagnosis.remedies import CATALOGUE
from pdscope.model.finding import Finding, Remedy, Truth, Verdict
from pdscope.model.signal import Scope, ScopeKind, SignalId
from support.signals import CALM, STORIES, changed, finding, on, verdict_of

WHERE = Scope(ScopeKind.DEPLOYMENT, "pd")
RULES = {rule.id: rule for rule in discover()}
OPPOSITES = sorted((one, other) for one, entry in CATALOGUE.items() for other in entry.undoes)


def found(
    rule: str,
    *remedies: str,
    on: Sequence[str] = (),
    truth: Truth = Truth.TRUE,
    outranks: tuple[Verdict, ...] = (),
) -> Finding:
    verdict = Verdict(rule) if rule in [*Verdict] else None
    made = tuple(Remedy(name, f"do {name}", "costs", "if") for name in remedies)
    its = RULES[rule]
    return Finding(
        rule,
        WHERE,
        truth,
        verdict,
        remedies=made,
        culprits=tuple(on),
        outranks=outranks,
        covers=its.covers,
        covers_culprits_only=its.covers_culprits_only,
        urgent=its.urgent,
    )


def shape(advice: Sequence[Advice]) -> list[tuple[Place, str, list[str]]]:
    return [(group.place, group.rule, [r.id for r in group.remedies]) for group in advice]


def test_the_verdict_s_own_come_first_and_a_few_beside_it() -> None:
    """However the findings are ordered; each remedy stands once, with the first that needs it."""
    findings = [
        found("itl_unstable", "equal_parallelism", "shed_load", "cool_device", "drain_device"),
        found("frontend_bound", "add_instances", "shed_load", on=["d0"]),
        found("link_shared", "separate_traffic", "use_more_nics", "faster_link"),
        found("scrape_cost", "scrape_less"),
        found("frontend_bound", "free_cpu", "add_instances", on=["d1"]),
    ]
    advice = advise(Verdict.FRONTEND_BOUND, findings)
    assert shape(advice) == [
        (Place.VERDICT, "frontend_bound", ["add_instances", "shed_load", "free_cpu"]),
        (Place.BESIDE, "itl_unstable", ["equal_parallelism", "cool_device"]),
        (Place.BESIDE, "link_shared", ["separate_traffic", "use_more_nics"]),
    ]
    assert advice[0].culprits == ("d0", "d1")


@pytest.mark.parametrize("truth", [Truth.FALSE, Truth.UNKNOWN])
def test_what_does_not_hold_is_not_treated(truth: Truth) -> None:
    """Whatever remedies it carries."""
    assert advise(Verdict.HEALTHY, [found("pd_ratio", "add_prefill", truth=truth)]) == ()


def test_what_is_urgent_comes_before_the_verdict() -> None:
    """A wrong answer is stopped before anything is made quicker; then what is dead is started."""
    late, dead = {SignalId.LATE_KV_READS: 0.02}, {SignalId.SILENT_SCRAPES: 3.0, SignalId.ANSWERS: 0.0}
    diagnosis = verdict_of(changed(STORIES["decode_admission"], on("p0", late), on("d0", dead))).diagnosis
    places = [(group.place, group.rule) for group in advise(diagnosis.verdict, diagnosis.findings)]
    assert places[:3] == [
        (Place.FIRST, "late_kv_read"),
        (Place.FIRST, "instance_down"),
        (Place.VERDICT, diagnosis.verdict),
    ]


@pytest.mark.parametrize(("one", "other"), OPPOSITES)
def test_opposites_never_stand_together(one: str, other: str) -> None:
    """The first that is offered wins, also within one finding."""
    for first, second in ((one, other), (other, one)):
        beside = [found("itl_unstable", second), found("host_bound", first)]
        assert shape(advise(Verdict.HOST_BOUND, beside)) == [(Place.VERDICT, "host_bound", [first])]
        within = [found("host_bound", first, second)]
        assert shape(advise(Verdict.HOST_BOUND, within)) == [(Place.VERDICT, "host_bound", [first])]


@pytest.mark.parametrize(
    ("verdict", "symptom"),
    [
        (Verdict.KV_PINNED, "kv_lease_expired"),
        (Verdict.DECODE_KV_CAPACITY, "decode_admission"),
        (Verdict.DECODE_ADMISSION, "prefill_queue"),
        (Verdict.KV_TRANSFER_BANDWIDTH, "prefill_queue"),
        (Verdict.KV_TRANSFER_FAILING, "decode_starved"),
        (Verdict.ROUTER_IMBALANCE, "pd_ratio"),
        (Verdict.DECODE_HBM_BANDWIDTH, "itl_unstable"),
    ],
)
def test_a_symptom_is_not_treated(verdict: Verdict, symptom: str) -> None:
    """It goes with its cause; beside health, or when the cause is over, it counts."""
    finding = found(symptom, "free_cpu")
    assert shape(advise(verdict, [finding, found(verdict, "drain_device")])) == [
        (Place.VERDICT, verdict, ["drain_device"])
    ]
    assert shape(advise(verdict, [finding])) == [(Place.BESIDE, symptom, ["free_cpu"])]


def test_a_hot_instance_explains_its_own_queue_only() -> None:
    """The queue of another instance is treated beside it."""
    cause = found("router_imbalance", "router_policy", on=["p0"])
    for names, treated in ((["p0"], False), (["p0", "p1"], True), (["p1"], True)):
        advice = advise(Verdict.ROUTER_IMBALANCE, [cause, found("prefill_queue", "raise_token_budget", on=names)])
        assert (len(advice) == 2) is treated


def test_a_slow_instance_explains_no_queue_elsewhere() -> None:
    """With the rules at work: what they say of themselves is in their findings."""
    rule = RULES["hardware_degraded"]
    slow = replace(finding(rule, STORIES["hardware_degraded"], about="d0"), culprits=("p0",))
    assert slow.truth is Truth.TRUE
    for name, places in (("p0", [Place.VERDICT]), ("p1", [Place.VERDICT, Place.BESIDE])):
        queue = found("prefill_queue", "raise_token_budget", on=[name])
        assert [g.place for g in advise(Verdict.HARDWARE_DEGRADED, [slow, queue])] == places


def test_what_a_cause_says_that_it_explains_is_no_table_s_matter() -> None:
    """`outranks` of a finding of the verdict, on its culprits."""
    cause = found("frontend_bound", "add_instances", on=["d0"], outranks=(Verdict.DECODE_HBM_BANDWIDTH,))
    for names, treated in ((["d0"], False), (["d1"], True)):
        advice = advise(Verdict.FRONTEND_BOUND, [cause, found("decode_hbm_bandwidth", "limit_running", on=names)])
        assert (len(advice) == 2) is treated


@pytest.mark.parametrize("verdict", [Verdict.METRICS_UNTRUSTED, Verdict.INSUFFICIENT_DATA])
def test_nobody_acts_on_another_verdict_while_figures_are_doubted(verdict: Verdict) -> None:
    """What stands beside all verdicts is told by other figures."""
    findings = [found("host_bound", "free_cpu"), found("telemetry_lost", "restore_metrics")]
    assert shape(advise(verdict, findings)) == [(Place.BESIDE, "telemetry_lost", ["restore_metrics"])]


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_a_rule_covers_rules_that_exist(rule: Rule) -> None:
    """One that is renamed must not drop out; and none explains itself away."""
    assert rule.covers <= RULES.keys() - {rule.id}
    assert rule.covers or not rule.covers_culprits_only


@pytest.mark.parametrize(("one", "other"), OPPOSITES)
def test_of_two_opposites_one_says_so(one: str, other: str) -> None:
    """Both exist, and the pair stands there once."""
    assert other in CATALOGUE
    assert (other, one) not in OPPOSITES
    assert one != other


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("other", STORIES)
def test_no_real_answer_contradicts_itself(story: str, other: str) -> None:
    """Any two stories at once, with all rules at work."""
    merged = changed(CALM, {k: v for k, v in STORIES[other].items() if CALM.get(k) != v}, STORIES[story])
    diagnosis = verdict_of(merged).diagnosis
    offered = [r.id for group in advise(diagnosis.verdict, diagnosis.findings) for r in group.remedies]
    assert len(set(offered)) == len(offered)
    assert not {*combinations(sorted(offered), 2)} & {(min(pair), max(pair)) for pair in OPPOSITES}


def test_pinned_prompts_are_not_kept_for_longer() -> None:
    """The leases that run out beside it are its symptom: nobody reads both `shorten` and `lengthen`."""
    expiring = changed(STORIES["kv_pinned"], on("p0", {"kv_leases_expired_per_second": 0.3}))  # type: ignore[dict-item]
    diagnosis = verdict_of(expiring).diagnosis
    assert {f.rule for f in diagnosis.findings if f.truth is Truth.TRUE} >= {"kv_pinned", "kv_lease_expired"}
    [group] = advise(diagnosis.verdict, diagnosis.findings)
    assert group.rule == "kv_pinned"
    assert "longer_lease" not in {r.id for r in group.remedies}


def test_own_first_keeps_the_order_of_the_rest() -> None:
    """Only those that hold move."""
    findings = [
        found("itl_unstable"),
        found("host_bound", truth=Truth.UNKNOWN),
        found("prefill_queue"),
        found("host_bound"),
    ]
    assert own_first(Verdict.HOST_BOUND, findings) == (findings[3], findings[0], findings[1], findings[2])
