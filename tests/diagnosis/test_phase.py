"""The ITL-vs-TTFT rule: its whole truth table, and nothing besides."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.diagnosis.phase import phase
from pdscope.model.finding import Phase
from pdscope.model.signal import SignalId
from pdscope.model.topology import Slo
from support.signals import STORIES, changed, signal_set, verdict_of

SLO = Slo(ttft_p50_seconds=2.0, itl_p50_seconds=0.05)
TABLE = {
    (False, True): Phase.DECODE_STEADY_STATE,
    (True, False): Phase.PREFILL,
    (True, True): Phase.BOTH_OVER_SLO,
    (False, False): Phase.WITHIN_SLO,
}
latencies = st.floats(min_value=1e-6, max_value=1e6)


def phase_of(ttft: float | None, itl: float | None, slo: Slo = SLO) -> Phase:
    return phase(signal_set(changed({}, {SignalId.TTFT_P50: ttft, SignalId.ITL_P50: itl})), slo)


@pytest.mark.parametrize("ttft", [0.1, 1.999, 2.0, 2.001, 60.0])
@pytest.mark.parametrize("itl", [0.001, 0.0499, 0.05, 0.0501, 3.0])
def test_truth_table(ttft: float, itl: float) -> None:
    """Equality with an objective counts as within."""
    assert phase_of(ttft, itl) is TABLE[ttft > 2.0, itl > 0.05]


@given(latencies, latencies, latencies, latencies)
def test_compares_p50_with_its_objective(ttft: float, itl: float, ttft_limit: float, itl_limit: float) -> None:
    """For any numbers."""
    slo = Slo(ttft_p50_seconds=ttft_limit, itl_p50_seconds=itl_limit)
    assert phase_of(ttft, itl, slo) is TABLE[ttft > ttft_limit, itl > itl_limit]


@pytest.mark.parametrize(
    ("ttft", "itl", "ttft_limit", "itl_limit"),
    [case for case in itertools.product((9.0, None), (0.09, None), (2.0, None), (0.05, None)) if None in case],
)
def test_unknown_when_any_of_the_four_is_missing(
    ttft: float | None, itl: float | None, ttft_limit: float | None, itl_limit: float | None
) -> None:
    """Half a comparison decides nothing."""
    slo = Slo(ttft_p50_seconds=ttft_limit, itl_p50_seconds=itl_limit)
    assert phase_of(ttft, itl, slo) is Phase.UNKNOWN


def test_other_percentiles_do_not_matter() -> None:
    """The rule looks at p50 and at nothing else."""
    tails = {SignalId.TTFT_P50: 1.0, SignalId.TTFT_P95: 50.0, SignalId.ITL_P50: 0.01, SignalId.ITL_P99: 9.0}
    slo = Slo(
        ttft_p50_seconds=2.0,
        ttft_p95_seconds=3.0,
        ttft_p99_seconds=3.0,
        itl_p50_seconds=0.05,
        itl_p95_seconds=0.05,
        itl_p99_seconds=0.1,
    )
    assert phase(signal_set(tails), slo) is Phase.WITHIN_SLO
    assert phase(signal_set(tails), Slo(ttft_p95_seconds=3.0, itl_p99_seconds=0.1)) is Phase.UNKNOWN


def test_is_told_apart_from_the_verdict() -> None:
    """TTFT over because of decode: phase and stage disagree, and both are said."""
    diagnosis = verdict_of(STORIES["decode_admission"]).diagnosis
    assert (diagnosis.phase, diagnosis.stage) == (Phase.PREFILL, "decode")
