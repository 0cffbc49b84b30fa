"""What holds for any signals at all."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.diagnosis.engine import ORDER, discover, judge, threshold_defaults
from pdscope.diagnosis.phase import phase
from pdscope.diagnosis.remedies import adds_instances
from pdscope.model.finding import Confidence, Diagnosis, Finding, Stage, Truth, Verdict
from pdscope.model.signal import Quality, SignalId, SignalSet, instance_scope
from pdscope.model.topology import Deployment, Role, Slo
from support.signals import CALM, STORIES, Figure, Figures, Place, changed, deployment, instance, signal_set, verdict_of

RULES = discover()
NAMES = ("p0", "p1", "d0", "d1", "u0")
PLACES: list[Place] = [*SignalId, *((name, signal) for name in NAMES for signal in SignalId)]
# numbers at which rules turn are drawn often, any others as well
NUMBERS = st.one_of(
    st.sampled_from([0.0, 0.05, 0.2, 0.5, 0.7, 0.8, 0.9, 0.97, 1.0, 1.5, 2.0, 4.0, 9.0, 30.0, 4e10]),
    st.floats(min_value=0.0, max_value=1e15),
)
LIMITS = st.one_of(st.none(), st.floats(min_value=0.0, max_value=10.0))


@st.composite
def figures(draw: st.DrawFn) -> Figures:
    """A story, or nothing, with some signals replaced, added or lost: rules hold now and then."""
    told: dict[Place, float | Figure] = {**draw(st.sampled_from([{}, CALM, *STORIES.values()]))}
    for story in draw(st.lists(st.sampled_from(sorted(STORIES)), max_size=2)):
        told |= {place: value for place, value in STORIES[story].items() if CALM.get(place) != value}
    for place in draw(st.lists(st.sampled_from(sorted(told, key=str)), max_size=12)) if told else ():
        told.pop(place, None)
    places = st.one_of(st.sampled_from(PLACES), st.sampled_from(sorted(CALM, key=str)))
    for place in draw(st.lists(places, max_size=20)):
        value, quality = draw(NUMBERS), draw(st.sampled_from(Quality))
        bounds = draw(st.sampled_from([None, (value / 2, value * 2)]))
        told[place] = Figure(value, quality, bounds)
    return told


@st.composite
def deployments(draw: st.DrawFn) -> Deployment:
    """Any mixture of roles, objectives and thresholds."""
    roles = {"p": Role.PREFILL, "d": Role.DECODE, "u": Role.UNIFIED}
    names = draw(st.one_of(st.just(["p0", "d0"]), st.lists(st.sampled_from(NAMES), unique=True)))
    limits = draw(st.one_of(st.just([2.0, 0.05, None, None]), st.tuples(LIMITS, LIMITS, LIMITS, LIMITS)))
    slo = Slo(*limits[:1], *limits[2:3], itl_p50_seconds=limits[1], itl_p99_seconds=limits[3])
    thresholds = draw(st.dictionaries(st.sampled_from(sorted(threshold_defaults(RULES))), NUMBERS, max_size=3))
    members = tuple(instance(name, roles[name[0]]) for name in names)
    return Deployment("pd", deployment().model, members, slo, thresholds=thresholds)


def judged(of: Deployment, told: Figures) -> tuple[Diagnosis, list[Finding], SignalSet]:
    """The diagnosis, what holds in it, and the signals; no rule may fail on the way."""
    signals = signal_set(told)
    judgement = judge(of, signals, RULES, at=1000.0, window_seconds=60.0)
    assert judgement.failures == ()
    return judgement.diagnosis, [f for f in judgement.diagnosis.findings if f.truth is Truth.TRUE], signals


@given(deployments(), figures())
def test_one_verdict_which_is_the_first_that_holds(of: Deployment, told: Figures) -> None:
    """Never an exception, never two answers; without anything that holds nobody can tell."""
    diagnosis, holding, signals = judged(of, told)
    said = {f.verdict for f in holding if f.verdict is not None}
    if any(f.before or f.outranks for f in holding):  # a place of its own in the order, or a symptom explained
        assert diagnosis.verdict in said
    else:
        assert diagnosis.verdict is next((v for v in ORDER if v in said), Verdict.INSUFFICIENT_DATA)
    assert diagnosis.phase is phase(signals, of.slo)
    assert set(diagnosis.worker_verdicts) == {i.name for i in of.instances}
    assert set(diagnosis.culprits) <= {i.name for i in of.instances}


@given(deployments(), figures())
def test_findings_are_in_good_form(of: Deployment, told: Figures) -> None:
    """Finite numbers with a source; words and priced remedies where a rule holds, none where it does not."""
    diagnosis, _, _ = judged(of, told)
    known = {rule.id: rule for rule in RULES}
    for found in diagnosis.findings:
        for evidence in found.evidence:
            assert math.isfinite(evidence.value)
            assert math.isfinite(evidence.threshold)
            assert evidence.truth is not Truth.UNKNOWN
            assert evidence.source
            assert evidence.unit is evidence.signal.unit
        holds = found.truth is Truth.TRUE
        assert bool(found.headline) is holds
        assert 0.0 <= found.strength <= 1.0
        assert {r.id for r in found.remedies} <= {*known[found.rule].remedies, "add_instances"}
        assert all(r.cost and r.precondition for r in found.remedies)
        assert holds or not (found.remedies or found.culprits or found.strength)
        assert not (found.truth is Truth.FALSE and found.missing)
        assert len(set(found.missing)) == len(found.missing)


@given(deployments(), figures())
def test_summary_has_a_number(of: Deployment, told: Figures) -> None:
    """One sentence: a capital or a name as it is spelt, a digit, a full stop; and a page to read."""
    diagnosis, _, _ = judged(of, told)
    named = diagnosis.summary.partition(" ")[0].rstrip(",:;") in {i.name for i in of.instances}
    assert named or diagnosis.summary[0].isupper() or not diagnosis.summary[0].isalpha()
    assert any(c.isdigit() for c in diagnosis.summary)
    assert diagnosis.summary.endswith(".")
    assert diagnosis.next_steps[0] == f"pdscope explain {diagnosis.verdict}"


@given(deployments(), figures())
def test_sure_only_of_what_was_measured(of: Deployment, told: Figures) -> None:
    """High confidence hangs on measured evidence alone; a missing decisive signal makes it low."""
    diagnosis, holding, _ = judged(of, told)
    deciding = [f for f in holding if f.verdict is diagnosis.verdict]
    if diagnosis.confidence is Confidence.HIGH:
        strongest = max(deciding, key=lambda f: f.strength)
        assert strongest.decisive is Quality.MEASURED
        assert any(e.quality is Quality.MEASURED for e in strongest.evidence)
    if all(f.decisive is None for f in deciding):
        assert diagnosis.confidence is Confidence.LOW


@given(deployments(), figures())
def test_instances_are_never_added_beside_a_full_link(of: Deployment, told: Figures) -> None:
    """The key message: more prefill or decode only asks more of it."""
    diagnosis, holding, _ = judged(of, told)
    if any(f.rule == "kv_transfer_bandwidth" for f in holding):
        assert not any(adds_instances(r) for f in diagnosis.findings for r in f.remedies)


@given(deployments(), figures(), st.floats(0.8, 1.0), st.floats(0.2, 1.0), st.sampled_from([None, 0.0, 0.5, 0.99]))
def test_kv_in_flight_is_no_admission_problem(
    of: Deployment, told: Figures, usage: float, arriving: float, running_to_limit: float | None
) -> None:
    """A pool that only KV on its way fills, with slots free, never makes it decode's fault."""
    of = Deployment(of.name, of.model, of.instances, of.slo)  # with the thresholds as they come
    net = max(0.0, usage - arriving)
    crowd: dict[Any, float] = {}
    for name in ("d0", "d1"):
        for signal in (SignalId.RUNNING_TO_LIMIT, SignalId.KV_FREE_REQUESTS):
            told = {place: value for place, value in told.items() if place != (name, signal)}
        crowd |= {(name, SignalId.KV_USAGE): usage, (name, SignalId.KV_USAGE_NET): net}
        crowd |= {(name, SignalId.KV_FREE_REQUESTS): 1.0 + 50 * arriving}
        if running_to_limit is not None:
            crowd[name, SignalId.RUNNING_TO_LIMIT] = running_to_limit
    told = {p: v for p, v in told.items() if p not in (SignalId.RUNNING_TO_LIMIT, SignalId.KV_FREE_REQUESTS)}
    _, holding, signals = judged(of, {**told, **crowd})
    blamed = {f.scope.name for f in holding if f.rule == "decode_admission"}
    crowded = {
        name
        for name in ("d0", "d1")
        if (signals.value(SignalId.KV_USAGE, instance_scope(name)) or 0.0)
        - (signals.value(SignalId.KV_USAGE_NET, instance_scope(name)) or 0.0)
        >= 0.2
    }
    assert not blamed & crowded


@pytest.mark.parametrize("story", STORIES)
def test_losing_a_signal_makes_no_new_cause(story: str) -> None:
    """Missing is never zero: none appears at high confidence because one signal is gone."""
    whole = verdict_of(STORIES[story]).diagnosis
    held = {f.verdict for f in whole.findings if f.truth is Truth.TRUE}
    for lost in STORIES[story]:
        poorer = verdict_of(changed(STORIES[story], {lost: None})).diagnosis
        new = poorer.stage is not Stage.NONE and poorer.verdict not in held
        assert not new or poorer.confidence is not Confidence.HIGH, lost
