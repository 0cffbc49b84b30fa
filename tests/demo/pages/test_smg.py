"""The gateway's page: as recorded but for the values, and true to the simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isnan

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pdscope.demo.physics.draw import Deployment, Draw, Frontend, Link, Traffic
from pdscope.demo.physics.request import End

from .conftest import Rig, Text

_HIDDEN = frozenset({"worker", "model", "policy"})
_DRAW = Draw(deployment=Deployment(2, 2), link=Link(failing_pairs=((0, 0),)), traffic=Traffic(requests_per_second=6.0))


@pytest.fixture(scope="module")
def loaded(rig: type[Rig]) -> Rig:
    """Two prefill and two decode workers, of which two cannot talk, for looking at only."""
    return rig(_DRAW).run(60.0)


def test_page_is_as_recorded(
    loaded: Rig, recorded: Callable[[str], str], assert_same_shape: Callable[..., None]
) -> None:
    """Here the answers that failed are counted, too."""
    real = recorded("smg-1.13.0-sglang-loaded.prom")
    more = frozenset({"smg_http_responses_total"})
    assert_same_shape(loaded.body("router"), real, hidden=_HIDDEN, more=more)


def test_fresh_page_is_as_recorded(
    rig: type[Rig], recorded: Callable[[str], str], assert_same_shape: Callable[..., None]
) -> None:
    """Nothing of requests before the first one."""
    assert_same_shape(rig(_DRAW).body("router"), recorded("smg-1.13.0-sglang-idle.prom"), hidden=_HIDDEN)


def test_official_parser_reads_the_page(loaded: Rig) -> None:
    """Every line of it."""
    body = loaded.body("router").decode()
    samples = [sample for family in text_string_to_metric_families(body) for sample in family.samples]
    assert len(samples) == sum(bool(line) and not line.startswith("#") for line in body.splitlines())


def test_labels_stand_as_recorded(loaded: Rig, recorded: Callable[[str], str]) -> None:
    """In the library's order, which is not that of the alphabet, with whole numbers as such."""

    def line(text: str) -> str:
        return next(one for one in text.splitlines() if one.startswith("smg_router_requests_total{"))

    real = line(recorded("smg-1.13.0-sglang-loaded.prom")).replace("tiny", loaded.simulation.draw.model)
    assert line(loaded.body("router").decode()) == real.replace(" 27", f" {len(loaded.simulation.requests)}")


def test_numbers_are_those_of_the_simulation(loaded: Rig) -> None:
    """Arrivals, first tokens, and what is under way."""
    requests, text = loaded.simulation.requests, loaded.text("router")
    first = [one for one in requests if one.first_token_at == one.first_token_at]
    assert text.value("smg_router_requests_total") == len(requests)
    assert text.value("smg_pd_ttft_seconds", "_count") == len(first)
    waited = sum(one.ttft_seconds for one in first)
    assert text.value("smg_pd_ttft_seconds", "_sum") == pytest.approx(waited)
    assert text.value("smg_admission_inflight") == sum(not one.is_over for one in requests)
    failed = sum(one.end is End.TRANSFER_FAILED for one in requests)
    assert text.value("smg_http_responses_total", status_code="500") == failed > 0
    assert text.value("smg_worker_requests_total", worker="http://d0:30000") == sum(one.decode == 0 for one in requests)


def test_prefill_answers_after_the_transfer_for_sglang_only(rig: type[Rig]) -> None:
    """So the gateway's time of prefill is another thing by engine."""
    for engine, stamp in (("sglang", "prefill_released_at"), ("vllm", "prefill_ended_at")):
        run = rig(Draw(engine=engine, traffic=Traffic(requests_per_second=2.0))).run(60.0)
        ends = [(getattr(one, stamp), one.routed_at) for one in run.simulation.requests]
        total = sum(end - start for end, start in ends if not isnan(end))
        text = run.text("router")
        assert text.value("smg_pd_prefill_duration_seconds", "_sum", runtime=engine) == pytest.approx(total)


def test_a_slow_router_is_busy(rig: type[Rig]) -> None:
    """Its work is in the client's time to first token, and in no engine's."""
    draw = replace(_DRAW, link=Link(), frontend=Frontend(router_seconds=0.16))
    run = rig(draw).run(60.0)
    text = run.text("router")
    assert text.value("smg_tokio_worker_busy_ratio", worker="0") > 0.8

    def mean(page: Text, name: str, **labels: str) -> float:
        return page.value(name, "_sum", **labels) / page.value(name, "_count", **labels)

    engine = mean(run.text("d0"), "sglang:time_to_first_token_seconds", is_streaming="true")
    assert mean(text, "smg_pd_ttft_seconds") > engine + 0.3


def test_unified_workers_are_regular(rig: type[Rig]) -> None:
    """Without prefill and decode apart there is no such time."""
    text = rig(Draw(deployment=Deployment(0, 0, 2))).run(20.0).text("router")
    assert text.value("smg_worker_pool_size", worker_type="regular") == 2
    assert "smg_pd_ttft_seconds" not in text.families
