"""llm-d's endpoint picker: read by its documented names, and only as a router."""

from __future__ import annotations

import math
import re

import pytest

from pdscope.model.metric import Fact, Metric
from pdscope.model.scrape import FailureReason
from pdscope.model.topology import Role
from support.pages import EXPOSITIONS, Buckets, page, read_engine

PAGE = (EXPOSITIONS.parent / "expositions-made" / "llm_d.prom").read_bytes()


@pytest.mark.parametrize("engine", [None, "llm_d"])
@pytest.mark.parametrize("role", [None, Role.ROUTER])
def test_what_is_read(engine: str | None, role: Role | None) -> None:
    """Requests of all priorities, those in flight, and nothing that is a mean over pods."""
    reading = read_engine(PAGE, engine=engine, role=role)
    assert reading.scrape.source == "llm_d"
    assert reading.scalars() == {Metric.REQUESTS_ARRIVED: 125, Metric.IN_FLIGHT: 5}
    assert reading.histograms() == {Metric.TTFT: (121, 66.25), Metric.PROMPT_LENGTH: (120, 180_000)}
    assert reading.scrape.facts == {Fact.MODEL: "tiny"}


def test_the_wait_of_the_client() -> None:
    """Bucket by bucket, in seconds."""
    assert read_engine(PAGE).buckets(Metric.TTFT) == Buckets({0.1: 10, 0.5: 70, 1.0: 110, math.inf: 121}, 66.25)


def test_the_mean_of_a_request_is_no_token_latency() -> None:
    """`request_tpot_seconds` has one observation a request."""
    assert b"inference_objective_request_tpot_seconds_count" in PAGE
    assert read_engine(PAGE).buckets(Metric.ITL) is None


@pytest.mark.parametrize("role", [Role.PREFILL, Role.DECODE, Role.UNIFIED])
def test_it_is_no_engine(role: Role) -> None:
    """Its url as that of an engine is refused with the reason."""
    scrape = read_engine(PAGE, role=role).scrape
    assert scrape.reason is FailureReason.METRICS_OFF
    assert "llm_d" in scrape.detail


def test_before_the_first_request() -> None:
    """Only the pool is known; requests count from zero."""
    idle = b"\n".join(line for line in PAGE.splitlines() if b"inference_objective" not in line) + b"\n"
    reading = read_engine(idle)
    assert reading.scrape.source == "llm_d"
    assert reading.known() == set()
    assert reading.lazy() == {Metric.TTFT, Metric.REQUESTS_ARRIVED, Metric.PROMPT_LENGTH}


def test_several_models_are_not_named() -> None:
    """A fact that a page states in two ways is none; their requests add up."""
    body = re.sub(
        rb'(?m)^(inference_objective_request_total\{model_name=)"tiny"(.*priority="1")', rb'\1"other"\2', PAGE
    )
    reading = read_engine(body)
    assert Fact.MODEL not in reading.scrape.facts
    assert reading.value(Metric.REQUESTS_ARRIVED) == 125


@pytest.mark.parametrize(
    "name", ["vllm-0.32.0-idle.prom", "smg-1.13.0-sglang-idle.prom", "vllm_router-0.1.17-idle.prom"]
)
def test_other_programs(name: str) -> None:
    """Whose page it is decides the page, not the configuration."""
    assert read_engine(page(name), engine="llm_d").scrape.source != "llm_d"
