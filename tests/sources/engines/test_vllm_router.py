"""vllm-router: what its real pages give, and that its names do not make it a vLLM engine."""

from __future__ import annotations

import pytest

from pdscope.model.metric import Metric
from pdscope.model.scrape import FailureReason
from pdscope.model.topology import Role
from support.pages import page, read_engine

LOADED = "vllm_router-0.1.17-loaded.prom"
IDLE = "vllm_router-0.1.17-idle.prom"


@pytest.mark.parametrize("role", [None, Role.ROUTER])
@pytest.mark.parametrize("engine", [None, "vllm_router", "vllm"])
def test_gauges_and_counters(engine: str | None, role: Role | None) -> None:
    """What arrived, and what decode workers have, added over workers; also where engine and role are not known."""
    reading = read_engine(page(LOADED), engine=engine, role=role)
    assert reading.scrape.source == "vllm_router"
    assert reading.scalars() == {
        Metric.REQUESTS_ARRIVED: 14,
        Metric.DECODE_PENDING: 0 + 0,
        Metric.IN_FLIGHT: 8 + 0,
    }
    assert reading.scrape.facts == {}


def test_requests_of_all_routes() -> None:
    """Chat and plain completions arrive both."""
    body = page(LOADED) + b'vllm_router_pd_requests_total{route="/v1/completions"} 6\n'
    assert read_engine(body).value(Metric.REQUESTS_ARRIVED) == 20


def test_a_summary_is_no_histogram() -> None:
    """`pd_decode_pending_seconds` holds quantiles, which cannot be joined with anything."""
    assert b'vllm_router_pd_decode_pending_seconds{quantile="0.5"}' in page(LOADED)
    assert read_engine(page(LOADED)).histograms() == {}


def test_before_the_first_request() -> None:
    """Six lines of health; no request has arrived so far."""
    reading = read_engine(page(IDLE))
    assert reading.scrape.ok
    assert reading.scrape.source == "vllm_router"
    assert reading.known() == set()
    assert reading.lazy() == {Metric.REQUESTS_ARRIVED}


@pytest.mark.parametrize("name", [LOADED, IDLE])
@pytest.mark.parametrize("engine", [None, "vllm", "vllm_router"])
@pytest.mark.parametrize("role", [Role.PREFILL, Role.DECODE, Role.UNIFIED])
def test_the_router_is_no_engine(role: Role, engine: str | None, name: str) -> None:
    """`vllm_router_` begins as an escaped `vllm:` does; configured as an engine, the page is refused with its name."""
    scrape = read_engine(page(name), engine=engine, role=role).scrape
    assert scrape.reason is FailureReason.METRICS_OFF
    assert "the page is of vllm_router, which this target is not" in scrape.detail


@pytest.mark.parametrize("name", ["vllm-0.32.0-idle.prom", "vllm-0.32.0-nixl-p-overload.prom"])
def test_an_engine_is_no_router(name: str) -> None:
    """Configured as one, vLLM's page is refused with its name, in either spelling."""
    for body in (page(name), page(name).replace(b"vllm:", b"vllm_")):
        scrape = read_engine(body, engine="vllm_router", role=Role.ROUTER).scrape
        assert scrape.reason is FailureReason.METRICS_OFF
        assert "the page is of vllm, which this target is not" in scrape.detail


def test_an_engine_in_the_other_spelling_is_still_one() -> None:
    """An escaped vLLM page is not taken for a router's."""
    body = page("vllm-0.32.0-overload.prom").replace(b"vllm:", b"vllm_")
    assert read_engine(body).scrape.source == "vllm"
