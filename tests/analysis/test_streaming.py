"""Stream intervals: several tokens in one event, told from the time between events and the time per token."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.analysis.observed import Observed
from pdscope.analysis.streaming import halves, stream_interval, whole_number
from pdscope.model.metric import Metric
from pdscope.model.topology import Role
from support.windows import INF, NOW, deployment, histogram, instance, observed, window

BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.2, INF)
D0 = instance("d0", Role.DECODE)


def decoding(event: float, token: float, *, events: int = 4000, requests: int = 100) -> Observed:
    """An instance with these mean times between events and per token."""
    histograms = {
        Metric.ITL: histogram(BOUNDS, [event] * events),
        Metric.TPOT: histogram(BOUNDS, [token] * requests),
    }
    return observed(deployment(D0), {"d0": window(histograms=histograms)})[0]


@pytest.mark.parametrize(
    ("event", "interval"),
    [
        (0.1, 4),
        (0.0985, 4),  # 3.94
        (0.0971, None),  # 3.88
        (0.05, 2),
        (0.0513, 2),
        (0.0531, None),  # 2.12
        (0.025, None),  # each token is an event
        (0.0125, None),
        (0.0625, None),  # 2.5, as speculation makes it
        (0.8, 32),
        (0.8126, None),  # 32.5: 3 % of a large number hide nothing
    ],
)
def test_a_whole_quotient_is_an_interval(event: float, interval: int | None) -> None:
    """Of the means, of 25 ms a token."""
    assert stream_interval(decoding(event, 0.025)) == interval


@pytest.mark.parametrize(("requests", "interval"), [(20, 4), (19, None), (0, None)])
def test_a_few_requests_show_none(requests: int, interval: int | None) -> None:
    """Twenty of them stand for all."""
    assert stream_interval(decoding(0.1, 0.025, requests=requests)) == interval


def test_a_quotient_that_does_not_last_shows_none() -> None:
    """2 in the older half and 6 in the newer are 4 by accident."""
    histograms = {
        Metric.ITL: histogram(BOUNDS, [0.05] * 2000 + [0.15] * 2000),
        Metric.TPOT: histogram(BOUNDS, [0.025] * 100),
    }
    one = observed(deployment(D0), {"d0": window(histograms=histograms)})[0]
    assert stream_interval(one) is None
    older, newer = (half.distribution(Metric.ITL) for half in halves(one))
    assert older is not None
    assert newer is not None
    assert (older.mean, newer.mean) == (pytest.approx(0.05), pytest.approx(0.15))


@pytest.mark.parametrize("missing", [Metric.ITL, Metric.TPOT])
def test_both_times_are_needed(missing: Metric) -> None:
    """An engine that lacks one of them tells nothing."""
    told = {Metric.ITL: histogram(BOUNDS, [0.1] * 400), Metric.TPOT: histogram(BOUNDS, [0.025] * 100)}
    del told[missing]
    assert stream_interval(observed(deployment(D0), {"d0": window(histograms=told)})[0]) is None


def test_prefill_has_none() -> None:
    """Its requests have one token each: no event, and no time per token."""
    assert stream_interval(decoding(0.0, 0.0)) is None


@given(quotient=st.floats(0, 1e4), parts=st.lists(st.floats(0, 1e4), max_size=2))
def test_a_whole_number_is_near_all_of_them(quotient: float, parts: list[float]) -> None:
    """And never below 2."""
    whole = whole_number(quotient, *parts)
    if whole is not None:
        assert whole >= 2
        assert all(abs(one - whole) <= min(0.1, 0.03 * whole) for one in (quotient, *parts))


def test_halves_share_the_scrape_in_the_middle() -> None:
    """So that no time between two scrapes is lost."""
    older, newer = halves(decoding(0.1, 0.025))
    assert older.windows[0].times[-1] == newer.windows[0].times[0]
    assert newer.windows[0].times[-1] == NOW
