"""What the daemon remembers: bounded, per deployment, with what moved around a change."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.model.finding import Confidence, Diagnosis, Phase, Verdict
from pdscope.model.history import Past, Shift
from pdscope.model.report import DeploymentReport, Report
from pdscope.model.signal import SignalId
from pdscope.runtime.history import History
from support.signals import deployment, signal_set

H, A = Verdict.HEALTHY, Verdict.DECODE_ADMISSION
WINDOW_SECONDS = 60.0


def report(
    at: float, verdict: Verdict, figures: Mapping[SignalId, float] | None = None, names: tuple[str, ...] = ("pd",)
) -> Report:
    """One cycle in which all deployments say the same."""
    parts = []
    for name in names:
        diagnosis = Diagnosis(
            deployment=name,
            at=at,
            window_seconds=WINDOW_SECONDS,
            phase=Phase.WITHIN_SLO,
            verdict=verdict,
            confidence=Confidence.HIGH,
            summary=f"{verdict} at {at:g}",
            since=at,
            culprits=(),
            findings=(),
            next_steps=(),
            worker_verdicts={},
        )
        signals = signal_set({**(figures or {})})
        parts.append(DeploymentReport(deployment(name=name), diagnosis, signals, {}))
    return Report(at, WINDOW_SECONDS, tuple(parts))


def test_nothing_is_remembered_of_the_unknown() -> None:
    """No error: a deployment has no past before its first cycle."""
    assert History().past("pd") == Past("pd")


def test_each_cycle_is_remembered_short() -> None:
    """Oldest first."""
    history = History()
    for at in (5.0, 10.0):
        history.add(report(at, H))
    [first, second] = history.past("pd").entries
    assert (first.at, second.at) == (5.0, 10.0)
    assert (first.verdict, first.phase, first.confidence) == (H, Phase.WITHIN_SLO, Confidence.HIGH)
    assert first.summary == "healthy at 5"
    assert history.past("pd").changes == ()


def test_a_change_has_the_figures_of_a_window_before_and_of_now() -> None:
    """Not those of the cycle before it, which has moved half of the way already; the largest moves first."""
    history = History()
    moved, doubled, steady = SignalId.TTFT_P50, SignalId.QUEUED, SignalId.ITL_P50
    for step in range(21):
        at = 5.0 * step
        history.add(report(at, H, {moved: 1.0 + step, doubled: 4.0, steady: 0.02}))
    history.add(report(105.0, A, {moved: 22.0, doubled: 8.0, steady: 0.021}))
    [change] = history.past("pd").changes
    assert (change.at, change.deployment, change.before, change.after) == (105.0, "pd", H, A)
    assert change.summary == "decode_admission at 105"
    assert change.shifts == (Shift(moved, 10.0, 22.0), Shift(doubled, 4.0, 8.0))  # 10 was the value at 45 s


@pytest.mark.parametrize(("before", "after", "told"), [(1.0, 1.25, True), (1.0, 1.24, False), (0.0, 0.1, True)])
def test_what_moves_by_less_than_a_fifth_is_not_told(before: float, after: float, told: bool) -> None:
    """A fifth of the larger one; from nothing to something is a whole."""
    history = History()
    history.add(report(0.0, H, {SignalId.QUEUED: before}))
    history.add(report(5.0, A, {SignalId.QUEUED: after}))
    assert bool(history.past("pd").changes[0].shifts) is told


def test_what_is_unknown_before_or_after_has_not_moved() -> None:
    """A missing figure is not zero."""
    history = History()
    history.add(report(0.0, H, {SignalId.QUEUED: 9.0}))
    history.add(report(5.0, A, {SignalId.TTFT_P50: 9.0}))
    assert history.past("pd").changes[0].shifts == ()


def test_eight_moves_are_enough() -> None:
    """Whoever reads it looks for the cause."""
    history = History()
    signals = list(SignalId)[:12]
    history.add(report(0.0, H, dict.fromkeys(signals, 1.0)))
    history.add(report(5.0, A, {signal: 2.0 + index for index, signal in enumerate(signals)}))
    assert [shift.after for shift in history.past("pd").changes[0].shifts] == [13.0 - i for i in range(8)]


def test_changes_outlive_diagnoses_and_deployments_do_not_push_each_other_out() -> None:
    """Both are bounded, for each deployment."""
    history = History(max_entries=3, max_changes=2)
    history.add(report(0.0, H, names=("quiet", "pd")))
    history.add(report(1.0, A, names=("quiet", "pd")))
    for at in range(2, 12):
        flapping = report(float(at), (H, A)[at % 2])
        steady = report(float(at), A, names=("quiet",))
        history.add(Report(float(at), WINDOW_SECONDS, (*flapping.deployments, *steady.deployments)))
    assert [entry.at for entry in history.past("pd").entries] == [9.0, 10.0, 11.0]
    assert [change.at for change in history.past("pd").changes] == [10.0, 11.0]
    assert [change.at for change in history.past("quiet").changes] == [1.0]


def test_a_deployment_that_is_gone_is_forgotten() -> None:
    """When it comes back, its past is another's."""
    history = History()
    history.add(report(0.0, H, names=("a", "b")))
    history.add(report(1.0, H, names=("b",)))
    assert history.past("a") == Past("a")
    history.add(report(2.0, A, names=("a", "b")))
    assert history.past("a").changes == ()
    assert len(history.past("b").changes) == 1


@given(st.lists(st.tuples(st.floats(0.1, 200.0), st.sampled_from((H, A))), max_size=60))
def test_changes_are_where_the_verdict_changes(steps: list[tuple[float, Verdict]]) -> None:
    """Whatever the spacing of cycles; and the memory of figures stays within a window and one cycle."""
    history = History()
    at, times = 0.0, []
    for seconds, verdict in steps:
        at += seconds
        times.append(at)
        history.add(report(at, verdict, {SignalId.QUEUED: at}))
    past = history.past("pd")
    verdicts = [verdict for _, verdict in steps]
    expected = [times[i] for i in range(1, len(steps)) if verdicts[i] is not verdicts[i - 1]]
    assert [change.at for change in past.changes] == expected
    for change in past.changes:
        earlier = [t for t in times if t < change.at]
        begins = max((t for t in earlier if t <= change.at - WINDOW_SECONDS), default=earlier[0])
        for shift in change.shifts:
            assert (shift.before, shift.after) == (begins, change.at)
