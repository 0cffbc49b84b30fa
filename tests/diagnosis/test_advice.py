"""What is offered of all remedies: the verdict's own first, no symptom treated, no two that undo each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest

from pdscope.diagnosis.advice import _SYMPTOMS, OPPOSITES, URGENT, Advice, Place, advise, own_first
from pdscope.diagnosis.engine import discover
from pdscope.diagnosis.remedies import CATALOGUE
from pdscope.model.finding import Finding, Remedy, Truth, Verdict
from pdscope.model.signal import Scope, ScopeKind
from support.signals import CALM, STORIES, changed, on, verdict_of

WHERE = Scope(ScopeKind.DEPLOYMENT, "pd")


def found(
    rule: str,
    *remedies: str,
    on: Sequence[str] = (),
    truth: Truth = Truth.TRUE,
    outranks: tuple[Verdict, ...] = (),
) -> Finding:
    verdict = Verdict(rule) if rule in [*Verdict] else None
    made = tuple(Remedy(name, f"do {name}", "costs", "if") for name in remedies)
    return Finding(rule, WHERE, truth, verdict, remedies=made, culprits=tuple(on), outranks=outranks)


def shape(advice: Sequence[Advice]) -> list[tuple[Place, str, list[str]]]:
    return [(group.place, group.rule, [r.id for r in group.remedies]) for group in advice]


def test_the_verdict_s_own_come_first_and_a_few_beside_it() -> None:
    """However the findings are ordered; each remedy stands once, with the first that needs it."""
    findings = [
        found("itl_unstable", "a", "shed", "c", "d"),
        found("frontend_bound", "scale", "shed", on=["d0"]),
        found("link_shared", "e", "f", "g"),
        found("scrape_cost", "h"),
        found("frontend_bound", "look", "scale", on=["d1"]),
    ]
    advice = advise(Verdict.FRONTEND_BOUND, findings)
    assert shape(advice) == [
        (Place.VERDICT, "frontend_bound", ["scale", "shed", "look"]),
        (Place.BESIDE, "itl_unstable", ["a", "c"]),
        (Place.BESIDE, "link_shared", ["e", "f"]),
    ]
    assert advice[0].culprits == ("d0", "d1")


@pytest.mark.parametrize("truth", [Truth.FALSE, Truth.UNKNOWN])
def test_what_does_not_hold_is_not_treated(truth: Truth) -> None:
    """Whatever remedies it carries."""
    assert advise(Verdict.HEALTHY, [found("pd_ratio", "add_prefill", truth=truth)]) == ()


def test_what_is_dead_is_started_first() -> None:
    """Before the verdict that its absence makes; and a wrong answer is stopped before it is made quicker."""
    findings = [
        found("decode_admission", "raise_running_limit", on=["d1"]),
        found("late_kv_read", "fail_on_expiry"),
        found("instance_down", "restart_instance", on=["d0"]),
    ]
    assert shape(advise(Verdict.DECODE_ADMISSION, findings)) == [
        (Place.FIRST, "instance_down", ["restart_instance"]),
        (Place.FIRST, "late_kv_read", ["fail_on_expiry"]),
        (Place.VERDICT, "decode_admission", ["raise_running_limit"]),
    ]


@pytest.mark.parametrize(("one", "other"), OPPOSITES)
def test_opposites_never_stand_together(one: str, other: str) -> None:
    """The first that is offered wins, also within one finding."""
    assert {one, other} <= set(CATALOGUE)
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
    finding = found(symptom, "treat")
    assert shape(advise(verdict, [finding, found(verdict, "cure")])) == [(Place.VERDICT, verdict, ["cure"])]
    assert shape(advise(verdict, [finding])) == [(Place.BESIDE, symptom, ["treat"])]


def test_a_hot_instance_explains_its_own_queue_only() -> None:
    """The queue of another instance is treated beside it."""
    cause = found("router_imbalance", "router_policy", on=["p0"])
    for names, treated in ((["p0"], False), (["p0", "p1"], True), (["p1"], True)):
        advice = advise(Verdict.ROUTER_IMBALANCE, [cause, found("prefill_queue", "raise_token_budget", on=names)])
        assert (len(advice) == 2) is treated


def test_what_a_cause_says_that_it_explains_is_no_table_s_matter() -> None:
    """`outranks` of a finding of the verdict, on its culprits."""
    cause = found("frontend_bound", "scale", on=["d0"], outranks=(Verdict.DECODE_HBM_BANDWIDTH,))
    for names, treated in ((["d0"], False), (["d1"], True)):
        advice = advise(Verdict.FRONTEND_BOUND, [cause, found("decode_hbm_bandwidth", "limit_running", on=names)])
        assert (len(advice) == 2) is treated


@pytest.mark.parametrize("verdict", [Verdict.METRICS_UNTRUSTED, Verdict.INSUFFICIENT_DATA])
def test_nobody_acts_on_another_verdict_while_figures_are_doubted(verdict: Verdict) -> None:
    """What stands beside all verdicts is told by other figures."""
    findings = [found("host_bound", "free_cpu"), found("telemetry_lost", "restore_metrics")]
    assert shape(advise(verdict, findings)) == [(Place.BESIDE, "telemetry_lost", ["restore_metrics"])]


def test_tables_name_what_exists() -> None:
    """A rule that is renamed must not drop out of them."""
    rules = {rule.id for rule in discover()}
    assert set(URGENT) <= rules
    for verdict, symptoms in _SYMPTOMS.items():
        assert symptoms <= rules
        assert verdict.value not in symptoms


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("other", STORIES)
def test_no_real_answer_contradicts_itself(story: str, other: str) -> None:
    """Any two stories at once, with all rules at work."""
    merged = changed(CALM, {k: v for k, v in STORIES[other].items() if CALM.get(k) != v}, STORIES[story])
    diagnosis = verdict_of(merged).diagnosis
    offered = [r.id for group in advise(diagnosis.verdict, diagnosis.findings) for r in group.remedies]
    assert len(set(offered)) == len(offered)
    assert not {*combinations(sorted(offered), 2)} & {tuple(sorted(pair)) for pair in OPPOSITES}


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
