"""The stable stretch: it grows while both p95 stay put and the objectives are kept."""

from __future__ import annotations

import random

import pytest

from pdscope.analysis.stability import Stretch, extend
from pdscope.model.signal import Quality, Scope, ScopeKind, Signal, SignalId, SignalSet
from pdscope.model.topology import Slo

SLO = Slo(ttft_p50_seconds=2.0, ttft_p95_seconds=3.0, itl_p50_seconds=0.05)


def signals(**values: float) -> SignalSet:
    known = {"ttft_p50": 1.0, "ttft_p95": 2.0, "itl_p50": 0.03, "itl_p95": 0.04} | values
    scope = Scope(ScopeKind.DEPLOYMENT, "a")
    return SignalSet(
        "a", [Signal(SignalId(f"{k}_seconds"), scope, v, Quality.MEASURED, "test") for k, v in known.items() if v > 0]
    )


def run(*steps: SignalSet, slo: Slo = SLO) -> Stretch | None:
    stretch: Stretch | None = None
    for at, step in enumerate(steps):
        stretch = extend(stretch, float(at), step, slo)
    return stretch


def test_it_grows_while_nothing_moves() -> None:
    """From the first evaluation on."""
    stretch = run(*[signals()] * 5)
    assert stretch is not None
    assert stretch.since == 0


@pytest.mark.parametrize(
    "moved",
    [signals(ttft_p95=2.5), signals(ttft_p95=1.5), signals(itl_p95=0.06), signals(itl_p95=0.02)],
)
def test_a_move_begins_a_new_stretch(moved: SignalSet) -> None:
    """More than a fifth off the running median, up or down; what was before counts no more."""
    stretch = run(signals(), signals(), moved, moved)
    assert stretch is not None
    assert stretch.since == 2


def test_a_move_within_a_fifth_does_not() -> None:
    """Noise."""
    stretch = run(signals(), signals(ttft_p95=2.3), signals(ttft_p95=1.8), signals(itl_p95=0.047))
    assert stretch is not None
    assert stretch.since == 0


@pytest.mark.parametrize(
    "ended",
    [signals(ttft_p50=2.1), signals(itl_p50=0.051), signals(ttft_p95=-1), signals(itl_p95=-1), signals(ttft_p50=-1)],
)
def test_a_broken_objective_or_a_missing_latency_ends_it(ended: SignalSet) -> None:
    """Nothing is stable then, and unknown is not stable."""
    assert run(signals(), ended) is None
    stretch = run(signals(), ended, signals())
    assert stretch is not None
    assert stretch.since == 2


def test_without_objectives_it_is_about_latency_alone() -> None:
    """What nobody promised cannot be broken."""
    stretch = run(signals(ttft_p50=100), signals(ttft_p50=100), slo=Slo())
    assert stretch is not None
    assert stretch.since == 0


def test_memory_is_bounded() -> None:
    """However long it is stable."""
    noise = random.Random(3)
    stretch: Stretch | None = None
    for at in range(5000):
        stretch = extend(stretch, float(at), signals(ttft_p95=noise.uniform(1.9, 2.1)), SLO)
    assert stretch is not None
    assert len(stretch.ttft_p95) <= 2000
    assert stretch.since == 0
