"""What a rule stands on: thresholds, objectives, and the bench on which evidence is weighed."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, bench, objectives, past
from pdscope.model.finding import Op, Truth, Verdict
from pdscope.model.signal import Quality, SignalId, instance_scope, worst
from pdscope.model.topology import EngineProfile, Role, Slo
from pdscope.model.units import Unit
from support.signals import Figure, Figures, deployment, derived, estimated, instance, on, signal_set

RULE = Rule(
    id="prefill_queue",
    verdict=Verdict.PREFILL_QUEUE,
    evaluate=lambda case: (),
    thresholds=(Threshold("queue", 4.0, Unit.REQUESTS, "for the test"),),
    remedies=("add_prefill", "raise_running_limit"),
)
P0 = instance("p0", Role.PREFILL)


def case_of(figures: Figures, slo: Slo | None = None, **thresholds: float) -> Case:
    of = deployment() if slo is None else deployment(slo=slo)
    return Case(of, signal_set(figures), {f"prefill_queue.{name}": value for name, value in thresholds.items()})


def bench_of(figures: Figures) -> Bench:
    return bench(RULE, case_of(figures), P0)


def test_threshold_is_the_configured_one_or_the_default() -> None:
    """By rule and name; zero is a value."""
    assert case_of({}).threshold(RULE, "queue") == 4.0
    assert case_of({}, queue=9.0).threshold(RULE, "queue") == 9.0
    assert case_of({}, queue=0.0).threshold(RULE, "queue") == 0.0
    assert Case(deployment(), signal_set({}), {"other.queue": 1.0}).threshold(RULE, "queue") == 4.0


def test_threshold_that_does_not_exist_is_a_mistake() -> None:
    """The message names rule and threshold."""
    with pytest.raises(KeyError, match=r"prefill_queue\.quue"):
        case_of({}).threshold(RULE, "quue")


def test_objectives_are_those_that_are_set() -> None:
    """In the order p50, p95, p99; zero is no objective that is missing."""
    of = deployment(slo=Slo(ttft_p50_seconds=1.0, ttft_p99_seconds=3.0, itl_p95_seconds=0.0))
    assert objectives(of, "ttft") == [(SignalId.TTFT_P50, 1.0), (SignalId.TTFT_P99, 3.0)]
    assert objectives(of, "itl") == [(SignalId.ITL_P95, 0.0)]
    assert objectives(deployment(slo=Slo()), "ttft") == []


@pytest.mark.parametrize(
    ("p50", "p95", "truth"),
    [
        (1.0, 2.0, Truth.FALSE),
        (1.1, 2.0, Truth.TRUE),
        (1.0, 2.1, Truth.TRUE),
        (None, 2.1, Truth.TRUE),
        (None, 2.0, Truth.UNKNOWN),
        (None, None, Truth.UNKNOWN),
    ],
)
def test_an_objective_is_broken_when_any_is(p50: float | None, p95: float | None, truth: Truth) -> None:
    """Equality is no breach; an unknown one hides nothing that is known."""
    known: Figures = {
        signal: value for signal, value in ((SignalId.TTFT_P50, p50), (SignalId.TTFT_P95, p95)) if value is not None
    }
    case = case_of(known, Slo(ttft_p50_seconds=1.0, ttft_p95_seconds=2.0))
    assert case.broken("ttft") is truth
    assert case.broken("itl") is Truth.UNKNOWN
    assert case.slo_broken is (Truth.TRUE if truth is Truth.TRUE else Truth.UNKNOWN)


@pytest.mark.parametrize(
    ("op", "below", "equal", "above"),
    [
        (Op.GE, Truth.FALSE, Truth.TRUE, Truth.TRUE),
        (Op.GT, Truth.FALSE, Truth.FALSE, Truth.TRUE),
        (Op.LE, Truth.TRUE, Truth.TRUE, Truth.FALSE),
        (Op.LT, Truth.TRUE, Truth.FALSE, Truth.FALSE),
    ],
)
def test_comparisons(op: Op, below: Truth, equal: Truth, above: Truth) -> None:
    """Each operator at, below and above its limit, by the threshold's name or by number."""
    for value, truth in ((3.9, below), (4.0, equal), (4.1, above)):
        board = bench_of(on("p0", {SignalId.PREFILL_QUEUE: value}))
        assert board.weigh(SignalId.PREFILL_QUEUE, op, "queue") is truth
        assert board.weigh(SignalId.PREFILL_QUEUE, op, 4.0) is truth
        assert [(e.value, e.op, e.threshold, e.truth) for e in board.evidence] == [(value, op, 4.0, truth)] * 2


def test_evidence_says_where_the_figure_comes_from() -> None:
    """Everything a reader needs to check it."""
    board = bench_of(on("p0", {SignalId.PREFILL_QUEUE: derived(7.0)}))
    board.weigh(SignalId.PREFILL_QUEUE, Op.GE, "queue")
    (evidence,) = board.evidence
    assert (evidence.signal, evidence.scope) == (SignalId.PREFILL_QUEUE, instance_scope("p0"))
    assert (evidence.unit, evidence.source) == (Unit.REQUESTS, "test prefill_queue_requests")
    assert (evidence.quality, evidence.age_seconds) == (Quality.DERIVED, 1.0)


def test_missing_signal_is_unknown_and_noted_once() -> None:
    """It leaves no evidence behind."""
    board = bench_of({})
    for _ in range(2):
        assert board.weigh(SignalId.PREFILL_QUEUE, Op.GE, "queue") is Truth.UNKNOWN
    assert board.missing == [SignalId.PREFILL_QUEUE]
    assert board.evidence == []


@pytest.mark.parametrize(
    ("bounds", "quality"),
    [
        (None, Quality.MEASURED),
        ((3.0, 5.0), Quality.ESTIMATED),
        ((4.0, 5.0), Quality.MEASURED),
        ((3.0, 4.0), Quality.MEASURED),
        ((5.0, 6.0), Quality.MEASURED),
    ],
)
def test_limit_inside_the_bucket_is_an_estimate(bounds: tuple[float, float] | None, quality: Quality) -> None:
    """The interpolated value is compared; the evidence says that the truth may be otherwise."""
    board = bench_of(on("p0", {SignalId.PREFILL_QUEUE: Figure(4.5, bounds=bounds)}))
    assert board.weigh(SignalId.PREFILL_QUEUE, Op.GE, "queue") is Truth.TRUE
    assert (board.evidence[0].quality, board.evidence[0].bounds) == (quality, bounds)


def test_worse_quality_than_estimated_stays() -> None:
    """An assumption inside a bucket is no estimate."""
    board = bench_of(on("p0", {SignalId.PREFILL_QUEUE: Figure(4.5, Quality.ASSUMED, (3.0, 5.0))}))
    board.weigh(SignalId.PREFILL_QUEUE, Op.GE, "queue")
    assert board.evidence[0].quality is Quality.ASSUMED


def test_own_figure_comes_before_the_deployments() -> None:
    """An explicit scope is taken literally."""
    board = bench_of(
        {SignalId.REQUESTS_PER_SECOND: 5.0, ("p0", SignalId.REQUESTS_PER_SECOND): 3.0, SignalId.QUEUED: 2.0}
    )
    assert board.value(SignalId.REQUESTS_PER_SECOND) == 3.0
    assert board.value(SignalId.QUEUED) == 2.0
    assert board.value(SignalId.QUEUED, instance_scope("p0")) is None
    assert board.weigh(SignalId.QUEUED, Op.GE, 1.0, instance_scope("p0")) is Truth.UNKNOWN


def test_text_for_people() -> None:
    """With its unit, without it where the sentence has one, and plainly when unknown."""
    board = bench_of(on("p0", {SignalId.PREFILL_QUEUE: 7.0, SignalId.PREFILL_WAIT: 0.25}))
    assert board.text(SignalId.PREFILL_WAIT) == "250 ms"
    assert (board.text(SignalId.PREFILL_QUEUE), board.count(SignalId.PREFILL_QUEUE)) == ("7 requests", "7")
    assert (board.text(SignalId.KV_USAGE), board.count(SignalId.RUNNING)) == ("unknown", "an unknown number")


def closing() -> Bench:
    board = bench_of(on("p0", {SignalId.PREFILL_QUEUE: 7.0, SignalId.PREFILL_WAIT: estimated(0.25)}))
    board.weigh(SignalId.PREFILL_QUEUE, Op.GE, "queue")
    board.weigh(SignalId.PREFILL_WAIT, Op.GE, 0.1)
    board.weigh(SignalId.KV_USAGE, Op.GE, 0.1)
    return board


def test_finding_that_holds() -> None:
    """Headline, culprits, remedies with the engine's setting, and what is still missing."""
    found = closing().finding(
        Truth.TRUE, headline="7 wait", strength=3.0, decisive=(SignalId.PREFILL_QUEUE,), culprits=("p0",)
    )
    assert (found.rule, found.verdict, found.scope) == ("prefill_queue", Verdict.PREFILL_QUEUE, instance_scope("p0"))
    assert (found.headline, found.culprits, found.strength) == ("7 wait", ("p0",), 1.0)
    assert [(r.id, r.setting) for r in found.remedies] == [
        ("add_prefill", None),
        ("raise_running_limit", "--max-running"),
    ]
    assert (found.decisive, found.missing) == (Quality.MEASURED, (SignalId.KV_USAGE,))
    assert len(found.evidence) == 2


@pytest.mark.parametrize(("strength", "shown"), [(-1.0, 0.0), (0.4, 0.4), (1.0, 1.0), (3.0, 1.0)])
def test_strength_is_clipped(strength: float, shown: float) -> None:
    """Between zero and one."""
    assert closing().finding(Truth.TRUE, headline="x", strength=strength).strength == shown


def test_settings_are_those_of_the_role_of_the_remedy() -> None:
    """Decode spells decode's limit with different engines on both sides, whoever is at fault, or nobody."""
    other = EngineProfile("other", settings={"raise_running_limit": "--slots"})
    of = deployment(P0, instance("d0", Role.DECODE, profile=other))
    board = bench(RULE, Case(of, signal_set({})))
    settings = [
        {r.id: r.setting for r in board.finding(Truth.TRUE, headline="x", culprits=names).remedies}
        for names in (("p0",), ("d0",), ())
    ]
    assert [s["raise_running_limit"] for s in settings] == ["--slots"] * 3


@pytest.mark.parametrize("truth", [Truth.FALSE, Truth.UNKNOWN])
def test_finding_that_does_not_hold(truth: Truth) -> None:
    """Nothing to say and nothing to do; unknown names what is missing, false needs nothing more."""
    found = closing().finding(
        truth, headline="7 wait", strength=0.9, decisive=(SignalId.PREFILL_QUEUE,), culprits=("p0",)
    )
    assert (found.headline, found.culprits, found.remedies, found.strength) == ("", (), (), 0.0)
    assert found.decisive is None
    assert found.missing == ((SignalId.KV_USAGE,) if truth is Truth.UNKNOWN else ())
    assert len(found.evidence) == 2


@pytest.mark.parametrize(
    ("decisive", "quality"),
    [
        ((SignalId.PREFILL_QUEUE,), Quality.MEASURED),
        ((SignalId.PREFILL_QUEUE, SignalId.PREFILL_WAIT), Quality.ESTIMATED),
        ((SignalId.PREFILL_QUEUE, SignalId.KV_USAGE), None),
        ((), None),
    ],
)
def test_decisive_quality_is_the_worst(decisive: tuple[SignalId, ...], quality: Quality | None) -> None:
    """None where one of them is missing."""
    assert closing().finding(Truth.TRUE, headline="x", decisive=decisive).decisive is quality


@pytest.mark.parametrize(
    ("at_best", "quality"),
    [
        (Quality.MEASURED, Quality.MEASURED),
        (Quality.DERIVED, Quality.DERIVED),
        (Quality.ASSUMED, Quality.ASSUMED),
    ],
)
def test_decisive_quality_has_a_ceiling(at_best: Quality, quality: Quality) -> None:
    """Where the threshold itself is a configured figure; what is missing stays missing."""
    told = {"headline": "x", "at_best": at_best}
    assert closing().finding(Truth.TRUE, decisive=(SignalId.PREFILL_QUEUE,), **told).decisive is quality
    assert closing().finding(Truth.TRUE, decisive=(SignalId.KV_USAGE,), **told).decisive is None
    worse = closing().finding(Truth.TRUE, decisive=(SignalId.PREFILL_WAIT,), **told).decisive
    assert worse is worst(at_best, Quality.ESTIMATED)


def test_own_remedies_replace_those_of_the_rule() -> None:
    """Also by none at all."""
    board = closing()
    assert [r.id for r in board.finding(Truth.TRUE, headline="x", remedies=("shed_load",)).remedies] == ["shed_load"]
    assert board.finding(Truth.TRUE, headline="x", remedies=()).remedies == ()
    assert len(board.finding(Truth.TRUE, headline="x").remedies) == 2


def test_bench_of_the_deployment() -> None:
    """Without an instance."""
    case = case_of({SignalId.QUEUED: 3.0})
    board = bench(RULE, case)
    assert board.scope == case.signals.deployment
    assert board.value(SignalId.QUEUED) == 3.0


@pytest.mark.parametrize(
    ("value", "limit", "strength"),
    [(0.0, 1.0, 0.0), (2.0, 2.0, 0.5), (18.0, 2.0, 0.9), (None, 1.0, 0.5), (5.0, 0.0, 0.5)],
)
def test_past_the_limit(value: float | None, limit: float, strength: float) -> None:
    """A half at the limit, towards one far beyond it."""
    assert past(value, limit) == pytest.approx(strength)
