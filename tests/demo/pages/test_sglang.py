"""SGLang's pages have the engine's oddities and are true to the simulation."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from math import isnan

import pytest

from pdscope.demo.physics.draw import Decode, Frontend, Link, Prefill, Traffic
from pdscope.demo.physics.request import End

from .conftest import Rig
from .sglang_draws import HEALTHY, TRAFFIC, TROUBLED

_MIB = 2**20


@pytest.mark.parametrize("name", ["p0", "d0"])
def test_ranks_repeat_requests_and_the_first_has_the_gauges(healthy: Rig, name: str) -> None:
    """Adding up over ranks counts a request four times, and a queue once."""
    text = healthy.text(name)
    counts = text.values("sglang:queue_time_seconds", "_count")
    assert len(counts) == 4
    assert len(set(counts)) == 1
    assert len(text.values("sglang:num_running_reqs")) == 1
    assert len(text.values("sglang:realtime_tokens_total", mode="prefill_compute")) == (name == "p0")
    seeded = text.values("sglang:prefill_effective_tokens_total", mode="input")
    assert sorted(seeded)[:3] == [0.0, 0.0, 0.0]


def test_failures_appear_with_the_first_one(rig: type[Rig]) -> None:
    """The counter is absent before, and then has one failure on every rank of both sides."""
    run = rig(replace(HEALTHY, link=Link(failing_pairs=((0, 0),)), traffic=replace(TRAFFIC, requests_per_second=0.2)))
    name = "sglang:num_transfer_failed_reqs_total"
    assert name not in run.text("d0").families
    while not any(one.end is End.TRANSFER_FAILED for one in run.simulation.requests):
        run.run(0.5)
    assert run.text("p0").values(name) == [1.0] * 4
    assert run.text("d0").values(name) == [1.0] * 4


def test_gauges_freeze_in_a_stall_and_loads_does_not(rig: type[Rig]) -> None:
    """Decode has memory for requests whose KV does not come: nothing runs, and nothing reports."""
    link = Link(path_bytes_per_second=1e6)
    run = rig(replace(HEALTHY, link=link)).run(60.0)
    first = run.text("d0")
    assert first.value("sglang:num_decode_transfer_queue_reqs") == 0.0
    run.run(60.0)
    later = run.text("d0")
    for name in ("num_decode_transfer_queue_reqs", "num_running_reqs", "full_token_usage"):
        assert later.value(f"sglang:{name}") == first.value(f"sglang:{name}")
    state = run.simulation.decodes[0].state()
    load = json.loads(run.body("d0", "/v1/loads"))["loads"][0]
    assert load["disaggregation"]["decode_transfer_queue_reqs"] == state.transferring > 0
    assert load["num_used_tokens"] == state.held_tokens > 0
    idle = later.values("sglang:scheduler_idle_seconds_total")
    assert idle == first.values("sglang:scheduler_idle_seconds_total")


def test_gauges_come_back_after_half_a_minute_of_idleness(rig: type[Rig]) -> None:
    """An engine with nothing to do at all refreshes them, and its device timer says nothing."""
    run = rig(replace(HEALTHY, traffic=replace(TRAFFIC, requests_per_second=0.01)))
    while not any(one.is_over for one in run.simulation.requests):
        run.run(0.5)
    running = run.text("d0").value("sglang:num_running_reqs")
    assert running > 0.0
    run.run(15.0)
    assert run.text("d0").value("sglang:num_running_reqs") == running
    run.run(30.0)
    text = run.text("d0")
    assert text.value("sglang:num_running_reqs") == 0.0
    assert isnan(text.value("sglang:fwd_occupancy"))
    assert len(run.simulation.requests) == 1  # nobody has come in between


def test_decode_reports_every_forty_steps(rig: type[Rig]) -> None:
    """Between two reports its gauges are old."""
    run = rig(HEALTHY).run(20.0)
    seen = set()
    steps = run.simulation.decodes[0].stepper.steps
    for _ in range(200):
        (line,) = (one for one in run.run(0.05).body("d0").splitlines() if one.startswith(b"sglang:gen_throughput{"))
        seen.add(line)
    made = run.simulation.decodes[0].stepper.steps - steps
    assert len(seen) == pytest.approx(made / 40, abs=2)


def test_bytes_are_those_of_the_link(healthy: Rig) -> None:
    """Each rank's share, in MiB, adds up to what the transfers of answered requests have moved."""
    sums = healthy.text("p0").values("sglang:kv_transfer_total_mb", "_sum")
    moved = sum(
        one.transfer_bytes for one in healthy.simulation.requests if one.prefill_released_at == one.prefill_released_at
    )
    assert sum(sums) * _MIB == pytest.approx(moved)
    assert moved > 0


def test_tokens_and_requests_are_those_of_the_simulation(healthy: Rig) -> None:
    """Counters of both legs against the requests and instances."""
    simulation = healthy.simulation
    prefill, decode = healthy.text("p0"), healthy.text("d0")
    done = [one for one in simulation.requests if one.end is End.FINISHED]
    streamed = {"is_streaming": "true"}
    assert decode.value("sglang:num_requests_total", **streamed) == len(done)
    assert decode.value("sglang:prompt_tokens_total", **streamed) == sum(one.prompt_tokens for one in done)
    assert decode.value("sglang:generation_tokens_total", **streamed) == sum(one.output_tokens for one in done)
    assert decode.value("sglang:cached_tokens_total") == sum(one.cached_tokens for one in done) > 0
    stepper = simulation.decodes[0].stepper
    assert decode.value("sglang:realtime_tokens_total", mode="decode") == stepper.tokens
    assert decode.value("sglang:cuda_graph_passes_total", tp_rank="2") == stepper.steps
    assert decode.value("sglang:inter_token_latency_seconds", "_count") == stepper.tokens
    instance = simulation.prefills[0]
    assert prefill.value("sglang:realtime_tokens_total", mode="prefill_compute") == instance.computed_tokens
    assert prefill.value("sglang:realtime_tokens_total", mode="prefill_cache") <= instance.cached_tokens
    assert prefill.value("sglang:cuda_graph_passes_total") == pytest.approx(instance.passes, abs=1)
    released = [one for one in simulation.requests if one.prefill_released_at == one.prefill_released_at]
    assert prefill.value("sglang:num_requests_total", **streamed) == len(released)
    assert prefill.value("sglang:generation_tokens_total", **streamed) == len(released)
    waiting = decode.value("sglang:http_requests_active", endpoint="/v1/chat/completions")
    assert waiting == sum(one.routed_at == one.routed_at and not one.is_over for one in simulation.requests)


def test_decode_measures_ttft_without_the_router(healthy: Rig) -> None:
    """Prefill's queue, its computation and the transfer are inside; prefill itself has no such series."""
    simulation = healthy.simulation
    shown = [one for one in simulation.requests if one.joined_at == one.joined_at]
    total = sum(one.first_token_at - one.routed_at for one in shown)
    text = healthy.text("d0")
    assert text.value("sglang:time_to_first_token_seconds", "_sum", is_streaming="true") == pytest.approx(total)
    assert text.value("sglang:time_to_first_token_seconds", "_count", is_streaming="true") == len(shown)
    assert all(one.first_token_at > one.prefill_ended_at for one in shown)
    assert not {name for name in healthy.text("p0").families if "first_token" in name or "inter_token" in name}


def test_stages_of_both_legs(healthy: Rig) -> None:
    """Decode's transfer stage holds prefill's work; what is exposed of the transfer only prefill knows."""
    seen = [one for one in healthy.simulation.requests if one.transfer_seen_at == one.transfer_seen_at]
    freed = [one for one in healthy.simulation.requests if one.prefill_released_at == one.prefill_released_at]
    name, rank = "sglang:per_stage_req_latency_seconds", {"tp_rank": "1"}
    decode = healthy.text("d0").value(name, "_sum", stage="decode_transferred", **rank)
    assert decode == pytest.approx(sum(one.transfer_seen_at - one.allocated_at for one in seen))
    exposed = healthy.text("p0").value(name, "_sum", stage="prefill_transfer_kv_cache", **rank)
    assert exposed == pytest.approx(sum(one.prefill_released_at - one.prefill_ended_at for one in freed))
    assert decode > 2 * exposed


def test_transfer_speed_is_wrong_for_prompts_in_parts(rig: type[Rig]) -> None:
    """The bytes of the whole prompt over the time of its last part: beyond the line."""
    draw = replace(HEALTHY, traffic=Traffic(prompt_tokens=20_000.0, requests_per_second=0.3))
    run = rig(draw).run(120.0)
    assert max(len(one.chunks) for one in run.simulation.requests) > 2
    text, rank = run.text("p0"), {"tp_rank": "0"}
    counts = {bound: text.value("sglang:kv_transfer_speed_gb_s", bound, **rank) for bound in ("50.0", "+Inf")}
    assert counts["+Inf"] > counts["50.0"]


def test_retractions_are_counted_with_their_tokens(troubled: Rig) -> None:
    """On every rank; the pause is a gap between two tokens, not one more of them."""
    decode, text = troubled.simulation.decodes[0], troubled.text("d0")
    assert decode.preemptions > 0
    assert text.values("sglang:num_retracted_requests_total") == [decode.preemptions] * 4
    assert text.values("sglang:num_retracted_input_tokens_total") == [decode.preempted_prompt_tokens] * 4
    assert text.values("sglang:num_retracted_output_tokens_total") == [decode.preempted_output_tokens] * 4
    assert text.value("sglang:inter_token_latency_seconds", "_count") == decode.stepper.tokens


def test_loads_add_up_steps_and_busy_time(healthy: Rig, unified: Rig) -> None:
    """Moments of decode, busy time of prefill; both of a unified instance, whose mixed steps are prefill's."""
    decode = healthy.simulation.decodes[0].stepper
    moments = json.loads(healthy.body("d0", "/v1/loads"))["loads"][0]["decode_moments"]
    scaled = [value * scale for value, scale in zip(decode.moments, (1, 1, 1e6, 1, 1e6), strict=True)]
    assert moments == pytest.approx([*scaled, decode.tokens])
    prefill = json.loads(healthy.body("p0", "/v1/loads"))["loads"][0]
    assert prefill["total_prefill_busy_us"] == pytest.approx(healthy.simulation.prefills[0].busy_seconds * 1e6, abs=1)
    assert prefill["decode_moments"] is None
    both = json.loads(unified.body("u0", "/v1/loads"))["loads"][0]
    busy = both["total_prefill_busy_us"] + both["decode_moments"][2]
    assert busy == pytest.approx(unified.simulation.decodes[0].stepper.busy_seconds * 1e6)
    assert both["disaggregation"]["mode"] is None


def test_pool_gives_the_bytes_of_a_token(healthy: Rig) -> None:
    """As a reader derives them where no model table is at hand."""
    text, rank = healthy.text("d0"), {"tp_rank": "0"}
    gib = text.value("sglang:kv_cache_memory_usage_gb", **rank)
    assert gib * 2**30 / text.value("sglang:max_total_num_tokens", **rank) == pytest.approx(81_920)


def test_large_batches_leave_the_graphs(rig: type[Rig]) -> None:
    """Steps above the captured sizes are counted apart."""
    draw = replace(HEALTHY, decode=Decode(graph_ceiling=4))
    run = rig(draw).run(60.0)
    text, stepper = run.text("d0"), run.simulation.decodes[0].stepper
    modes = {
        mode: text.value("sglang:cuda_graph_passes_total", mode=mode, tp_rank="0")
        for mode in ("decode_cuda_graph", "decode_none")
    }
    assert modes == {"decode_cuda_graph": stepper.graph_steps, "decode_none": stepper.steps - stepper.graph_steps}
    assert min(modes.values()) > 0


def test_tokenizer_and_detokenizer_show_their_work(rig: type[Rig]) -> None:
    """CPU seconds of the processes, which one slow core shows in."""
    draw = replace(HEALTHY, frontend=Frontend(tokenize_seconds_per_token=1e-4, detokenize_seconds_per_token=1e-3))
    run = rig(draw).run(60.0)
    text, router = run.text("d0"), run.simulation.router
    name = "sglang:process_cpu_seconds_total"
    first = sum(one.first_token_at <= run.simulation.now_seconds for one in run.simulation.requests)
    tokens = run.simulation.decodes[0].stepper.tokens + first
    assert text.value(name, component="tokenizer") == pytest.approx(router.decode_tokenizers[0].busy_seconds + 0.08)
    assert text.value(name, component="detokenizer") == pytest.approx(tokens * 1e-3 + 0.08, abs=0.02)


def test_a_detokenizer_works_at_most_all_the_time(rig: type[Rig]) -> None:
    """One process: what is handed to it faster than it works waits, and costs nothing yet."""
    run = rig(replace(HEALTHY, frontend=Frontend(detokenize_seconds_per_token=0.02)))
    seen = []
    for _ in range(9):
        text = run.run(10.0).text("d0")
        seen.append(text.value("sglang:process_cpu_seconds_total", component="detokenizer"))
    worked = [after - before for before, after in pairwise(seen)]
    assert max(worked) <= 10.0 + 0.05
    assert worked[-3:] == pytest.approx([10.0] * 3, abs=0.05)
    assert run.simulation.decodes[0].stepper.tokens * 0.02 > 2 * seen[-1]


def test_counters_never_fall(rig: type[Rig]) -> None:
    """Over a minute of a deployment in trouble."""
    run = rig(replace(TROUBLED, prefill=Prefill(batch_tokens=2048)))
    before: dict[tuple[str, str, frozenset[tuple[str, str]], str], float] = {}
    for _ in range(12):
        run.run(5.0)
        for server in ("p0", "p1", "d0"):
            for name, family in run.text(server).families.items():
                if family.kind == "gauge":
                    continue
                for key, lines in family.series.items():
                    for cell, value in lines.items():
                        assert value >= before.get((server, name, key, cell), 0.0), (server, name, cell)
                        before[server, name, key, cell] = value


def test_looking_changes_nothing(rig: type[Rig]) -> None:
    """A run that is scraped ends as one that is not, and the same seed gives the same counters."""
    looked, left = rig(TROUBLED), rig(TROUBLED)
    for _ in range(30):
        looked.run(1.0).body("d0")
    left.run(30.0)
    assert [one.first_token_at for one in looked.simulation.requests] == pytest.approx(
        [one.first_token_at for one in left.simulation.requests], nan_ok=True
    )
    ours, theirs = looked.text("d0").families, left.text("d0").families
    for name in ("sglang:inter_token_latency_seconds", "sglang:kv_transfer_alloc_ms"):
        assert [lines["+Inf"] for lines in ours[name].series.values()] == [
            lines["+Inf"] for lines in theirs[name].series.values()
        ]
