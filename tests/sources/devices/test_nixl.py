"""NIXL's own exporter: bytes, microseconds, ranks, on its real pages."""

from __future__ import annotations

import pytest

from pdscope.model.metric import Metric
from pdscope.model.scrape import FailureReason
from support.pages import page, printed, read_devices, read_engine

ALONE = "nixl-1.5.1-initiator-loaded.prom"
RANKS = "nixl-1.5.1-mp-tp2-loaded.prom"
DECODE, PREFILL = "nixl-1.5.1-telemetry-vllm-d.prom", "nixl-1.5.1-telemetry-vllm-p.prom"
SERIES = {
    Metric.KV_AGENT_RX_BYTES: ("agent_rx_bytes_total", 1.0),
    Metric.KV_AGENT_TX_BYTES: ("agent_tx_bytes_total", 1.0),
    Metric.KV_AGENT_TIME: ("agent_xfer_time_total", 1e-6),
    Metric.KV_AGENT_ERRORS: ("agent_errors_total", 1.0),
}


@pytest.mark.parametrize("name", [ALONE, RANKS, DECODE, PREFILL])
def test_every_page(name: str) -> None:
    """All four counters as the official parser has them, errors of every status together."""
    reading = read_devices(page(name), source="nixl")
    assert reading.scrape.source == "nixl"
    own = printed(name, "agent_")
    assert reading.scalars() == pytest.approx({m: own.value(series) * scale for m, (series, scale) in SERIES.items()})


def test_known_bytes() -> None:
    """31 transfers of 64 MiB in 6.06 s."""
    reading = read_devices(page(ALONE), source="nixl")
    assert reading.value(Metric.KV_AGENT_RX_BYTES) == 31 * 64 * 2**20
    assert reading.value(Metric.KV_AGENT_TIME) == pytest.approx(6.062273)


def test_decode_pulls_and_prefill_counts_nothing() -> None:
    """40 prompts of 512 tokens of 8 KiB: exact on the side that starts, zero on the other."""
    assert read_devices(page(DECODE), source="nixl").value(Metric.KV_AGENT_RX_BYTES) == 40 * 512 * 8192
    assert read_devices(page(PREFILL), source="nixl").value(Metric.KV_AGENT_RX_BYTES) == 0


def test_ranks() -> None:
    """`prometheus_mp` has each rank apart; their bytes are parts of the whole."""
    reading = read_devices(page(RANKS), source="nixl")
    assert reading.ranks(Metric.KV_AGENT_RX_BYTES) == {"initiator/0/0", "initiator/0/1"}
    assert reading.value(Metric.KV_AGENT_RX_BYTES, "initiator/0/1") == 2_449_473_536
    assert reading.value(Metric.KV_AGENT_RX_BYTES) == 2_449_473_536 + 2_483_027_968


def test_one_rank_alone() -> None:
    """`select` picks the ranks of an instance."""
    reading = read_devices(page(RANKS), source="nixl", select={"local_rank": "0"})
    assert reading.scalars()[Metric.KV_AGENT_RX_BYTES] == 2_483_027_968


def test_last_values_are_not_read() -> None:
    """`agent_rx_last_bytes` and `agent_xfer_time` hold the last transfer only."""
    lines = [
        line
        for line in page(ALONE).splitlines()
        if not line.startswith((b"agent_rx_bytes_total", b"agent_xfer_time_total"))
    ]
    known = read_devices(b"\n".join(lines) + b"\n", source="nixl").known()
    assert known == {Metric.KV_AGENT_TX_BYTES, Metric.KV_AGENT_ERRORS}


def test_another_page() -> None:
    """A page without agents is refused, and an agent is no engine."""
    assert read_devices(page("vllm-0.32.0-idle.prom"), source="nixl").scrape.reason is FailureReason.METRICS_OFF
    assert read_engine(page(ALONE)).scrape.reason is FailureReason.METRICS_OFF
