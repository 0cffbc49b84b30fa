"""How long a hand-over takes to begin: handshakes that engines time, and what fetches last beyond their transfer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from pdscope.analysis.board import Board
from pdscope.analysis.handshake import put_setup
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, Signal, SignalId, SignalSet
from pdscope.model.topology import Deployment, Role
from pdscope.model.window import Window
from support.windows import INF, SCRAPES, VLLM, Column, deployment, histogram, instance, observed, ramp, rising, window

SECONDS = (0.01, 0.1, 1.0, 10.0, INF)
SGLANG = deployment()
VLLM_PAIR = deployment(instance("p0", Role.PREFILL, VLLM), instance("d0", Role.DECODE, VLLM))


def setup(of: Deployment, windows: Mapping[str, Window | Sequence[Window]], **facts: float) -> SignalSet:
    """What is said of set-up; `facts` are on the board before, by the name of their signal."""
    board = Board(of.name)
    for name, value in facts.items():
        board.put(SignalId[name], value, Quality.MEASURED, "test")
    put_setup(board, observed(of, windows))
    return board.finish()


def known(found: SignalSet, signal: SignalId = SignalId.SETUP_TIME) -> Signal:
    one = found.get(signal)
    assert one is not None, signal
    return one


def timed(means: Mapping[Metric, float]) -> Window:
    """Sixty observations of each, all alike."""
    return window({}, {metric: histogram(SECONDS, [mean] * 60) for metric, mean in means.items()})


# as engines time it


def test_decodes_own_handshake() -> None:
    """Whatever prefill says of its own."""
    pages = {"p0": timed({Metric.HANDSHAKE_TIME: 9.0}), "d0": timed({Metric.HANDSHAKE_TIME: 0.3})}
    found = setup(SGLANG, pages, TRANSFER_TIME=0.1, TTFT_MEAN=1.2)
    assert known(found).value == pytest.approx(0.3)
    assert known(found).quality is Quality.MEASURED
    assert found.value(SignalId.SETUP_SHARE) == pytest.approx(0.75)
    assert found.value(SignalId.SETUP_TTFT_SHARE) == pytest.approx(0.25)


@pytest.mark.parametrize(("waited", "seconds"), [(0.5, 1.5), (3.0, 0.0)])
def test_prefills_handshake_less_decodes_wait(waited: float, seconds: float) -> None:
    """Prefill's own allocation takes no time and does not count; two means may cross."""
    pages = {
        "p0": timed({Metric.HANDSHAKE_TIME: 2.0, Metric.ALLOCATION_TIME: 0.0}),
        "d0": timed({Metric.ALLOCATION_TIME: waited}),
    }
    found = known(setup(SGLANG, pages))
    assert found.value == pytest.approx(seconds)
    assert found.quality is Quality.DERIVED


def test_prefills_handshake_alone_is_no_set_up() -> None:
    """It may all be decode's wait for memory."""
    pages = {"p0": timed({Metric.HANDSHAKE_TIME: 2.0, Metric.ALLOCATION_TIME: 0.0})}
    assert setup(SGLANG, pages, TRANSFER_TIME=0.1, TTFT_MEAN=1.0).get(SignalId.SETUP_TIME) is None


def test_shares_need_what_they_are_shares_of() -> None:
    """A time alone says nothing of the transfer or of TTFT, and set-up is never more than TTFT."""
    pages = {"d0": timed({Metric.HANDSHAKE_TIME: 0.3})}
    assert {one.id for one in setup(SGLANG, pages)} == {SignalId.SETUP_TIME}
    assert setup(SGLANG, pages, TTFT_MEAN=0.2).value(SignalId.SETUP_TTFT_SHARE) == 1.0
    instant = {"d0": timed({Metric.HANDSHAKE_TIME: 0.0})}
    assert setup(SGLANG, instant, TRANSFER_TIME=0.0).get(SignalId.SETUP_SHARE) is None


# by Little's law


def fetching(active: Column, *, rate: float = 1.0, **facts: float) -> SignalSet:
    """So many fetches in progress on decode of vLLM, at a transfer time of 0.1 s."""
    page = window({Metric.KV_FETCH_ACTIVE: active, Metric.REQUESTS_FINISHED: rising(rate)})
    return setup(VLLM_PAIR, {"d0": page}, **{"TRANSFER_TIME": 0.1, **facts})


LEAST = 4.0 - 2 * (4.0 / SCRAPES) ** 0.5
"""Of four in progress, less two standard errors of thirteen samples."""


@pytest.mark.parametrize(
    ("rate", "facts", "seconds"),
    [
        (1.0, {}, LEAST - 0.1),
        (2.0, {}, LEAST / 2 - 0.1),
        (1.0, {"ITL_P50": 0.03}, LEAST - 0.1 - 0.06),
        (1.0, {"ARRIVALS_PER_SECOND": 4.0}, LEAST / 4 - 0.1),
        (1.0, {"ARRIVALS_PER_SECOND": 0.2}, LEAST - 0.1),
        (1.0, {"TRANSFER_TIME": 9.0}, 0.0),
    ],
    ids=["one a second", "two a second", "less two steps", "more arrive", "fewer arrive", "all of it is transfer"],
)
def test_fetches_that_last_longer_than_their_transfers(rate: float, facts: dict[str, float], seconds: float) -> None:
    """By the larger of arrivals and completions: what has come is in the gauge, what has gone was."""
    found = known(fetching(4.0, rate=rate, **facts))
    assert found.value == pytest.approx(seconds)
    assert found.quality is Quality.ESTIMATED


@pytest.mark.parametrize("active", [0.0, [0.0] * 11 + [1.0, 1.0], 0.25], ids=["none", "seen twice", "a few"])
def test_a_coarse_gauge_shows_no_set_up(active: Column) -> None:
    """What a healthy pair shows by chance is within the error of its samples."""
    assert known(fetching(active)).value == 0.0


@pytest.mark.parametrize(
    ("active", "there"),
    [
        (ramp(2.0, 1.0), False),
        (ramp(0.51, 6.0), False),
        (ramp(0.5, 6.0), True),
        (ramp(-1.0, 13.0), True),
        ([0.0] * 12 + [2.0], True),
        ([0.0] * 12 + [2.1], False),
        ([9.0, *[1.0] * 11, 18.0], True),
    ],
    ids=["piles up", "just over", "twice", "ebbs", "from nothing", "from nothing, more", "busy at both ends"],
)
def test_what_piles_up_is_no_steady_state(active: Column, there: bool) -> None:
    """Little's law says nothing of a queue that more than doubles; below one it may grow to two."""
    assert (fetching(active).get(SignalId.SETUP_TIME) is not None) is there


def test_fetches_of_several_are_added() -> None:
    """One decode that fills up beside another that empties is a steady state."""
    of = deployment(*VLLM_PAIR.instances, instance("d1", Role.DECODE, VLLM))
    columns = {"d0": ramp(1.0, 0.0), "d1": ramp(-1.0, 12.0)}
    pages = {
        name: window({Metric.KV_FETCH_ACTIVE: column, Metric.REQUESTS_FINISHED: rising(1.0)}, target=name)
        for name, column in columns.items()
    }
    least = 12.0 - 2 * (12.0 / SCRAPES) ** 0.5
    assert known(setup(of, pages, TRANSFER_TIME=0.1)).value == pytest.approx(least / 2 - 0.1)


def test_no_set_up_without_traffic() -> None:
    """Nothing finished, nothing fetched, or no time to take off."""
    assert fetching(4.0, rate=0.0).get(SignalId.SETUP_TIME) is None
    assert setup(VLLM_PAIR, {}, TRANSFER_TIME=0.1).get(SignalId.SETUP_TIME) is None
    page = window({Metric.KV_FETCH_ACTIVE: 4.0, Metric.REQUESTS_FINISHED: rising(1.0)})
    assert not list(setup(VLLM_PAIR, {"d0": page}))


def test_a_time_that_is_measured_comes_first() -> None:
    """Little's law is for engines that time no handshake."""
    columns: dict[Metric, Column] = {Metric.KV_FETCH_ACTIVE: 4.0, Metric.REQUESTS_FINISHED: rising(1.0)}
    page = window(columns, {Metric.HANDSHAKE_TIME: histogram(SECONDS, [0.3] * 60)})
    assert known(setup(VLLM_PAIR, {"d0": page}, TRANSFER_TIME=0.1)).quality is Quality.MEASURED
