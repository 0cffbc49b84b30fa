"""Bytes that transfer agents count, where no engine counts them, and transfers that are no requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from pdscope.analysis.signals import compute_signals
from pdscope.model.metric import Metric
from pdscope.model.scrape import SeriesKey
from pdscope.model.signal import Quality, SignalId, SignalSet
from pdscope.model.topology import Deployment, Role
from pdscope.model.window import Window
from support.windows import INF, NOW, VLLM, deployment, histogram, instance, rising, times, window

PAIR = deployment()
RX, TX = Metric.KV_AGENT_RX_BYTES, Metric.KV_AGENT_TX_BYTES
BYTES = (1e6, 1e8, 1e10, INF)
SECONDS = (0.01, 0.1, 1.0, 10.0, INF)


def agent(rx: float = 0.0, tx: float = 0.0, *, name: str = "nixl-d0") -> Window:
    """An agent that moves so many bytes a second; one that moves none in a direction has never done so."""
    columns = {metric: rising(rate) if rate else 0.0 for metric, rate in ((RX, rx), (TX, tx))}
    return window(columns, target=name, source="nixl")


def signals(
    agents: Mapping[str, Sequence[Window]], engines: Mapping[str, Sequence[Window]] | None = None, of: Deployment = PAIR
) -> SignalSet:
    return compute_signals(of, engines or {}, agents, NOW, 60.0)


def test_decode_that_pulls() -> None:
    """The rate of the bytes received, measured, with where it comes from."""
    found = signals({"d0": [agent(rx=3e8)]}).get(SignalId.KV_ACHIEVED)
    assert found is not None
    assert found.value == pytest.approx(3e8)
    assert found.quality is Quality.MEASURED
    assert found.source == "bytes that the transfer agents of nixl-d0 counted"


def test_both_directions_and_all_agents_add_up() -> None:
    """Each counts what it starts, so no byte is there twice."""
    found = signals({"d0": [agent(rx=3e8)], "p0": [agent(tx=1e8, name="nixl-p0")]})
    assert found.value(SignalId.KV_ACHIEVED) == pytest.approx(4e8)


def test_the_peer_of_one_that_starts_says_nothing() -> None:
    """Under pull prefill's agent counts nothing, for ever: that is not zero bytes a second."""
    assert signals({"p0": [agent()]}).get(SignalId.KV_ACHIEVED) is None


def test_an_agent_at_rest() -> None:
    """One that has counted before and gains nothing now does say zero."""
    rest = window({RX: 5e9, TX: 0.0}, target="nixl-d0", source="nixl")
    assert signals({"d0": [rest]}).value(SignalId.KV_ACHIEVED) == 0


def test_engines_that_count_bytes_come_first() -> None:
    """What they say is about requests too, and adding both would count twice."""
    moved = window(histograms={Metric.KV_TRANSFER_BYTES: histogram(BYTES, [6e8] * 10, history=[1e9])})
    found = signals({"d0": [agent(rx=9e9)]}, {"p0": [moved]})
    assert found.value(SignalId.KV_ACHIEVED) == pytest.approx(1e8)


def test_ranks_are_added_and_their_restarts_corrected_one_by_one() -> None:
    """A rank that begins anew falls, while the sum of both may not show it."""
    of = deployment(instance("p0", Role.PREFILL, tp=2), instance("d0", Role.DECODE, tp=2))
    a, b = rising(1e8), rising(1e8, start=0.0)
    b[7:] -= b[7]
    columns = {SeriesKey(RX): a + b, SeriesKey(RX, "a/0"): a, SeriesKey(RX, "a/1"): b}
    both = Window("nixl-d0", "nixl", times(), columns, {}, {}, frozenset())
    found = signals({"d0": [both]}, of=of).get(SignalId.KV_ACHIEVED)
    assert found is not None
    assert found.quality is Quality.MEASURED
    assert found.value == pytest.approx(1e8 + 1e8 * 11 / 12)


def test_one_rank_of_several_is_a_lower_bound() -> None:
    """With the plain exporter one process has the port; the others are not on the page."""
    of = deployment(instance("p0", Role.PREFILL, tp=4), instance("d0", Role.DECODE, tp=4))
    found = signals({"d0": [agent(rx=1e8)]}, of=of).get(SignalId.KV_ACHIEVED)
    assert found is not None
    assert found.quality is Quality.ESTIMATED
    assert "at least" in found.source


def test_an_engine_for_both_stages_has_no_transfer() -> None:
    """Whatever its agents move, it is not between prefill and decode."""
    of = deployment(instance("u0", Role.UNIFIED))
    assert signals({"u0": [agent(rx=1e8)]}, of=of).get(SignalId.KV_ACHIEVED) is None


def test_transfers_of_ranks_are_no_requests() -> None:
    """Mooncake in vLLM pushes: prefill has one observation for each remote rank, so bytes go by tokens."""
    of = deployment(instance("p0", Role.PREFILL, VLLM, tp=2), instance("d0", Role.DECODE, VLLM, tp=2))
    pushed = window(
        histograms={
            Metric.KV_TRANSFER_BYTES: histogram(BYTES, [3e8] * 20),
            Metric.KV_TRANSFER_TIME: histogram(SECONDS, [0.05] * 20),
            Metric.KV_DESCRIPTORS: histogram((100.0, INF), [50.0] * 20),
        },
        target="p0",
    )
    finished = window({Metric.REQUESTS_FINISHED: rising(10 / 60)})
    found = signals({}, {"p0": [pushed], "d0": [finished]}, of)
    assert found.value(SignalId.KV_BYTES_PER_REQUEST) == pytest.approx(6e8)
    assert found.value(SignalId.TRANSFER_TIME) == pytest.approx(0.05)
