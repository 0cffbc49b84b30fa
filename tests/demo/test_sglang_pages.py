"""The pages of the simulated servers: as the engine's own, and true to what the model did."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from pdscope.demo.scenario import SCENARIOS
from pdscope.demo.sglang_server import SglangServer

if TYPE_CHECKING:
    from conftest import Page, Rig

ROLES = ("prefill", "decode")
MIB = 2**20
HEALTHY = SCENARIOS["healthy"]
# What an on-call diagnosis reads; the families that one role alone has are below.
SHARED_FAMILIES = 44
PREFILL_ONLY = {"kv_transfer_latency_ms", "kv_transfer_total_mb", "kv_transfer_speed_gb_s"}
DECODE_ONLY = {
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "request_time_per_output_token_seconds",
}


def captured(fixtures_dir: Path, role: str) -> str:
    return (fixtures_dir / "expositions" / f"sglang-0.5.23-{role}.prom").read_text(encoding="utf-8")


def server_of(run: Rig, role: str) -> SglangServer:
    return run.prefill if role == "prefill" else run.decode


def headers(text: str) -> set[str]:
    return {line for line in text.splitlines() if line.startswith("#")}


def series(text: str) -> list[str]:
    """The lines of a page without their values."""
    return [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("role", ROLES)
def test_every_line_stands_in_a_captured_page(long_run: Callable[[str], Rig], fixtures_dir: Path, role: str) -> None:
    """Names, HELP, TYPE, labels, buckets and ranks are the engine's; only who calls which endpoint may differ."""
    text = server_of(long_run("healthy"), role).metrics()
    real = captured(fixtures_dir, role)
    assert headers(text) <= headers(real)
    real_series = set(series(real))
    strange = [line for line in series(text) if line not in real_series]
    assert strange == ['sglang:http_requests_active{endpoint="/v1/chat/completions",method="POST"}']
    assert 'sglang:http_requests_active{endpoint="/metrics",method="GET"}' in real_series


@pytest.mark.parametrize("role", ROLES)
def test_a_family_is_complete(long_run: Callable[[str], Rig], fixtures_dir: Path, role: str) -> None:
    """Of each family that is there, every series of the captured page is there, but for what never happens here."""
    text = server_of(long_run("healthy"), role).metrics()
    families = {line.split(" ")[2] for line in headers(text) if line.startswith("# TYPE")}
    real = [
        sample
        for family in text_string_to_metric_families(captured(fixtures_dir, role))
        if family.name in families or f"{family.name}_total" in families
        for sample in family.samples
        if sample.labels.get("stage") != "chunked_prefill" and "endpoint" not in sample.labels
    ]
    ours = {
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    missing = [sample.name for sample in real if (sample.name, tuple(sorted(sample.labels.items()))) not in ours]
    assert missing == []


@pytest.mark.parametrize("role", ROLES)
def test_a_histogram_keeps_the_order_of_its_lines(
    long_run: Callable[[str], Rig], fixtures_dir: Path, role: str
) -> None:
    """Within one label set."""
    mark = 'tp_rank="0"'

    def lines(text: str) -> list[str]:
        return [line for line in series(text) if line.startswith("sglang:queue_time_seconds") and mark in line]

    assert lines(server_of(long_run("healthy"), role).metrics()) == lines(captured(fixtures_dir, role))


def test_roles_export_what_the_engine_exports(long_run: Callable[[str], Rig], page: type[Page]) -> None:
    """TTFT and ITL on decode alone, transfers on prefill alone, all queue gauges on both."""
    names = {
        role: {name.removeprefix("sglang:") for name in page(server_of(long_run("healthy"), role)).kinds}
        for role in ROLES
    }
    assert names["prefill"] - names["decode"] == PREFILL_ONLY
    assert names["decode"] - names["prefill"] == DECODE_ONLY
    assert len(names["prefill"] & names["decode"]) == SHARED_FAMILIES


@pytest.mark.parametrize("role", ROLES)
def test_nothing_is_there_before_its_first_event(rig: type[Rig], page: type[Page], role: str) -> None:
    """A server that has done nothing knows its size, its idle time and its seeded counters."""
    kinds = page(server_of(rig(HEALTHY), role)).kinds
    constants = ("max_total_num_tokens", "weight_memory_usage_gb", "kv_cache_memory_usage_gb")
    counters = ("prefill_effective_tokens_total", "scheduler_idle_seconds_total")
    expected = (*constants, "page_size", "num_pages", "context_len", *counters)
    assert set(kinds) == {f"sglang:{name}" for name in expected}


@settings(max_examples=8)
@given(st.floats(1e9, 20e9), st.integers(0, 2**32))
def test_bytes_are_conserved(rig: type[Rig], page: type[Page], link: float, seed: int) -> None:
    """The ranks' parts of the finished transfers add up to the caches of their requests, whole pages."""
    run = rig(replace(HEALTHY, link_bytes_per_second=link), seed)
    run.simulation.advance(25.0)
    transfers = run.prefill_log.transfers
    pages = sum(-(-request.prompt_tokens // 64) for request in transfers)
    expected = pages * 64 * 327_680
    now = page(run.prefill)
    assert sum(now.values("kv_transfer_total_mb_sum")) * MIB == pytest.approx(expected, rel=1e-12)
    assert now.values("kv_transfer_total_mb_count") == [len(transfers)] * 4
    assert now.values("kv_transfer_latency_ms_count") == [len(transfers)] * 4


def _kind(page: Page, sample: str) -> str:
    """Of the family that a sample belongs to."""
    name = sample if sample in page.kinds else sample.rpartition("_")[0]
    return page.kinds[name]


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("role", ROLES)
def test_counters_never_fall(rig: type[Rig], page: type[Page], name: str, role: str) -> None:
    """Nor does any bucket, sum or count of a histogram, and no series disappears."""
    run = rig(SCENARIOS[name])
    before: dict[str, float] = {}
    for second in range(0, 61, 3):
        run.simulation.advance(float(second))
        now = page(server_of(run, role))
        growing = {
            series: value
            for series, value in now.samples.items()
            if _kind(now, series.partition("{")[0]) in {"counter", "histogram"}
        }
        fallen = [key for key, value in before.items() if growing[key] < value]
        assert fallen == []
        before = growing


def test_latencies_are_those_of_the_requests(long_run: Callable[[str], Rig], page: type[Page]) -> None:
    """Sums and counts over the log of the model give the sums and counts of the pages."""
    run = long_run("slow-link")
    prefill, decode = page(run.prefill), page(run.decode)
    streamed = [request for request in run.decode_log.admissions if request.is_streaming]
    waits = [request.transferred_at - request.prefill_finished_at for request in run.prefill_log.transfers]
    ttft = sum(request.first_token_at - request.arrived_at for request in streamed)
    assert decode.value("time_to_first_token_seconds_sum", is_streaming="true") == pytest.approx(ttft)
    assert decode.value("time_to_first_token_seconds_count", is_streaming="true") == len(streamed)
    stage = {"stage": "prefill_transfer_kv_cache", "tp_rank": "2"}
    assert prefill.value("per_stage_req_latency_seconds_sum", **stage) == pytest.approx(sum(waits))
    assert prefill.value("kv_transfer_latency_ms_sum", tp_rank="3") == pytest.approx(sum(waits) * 1e3)
    queued = sum(
        request.prefill_started_at - request.allocated_at
        for batch in run.prefill_log.batches
        for request in batch.requests
    )
    assert prefill.value("queue_time_seconds_sum", tp_rank="0") == pytest.approx(queued)
    assert prefill.value("num_requests_total", is_streaming="true") == sum(
        request.is_streaming for request in run.prefill_log.transfers
    )


def test_each_token_after_the_first_has_its_interval(rig: type[Rig], page: type[Page]) -> None:
    """ITL counts what the tokenizer has seen: all but the first of a stream, all after the fiftieth otherwise."""
    run = rig(HEALTHY)
    run.simulation.advance(60.0)
    expected = 0
    for request in run.decode_log.admissions:
        shown = request.generated_tokens
        first = 1
        if not request.is_streaming:
            complete = request.generated_tokens >= request.output_tokens
            shown = shown if complete else shown // 50 * 50
            first = min(50, shown)
        expected += shown - first
    decode = page(run.decode)
    assert decode.value("inter_token_latency_seconds_count") == expected
    assert decode.value("realtime_tokens_total", mode="decode") == sum(
        len(step.requests) for step in run.decode_log.steps
    )


def test_answers_that_are_not_streamed_are_timed_late(long_run: Callable[[str], Rig], page: type[Page]) -> None:
    """Their TTFT is the time of the fiftieth token, which a reader of the page must leave out."""
    decode = page(long_run("healthy").decode)
    means = {
        streaming: decode.value("time_to_first_token_seconds_sum", is_streaming=streaming)
        / decode.value("time_to_first_token_seconds_count", is_streaming=streaming)
        for streaming in ("true", "false")
    }
    assert means["false"] > means["true"] + 0.9


def test_gauges_stand_still_between_reports_and_loads_does_not(rig: type[Rig], page: type[Page]) -> None:
    """Decode reports every forty steps, prefill when a batch begins; `/v1/loads` shows the present."""
    run = rig(SCENARIOS["slow-link"])
    run.simulation.advance(120.0)
    stale, moved = 0, set()
    for tick in range(200):
        run.simulation.advance(120.0 + tick * 0.05)
        decode, state = page(run.decode), run.simulation.decode.state()
        load = run.decode.loads(0.0)["loads"][0]
        assert load["disaggregation"]["decode_transfer_queue_reqs"] == state.transferring
        assert load["num_running_reqs"] == state.running
        gauge = decode.value("num_decode_transfer_queue_reqs")
        stale += gauge != state.transferring
        moved.add(decode.value("gen_throughput"))
    assert stale > 0
    assert len(moved) == pytest.approx(200 * 0.05 / (40 * 0.021), abs=2)


def test_idle_is_the_time_without_requests(rig: type[Rig], page: type[Page]) -> None:
    """A prefill that waits for the link is not idle to the engine."""
    shares = {}
    for name in SCENARIOS:
        run = rig(SCENARIOS[name])
        run.simulation.advance(300.0)
        shares[name] = page(run.prefill).value("scheduler_idle_seconds_total", tp_rank="0") / 300
    assert shares["healthy"] > 0.3
    assert shares["slow-link"] < 0.05


def test_pool_size_gives_the_bytes_of_a_token(rig: type[Rig], page: type[Page]) -> None:
    """As a reader derives them where no model table is at hand."""
    now = page(rig(HEALTHY).decode)
    gib = now.value("kv_cache_memory_usage_gb", tp_rank="0")
    assert gib * 2**30 / now.value("max_total_num_tokens", tp_rank="0") == pytest.approx(81_920)


def shape(value: Any) -> Any:
    """Keys and types of a JSON value, numbers alike."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return type(value).__name__


@pytest.mark.parametrize("role", ROLES)
def test_json_pages_have_the_shape_of_captured_ones(
    long_run: Callable[[str], Rig], fixtures_dir: Path, role: str
) -> None:
    """Key for key, in order."""
    server = server_of(long_run("healthy"), role)
    for name, body in (("v1_loads", server.loads(1.8e9)), ("model_info", server.model_info())):
        path = fixtures_dir / "expositions" / f"sglang-0.5.23-{name}-{role}.json"
        real = json.loads(path.read_text(encoding="utf-8"))
        assert json.dumps(shape(body)) == json.dumps(shape(real))
    assert server.model_info() == real


def test_loads_accumulate_busy_time_and_steps(rig: type[Rig]) -> None:
    """Prefill's busy microseconds and decode's moments are those of the batches; at first there are none."""
    run = rig(HEALTHY)
    assert run.decode.loads(0.0)["loads"][0]["decode_moments"] is None
    run.simulation.advance(30.0)
    busy = sum(batch.seconds for batch in run.prefill_log.done_batches)
    prefill, decode = run.prefill.loads(0.0)["loads"][0], run.decode.loads(0.0)["loads"][0]
    assert prefill["total_prefill_busy_us"] == pytest.approx(busy * 1e6, abs=1)
    steps = run.decode_log.steps
    sizes = [len(step.requests) for step in steps]
    assert decode["decode_moments"] == pytest.approx(
        [
            len(steps),
            sum(sizes),
            sum(step.seconds for step in steps) * 1e6,
            sum(size**2 for size in sizes),
            sum(size * step.seconds for size, step in zip(sizes, steps, strict=True)) * 1e6,
            sum(sizes),
        ]
    )


def test_a_transfer_alone_is_not_faster_than_the_line(long_run: Callable[[str], Rig], page: type[Page]) -> None:
    """The speed of every rank's transfer stays within its device's 50 GB/s."""
    prefill = page(long_run("healthy").prefill)
    counts = {
        bound: prefill.value("kv_transfer_speed_gb_s_bucket", le=bound, tp_rank="0")
        for bound in ("25.0", "50.0", "+Inf")
    }
    assert counts["50.0"] == counts["+Inf"]
    assert counts["25.0"] < 0.2 * counts["+Inf"]
