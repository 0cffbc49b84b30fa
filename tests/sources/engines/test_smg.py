"""The SGLang model gateway and sglang_router: what their real pages give, and that they are never read as an engine."""

from __future__ import annotations

import pytest

from pdscope.model.metric import Fact, Metric
from pdscope.model.scrape import FailureReason
from pdscope.model.topology import Role
from support.pages import page, printed, read_engine

GATEWAY = "smg-1.13.0-sglang-loaded.prom"
ROUTER = "sglang_router-0.3.2-loaded.prom"

SCALARS = {
    GATEWAY: {Metric.REQUESTS_ARRIVED: 27.0, Metric.IN_FLIGHT: 8.0},
    ROUTER: {Metric.REQUESTS_ARRIVED: 114.0},
}
# What the gateway prints of its workers when it passes their metrics on: another spelling, its own label, integers.
COPIES = b"""\
# TYPE sglang_num_running_reqs gauge
sglang_num_running_reqs{worker_addr="grpc://127.0.0.1:8001",engine_type="decode",model_name="m",tp_rank="0"} 8
# TYPE sglang_time_to_first_token_seconds histogram
sglang_time_to_first_token_seconds_bucket{worker_addr="grpc://127.0.0.1:8001",le="1"} 3
sglang_time_to_first_token_seconds_bucket{worker_addr="grpc://127.0.0.1:8001",le="+Inf"} 4
sglang_time_to_first_token_seconds_sum{worker_addr="grpc://127.0.0.1:8001"} 5
sglang_time_to_first_token_seconds_count{worker_addr="grpc://127.0.0.1:8001"} 4
"""


@pytest.mark.parametrize("name", SCALARS)
def test_gauges_and_counters(name: str) -> None:
    """All of them and no other: what workers do is theirs to say."""
    reading = read_engine(page(name))
    assert reading.scrape.source == "smg"
    assert reading.scalars() == SCALARS[name]
    assert reading.scrape.facts == {Fact.MODEL: "tiny"}


def test_the_wait_of_the_client() -> None:
    """It is `smg_pd_ttft_seconds`, bucket by bucket."""
    reading = read_engine(page(GATEWAY))
    assert reading.histograms() == {Metric.TTFT: (21, 10.201499801000002)}
    assert reading.buckets(Metric.TTFT) == printed(GATEWAY, "smg_pd_ttft_seconds").buckets("smg_pd_ttft_seconds")


def test_the_leg_of_decode_is_not_the_wait() -> None:
    """`smg_router_ttft_seconds` of backend `pd` begins when decode is asked, so it does not stand in."""
    body = page(GATEWAY).replace(b"smg_pd_ttft_seconds", b"smg_router_ttft_seconds")
    assert read_engine(body).histograms() == {}


def test_the_older_router_measures_no_wait() -> None:
    """sglang_router 0.3 has no TTFT."""
    assert read_engine(page(ROUTER)).histograms() == {}


@pytest.mark.parametrize("name", ["smg-1.13.0-sglang-idle.prom", "sglang_router-0.3.2-idle.prom"])
def test_before_the_first_request(name: str) -> None:
    """Counters appear with the first request, so their absence means none so far."""
    reading = read_engine(page(name))
    assert reading.scrape.ok
    assert reading.scrape.source == "smg"
    assert reading.known() == set()
    assert reading.lazy() == {Metric.TTFT, Metric.REQUESTS_ARRIVED}
    assert reading.scrape.facts == {}


@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.parametrize("engine", [None, "smg", "sglang"])
@pytest.mark.parametrize("role", [None, Role.ROUTER])
def test_copies_of_engines_are_not_read(name: str, role: Role | None, engine: str | None) -> None:
    """Field lesson E16: neither `smg_engine_*` nor `sglang_*` with `worker_addr` makes the gateway an engine."""
    assert b"smg_engine_running_requests" in page(GATEWAY)
    reading = read_engine(page(name) + COPIES, engine=engine, role=role)
    assert reading.scrape.source == "smg"
    assert reading.scalars() == SCALARS[name]
    assert reading.scrape.facts == {Fact.MODEL: "tiny"}


@pytest.mark.parametrize("copies", [b"", COPIES], ids=["as_recorded", "with_copies"])
@pytest.mark.parametrize("name", [GATEWAY, ROUTER, "smg-1.13.0-sglang-idle.prom", "sglang_router-0.3.2-idle.prom"])
@pytest.mark.parametrize("role", [Role.PREFILL, Role.DECODE, Role.UNIFIED])
def test_a_gateway_is_no_engine(role: Role, name: str, copies: bytes) -> None:
    """Configured as one, its page is refused with its name."""
    scrape = read_engine(page(name) + copies, engine="sglang", role=role).scrape
    assert scrape.reason is FailureReason.METRICS_OFF
    assert "the page is of smg, which this target is not" in scrape.detail


@pytest.mark.parametrize("name", ["sglang-0.5.23-prefill.prom", "sglang-0.5.23-v1_loads-decode.prom"])
@pytest.mark.parametrize("engine", [None, "smg", "sglang"])
def test_an_engine_is_no_gateway(name: str, engine: str | None) -> None:
    """Configured as a router, an engine's page is refused with its name, in either spelling."""
    for body in (page(name), page(name).replace(b"sglang:", b"sglang_")):
        scrape = read_engine(body, engine=engine, role=Role.ROUTER).scrape
        assert scrape.reason is FailureReason.METRICS_OFF
        assert "the page is of sglang, which this target is not" in scrape.detail
