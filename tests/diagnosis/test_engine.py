"""The engine: which rules run, which of their answers is the verdict, and what is shown of the others."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from pdscope.diagnosis import rules as rules_package
from pdscope.diagnosis.base import Case, Rule, bench
from pdscope.diagnosis.engine import ORDER, Judgement, discover, judge, threshold_defaults
from pdscope.diagnosis.remedies import CATALOGUE, adds_instances
from pdscope.model.finding import Confidence, Finding, Op, Phase, Truth, Verdict
from pdscope.model.signal import SignalId, instance_scope
from pdscope.model.topology import Instance, Role
from support.signals import CALM, STORIES, Figures, changed, deployment, instance, on, signal_set, verdict_of

ALL = discover()
FALLBACK = {Verdict.UNDETERMINED, Verdict.IDLE, Verdict.HEALTHY}
DECODERS = tuple(instance(f"d{n}", Role.DECODE) for n in range(3))


def said(rule: Rule, case: Case, truth: Truth = Truth.TRUE, about: Instance | None = None, **fields: object) -> Finding:
    board = bench(rule, case, about)
    board.weigh(SignalId.REQUESTS_FINISHED, Op.GE, 0.0)
    return board.finding(truth, **{"headline": f"{rule.id} 1", "decisive": (SignalId.REQUESTS_FINISHED,)} | fields)


def says(name: str, truth: Truth = Truth.TRUE, *, about: Instance | None = None, **fields: object) -> Rule:
    """A rule that always gives this answer."""
    verdict = Verdict(name) if name in [*Verdict] else None
    remedies = fields.pop("remedies", ())

    def evaluate(case: Case) -> Iterator[Finding]:
        yield said(rule, case, truth, about, **fields)

    rule = Rule(name, verdict, evaluate, remedies=remedies, fallback=verdict in FALLBACK)
    return rule


def answer(*rules: Rule, figures: Figures = CALM) -> Judgement:
    return judge(deployment(), signal_set(figures), rules, at=1000.0, window_seconds=60.0)


# --- discovery


def test_discovers_every_module() -> None:
    """One rule a file, by its name; no list is kept."""
    folder = Path(rules_package.__path__[0])
    assert [rule.id for rule in ALL] == sorted(p.stem for p in folder.glob("*.py") if p.stem != "__init__")
    assert len(ALL) > 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "RULE = 'prefill_queue'",
        "from pdscope.diagnosis.base import Rule\nRULE = Rule('another_name', None, lambda case: ())",
    ],
    ids=["no rule", "not a rule", "another name"],
)
def test_a_module_without_its_rule_is_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """It is found at the start, not when its verdict is missed."""
    tmp_path.joinpath("half_done.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(rules_package, "__path__", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, f"{rules_package.__name__}.half_done", raising=False)
    with pytest.raises(TypeError, match="rule module half_done defines no RULE of that id"):
        discover()


def test_a_new_file_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is its id."""
    text = "from pdscope.diagnosis.base import Rule\nRULE = Rule('brand_new', None, lambda case: ())"
    tmp_path.joinpath("brand_new.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(rules_package, "__path__", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, f"{rules_package.__name__}.brand_new", raising=False)
    assert [rule.id for rule in discover()] == ["brand_new"]


# --- what rules declare


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.id)
def test_rules_declare_what_they_use(rule: Rule) -> None:
    """A verdict of that name or none; thresholds with a reason; remedies of the catalogue, none twice."""
    assert rule.verdict is None or rule.verdict.value == rule.id
    names = [t.name for t in rule.thresholds]
    assert len(set(names)) == len(names)
    assert all(t.name.isidentifier() and len(t.why.split()) >= 3 for t in rule.thresholds)
    assert len(set(rule.remedies)) == len(rule.remedies)
    assert set(rule.remedies) <= set(CATALOGUE)


def test_threshold_defaults_are_all_listed() -> None:
    """`rule.name`, for the configuration's documentation and its checks."""
    defaults = threshold_defaults(ALL)
    assert len(defaults) == sum(len(rule.thresholds) for rule in ALL)
    assert defaults["kv_transfer_bandwidth.utilization"] == 0.9
    assert threshold_defaults([]) == {}


def test_thresholds_of_the_deployment_are_used() -> None:
    """By `rule.name`."""
    full = STORIES["kv_transfer_bandwidth"]
    lenient = deployment(thresholds={"kv_transfer_bandwidth.utilization": 2.0})
    assert verdict_of(full).diagnosis.verdict is Verdict.KV_TRANSFER_BANDWIDTH
    assert verdict_of(full, lenient).diagnosis.verdict is Verdict.UNDETERMINED


# --- the order of evidence


def test_order_has_every_verdict_once() -> None:
    """Exactly one verdict: none can be forgotten."""
    assert sorted(ORDER) == sorted(Verdict)


@pytest.mark.parametrize(("first", "second"), list(pairwise(ORDER)))
def test_the_first_in_the_order_is_the_verdict(first: Verdict, second: Verdict) -> None:
    """However strong the other, and in whatever order the rules ran."""
    strong, weak = says(second, strength=1.0), says(first, strength=0.1)
    for rules in ((weak, strong), (strong, weak)):
        diagnosis = answer(*rules).diagnosis
        assert diagnosis.verdict is first
        if not strong.fallback:
            assert {f.rule for f in diagnosis.findings if f.truth is Truth.TRUE} == {first, second}


@pytest.mark.parametrize("verdict", STORIES)
def test_each_rule_gives_its_verdict(verdict: str) -> None:
    """With all rules at work, on a plain case."""
    judgement = verdict_of(STORIES[verdict])
    assert judgement.failures == ()
    assert judgement.diagnosis.verdict == verdict
    assert judgement.diagnosis.stage is Verdict(verdict).stage


def test_every_rule_of_a_verdict_has_a_story() -> None:
    """A new rule brings its plain case to tests/support/signals.py."""
    assert {rule.id for rule in ALL if rule.verdict is not None} == set(STORIES)


@pytest.mark.parametrize(
    ("cause", "symptom"),
    [
        ("decode_kv_capacity", "kv_transfer_bandwidth"),
        ("decode_admission", "kv_transfer_bandwidth"),
        ("kv_transfer_bandwidth", "prefill_compute"),
        ("kv_transfer_failing", "decode_kv_capacity"),
        ("kv_transfer_failing", "prefill_queue"),
        ("decode_kv_capacity", "decode_admission"),
    ],
)
def test_cause_outranks_symptom(cause: str, symptom: str) -> None:
    """Both hold and both are shown; the one earlier in the order of evidence is the answer."""
    merged = {**CALM, **difference(symptom), **difference(cause)}
    diagnosis = verdict_of(merged).diagnosis
    assert diagnosis.verdict == cause
    assert {cause, symptom} <= {f.rule for f in diagnosis.findings if f.truth is Truth.TRUE}


def hinted(
    name: str,
    *,
    about: Instance | None = None,
    on: Iterable[str] = (),
    before: Verdict | None = None,
    outranks: tuple[Verdict, ...] = (),
) -> Rule:
    """A rule that holds, and says where it stands in the order."""

    def evaluate(case: Case) -> Iterator[Finding]:
        found = said(rule, case, about=about, culprits=tuple(on))
        yield replace(found, before=before, outranks=outranks)

    rule = Rule(name, Verdict(name), evaluate)
    return rule


def decided(*rules: Rule) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict and the culprits, in whatever order the rules ran."""
    found = {(d.verdict, d.culprits) for d in (answer(*rules).diagnosis, answer(*rules[::-1]).diagnosis)}
    assert len(found) == 1
    return found.pop()


@pytest.mark.parametrize(
    "before",
    [v for v in ORDER if v not in {Verdict.METRICS_UNTRUSTED, Verdict.WORKLOAD_MISMATCH} | FALLBACK],
)
def test_a_finding_may_stand_right_before_another_verdict(before: Verdict) -> None:
    """Earlier or later than its own place: after all that comes before that verdict, and before it."""
    moved = hinted("workload_mismatch", before=before)
    assert decided(moved, says(before))[0] is Verdict.WORKLOAD_MISMATCH
    ahead = next(v for v in reversed(ORDER[: ORDER.index(before)]) if v is not Verdict.WORKLOAD_MISMATCH)
    assert decided(moved, says(ahead))[0] is ahead


def test_the_finding_that_stands_first_speaks_for_its_verdict() -> None:
    """Not a stronger one of the same rule that stands later."""

    def evaluate(case: Case) -> Iterator[Finding]:
        yield said(rule, case, strength=1.0, headline="late 1", culprits=("d0",))
        early = said(rule, case, strength=0.1, headline="early 1", culprits=("d1",))
        yield replace(early, before=Verdict.DECODE_KV_CAPACITY)

    rule = Rule("workload_mismatch", Verdict.WORKLOAD_MISMATCH, evaluate)
    diagnosis = answer(rule, says("decode_admission")).diagnosis
    assert (diagnosis.verdict, diagnosis.culprits, diagnosis.summary) == (
        Verdict.WORKLOAD_MISMATCH,
        ("d1",),
        "Early 1.",
    )


ADMISSION = (Verdict.DECODE_ADMISSION,)


@pytest.mark.parametrize(
    ("symptoms", "causes", "verdict"),
    [
        (("d0",), ("d0", "d1"), Verdict.ROUTER_IMBALANCE),
        (("d0", "d1"), ("d0", "d1"), Verdict.ROUTER_IMBALANCE),
        (("d0", "d2"), ("d0", "d1"), Verdict.DECODE_ADMISSION),
        (("d2",), ("d0", "d1"), Verdict.DECODE_ADMISSION),
        ((), ("d0", "d1"), Verdict.DECODE_ADMISSION),
        (("d0",), (), Verdict.DECODE_ADMISSION),
    ],
    ids=["one of the hot", "all of the hot", "also elsewhere", "only elsewhere", "nobody's", "nobody to blame"],
)
def test_a_cause_outranks_its_symptom_on_its_culprits(
    symptoms: tuple[str, ...], causes: tuple[str, ...], verdict: Verdict
) -> None:
    """And nowhere else; both stay in sight."""
    rules = [hinted("decode_admission", on=symptoms), hinted("router_imbalance", on=causes, outranks=ADMISSION)]
    assert decided(*rules)[0] is verdict
    assert {f.rule for f in answer(*rules).diagnosis.findings} == {"decode_admission", "router_imbalance"}


def test_a_symptom_on_several_instances_needs_a_cause_on_each() -> None:
    """One queue that nothing explains is a cause, and then all of its instances are named."""

    def queues(case: Case) -> Iterator[Finding]:
        for one in DECODERS[:2]:
            yield said(rule, case, about=one, culprits=(one.name,))

    rule = Rule("decode_admission", Verdict.DECODE_ADMISSION, queues)
    half = hinted("router_imbalance", on=["d0"], outranks=ADMISSION)
    assert decided(rule, half) == (Verdict.DECODE_ADMISSION, ("d0", "d1"))
    both = hinted("hardware_degraded", on=["d1"], outranks=ADMISSION)
    assert decided(rule, half, both)[0] is Verdict.ROUTER_IMBALANCE


def test_what_is_explained_away_leaves_the_order_as_it_is() -> None:
    """Whatever else holds before the cause is the answer."""
    cause = hinted("router_imbalance", on=["d0"], outranks=ADMISSION)
    assert (
        decided(hinted("decode_admission", on=["d0"]), says("kv_transfer_path"), cause)[0] is Verdict.KV_TRANSFER_PATH
    )


def test_two_verdicts_never_explain_each_other_away() -> None:
    """The earlier needs no hint: it comes first, unless the later one explains it."""
    one = hinted("decode_admission", on=["d0"], outranks=(Verdict.ROUTER_IMBALANCE,))
    assert decided(one, hinted("router_imbalance", on=["d0"]))[0] is Verdict.DECODE_ADMISSION
    assert decided(one, hinted("router_imbalance", on=["d0"], outranks=ADMISSION))[0] is Verdict.ROUTER_IMBALANCE


@pytest.mark.parametrize("truth", [Truth.FALSE, Truth.UNKNOWN])
def test_a_cause_that_does_not_hold_explains_nothing(truth: Truth) -> None:
    """A hint is worth what its finding is."""

    def evaluate(case: Case) -> Iterator[Finding]:
        found = replace(said(rule, case, truth), culprits=("d0",), outranks=(Verdict.DECODE_ADMISSION,))
        yield replace(found, before=Verdict.METRICS_UNTRUSTED)

    rule = Rule("router_imbalance", Verdict.ROUTER_IMBALANCE, evaluate)
    assert decided(rule, hinted("decode_admission", on=["d0"]))[0] is Verdict.DECODE_ADMISSION


def difference(story: str) -> Figures:
    """What a story changes in a calm deployment."""
    return {place: value for place, value in STORIES[story].items() if CALM.get(place) != value}


def test_findings_beside_the_verdict_never_replace_it() -> None:
    """A rule without a verdict does not even keep the fallback rules from running."""
    diagnosis = answer(says("beside_it", strength=1.0), says("healthy")).diagnosis
    assert diagnosis.verdict is Verdict.HEALTHY
    assert [f.rule for f in diagnosis.findings if f.truth is Truth.TRUE] == ["healthy", "beside_it"]


def test_findings_of_the_verdict_come_first_and_of_the_others_verdicts_before_what_stands_beside() -> None:
    """However strong the others are; what is not decided stands in the order of evidence."""
    rules = (
        says("a_note", Truth.UNKNOWN),
        says("prefill_queue", Truth.UNKNOWN),
        says("decode_admission", strength=0.1),
        says("host_bound", Truth.UNKNOWN),
        says("kv_transfer_path", strength=1.0),
        says("b_note", strength=0.5),
    )
    shown = [f.rule for f in answer(*rules).diagnosis.findings]
    assert shown == ["decode_admission", "kv_transfer_path", "b_note", "host_bound", "prefill_queue", "a_note"]


@pytest.mark.parametrize("truth", [Truth.FALSE, Truth.UNKNOWN])
def test_fallback_rules_run_only_when_nothing_else_holds(truth: Truth) -> None:
    """They say what is left, not what is wrong."""
    left = answer(says("prefill_queue", truth), says("healthy")).diagnosis
    assert (left.verdict, [f.rule for f in left.findings]) == (Verdict.HEALTHY, ["healthy", "prefill_queue"])
    wrong = answer(says("prefill_queue"), says("healthy")).diagnosis
    assert (wrong.verdict, [f.rule for f in wrong.findings]) == (Verdict.PREFILL_QUEUE, ["prefill_queue"])


@pytest.mark.parametrize("rules", [(), (says("prefill_queue", Truth.UNKNOWN), says("healthy", Truth.UNKNOWN))])
def test_nothing_that_holds_is_insufficient_data(rules: Iterable[Rule]) -> None:
    """Not healthy: nobody has seen that it is."""
    diagnosis = answer(*rules).diagnosis
    assert (diagnosis.verdict, diagnosis.confidence) == (Verdict.INSUFFICIENT_DATA, Confidence.LOW)
    assert diagnosis.summary.startswith("Cannot tell: 300 requests finished")
    assert diagnosis.culprits == ()


def test_strongest_scope_speaks_and_all_are_culprits() -> None:
    """The headline is that of the worst instance, the culprits are listed from the worst on."""

    def evaluate(case: Case) -> Iterator[Finding]:
        for about, strength in zip(DECODERS, (0.2, 0.9, 0.5), strict=True):
            yield said(rule, case, about=about, strength=strength, headline=f"{about.name} 1", culprits=(about.name,))

    rule = Rule("decode_admission", Verdict.DECODE_ADMISSION, evaluate)
    diagnosis = answer(rule).diagnosis
    assert diagnosis.culprits == ("d1", "d2", "d0")
    assert diagnosis.summary == "d1 1; the same on 2 more."
    assert [f.scope.name for f in diagnosis.findings] == ["d1", "d2", "d0"]


# --- a rule that raises


def test_a_rule_that_raises_is_counted_and_silences_nobody() -> None:
    """The others are judged, and the answer is a little less sure."""

    def broken(case: Case) -> Iterator[Finding]:
        yield said(half, case, about=DECODERS[0])
        raise ZeroDivisionError("a mistake of ours")

    half = Rule("kv_transfer_failing", Verdict.KV_TRANSFER_FAILING, broken)
    whole = answer(says("prefill_queue"))
    assert (whole.failures, whole.diagnosis.confidence) == ((), Confidence.HIGH)
    for rules in ((half, says("prefill_queue")), (says("prefill_queue"), half)):
        judgement = answer(*rules)
        assert [(f.rule, type(f.error)) for f in judgement.failures] == [("kv_transfer_failing", ZeroDivisionError)]
        assert "prefill_queue" in {f.rule for f in judgement.diagnosis.findings if f.truth is Truth.TRUE}
        assert judgement.diagnosis.confidence is Confidence.MEDIUM


def test_a_fallback_rule_that_raises_is_counted_too() -> None:
    """What remains is that nobody can tell."""

    def broken(case: Case) -> Iterator[Finding]:
        raise KeyError(case.deployment.name)

    judgement = answer(Rule("healthy", Verdict.HEALTHY, broken, fallback=True))
    assert [f.rule for f in judgement.failures] == ["healthy"]
    assert judgement.diagnosis.verdict is Verdict.INSUFFICIENT_DATA


# --- what is shown


def test_of_what_does_not_hold_one_finding_a_rule_is_shown() -> None:
    """The nearest to an answer: a thousand instances have a thousand `false`."""

    def evaluate(case: Case) -> Iterator[Finding]:
        for about, truth in zip(DECODERS, (Truth.FALSE, Truth.UNKNOWN, Truth.FALSE), strict=True):
            yield said(rule, case, truth, about)

    rule = Rule("decode_admission", Verdict.DECODE_ADMISSION, evaluate)
    shown = answer(rule, says("healthy")).diagnosis.findings
    assert [(f.rule, f.truth) for f in shown] == [("healthy", Truth.TRUE), ("decode_admission", Truth.UNKNOWN)]
    assert shown[1].scope == instance_scope("d1")


def test_of_what_holds_everything_is_shown_first() -> None:
    """Then unknown, then false; the strongest and then the name decide within."""
    rules = [
        says("prefill_queue", Truth.FALSE),
        says("kv_pinned", Truth.UNKNOWN),
        says("decode_admission", Truth.UNKNOWN),
        says("prefill_compute", strength=0.3),
        says("kv_transfer_setup", strength=0.8),
        says("b_finding", strength=0.3),
    ]
    shown = [(f.rule, f.truth) for f in answer(*rules).diagnosis.findings]
    assert shown == [
        ("kv_transfer_setup", Truth.TRUE),
        ("b_finding", Truth.TRUE),
        ("prefill_compute", Truth.TRUE),
        ("decode_admission", Truth.UNKNOWN),
        ("kv_pinned", Truth.UNKNOWN),
        ("prefill_queue", Truth.FALSE),
    ]


def test_a_finding_that_holds_hides_those_of_its_rule_that_do_not() -> None:
    """One bad instance of three is one finding."""
    both = deployment(instance("p0", Role.PREFILL), *DECODERS)
    seen = {(i.name, SignalId.SCRAPES): 13.0 for i in DECODERS}
    shown = verdict_of(changed(STORIES["decode_kv_capacity"], seen), both).diagnosis.findings
    assert [f.scope.name for f in shown if f.rule == "decode_kv_capacity"] == ["d0"]


# --- remedies that would not help


@pytest.mark.parametrize("truth", [*Truth])
def test_instances_are_not_added_beside_a_full_link(truth: Truth) -> None:
    """More prefill or decode only asks more of it: the remedy is withheld from every finding, but only then."""
    limited = says("prefill_compute", remedies=("add_prefill", "shed_load"))
    short = says("decode_admission", remedies=("add_decode",))
    diagnosis = answer(says("kv_transfer_bandwidth", truth), limited, short).diagnosis
    proposed = {f.rule: [r.id for r in f.remedies] for f in diagnosis.findings}
    withheld = truth is Truth.TRUE
    assert proposed["prefill_compute"] == (["shed_load"] if withheld else ["add_prefill", "shed_load"])
    assert proposed["decode_admission"] == ([] if withheld else ["add_decode"])


def test_full_link_and_prefill_at_its_limit() -> None:
    """The same with the real rules."""
    both = {**CALM, **difference("prefill_compute"), **difference("kv_transfer_bandwidth")}
    diagnosis = verdict_of(both).diagnosis
    assert diagnosis.verdict is Verdict.KV_TRANSFER_BANDWIDTH
    remedies = {f.rule: f.remedies for f in diagnosis.findings if f.truth is Truth.TRUE}
    assert remedies["prefill_compute"]
    assert not any(adds_instances(r) for found in remedies.values() for r in found)


# --- verdicts of single instances


def test_each_instance_has_its_own_verdict() -> None:
    """That of the instance, by the same order; the link's is nobody's."""
    diagnosis = verdict_of({**CALM, **difference("prefill_queue"), **difference("kv_transfer_bandwidth")}).diagnosis
    assert diagnosis.verdict is Verdict.KV_TRANSFER_BANDWIDTH
    assert diagnosis.worker_verdicts == {"p0": Verdict.PREFILL_QUEUE, "d0": Verdict.HEALTHY}


EMPTY: dict[SignalId, float | None] = {
    SignalId.WORK_MOST: 0.0,
    SignalId.GENERATION_RATE: 0.0,
    SignalId.DEVICE_BUSY: 0.04,
    SignalId.DECODE_BUSY: None,
    SignalId.PREFILL_BUSY: None,
}


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, Verdict.HEALTHY),
        ({SignalId.SCRAPES: 1.0}, Verdict.INSUFFICIENT_DATA),
        ({SignalId.SCRAPES: None}, Verdict.INSUFFICIENT_DATA),
        ({SignalId.SCRAPES: 2.0}, Verdict.HEALTHY),
        (EMPTY, Verdict.IDLE),
        ({**EMPTY, SignalId.GENERATION_RATE: None, SignalId.DEVICE_BUSY: None}, Verdict.IDLE),
        ({**EMPTY, SignalId.GENERATION_RATE: 9.0}, Verdict.HEALTHY),
        ({**EMPTY, SignalId.WORK_MOST: None}, Verdict.HEALTHY),
        ({**EMPTY, SignalId.WORK_MOST: 1.0}, Verdict.HEALTHY),
        ({**EMPTY, SignalId.DEVICE_BUSY: 0.06}, Verdict.HEALTHY),
        ({**EMPTY, SignalId.DEVICE_BUSY: 0.5, SignalId.FOREIGN_DEVICES: 4.0}, Verdict.IDLE),
        ({**EMPTY, SignalId.PREFILL_BUSY: 0.4}, Verdict.HEALTHY),
        ({SignalId.SILENT_SCRAPES: 3.0, SignalId.ANSWERS: 1.0}, Verdict.INSUFFICIENT_DATA),
        ({SignalId.SILENT_SCRAPES: 2.0, SignalId.ANSWERS: 1.0}, Verdict.HEALTHY),
    ],
)
def test_an_instance_of_which_no_rule_holds(changes: dict[SignalId, float | None], verdict: Verdict) -> None:
    """Not seen twice, or not any more; without work that leaves a trace; or well."""
    pair = deployment(instance("p0", Role.PREFILL), *DECODERS[:2])
    figures = changed(CALM, on("d1", {SignalId.SCRAPES: 13.0}), on("d0", changes))
    assert verdict_of(figures, pair).diagnosis.worker_verdicts["d0"] is verdict


def test_an_instance_takes_the_first_in_the_order() -> None:
    """Two rules hold on it."""
    rules = [says("prefill_queue", about=DECODERS[0]), says("decode_admission", about=DECODERS[0])]
    assert answer(*rules).diagnosis.worker_verdicts["d0"] is Verdict.DECODE_ADMISSION


def test_an_instance_bears_what_it_is_a_culprit_of() -> None:
    """A finding about the fullest one names the other hot ones too; of each the cause is told, not the symptom."""
    members = deployment(instance("p0", Role.PREFILL), *DECODERS)
    figures = changed(CALM, *(on(name, {SignalId.SCRAPES: 13.0}) for name in ("d1", "d2")))
    rules = [
        hinted("decode_admission", about=DECODERS[0], on=["d0"]),
        hinted("router_imbalance", about=DECODERS[0], on=["d0", "d1"], outranks=ADMISSION),
        hinted("kv_transfer_path", on=["d2"]),
    ]
    verdicts = judge(members, signal_set(figures), rules, at=1000.0, window_seconds=60.0).diagnosis.worker_verdicts
    assert verdicts == {
        "p0": Verdict.HEALTHY,
        "d0": Verdict.ROUTER_IMBALANCE,
        "d1": Verdict.ROUTER_IMBALANCE,
        "d2": Verdict.HEALTHY,
    }


# --- the diagnosis itself


def test_the_diagnosis_is_complete() -> None:
    """Time, window, phase, culprits, next steps."""
    diagnosis = verdict_of(STORIES["decode_admission"]).diagnosis
    assert (diagnosis.deployment, diagnosis.at, diagnosis.since, diagnosis.window_seconds) == (
        "pd",
        1000.0,
        1000.0,
        60.0,
    )
    assert (diagnosis.phase, diagnosis.culprits, diagnosis.pending) == (Phase.PREFILL, ("d0",), None)
    assert set(diagnosis.worker_verdicts) == {"p0", "d0"}
    assert diagnosis.next_steps
