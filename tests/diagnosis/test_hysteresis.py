"""Hysteresis: raise after three, clear after five, alternating troubles are one, and `pending` says what goes on."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.diagnosis.hysteresis import CLEAR_AFTER, RAISE_AFTER, Standing, settle
from pdscope.model.finding import Confidence, Diagnosis, Finding, Phase, Truth, Verdict
from pdscope.model.signal import Scope, ScopeKind

H, I = Verdict.HEALTHY, Verdict.IDLE  # noqa: E741
A, B = Verdict.DECODE_ADMISSION, Verdict.KV_TRANSFER_BANDWIDTH


def diagnosis(verdict: Verdict, at: float) -> Diagnosis:
    return Diagnosis(
        deployment="a",
        at=at,
        window_seconds=60.0,
        phase=Phase.WITHIN_SLO,
        verdict=verdict,
        confidence=Confidence.HIGH,
        summary=f"{verdict} at {at}",
        since=at,
        culprits=(),
        findings=(),
        next_steps=(),
        worker_verdicts={},
    )


def shown(verdicts: list[Verdict]) -> list[Diagnosis]:
    standing: Standing | None = None
    out = []
    for at, verdict in enumerate(verdicts):
        standing, current = settle(standing, diagnosis(verdict, float(at)))
        out.append(current)
    return out


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([A], [A]),  # the first evaluation is shown as it is
        ([H, A, A, A], [H, H, H, A]),
        ([H, A, A, H, A, A], [H, H, H, H, H, H]),  # an agreeing evaluation starts the count anew
        ([H, A, B, A], [H, H, H, A]),  # two troubles in turn are no health
        ([A, H, H, H, H, H], [A, A, A, A, A, H]),
        ([A, H, H, A, H, H, H, H, H], [A, A, A, A, A, A, A, A, H]),
        ([A, B, B, B], [A, A, A, B]),
        ([A, I, H, I, H, I], [A, A, A, A, A, I]),
    ],
)
def test_what_is_shown(seen: list[Verdict], expected: list[Verdict]) -> None:
    """Verdict by verdict."""
    assert [d.verdict for d in shown(seen)] == expected


def test_pending_names_verdict_and_count() -> None:
    """While a change is being confirmed the reader sees it; afterwards not."""
    answers = shown([H, A, A, A])
    assert [d.pending and (d.pending.verdict, d.pending.windows) for d in answers] == [None, (A, 1), (A, 2), None]
    assert answers[2].summary == "healthy at 0.0 Now, to be confirmed: decode_admission at 2.0"
    assert answers[3].summary == "decode_admission at 3.0"


def test_pending_counts_the_evaluations_that_name_its_verdict() -> None:
    """Of those in a row that disagree, not all of them: two troubles in turn have one each."""
    pending = [d.pending and (d.pending.verdict, d.pending.windows) for d in shown([H, A, B, B, A])]
    assert pending == [None, (A, 1), (B, 1), None, (A, 1)]
    clearing = [d.pending and (d.pending.verdict, d.pending.windows) for d in shown([A, H, I, H, I, H])]
    assert clearing == [None, (H, 1), (I, 1), (H, 2), (I, 2), None]


def test_findings_of_the_verdict_that_is_shown_come_first() -> None:
    """They are those of now; while a change is being confirmed the old verdict still has the word."""
    scope = Scope(ScopeKind.DEPLOYMENT, "a")
    new, old = Finding("new", scope, Truth.TRUE, B), Finding("old", scope, Truth.TRUE, A)
    standing, _ = settle(None, diagnosis(A, 0.0))
    _, current = settle(standing, replace(diagnosis(B, 1.0), findings=(new, old)))
    assert (current.verdict, current.findings) == (A, (old, new))


def test_since_is_when_the_shown_verdict_began() -> None:
    """Disagreeing and agreeing evaluations do not move it."""
    assert [d.since for d in shown([H, H, A, H, A, A, A, A])] == [0, 0, 0, 0, 0, 0, 6, 6]


def test_time_and_phase_are_always_those_of_now() -> None:
    """The phase has no hysteresis."""
    assert [d.at for d in shown([H, A, A])] == [0, 1, 2]


def test_noise_does_not_flap() -> None:
    """A wrong verdict in one of ten evaluations, for a day: nothing is shown."""
    noise = random.Random(7)
    answers = shown([A if noise.random() < 0.1 else H for _ in range(17_280)])
    changes = sum(x.verdict is not y.verdict for x, y in pairwise(answers))
    assert changes <= 2 * 17_280 * 0.1**RAISE_AFTER * 1.5
    steady = shown([A if n % 3 == 0 else H for n in range(1000)][1:])
    assert {d.verdict for d in steady} == {H}


@given(st.lists(st.sampled_from([H, I, A, B]), min_size=1, max_size=60))
def test_a_lasting_change_is_always_shown_in_time(history: list[Verdict]) -> None:
    """Whatever came before, five equal evaluations in a row are enough to show a trouble, and nine to show its end."""
    assert shown([*history, *[A] * (RAISE_AFTER + CLEAR_AFTER)])[-1].verdict is A
    assert shown([*history, *[H] * (2 * CLEAR_AFTER)])[-1].verdict is H
