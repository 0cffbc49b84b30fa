"""Who waits for prefill, for how long, and how busy it is."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pdscope.analysis.board import Board
from pdscope.analysis.latency import put_latency
from pdscope.analysis.prefill import put_prefill
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, Signal, SignalId, SignalSet, instance_scope
from pdscope.model.topology import Deployment, Role
from pdscope.model.window import Window
from support.windows import INF, NOW, deployment, histogram, instance, observed, ramp, rising, window

SECONDS = (0.01, 0.1, 1.0, 10.0, INF)
PAIR = deployment()
TWO = deployment(
    instance("p0", Role.PREFILL), instance("p1", Role.PREFILL), instance("d0", Role.DECODE), instance("r0", Role.ROUTER)
)


def signals(of: Deployment, windows: Mapping[str, Window]) -> SignalSet:
    board = Board(of.name)
    members = observed(of, windows)
    put_latency(board, of, members)
    put_prefill(board, members)
    return board.finish()


def known(found: SignalSet, signal: SignalId, name: str = "p0") -> Signal:
    one = found.get(signal, instance_scope(name))
    assert one is not None, signal
    return one


def test_the_queue_is_what_stands() -> None:
    """The least of the newer half, and how fast it grows."""
    found = signals(PAIR, {"p0": window({Metric.WAITING_CAPACITY: ramp(2.0, 1.0), Metric.WAITING: 99.0})})
    queue = known(found, SignalId.PREFILL_QUEUE)
    assert (queue.value, queue.quality, queue.samples) == (13.0, Quality.MEASURED, 13)
    growth = known(found, SignalId.PREFILL_QUEUE_GROWTH)
    assert growth.value == pytest.approx(0.4)
    assert growth.quality is Quality.MEASURED
    assert "mean 13, newest 25" in queue.source


def test_an_engine_that_does_not_say_why_requests_wait() -> None:
    """All that wait."""
    assert known(signals(PAIR, {"p0": window({Metric.WAITING: 7.0})}), SignalId.PREFILL_QUEUE).value == 7.0


@pytest.mark.parametrize(("pending", "queue"), [(12.0, 5.0), (1.0, 0.0), (0.0, 0.0)])
def test_a_routers_count_stands_in(pending: float, queue: float) -> None:
    """Spread over the prefill instances, less the one that each computes: an estimate."""
    found = signals(TWO, {"r0": window({Metric.PREFILL_PENDING: pending})})
    for name in ("p0", "p1"):
        one = known(found, SignalId.PREFILL_QUEUE, name)
        assert (one.value, one.quality) == (queue, Quality.ESTIMATED)
    assert found.get(SignalId.PREFILL_QUEUE_GROWTH, instance_scope("p0")) is None


def test_a_burst_at_the_router_is_not_a_queue() -> None:
    """What stood there in the newer half; as old as its page."""
    burst = window({Metric.PREFILL_PENDING: [50.0] * 9 + [4.0] * 4}, end=NOW - 6)
    one = known(signals(TWO, {"r0": burst}), SignalId.PREFILL_QUEUE, "p0")
    assert (one.value, one.age_seconds) == (1.0, 6.0)


def test_the_engines_own_queue_wins() -> None:
    """Over the router's count."""
    found = signals(TWO, {"r0": window({Metric.PREFILL_PENDING: 12.0}), "p0": window({Metric.WAITING: 1.0})})
    assert known(found, SignalId.PREFILL_QUEUE, "p0").value == 1.0
    assert known(found, SignalId.PREFILL_QUEUE, "p1").value == 5.0


def test_decode_has_no_prefill_queue() -> None:
    """Whatever waits there."""
    found = signals(PAIR, {"d0": window({Metric.WAITING: 30.0, Metric.PREFILL_BUSY: rising(0.5)})})
    assert len(found) == 0


def test_the_measured_wait() -> None:
    """Mean of the queue time, by the mean service time and by the mean TTFT."""
    found = signals(
        PAIR,
        {
            "p0": window(
                {Metric.WAITING: 90.0, Metric.REQUESTS_FINISHED: rising(1.0)},
                {Metric.QUEUE_TIME: histogram(SECONDS, [0.6] * 4), Metric.PREFILL_TIME: histogram(SECONDS, [0.2] * 4)},
            ),
            "d0": window(histograms={Metric.TTFT: histogram(SECONDS, [0.8] * 4)}),
        },
    )
    wait = known(found, SignalId.PREFILL_WAIT)
    assert wait.value == pytest.approx(0.6)
    assert (wait.quality, wait.samples) == (Quality.MEASURED, 4)
    assert known(found, SignalId.PREFILL_WAIT_TO_SERVICE).value == pytest.approx(3.0)
    assert known(found, SignalId.PREFILL_WAIT_TTFT_SHARE).value == pytest.approx(0.75)


@pytest.mark.parametrize("metric", [Metric.REQUESTS_FINISHED, Metric.REQUESTS_ARRIVED])
def test_the_wait_by_littles_law(metric: Metric) -> None:
    """Thirty wait, five leave a second: six seconds, at most all of TTFT."""
    found = signals(
        PAIR,
        {
            "p0": window({Metric.WAITING: 30.0, metric: rising(5.0)}),
            "d0": window(histograms={Metric.TTFT: histogram(SECONDS, [4.0] * 4)}),
        },
    )
    wait = known(found, SignalId.PREFILL_WAIT)
    assert wait.value == pytest.approx(6.0)
    assert (wait.quality, wait.samples) == (Quality.ESTIMATED, 0)
    share = known(found, SignalId.PREFILL_WAIT_TTFT_SHARE)
    assert (share.value, share.quality) == (1.0, Quality.ESTIMATED)
    assert found.get(SignalId.PREFILL_WAIT_TO_SERVICE, instance_scope("p0")) is None


def test_nothing_leaves_no_wait() -> None:
    """Unknown, not infinite."""
    found = signals(PAIR, {"p0": window({Metric.WAITING: 30.0, Metric.REQUESTS_FINISHED: rising(0.0)})})
    assert found.get(SignalId.PREFILL_WAIT, instance_scope("p0")) is None


def test_an_unknown_wait_is_no_share() -> None:
    """Of whatever TTFT."""
    found = signals(PAIR, {"p0": window(), "d0": window(histograms={Metric.TTFT: histogram(SECONDS, [4.0] * 4)})})
    assert found.get(SignalId.PREFILL_WAIT_TTFT_SHARE, instance_scope("p0")) is None


def test_busy_share() -> None:
    """Seconds of prefill batches a second; of a unified instance too."""
    of = deployment(instance("u0", Role.UNIFIED))
    found = signals(of, {"u0": window({Metric.PREFILL_BUSY: rising(0.85)})})
    busy = known(found, SignalId.PREFILL_BUSY, "u0")
    assert busy.value == pytest.approx(0.85)
    assert busy.quality is Quality.MEASURED
