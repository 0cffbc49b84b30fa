"""Dynamo: the frontend as a router, workers read together with their engine, labels and prefixes that others rename."""

from __future__ import annotations

import math
import re

import pytest

from pdscope.model.metric import Fact, Metric
from pdscope.model.scrape import FailureReason
from pdscope.model.topology import Role
from pdscope.sources.engines.dynamo import ADAPTERS
from pdscope.sources.reader import role_of
from support.pages import page, printed, read_engine

FRONTEND = "dynamo-1.6.1-frontend-longhigh-bw450-t0.prom"
LATER = "dynamo-1.6.1-frontend-longhigh-bw450-t1.prom"
PREFILL = "dynamo-1.6.1-prefill1-longhigh-bw450-t1.prom"
DECODE = "dynamo-1.6.1-decode1-longhigh-bw450-t1.prom"

ROUTER_TTFT = "dynamo_component_router_time_to_first_token_seconds"
SCALARS = {
    FRONTEND: {
        Metric.REQUESTS_ARRIVED: 502.0,
        Metric.REQUESTS_FINISHED: 478.0,
        Metric.GENERATED_TOKENS: 62943.0,
        Metric.IN_FLIGHT: 24.0,
        Metric.PREFILL_PENDING: 0.0,
        Metric.WORKER_PREFILL_TOKENS: 0.0,
        Metric.DECODE_PENDING: 1.0,
        Metric.KV_POOL_PAGES: 16384.0,
        Metric.PAGE_TOKENS: 64.0,
    },
    LATER: {
        Metric.REQUESTS_ARRIVED: 674.0,
        Metric.REQUESTS_FINISHED: 653.0,
        Metric.GENERATED_TOKENS: 84604.0,
        Metric.IN_FLIGHT: 21.0,
        Metric.PREFILL_PENDING: 2.0,
        Metric.WORKER_PREFILL_TOKENS: 3202.0,
        Metric.DECODE_PENDING: 1.0,
        Metric.KV_POOL_PAGES: 16384.0,
        Metric.PAGE_TOKENS: 64.0,
    },
    PREFILL: {
        Metric.IN_FLIGHT: 5.0,
        Metric.REQUESTS_ARRIVED: 677.0,
    },
    DECODE: {
        Metric.IN_FLIGHT: 12.0,
        Metric.REQUESTS_ARRIVED: 343.0,
        Metric.RUNNING: 10.0,
        Metric.WAITING: 1.0,
        Metric.KV_USAGE: 0.0177001953125,
        Metric.PREEMPTIONS: 0.0,
    },
}
HISTOGRAMS = {
    FRONTEND: {
        Metric.TTFT: (501.0, 139.22622592399995),
        Metric.ITL: (61730.0, 462.7157413590001),
        Metric.PROMPT_LENGTH: (501.0, 802015.0),
        Metric.PREFILL_STAGE_TIME: (1003.0, 213.2924963920002),
    },
    LATER: {
        Metric.TTFT: (670.0, 195.419148974),
        Metric.ITL: (83315.0, 636.8079348939996),
        Metric.PROMPT_LENGTH: (670.0, 1072553.0),
        Metric.PREFILL_STAGE_TIME: (1340.0, 302.57608680600066),
    },
    PREFILL: {Metric.HANDOVER_TIME: (672.0, 153.8245600200001)},
    DECODE: {
        Metric.TTFT: (341.0, 60.44968470599999),
        Metric.ITL: (42486.0, 327.3118255350031),
    },
}
ENGINE_COPIES = b"""\
# TYPE sglang_num_running_reqs gauge
sglang_num_running_reqs{worker_addr="grpc://10.0.0.1:8001"} 8
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 9
"""


@pytest.mark.parametrize("name", SCALARS)
def test_gauges_and_counters(name: str) -> None:
    """All of them and no other."""
    assert read_engine(page(name)).scalars() == SCALARS[name]


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms(name: str) -> None:
    """All of them and no other."""
    assert read_engine(page(name)).histograms() == HISTOGRAMS[name]


@pytest.mark.parametrize(
    ("name", "metric", "family", "labels"),
    [
        (FRONTEND, Metric.TTFT, "dynamo_frontend_time_to_first_token_seconds", {}),
        (FRONTEND, Metric.ITL, "dynamo_frontend_inter_token_latency_seconds", {}),
        (FRONTEND, Metric.PREFILL_STAGE_TIME, ROUTER_TTFT, {}),
        (
            PREFILL,
            Metric.HANDOVER_TIME,
            "dynamo_component_request_duration_seconds",
            {"dynamo_endpoint": "generate"},
        ),
        (DECODE, Metric.TTFT, "vllm:time_to_first_token_seconds", {}),
    ],
)
def test_buckets(name: str, metric: Metric, family: str, labels: dict[str, str]) -> None:
    """Bucket by bucket what the official parser finds; the frontend's first bucket ends at zero."""
    found = read_engine(page(name)).buckets(metric)
    assert found == printed(name, family).buckets(family, 1.0, **labels)
    assert found is not None
    assert (0.0 in found.cumulative) is (name == FRONTEND)


def test_a_worker_serves_other_endpoints_too() -> None:
    """Queries for KV are no requests of users."""
    own = printed(PREFILL, "dynamo_component_requests_total")
    assert own.value("dynamo_component_requests_total") > own.value(
        "dynamo_component_requests_total", dynamo_endpoint="generate"
    )
    assert read_engine(page(PREFILL)).value(Metric.REQUESTS_ARRIVED) == 677


def test_labels_that_prometheus_has_renamed() -> None:
    """Field lesson E17: `exported_endpoint` where Prometheus' own target labels hide the worker's."""
    body = page(PREFILL).replace(b"dynamo_endpoint=", b"exported_endpoint=")
    body = body.replace(b"dynamo_namespace=", b"exported_namespace=")
    reading = read_engine(body)
    assert reading.scalars() == SCALARS[PREFILL]
    assert reading.histograms() == HISTOGRAMS[PREFILL]
    assert role_of(reading.scrape.facts, ADAPTERS) is Role.PREFILL


def test_another_prefix() -> None:
    """Field lesson E17: DYN_METRICS_PREFIX renames everything; that is said, not guessed."""
    scrape = read_engine(page(FRONTEND).replace(b"dynamo_", b"acme_"), engine="dynamo", role=Role.ROUTER).scrape
    assert scrape.reason is FailureReason.METRICS_OFF
    assert "without DYN_METRICS_PREFIX" in scrape.detail


def test_the_role_is_the_component() -> None:
    """`backend` is what decodes."""
    assert role_of(read_engine(page(PREFILL)).scrape.facts, ADAPTERS) is Role.PREFILL
    assert role_of(read_engine(page(DECODE)).scrape.facts, ADAPTERS) is Role.DECODE
    assert read_engine(page(FRONTEND)).scrape.facts == {Fact.MODEL: "tiny"}


@pytest.mark.parametrize(
    ("engine", "source"),
    [(None, "dynamo_worker"), ("dynamo", "dynamo_worker"), ("llm_d", "dynamo_worker"), ("vllm", "vllm")],
)
@pytest.mark.parametrize("role", [None, Role.DECODE, Role.UNIFIED])
def test_a_worker_is_read_with_its_engine(engine: str | None, source: str, role: Role | None) -> None:
    """The engine that the configuration names comes first; both are read in any case."""
    reading = read_engine(page(DECODE), engine=engine, role=role)
    assert reading.scrape.source == source
    assert reading.scalars() == SCALARS[DECODE]
    assert reading.histograms() == HISTOGRAMS[DECODE]
    assert reading.scrape.facts == {Fact.ROLE: "backend", Fact.MODEL: "tiny", Fact.WORKER_ID: "368f0188acb8eed4"}


def test_a_worker_with_sglang_inside() -> None:
    """Whatever engine passes its series through is read."""
    engine = re.sub(rb"(?m)^(?!sglang:num_).*\n", b"", page("sglang-0.5.23-decode.prom"))
    reading = read_engine(page("dynamo-1.6.1-decode1-idle.prom") + engine, engine="dynamo")
    assert reading.value(Metric.RUNNING) == 8
    assert reading.value(Metric.DECODE_ALLOCATION_QUEUE) == 1
    assert reading.value(Metric.IN_FLIGHT) == 0
    assert role_of(reading.scrape.facts, ADAPTERS) is Role.DECODE


def test_a_worker_whose_engine_has_two_registries() -> None:
    """Field lesson E11: a family in two blocks, with HELP and TYPE twice, counts once, as last printed."""
    block = re.sub(rb"(?m)^(?!.*vllm:num_requests_running).*\n", b"", page(DECODE))
    assert block.count(b"# TYPE") == 1
    reading = read_engine(page(DECODE) + block.replace(b"} 10\n", b"} 11\n"))
    assert reading.value(Metric.RUNNING) == 11
    assert reading.scrape.quality.duplicate_samples == 1


def test_before_the_first_request() -> None:
    """The frontend prints nothing of requests yet, which means none so far; what its workers registered is there."""
    reading = read_engine(page("dynamo-1.6.1-frontend-idle.prom"))
    assert reading.scrape.source == "dynamo"
    assert reading.lazy() == {
        Metric.TTFT,
        Metric.ITL,
        Metric.REQUESTS_ARRIVED,
        Metric.REQUESTS_FINISHED,
        Metric.GENERATED_TOKENS,
        Metric.PROMPT_LENGTH,
    }
    assert reading.scalars() == {Metric.KV_POOL_PAGES: 16384, Metric.PAGE_TOKENS: 64}
    assert reading.histograms() == {Metric.PREFILL_STAGE_TIME: (0, 0)}


@pytest.mark.parametrize("worker", ["prefill1", "decode1"])
def test_idle_workers(worker: str) -> None:
    """A worker counts from the start; its engine prints nothing before its first request."""
    reading = read_engine(page(f"dynamo-1.6.1-{worker}-idle.prom"))
    assert reading.scalars() == {Metric.IN_FLIGHT: 0, Metric.REQUESTS_ARRIVED: 0}
    assert reading.lazy() == set()


def test_a_pool_of_no_blocks_is_unknown() -> None:
    """Before a worker has registered, the frontend says 0."""
    body = page(FRONTEND).replace(b'total_kv_blocks{model="tiny"} 16384', b'total_kv_blocks{model="tiny"} 0')
    pages = read_engine(body).value(Metric.KV_POOL_PAGES)
    assert pages is not None
    assert math.isnan(pages)


@pytest.mark.parametrize("copies", [b"", ENGINE_COPIES], ids=["as_recorded", "with_series_of_engines"])
@pytest.mark.parametrize("engine", [None, "dynamo", "vllm", "sglang"])
@pytest.mark.parametrize("role", [Role.PREFILL, Role.DECODE, Role.UNIFIED])
@pytest.mark.parametrize("name", [FRONTEND, "dynamo-1.6.1-frontend-idle.prom"])
def test_the_frontend_is_no_engine(name: str, role: Role, engine: str | None, copies: bytes) -> None:
    """Configured as one, its page is refused with its name."""
    scrape = read_engine(page(name) + copies, engine=engine, role=role).scrape
    assert scrape.reason is FailureReason.METRICS_OFF
    assert scrape.detail.startswith("the page is of dynamo, which this target is not")
    assert scrape.facts == {}


@pytest.mark.parametrize("engine", [None, "dynamo", "vllm", "sglang"])
@pytest.mark.parametrize("role", [None, Role.ROUTER])
def test_the_frontend_is_a_router(role: Role | None, engine: str | None) -> None:
    """Also where the role is not known, and with series of engines on its page."""
    reading = read_engine(page(FRONTEND) + ENGINE_COPIES, engine=engine, role=role)
    assert reading.scrape.source == "dynamo"
    assert reading.scalars() == SCALARS[FRONTEND]


@pytest.mark.parametrize("name", [PREFILL, DECODE, "dynamo-1.6.1-decode1-idle.prom"])
def test_a_worker_is_no_router(name: str) -> None:
    """Configured as one, its page is refused with its name."""
    scrape = read_engine(page(name), engine="dynamo", role=Role.ROUTER).scrape
    assert scrape.reason is FailureReason.METRICS_OFF
    assert "the page is of dynamo_worker" in scrape.detail


def test_a_node_that_does_not_lead() -> None:
    """Field lesson E20: the other nodes of a worker answer without its series; that is no outage and no zero."""
    body = b"# TYPE python_info gauge\npython_info 1.0\n# TYPE process_open_fds gauge\nprocess_open_fds 40.0\n"
    scrape = read_engine(body, engine="dynamo", role=Role.DECODE).scrape
    assert scrape.reason is FailureReason.METRICS_OFF
    assert scrape.row is None
