"""vLLM's pages: as recorded but for the values, and true to the simulation."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pdscope.demo.physics.draw import Decode, Deployment, Draw, Link, Prefill, Traffic
from pdscope.demo.physics.request import End

from .conftest import Rig, Text

_PAGE_OF_THE_DEPLOYMENT = frozenset(
    {"block_size", "effective_attention_block_size", "kv_cache_max_concurrency", "kv_cache_memory_bytes"}
)
_HIDDEN = _PAGE_OF_THE_DEPLOYMENT | {"model_name", "num_gpu_blocks", "kv_cache_size_tokens"}
_LENGTHS = frozenset(
    f"vllm:request_{name}"
    for name in ("prompt_tokens", "generation_tokens", "max_num_generation_tokens", "params_max_tokens")
) | {"vllm:request_prefill_kv_computed_tokens"}
"""Their bounds go on to the longest context, which was 2,000 tokens where it was recorded."""
_TRAFFIC = Traffic(requests_per_second=3.0, shared_tokens=600)
_HEALTHY = Draw(engine="vllm", traffic=_TRAFFIC)
_UNIFIED = replace(_HEALTHY, deployment=Deployment(0, 0, 2))


@pytest.fixture(scope="module")
def healthy(rig: type[Rig]) -> Rig:
    """Two minutes of one prefill and one decode instance, for looking at only."""
    return rig(_HEALTHY).run(120.0)


@pytest.fixture(scope="module")
def unified(rig: type[Rig]) -> Rig:
    """The same with unified instances."""
    return rig(_UNIFIED).run(120.0)


@pytest.mark.parametrize(("name", "role"), [("p0", "p"), ("d0", "d")])
def test_pages_are_as_recorded(
    healthy: Rig, recorded: Callable[[str], str], assert_same_shape: Callable[..., None], name: str, role: str
) -> None:
    """Everything of what NixlConnector prints on either side."""
    real = recorded(f"vllm-0.32.0-nixl-{role}-overload.prom")
    assert_same_shape(healthy.body(name), real, hidden=_HIDDEN, longer=_LENGTHS)


def test_unified_page_is_as_recorded(
    unified: Rig, recorded: Callable[[str], str], assert_same_shape: Callable[..., None]
) -> None:
    """Without a connector. The recorded server had been asked for three more paths."""
    real = recorded("vllm-0.32.0-overload.prom").splitlines()
    others = ('"/v1/models"', '"/kv_event_sources"', '"/openapi.json"')
    real = [line for line in real if not any(path in line for path in others)]
    assert_same_shape(unified.body("u0"), "\n".join(real), hidden=_HIDDEN, longer=_LENGTHS)


@pytest.mark.parametrize(("name", "page"), [("p0", "nixl-p-idle"), ("d0", "nixl-d-idle"), ("u0", "idle")])
def test_fresh_pages_are_as_recorded(
    rig: type[Rig], recorded: Callable[[str], str], assert_same_shape: Callable[..., None], name: str, page: str
) -> None:
    """Everything is there at zero, and labelled HTTP families have their comments only."""
    fresh = rig(_UNIFIED if name == "u0" else _HEALTHY)
    assert_same_shape(fresh.body(name), recorded(f"vllm-0.32.0-{page}.prom"), hidden=_HIDDEN, longer=_LENGTHS)


def test_order_is_as_recorded(healthy: Rig, recorded: Callable[[str], str]) -> None:
    """Families, labels and the lines of a histogram: a page of one process has one order."""

    def names(text: str) -> list[str]:
        lines = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
        kept = [line for line in lines if "cache_config_info" not in line]
        return [line.replace("meta-llama/Llama-3.1-70B-Instruct", "tiny") for line in kept if not is_length(line)]

    def is_length(line: str) -> bool:
        return any(line.startswith(f"{name}_bucket") for name in _LENGTHS)

    assert names(healthy.body("d0").decode()) == names(recorded("vllm-0.32.0-nixl-d-overload.prom"))


@pytest.mark.parametrize("name", ["p0", "d0"])
def test_official_parser_reads_the_page(healthy: Rig, name: str) -> None:
    """Every line of it."""
    body = healthy.body(name).decode()
    samples = [sample for family in text_string_to_metric_families(body) for sample in family.samples]
    assert len(samples) == sum(not line.startswith("#") for line in body.splitlines())


def test_prefill_has_no_gaps_between_tokens(healthy: Rig) -> None:
    """It gives one token, after which every request ends for its length, at a time per token of zero."""
    text = healthy.text("p0")
    done = sum(one.prefill_ended_at == one.prefill_ended_at for one in healthy.simulation.requests)
    assert text.value("vllm:inter_token_latency_seconds", "_count") == 0
    assert text.value("vllm:generation_tokens_total") == done > 0
    assert text.value("vllm:request_success_total", finished_reason="length") == done
    assert text.value("vllm:request_time_per_output_token_seconds", "0.01") == done
    assert text.value("vllm:nixl_bytes_transferred", "_count") == 0


def test_ttft_is_split_between_the_legs(healthy: Rig) -> None:
    """Both together, and the router, are what the user waits."""
    requests = healthy.simulation.requests
    prefill = [one for one in requests if one.prefill_ended_at == one.prefill_ended_at]
    decode = [one for one in requests if one.first_token_at == one.first_token_at]
    name = "vllm:time_to_first_token_seconds"
    assert healthy.text("p0").value(name, "_sum") == pytest.approx(
        sum(one.prefill_ended_at - one.routed_at for one in prefill)
    )
    assert healthy.text("d0").value(name, "_sum") == pytest.approx(
        sum(one.first_token_at - one.prefill_ended_at for one in decode)
    )
    assert healthy.text("d0").value(name, "_count") == len(decode)


def test_bytes_and_tokens_are_those_of_the_simulation(healthy: Rig) -> None:
    """NIXL counts each rank's transfer on decode; tokens come from elsewhere there, and are computed on prefill."""
    simulation = healthy.simulation
    prefill, decode = healthy.text("p0"), healthy.text("d0")
    seen = [one for one in simulation.requests if one.transfer_seen_at == one.transfer_seen_at]
    joined = [one for one in simulation.requests if one.joined_at == one.joined_at]
    assert decode.value("vllm:nixl_bytes_transferred", "_sum") == pytest.approx(sum(one.transfer_bytes for one in seen))
    assert decode.value("vllm:nixl_bytes_transferred", "_count") == 4 * len(seen)
    waited = sum(one.transfer_seen_at - one.transfer_posted_at for one in seen)
    assert decode.value("vllm:nixl_xfer_time_seconds", "_sum") == pytest.approx(4 * waited)
    assert decode.value("vllm:nixl_num_descriptors", "_sum") == 4 * sum(one.descriptors for one in seen)
    by_source = "vllm:prompt_tokens_by_source_total"
    assert decode.value(by_source, source="external_kv_transfer") == sum(one.prompt_tokens for one in joined)
    assert decode.value(by_source, source="local_compute") == 0
    whole = [one for one in simulation.requests if one.prefill_ended_at == one.prefill_ended_at]
    assert prefill.value(by_source, source="local_compute") == sum(one.computed_tokens for one in whole)
    assert prefill.value(by_source, source="local_cache_hit") == sum(one.cached_tokens for one in whole) > 0
    stepper = simulation.decodes[0].stepper
    fresh = sum(one.first_token_at != one.first_token_at for one in joined)
    assert decode.value("vllm:generation_tokens_total") == stepper.tokens
    firsts = decode.value("vllm:time_to_first_token_seconds", "_count")
    assert decode.value("vllm:inter_token_latency_seconds", "_count") == stepper.tokens - firsts
    assert fresh <= 1
    assert decode.value("vllm:iteration_tokens_total", "_count") == stepper.steps
    done = sum(one.end is End.FINISHED for one in simulation.requests)
    assert decode.value("vllm:request_success_total", finished_reason="stop") == done
    assert decode.value("http_requests_total", status="2xx") == done


def test_queue_time_on_decode_contains_the_transfer(healthy: Rig) -> None:
    """From its arrival to its first step."""
    done = [one for one in healthy.simulation.requests if one.end is End.FINISHED]
    waited = healthy.text("d0").value("vllm:request_queue_time_seconds", "_sum")
    assert waited == pytest.approx(sum(one.joined_at - one.decode_arrived_at for one in done))
    assert waited > sum(one.transferred_at - one.transfer_posted_at for one in done)


def test_a_slow_path_shows_in_the_stages(rig: type[Rig]) -> None:
    """Blocks are allocated before the pull: the pool is full of KV on its way, and nothing runs."""
    run = rig(replace(_HEALTHY, link=Link(path_bytes_per_second=2e7), decode=Decode(pool_tokens=20_000))).run(60.0)
    text, state = run.text("d0"), run.simulation.decodes[0].state()
    stage = "vllm:num_requests_kv_fetch_by_stage"
    assert text.value(stage, stage="in_progress") == state.transferring > 0
    assert text.value(stage, stage="waiting_to_start") == state.queued > 0
    reasons = "vllm:num_requests_waiting_by_reason"
    assert text.value("vllm:num_requests_waiting") == sum(text.values(reasons))
    assert text.value(reasons, reason="deferred") == state.transferring + state.ready
    assert text.value("vllm:kv_cache_usage_perc") > 0.6


def test_prefill_keeps_what_nobody_reads(rig: type[Rig]) -> None:
    """Its pool stays in use with nothing to do; without a request it notices nothing, an expired lease neither."""
    run = rig(replace(_HEALTHY, traffic=replace(_TRAFFIC, requests_per_second=0.004, orphan_share=1.0)))
    while not run.simulation.requests:
        run.run(1.0)
    run.run(10.0)
    expired = "vllm:nixl_num_kv_expired_reqs_total"
    held = run.text("p0").value("vllm:kv_cache_usage_perc")
    assert run.text("p0").value("vllm:num_requests_running") == 0
    assert held == run.simulation.prefills[0].held_tokens / run.simulation.prefills[0].pool_tokens > 0
    while not any(one.end is End.ORPHANED for one in run.simulation.requests):
        run.run(1.0)
    assert len(run.simulation.requests) == 1
    assert run.simulation.prefills[0].held_tokens == 0
    assert (run.text("p0").value("vllm:kv_cache_usage_perc"), run.text("p0").value(expired)) == (held, 0)
    while len(run.simulation.requests) == 1:
        run.run(1.0)
    run.run(1.0)
    assert run.text("p0").value(expired) == 1


@pytest.mark.parametrize(("policy", "errors"), [("fail", True), ("recompute", False)])
def test_transfers_that_fail(rig: type[Rig], policy: str, errors: bool) -> None:
    """The request gets an error, or decode computes it: tokens of its own are the trace of that."""
    link = Link(failing_pairs=((0, 0),), loss_policy=policy)
    run = rig(replace(_HEALTHY, link=link, traffic=replace(_TRAFFIC, requests_per_second=0.5))).run(60.0)
    text, failures = run.text("d0"), run.simulation.transfers[0].failures
    assert text.value("vllm:nixl_num_failed_transfers_total") == failures > 0
    assert (text.value("vllm:request_success_total", finished_reason="error") > 0) is errors
    assert (text.value("vllm:prompt_tokens_by_source_total", source="local_compute") > 0) is not errors
    assert bool(text.values("http_requests_total", status="5xx")) is errors


def test_late_reads_are_counted_on_prefill(rig: type[Rig]) -> None:
    """Decode is slow to ask, the lease is over, and it reads what may be something else by now."""
    link = Link(lease_seconds=2.0, lease_renewed=False, loss_policy="late_read")
    run = rig(replace(_HEALTHY, link=link, decode=Decode(slots=2))).run(60.0)
    text = run.text("p0")
    assert text.value("vllm:nixl_num_notifications_after_expiry_total") > 0
    assert text.value("vllm:nixl_num_kv_expired_reqs_total") > 0


def test_preemptions(rig: type[Rig]) -> None:
    """They are computed again, which gives one token after a long gap."""
    draw = replace(_HEALTHY, decode=Decode(pool_tokens=20_000), traffic=replace(_TRAFFIC, output_tokens=600.0))
    run = rig(draw).run(120.0)
    text, decode = run.text("d0"), run.simulation.decodes[0]
    assert text.value("vllm:num_preemptions_total") == decode.preemptions > 0
    finished = [one for one in run.simulation.requests if one.end is End.FINISHED]
    counted = text.value("vllm:request_num_preemptions", "_sum")
    assert counted == sum(one.preemptions for one in finished)
    firsts = text.value("vllm:time_to_first_token_seconds", "_count")
    assert (
        text.value("vllm:inter_token_latency_seconds", "_count") == text.value("vllm:generation_tokens_total") - firsts
    )


def test_version_and_pool(healthy: Rig) -> None:
    """What an exporter asks a server for, and what it finds of its pool."""
    assert json.loads(healthy.body("d0", "/version")) == {"version": "0.32.0"}
    pool = healthy.simulation.decodes[0].pool.tokens
    (labels,) = Text(healthy.body("d0")).families["vllm:cache_config_info"].series
    known = dict(labels)
    assert (known["kv_cache_size_tokens"], known["block_size"]) == (str(pool), "64")
    assert known["num_gpu_blocks"] == str(pool // 64)


def test_counters_never_fall(rig: type[Rig]) -> None:
    """Over a minute of leases that run out."""
    link = Link(lease_seconds=2.0, lease_renewed=False, loss_policy="recompute")
    run = rig(replace(_HEALTHY, link=link, decode=Decode(slots=2)))
    before: dict[tuple[str, str, frozenset[tuple[str, str]], str], float] = {}
    for _ in range(12):
        run.run(5.0)
        for server in ("p0", "d0"):
            for name, family in run.text(server).families.items():
                if family.kind == "gauge":
                    continue
                for key, lines in family.series.items():
                    for cell, value in lines.items():
                        assert value >= before.get((server, name, key, cell), 0.0), (server, name, cell)
                        before[server, name, key, cell] = value


def test_a_full_prefill_goes_on_reporting(rig: type[Rig]) -> None:
    """It has requests and steps on, although nothing of them fits beside what decode does not read."""
    draw = replace(_HEALTHY, prefill=Prefill(pool_tokens=30_000), link=Link(path_bytes_per_second=1e6))
    run = rig(draw).run(60.0)
    prefill = run.simulation.prefills[0]
    passes, first = prefill.passes, run.text("p0").value("vllm:num_requests_waiting")
    later = run.run(20.0).text("p0").value("vllm:num_requests_waiting")
    assert prefill.passes == passes
    assert later == prefill.state().waiting > first > 0
