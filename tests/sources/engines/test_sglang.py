"""SGLang: what its real pages give, its ranks, its older names, and `/v1/loads` with whatever it may hold."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from pdscope.errors import PageError
from pdscope.model.metric import Fact, Metric
from pdscope.model.scrape import FailureReason
from pdscope.model.topology import Role
from pdscope.sources.engines.sglang import ADAPTERS, flatten_loads
from pdscope.sources.exposition import PageParser
from pdscope.sources.reader import role_of
from support.pages import Reading, page, printed, read_engine, read_loads

PREFILL = "sglang-0.5.23-prefill.prom"
DECODE = "sglang-0.5.23-decode.prom"
UNIFIED = "sglang-0.5.23-unified.prom"
DP_ATTENTION = "sglang-0.5.23-decode-dpattn8.prom"
MIB, GIB = 2.0**20, 2.0**30

IDLE_POOL = {
    Metric.KV_POOL_TOKENS: 1048576.0,
    Metric.KV_POOL_TOKENS_PER_RANK: 1048576.0,
    Metric.KV_POOL_BYTES: 80 * GIB,
    Metric.KV_POOL_PAGES: 16384.0,
    Metric.PAGE_TOKENS: 64.0,
    Metric.WEIGHT_BYTES_PER_RANK: 33.2 * GIB,
}
SCALARS = {
    PREFILL: IDLE_POOL
    | {
        Metric.RUNNING: 1.0,
        Metric.WAITING_CAPACITY: 2.0,
        Metric.PREFILL_BOOTSTRAP_QUEUE: 1.0,
        Metric.PREFILL_TRANSFER_QUEUE: 1.0,
        Metric.DECODE_ALLOCATION_QUEUE: 0.0,
        Metric.DECODE_TRANSFER_QUEUE: 0.0,
        Metric.KV_USAGE: 0.0271,  # token_usage says 0.03
        Metric.KV_USAGE_IN_TRANSFER: 0.0,
        Metric.CONTEXT_TOKENS: 0.0,
        Metric.REQUESTS_FINISHED: 120.0 + 945.0,
        Metric.PROMPT_TOKENS: 466551.0 + 3796835.0,
        Metric.GENERATED_TOKENS: 120.0 + 945.0,
        Metric.PREFILL_COMPUTED_TOKENS: 3258393.0,
        Metric.PREFILL_CACHED_TOKENS: 1010304.0,
        Metric.PREFILL_BUSY: 309.70554545454513,
        Metric.IDLE: 129.71573920052722,
        Metric.STEPS: 1124.0,
        Metric.TOKENIZER_CPU: 0.11000000000000003,
        Metric.DETOKENIZER_CPU: 0.09999999999999998,
        Metric.TRANSFER_FAILURES: 1.0,
    },
    DECODE: IDLE_POOL
    | {
        Metric.RUNNING: 8.0,
        Metric.WAITING_CAPACITY: 0.0,
        Metric.PREFILL_BOOTSTRAP_QUEUE: 0.0,
        Metric.PREFILL_TRANSFER_QUEUE: 0.0,
        Metric.DECODE_ALLOCATION_QUEUE: 1.0,
        Metric.DECODE_TRANSFER_QUEUE: 4.0,
        Metric.KV_USAGE: 0.032135009765625,
        Metric.KV_USAGE_IN_TRANSFER: 0.011221885681152344,
        Metric.CONTEXT_TOKENS: 21929.0,
        Metric.REQUESTS_FINISHED: 119.0 + 938.0,
        Metric.PROMPT_TOKENS: 461795.0 + 3780493.0,
        Metric.GENERATED_TOKENS: 305328.0,  # while they are generated; generation_tokens_total waits for the end
        Metric.IDLE: 28.199073739245048,
        Metric.STEPS: 41798.0,
        Metric.GRAPH_STEPS: 41798.0,
        Metric.DECODE_BUSY: 489.4384346150406,
        Metric.TOKENIZER_CPU: 0.10000000000000009,
        Metric.DETOKENIZER_CPU: 0.06000000000000004,
        Metric.PREEMPTIONS: 2.0,
        Metric.TRANSFER_FAILURES: 1.0,
    },
    UNIFIED: IDLE_POOL
    | {
        Metric.RUNNING: 7.0,
        Metric.WAITING_CAPACITY: 1.0,
        Metric.PREFILL_BOOTSTRAP_QUEUE: 0.0,
        Metric.PREFILL_TRANSFER_QUEUE: 0.0,
        Metric.DECODE_ALLOCATION_QUEUE: 0.0,
        Metric.DECODE_TRANSFER_QUEUE: 0.0,
        Metric.KV_USAGE: 0.022228240966796875,
        Metric.KV_USAGE_IN_TRANSFER: 0.0,
        Metric.CONTEXT_TOKENS: 23308.0,
        Metric.REQUESTS_FINISHED: 61.0 + 637.0,
        Metric.PROMPT_TOKENS: 213845.0 + 2691083.0,
        Metric.GENERATED_TOKENS: 181947.0,
        Metric.PREFILL_COMPUTED_TOKENS: 2212077.0,
        Metric.PREFILL_CACHED_TOKENS: 716992.0,
        Metric.PREFILL_BUSY: 210.06190909090907,
        Metric.IDLE: 16.874620024465422,
        Metric.STEPS: 25955.0 + 747.0,  # decode's and prefill's passes
        Metric.GRAPH_STEPS: 25955.0,
        Metric.DECODE_BUSY: 517.8710841801892,
        Metric.TOKENIZER_CPU: 0.040000000000000036,
        Metric.DETOKENIZER_CPU: 0.030000000000000027,
    },
}
HISTOGRAMS = {
    PREFILL: {
        Metric.PROMPT_LENGTH: (1065.0, 4263386.0),
        Metric.QUEUE_TIME: (1066.0, 354.14157836852587),
        Metric.PREFILL_TIME: (1065.0, 316.44954545454414),
        Metric.EXPOSED_TRANSFER_TIME: (1064.0, 36.576638419952815),
        Metric.KV_TRANSFER_TIME: (1064.0, 36.587601217013085),
        Metric.KV_TRANSFER_BYTES: (4 * 1064.0, 4 * 335730 * MIB),
        Metric.ALLOCATION_TIME: (1064.0, 0.0),
        Metric.HANDSHAKE_TIME: (1064.0, 52.76255653456712),
    },
    DECODE: {
        Metric.TTFT: (945.0, 687.9267236602465),
        Metric.ITL: (296838.0, 4000.2091269350567),
        Metric.TPOT: (938.0, 12.631133913049226),
        Metric.PROMPT_LENGTH: (1057.0, 4242288.0),
        Metric.QUEUE_TIME: (1064.0, 7.215494707519156),
        Metric.DECODE_PREPARE_TIME: (1069.0, 0.5234857774929651),
        Metric.DECODE_BOOTSTRAP_TIME: (1068.0, 51.40459351866207),
        Metric.DECODE_TRANSFERRED_TIME: (1064.0, 708.4766732327859),
        Metric.DECODE_WAITING_TIME: (1064.0, 7.215494707519156),
        Metric.ALLOCATION_TIME: (1068.0, 46.125489870296835),
        Metric.HANDSHAKE_TIME: (1068.0, 5.279103648365094),
    },
    UNIFIED: {
        Metric.TTFT: (642.0, 327.78723086738887),
        Metric.ITL: (177266.0, 4265.968561306747),
        Metric.TPOT: (637.0, 16.69352650255415),
        Metric.PROMPT_LENGTH: (698.0, 2904928.0),
        Metric.QUEUE_TIME: (705.0, 138.0555572830749),
        Metric.PREFILL_TIME: (704.0, 214.54390909091092),
    },
}


def renamed(body: bytes, new: str, old: str) -> bytes:
    """The page with one family under its older name."""
    changed = body.replace(f"sglang:{new}".encode(), f"sglang:{old}".encode())
    assert changed != body
    return changed


@pytest.mark.parametrize("name", SCALARS)
def test_gauges_and_counters(name: str) -> None:
    """All of them and no other, TP ranks counted once."""
    reading = read_engine(page(name))
    assert reading.scrape.source == "sglang"
    assert reading.scalars() == pytest.approx(SCALARS[name], rel=1e-12)


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms(name: str) -> None:
    """All of them and no other, milliseconds as seconds, MiB as bytes."""
    found = read_engine(page(name)).histograms()
    assert found.keys() == HISTOGRAMS[name].keys()
    for metric, expected in HISTOGRAMS[name].items():
        assert found[metric] == pytest.approx(expected, rel=1e-12), metric


@pytest.mark.parametrize(
    ("name", "metric", "family", "scale", "labels"),
    [
        (DECODE, Metric.TTFT, "time_to_first_token_seconds", 1.0, {"is_streaming": "true"}),
        (DECODE, Metric.ITL, "inter_token_latency_seconds", 1.0, {}),
        (DECODE, Metric.ALLOCATION_TIME, "kv_transfer_alloc_ms", 1e-3, {"tp_rank": "0"}),
        (DECODE, Metric.HANDSHAKE_TIME, "kv_transfer_bootstrap_ms", 1e-3, {"tp_rank": "0"}),
        (PREFILL, Metric.KV_TRANSFER_TIME, "kv_transfer_latency_ms", 1e-3, {"tp_rank": "0"}),
        (PREFILL, Metric.KV_TRANSFER_BYTES, "kv_transfer_total_mb", MIB, {}),
        (PREFILL, Metric.QUEUE_TIME, "queue_time_seconds", 1.0, {"tp_rank": "0"}),
        (
            PREFILL,
            Metric.PREFILL_TIME,
            "per_stage_req_latency_seconds",
            1.0,
            {"stage": "prefill_forward", "tp_rank": "0"},
        ),
        (
            PREFILL,
            Metric.EXPOSED_TRANSFER_TIME,
            "per_stage_req_latency_seconds",
            1.0,
            {"stage": "prefill_transfer_kv_cache", "tp_rank": "0"},
        ),
        (
            DECODE,
            Metric.DECODE_TRANSFERRED_TIME,
            "per_stage_req_latency_seconds",
            1.0,
            {"stage": "decode_transferred", "tp_rank": "0"},
        ),
        (UNIFIED, Metric.PROMPT_LENGTH, "prompt_tokens_histogram", 1.0, {}),
    ],
)
def test_buckets(name: str, metric: Metric, family: str, scale: float, labels: dict[str, str]) -> None:
    """Bucket by bucket what the official parser finds."""
    expected = printed(name, f"sglang:{family}").buckets(f"sglang:{family}", scale, **labels)
    found = read_engine(page(name)).buckets(metric)
    assert found is not None
    assert found.cumulative == expected.cumulative
    assert found.total == pytest.approx(expected.total, rel=1e-12)


def test_only_streamed_requests_have_a_first_token() -> None:
    """A request that is not streamed is measured at its 50th token or its end."""
    everything = printed(DECODE, "sglang:time_to_first_token_seconds")
    assert everything.value("sglang:time_to_first_token_seconds_count") == 945 + 120
    found = read_engine(page(DECODE)).buckets(Metric.TTFT)
    assert found is not None
    assert found.count == 945


def test_first_token_before_the_label_came() -> None:
    """Up to 0.5.16 the series has no label `is_streaming`, and counts as it is."""
    body = re.sub(rb'(?m)^.*first_token.*is_streaming="false".*\n', b"", page(DECODE))
    body = body.replace(b'is_streaming="true",', b"")
    found = read_engine(body).buckets(Metric.TTFT)
    assert found is not None
    assert (found.count, found.total) == (945, 687.9267236602465)


@pytest.mark.parametrize("name", [PREFILL, DECODE, UNIFIED])
def test_both_spellings(name: str) -> None:
    """With underscores, as gateways print the names, a page gives the same (field lesson E16)."""
    body = page(name)
    escaped = read_engine(body.replace(b"sglang:", b"sglang_"))
    assert escaped.scalars() == read_engine(body).scalars()
    assert escaped.histograms() == read_engine(body).histograms()
    assert escaped.scrape.facts == read_engine(body).scrape.facts


def test_a_page_under_both_names_counts_once() -> None:
    """A page that prints every sample under both spellings says nothing twice (field lesson E16)."""
    body = page(PREFILL)
    doubled = read_engine(body + body.replace(b"sglang:", b"sglang_"))
    assert doubled.scalars() == read_engine(body).scalars()
    assert doubled.histograms() == read_engine(body).histograms()


def test_integers_without_a_decimal_point() -> None:
    """Gateways print integers without `.0` (field lesson E16)."""
    assert read_engine(page(DECODE).replace(b".0\n", b"\n")).scalars() == read_engine(page(DECODE)).scalars()


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_just_started(role: str) -> None:
    """What has had no event is absent and known to be zero so far; queues stand at zero, one warm-up is counted."""
    reading = read_engine(page(f"sglang-0.5.23-{role}-fresh.prom"))
    assert reading.lazy() == {
        Metric.ALLOCATION_TIME,
        Metric.BOOTSTRAP_FAILURES,
        Metric.DECODE_BOOTSTRAP_TIME,
        Metric.DECODE_PREPARE_TIME,
        Metric.DECODE_TRANSFERRED_TIME,
        Metric.DECODE_WAITING_TIME,
        Metric.EAGER_STEPS,
        Metric.EXPOSED_TRANSFER_TIME,
        Metric.GRAPH_STEPS,
        Metric.HANDSHAKE_TIME,
        Metric.ITL,
        Metric.KV_TRANSFER_BYTES,
        Metric.KV_TRANSFER_TIME,
        Metric.PREEMPTIONS,
        Metric.PREFILL_CACHED_TOKENS,
        Metric.PREFILL_COMPUTED_TOKENS,
        Metric.PREFILL_TIME,
        Metric.QUEUE_TIME,
        Metric.STEPS,
        Metric.TPOT,
        Metric.TRANSFER_FAILURES,
        Metric.TTFT,  # decode's warm-up request is not streamed
    }
    assert reading.value(Metric.REQUESTS_FINISHED) == 1
    assert reading.value(Metric.PROMPT_TOKENS) == 4
    assert reading.value(Metric.GENERATED_TOKENS) == {"prefill": 1, "decode": 8}[role]
    queues = (Metric.RUNNING, Metric.WAITING_CAPACITY, Metric.DECODE_ALLOCATION_QUEUE, Metric.PREFILL_TRANSFER_QUEUE)
    assert [reading.value(metric) for metric in queues] == [0, 0, 0, 0]


def test_without_device_timer() -> None:
    """What the devices' time went to is unknown, not zero; NIXL's latency is read as it is."""
    reading = read_engine(page("sglang-0.5.23-prefill-nixl-nomfu.prom"))
    assert not {Metric.PREFILL_BUSY, Metric.DECODE_BUSY} & (reading.known() | reading.lazy())
    assert reading.histograms()[Metric.KV_TRANSFER_TIME] == pytest.approx((1064, 340.83722023820934), rel=1e-12)
    assert reading.histograms()[Metric.KV_TRANSFER_BYTES] == (4 * 1064, 4 * 335730 * MIB)


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_no_counter_falls_between_two_scrapes(role: str) -> None:
    """Fifteen seconds of one process: every counter and histogram grows or stands."""
    before, after = (read_engine(page(f"sglang-0.5.23-{role}{time}.prom")) for time in ("-t0", ""))
    for metric in before.known():
        if metric.spec.kind == "counter":
            assert (after.value(metric) or 0) >= (before.value(metric) or 0), metric
        elif metric.spec.kind == "histogram":
            first, second = before.buckets(metric), after.buckets(metric)
            assert first is not None
            assert second is not None
            assert second.count >= first.count, metric
    assert (after.value(Metric.REQUESTS_FINISHED) or 0) > (before.value(Metric.REQUESTS_FINISHED) or 0)


def test_decodes_stages_are_its_ttft() -> None:
    """Their means add up to it, but for what its HTTP server and its tokenizer take: a hundredth on a healthy pair."""
    found = read_engine(page(DECODE)).histograms()
    stages = [Metric.DECODE_PREPARE_TIME, Metric.DECODE_BOOTSTRAP_TIME]
    stages += [Metric.DECODE_TRANSFERRED_TIME, Metric.DECODE_WAITING_TIME]
    means = {metric: found[metric][1] / found[metric][0] for metric in (Metric.TTFT, *stages)}
    left = means[Metric.TTFT] - sum(means[stage] for stage in stages)
    assert 0 < left < 0.02 * means[Metric.TTFT]


# ------------------------------------------------------------------------------------------------- ranks


def test_dp_ranks_are_kept_apart() -> None:
    """With DP attention each of the eight ranks has its own gauges, whatever its tp_rank."""
    reading = read_engine(page(DP_ATTENTION))
    ranks = {str(rank) for rank in range(8)}
    own = printed(DP_ATTENTION, "sglang:num_running_reqs", "sglang:scheduler_idle", "sglang:queue_time_seconds")
    for metric in (Metric.RUNNING, Metric.KV_USAGE, Metric.KV_POOL_BYTES, Metric.IDLE, Metric.QUEUE_TIME):
        assert reading.ranks(metric) == ranks
    for rank in ranks:
        assert reading.value(Metric.RUNNING, rank) == own.value("sglang:num_running_reqs", dp_rank=rank) == 19
        assert reading.value(Metric.IDLE, rank) == own.value("sglang:scheduler_idle_seconds_total", dp_rank=rank)
        assert reading.buckets(Metric.QUEUE_TIME, rank) == own.buckets("sglang:queue_time_seconds", dp_rank=rank)


def test_dp_ranks_join_by_the_rule_of_the_metric() -> None:
    """Requests and tokens add up, time and the size of one rank are means, histograms are one population."""
    reading = read_engine(page(DP_ATTENTION))
    names = ("scheduler_idle", "queue_time_seconds", "realtime_tokens_total", "cuda_graph_passes_total")
    own = printed(DP_ATTENTION, *(f"sglang:{name}" for name in names))
    assert reading.value(Metric.RUNNING) == 8 * 19
    assert reading.value(Metric.DECODE_TRANSFER_QUEUE) == 8
    assert reading.value(Metric.CONTEXT_TOKENS) == 8 * 57431
    assert reading.value(Metric.KV_POOL_TOKENS) == 8 * 420000
    assert reading.value(Metric.KV_POOL_TOKENS_PER_RANK) == 420000
    assert reading.value(Metric.KV_POOL_BYTES) == pytest.approx(28.1 * GIB)
    assert reading.value(Metric.PAGE_TOKENS) == 64
    assert reading.value(Metric.GENERATED_TOKENS) == own.value("sglang:realtime_tokens_total", mode="decode")
    assert reading.value(Metric.IDLE) == pytest.approx(own.value("sglang:scheduler_idle_seconds_total") / 8)
    assert reading.value(Metric.STEPS) == pytest.approx(own.value("sglang:cuda_graph_passes_total") / 8)
    whole = reading.buckets(Metric.QUEUE_TIME)
    assert whole is not None
    assert whole.cumulative == own.buckets("sglang:queue_time_seconds").cumulative


def test_the_fullest_rank_is_the_usage() -> None:
    """One full KV pool holds its requests up, however empty the other seven are."""
    body, changed = re.subn(rb'(?m)^(sglang:full_token_usage\{dp_rank="5".*\}) .*$', rb"\1 0.97", page(DP_ATTENTION))
    assert changed == 1
    reading = read_engine(body)
    assert reading.value(Metric.KV_USAGE) == 0.97
    assert reading.value(Metric.KV_USAGE, "4") == 0.1093


def test_the_tokenizer_has_no_ranks() -> None:
    """Its one histogram of a DP server is that of the instance."""
    reading = read_engine(page(DP_ATTENTION))
    assert reading.ranks(Metric.TTFT) == set()
    assert reading.histograms()[Metric.TTFT] == (3174, 784.6899431149312)


def test_pipeline_stages_count_once() -> None:
    """A later stage repeats what the first one says."""
    body = page(DECODE)
    second = re.sub(rb"(?m)^#.*\n", b"", body).replace(b'pp_rank="0"', b'pp_rank="1"')
    both = b"\n".join(line for line in (body + second).split(b"\n") if b"pp_rank" in line)
    assert read_engine(both).value(Metric.RUNNING) == 8
    assert read_engine(both).value(Metric.STEPS) == 41798


def test_priorities() -> None:
    """Of a gauge the empty priority is the total; a counted request is counted under its own priority."""
    body = b"""\
sglang:num_queue_reqs{priority="",tp_rank="0"} 5
sglang:num_queue_reqs{priority="1",tp_rank="0"} 2
sglang:num_queue_reqs{priority="None",tp_rank="0"} 3
sglang:num_requests_total{priority="1",is_streaming="true"} 30
sglang:num_requests_total{priority="",is_streaming="true"} 12
sglang:time_to_first_token_seconds_bucket{priority="1",is_streaming="true",le="1.0"} 20
sglang:time_to_first_token_seconds_bucket{priority="1",is_streaming="true",le="+Inf"} 30
sglang:time_to_first_token_seconds_bucket{priority="",is_streaming="true",le="1.0"} 10
sglang:time_to_first_token_seconds_bucket{priority="",is_streaming="true",le="+Inf"} 12
sglang:time_to_first_token_seconds_sum{priority="1",is_streaming="true"} 33
sglang:time_to_first_token_seconds_sum{priority="",is_streaming="true"} 9
"""
    reading = read_engine(body)
    assert reading.value(Metric.WAITING_CAPACITY) == 5
    assert reading.value(Metric.REQUESTS_FINISHED) == 42
    first_token = reading.buckets(Metric.TTFT)
    assert first_token is not None
    assert (first_token.cumulative, first_token.total) == ({1.0: 30, math.inf: 42}, 42)


# ------------------------------------------------------------------------------------------ older versions


@pytest.mark.parametrize(
    ("name", "new", "old", "metric"),
    [
        (
            PREFILL,
            "num_prefill_bootstrap_queue_reqs",
            "num_prefill_prealloc_queue_reqs",
            Metric.PREFILL_BOOTSTRAP_QUEUE,
        ),
        (PREFILL, "num_prefill_inflight_queue_reqs", "num_prefill_infight_queue_reqs", Metric.PREFILL_TRANSFER_QUEUE),
        (PREFILL, "num_transfer_failed_reqs_total", "num_transfer_failed_reqs", Metric.TRANSFER_FAILURES),
        (PREFILL, "num_transfer_failed_reqs_total", "num_bootstrap_failed_reqs", Metric.BOOTSTRAP_FAILURES),
        (PREFILL, "num_transfer_failed_reqs_total", "num_bootstrap_failed_reqs_total", Metric.BOOTSTRAP_FAILURES),
        (UNIFIED, "forward_execution_seconds_total", "gpu_execution_seconds_total", Metric.PREFILL_BUSY),
    ],
)
def test_older_counters_and_gauges(name: str, new: str, old: str, metric: Metric) -> None:
    """Under its older name a series gives what it gives under the new one."""
    original = read_engine(page(name))
    expected = original.value(Metric.TRANSFER_FAILURES if metric is Metric.BOOTSTRAP_FAILURES else metric)
    assert expected
    assert read_engine(renamed(page(name), new, old)).value(metric) == expected


def test_older_queue_time() -> None:
    """`queue_time_s` of 0.5.2."""
    old = read_engine(renamed(page(PREFILL), "queue_time_seconds", "queue_time_s"))
    assert old.buckets(Metric.QUEUE_TIME) == read_engine(page(PREFILL)).buckets(Metric.QUEUE_TIME)


def test_older_usage() -> None:
    """Before 0.5.10 the rounded usage is all there is."""
    body = re.sub(rb"(?m)^sglang:full_token_usage.*\n", b"", page(DECODE))
    assert read_engine(body).value(Metric.KV_USAGE) == 0.03


def test_older_throughput() -> None:
    """Before 0.5.7 tokens are counted when their request ends."""
    body = re.sub(rb"(?m)^sglang:realtime_tokens_total.*\n", b"", page(DECODE))
    assert read_engine(body).value(Metric.GENERATED_TOKENS) == 31841 + 273728


def test_pool_in_labels() -> None:
    """0.5.9 and 0.5.10 state page size and pages as labels, one series a rank."""
    info = b'sglang:cache_config_info{page_size="64",num_pages="16384",tp_rank="%d"} 1.0\n'
    reading = read_engine(info % 0 + info % 1)
    assert reading.scalars() == {Metric.PAGE_TOKENS: 64, Metric.KV_POOL_PAGES: 16384}


def test_gauges_of_transfers_are_no_histograms() -> None:
    """Up to 0.5.9 `kv_transfer_*` are gauges of the last transfer, from which nothing can be counted."""
    body = b"""\
# TYPE sglang:kv_transfer_latency_ms gauge
sglang:kv_transfer_latency_ms{tp_rank="0"} 31.8
# TYPE sglang:kv_transfer_total_mb gauge
sglang:kv_transfer_total_mb{tp_rank="0"} 320.0
"""
    reading = read_engine(body)
    assert reading.known() == set()
    assert {Metric.KV_TRANSFER_TIME, Metric.KV_TRANSFER_BYTES} <= reading.lazy()


def test_inference_requests_that_are_open() -> None:
    """Who reads `/metrics` is no user."""
    body = page(DECODE) + b'sglang:http_requests_active{endpoint="/v1/chat/completions",method="POST"} 7.0\n'
    assert b'sglang:http_requests_active{endpoint="/metrics",method="GET"} 1.0' in body
    assert read_engine(body).value(Metric.HTTP_ACTIVE) == 7


# ------------------------------------------------------------------------------------------------- facts


@pytest.mark.parametrize(
    ("name", "role", "model"),
    [
        (PREFILL, Role.PREFILL, "meta-llama/Llama-3.1-70B-Instruct"),
        (DECODE, Role.DECODE, "meta-llama/Llama-3.1-70B-Instruct"),
        (UNIFIED, Role.UNIFIED, "meta-llama/Llama-3.1-70B-Instruct"),
        (DP_ATTENTION, Role.DECODE, "deepseek-ai/DeepSeek-V3-0324"),
    ],
)
def test_role_and_model(name: str, role: Role, model: str) -> None:
    """The role is a label: queues of both roles stand at zero on every page."""
    facts = read_engine(page(name)).scrape.facts
    assert role_of(facts, ADAPTERS) is role
    assert facts[Fact.MODEL] == model
    assert Fact.ENGINE_VERSION not in facts


def test_a_role_that_is_switched_at_run_time() -> None:
    """`dynamic` on the scheduler's series, the first role on the tokenizer's: the page states none."""
    body = re.sub(rb'engine_type="decode"(.*tp_rank)', rb'engine_type="dynamic"\1', page(DECODE))
    assert role_of(read_engine(body).scrape.facts, ADAPTERS) is None


# ------------------------------------------------------------------------------------------------ /v1/loads


def loads(role: str) -> Any:
    """A recorded answer."""
    return json.loads(page(f"sglang-0.5.23-v1_loads-{role}.json"))


def test_loads_of_prefill() -> None:
    """Queues, limit, pool and busy time, microseconds as seconds."""
    reading = read_loads(page("sglang-0.5.23-v1_loads-prefill.json"))
    assert reading.scrape.source == "sglang_loads"
    assert reading.scalars() == {
        Metric.RUNNING: 0,
        Metric.WAITING_CAPACITY: 2,  # num_waiting_reqs of 4 has the PD queues in it
        Metric.PREFILL_BOOTSTRAP_QUEUE: 1,
        Metric.PREFILL_TRANSFER_QUEUE: 1,
        Metric.DECODE_ALLOCATION_QUEUE: 0,
        Metric.DECODE_TRANSFER_QUEUE: 0,
        Metric.MAX_RUNNING: 2048,
        Metric.KV_POOL_TOKENS: 1048576,
        Metric.KV_POOL_TOKENS_PER_RANK: 1048576,
        Metric.KV_POOL_BYTES: 80 * GIB,
        Metric.WEIGHT_BYTES_PER_RANK: pytest.approx(33.2 * GIB),
        Metric.PREFILL_BUSY: pytest.approx(341.870212),
    }
    assert reading.scrape.facts == {Fact.ENGINE_VERSION: "0.5.23", Fact.ROLE: "prefill"}


def test_loads_of_decode() -> None:
    """The admission queue is there, and the role."""
    reading = read_loads(page("sglang-0.5.23-v1_loads-decode.json"))
    assert reading.value(Metric.RUNNING) == 8
    assert reading.value(Metric.DECODE_ALLOCATION_QUEUE) == 1
    assert reading.value(Metric.DECODE_TRANSFER_QUEUE) == 4
    assert reading.value(Metric.WAITING_CAPACITY) == 0
    assert role_of(reading.scrape.facts, ADAPTERS) is Role.DECODE


def test_loads_of_decode_steps() -> None:
    """Steps, their batches and their times added up: the first three of the moments, microseconds as seconds."""
    reading = read_loads(page("sglang-0.5.23-v1_loads-decode.json"))
    assert reading.value(Metric.DECODE_STEPS) == 41212
    assert reading.value(Metric.DECODE_STEP_REQUESTS) == 300881
    assert reading.value(Metric.DECODE_STEP_TIME) == pytest.approx(558.21)
    assert not _STEPS & read_loads(page("sglang-0.5.23-v1_loads-prefill.json")).known()  # null before the first step


_STEPS = {Metric.DECODE_STEPS, Metric.DECODE_STEP_REQUESTS, Metric.DECODE_STEP_TIME}


@pytest.mark.parametrize(
    ("moments", "known"),
    [
        (None, set()),
        ([], set()),
        ([5], {Metric.DECODE_STEPS}),
        ([5, 40, 90_000], _STEPS),
        ([5, None, 90_000], _STEPS - {Metric.DECODE_STEP_REQUESTS}),
        ([True, "40", {}], set()),
    ],
)
def test_moments_that_are_not_all_there(moments: object, known: set[Metric]) -> None:
    """What is no number is unknown, and the rest keeps its place."""
    document = loads("decode")
    document["loads"][0]["decode_moments"] = moments
    reading = read_loads(json.dumps(document).encode())
    assert reading.known() & _STEPS == known
    assert reading.value(Metric.RUNNING) == 8


def test_steps_of_dp_ranks() -> None:
    """Ranks step together, so steps and their time are a mean; the batches of all make the batch."""
    document = loads("decode")
    document["loads"].append(document["loads"][0] | {"dp_rank": 1})
    reading = read_loads(json.dumps(document).encode())
    assert reading.value(Metric.DECODE_STEPS) == 41212
    assert reading.value(Metric.DECODE_STEP_REQUESTS) == 2 * 300881
    assert reading.value(Metric.DECODE_STEP_TIME) == pytest.approx(558.21)


def test_steps_outside_graphs() -> None:
    """Each mode of a decode pass is its own metric, prefill's passes are neither."""
    body = page(DECODE)
    assert b'mode="decode_cuda_graph"' in body
    outside = read_engine(body.replace(b'mode="decode_cuda_graph"', b'mode="decode_none"'))
    assert outside.value(Metric.EAGER_STEPS) == outside.value(Metric.STEPS) == 41798
    assert outside.lazy() >= {Metric.GRAPH_STEPS}
    prefill = read_engine(page(PREFILL))
    assert prefill.lazy() >= {Metric.GRAPH_STEPS, Metric.EAGER_STEPS}
    assert prefill.value(Metric.STEPS) == 1124


def test_loads_of_dp_ranks() -> None:
    """Each rank has its own entry; requests and limits add up, the pool of one rank is a mean."""
    document = loads("decode")
    second = json.loads(json.dumps(document["loads"][0])) | {"dp_rank": 1, "num_running_reqs": 3}
    document["loads"].append(second)
    reading = read_loads(json.dumps(document).encode())
    assert reading.value(Metric.RUNNING) == 11
    assert reading.value(Metric.RUNNING, "0") == 8
    assert reading.value(Metric.RUNNING, "1") == 3
    assert reading.value(Metric.MAX_RUNNING) == 4096
    assert reading.value(Metric.KV_POOL_BYTES) == 80 * GIB


def test_older_loads() -> None:
    """Up to 0.5.11 the bootstrap queue has another name; what is missing is unknown."""
    document = loads("prefill")
    group = document["loads"][0]["disaggregation"]
    group["prefill_prealloc_queue_reqs"] = group.pop("prefill_bootstrap_queue_reqs")
    del document["loads"][0]["total_prefill_busy_us"]
    reading = read_loads(json.dumps(document).encode())
    assert reading.value(Metric.PREFILL_BOOTSTRAP_QUEUE) == 1
    assert Metric.PREFILL_BUSY not in reading.known()


def test_loads_of_a_unified_engine() -> None:
    """Its mode is null, so the answer states no role."""
    document = loads("decode")
    document["loads"][0]["disaggregation"] = None
    facts = read_loads(json.dumps(document).encode()).scrape.facts
    assert facts == {Fact.ENGINE_VERSION: "0.5.23"}


@pytest.mark.parametrize("version", ["0.5.23.post1", "0.5.24.dev12+g1a2b3c4", "0.0.0.dev0", "1!2.0rc1"])
def test_version_of_a_build(version: str) -> None:
    """Any version that Python packages may have."""
    document = loads("decode") | {"version": version}
    assert read_loads(json.dumps(document).encode()).scrape.facts[Fact.ENGINE_VERSION] == version


@pytest.mark.parametrize(
    "version", [None, 5, ["0.5"], "", 'x",mode="prefill', "0.5\n", "0.5\\", "0.5 or so", "v" * 65, "\u0665"]
)
def test_a_version_that_is_none(version: object) -> None:
    """It is left out, the role stays, and nothing gets into the labels."""
    document = loads("decode") | {"version": version}
    reading = read_loads(json.dumps(document).encode())
    assert reading.scrape.facts == {Fact.ROLE: "decode"}
    assert reading.value(Metric.RUNNING) == 8
    assert reading.scrape.quality.bad_lines == 0


@pytest.mark.parametrize("mode", ['decode"} 1\nsglang_loads:num_running_reqs{dp_rank="0', "", "dynamic", 'a"b'])
def test_a_mode_that_is_none(mode: str) -> None:
    """Only the roles that there are become a label."""
    document = loads("decode")
    document["loads"][0]["disaggregation"]["mode"] = mode
    reading = read_loads(json.dumps(document).encode())
    assert reading.scrape.facts == {Fact.ENGINE_VERSION: "0.5.23"}
    assert reading.value(Metric.RUNNING) == 8


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("num_running_reqs", value) for value in (None, "8", True, [8], {"a": 8}, {}, "8} 9")),
        *(("queues", value) for value in (None, {}, {"waiting": "many"}, {"waiting": None})),
        *(("memory", value) for value in (None, {}, {"kv_cache_gb": "80 GB"})),
    ],
)
def test_a_field_that_is_no_number(field: str, value: object) -> None:
    """It is unknown; the others are read."""
    document = loads("decode")
    document["loads"][0][field] = value
    reading = read_loads(json.dumps(document).encode())
    metric = {
        "num_running_reqs": Metric.RUNNING,
        "queues": Metric.WAITING_CAPACITY,
        "memory": Metric.KV_POOL_BYTES,
    }[field]
    assert metric not in reading.known()
    assert reading.value(Metric.DECODE_TRANSFER_QUEUE) == 4


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", "1" + "0" * 400])
def test_a_number_that_is_none(number: str) -> None:
    """Infinite and not-a-number are missing."""
    body = json.dumps(loads("decode")).replace('"num_running_reqs": 8', f'"num_running_reqs": {number}')
    reading = read_loads(body.encode())
    assert reading.value(Metric.RUNNING) == pytest.approx(math.nan, nan_ok=True)
    assert reading.value(Metric.DECODE_TRANSFER_QUEUE) == 4


@pytest.mark.parametrize("limit", [0, -1, 1e12])
def test_a_limit_that_is_none(limit: float) -> None:
    """Not every number is a limit of running requests."""
    document = loads("decode")
    document["loads"][0]["max_running_requests"] = limit
    assert read_loads(json.dumps(document).encode()).value(Metric.MAX_RUNNING) == pytest.approx(math.nan, nan_ok=True)


def test_names_of_fields_are_no_samples() -> None:
    """A key cannot print a line of its own."""
    document = loads("decode")
    hostile = 'x{dp_rank="0"} 1\nsglang_loads:num_running_reqs'
    document["loads"][0] |= {hostile: 99, "ﬀ": 1, "": 1, "UP": 1, "a b": 1}
    reading = read_loads(json.dumps(document).encode())
    assert reading.value(Metric.RUNNING) == 8
    assert reading.scrape.quality.bad_lines == 0


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"null", b"[]", b"{}", b'"loads"', b"3", b"<html>", b"\xff\xfe", b"sglang:num_running_reqs 8\n"),
        *(b'{"loads": null}', b'{"loads": {}}', b'{"loads": "x"}', b'{"loads": [null]}', b'{"loads": [[]]}'),
        *(b'{"loads": ["x"]}', b'{"loads": [{"dp_rank": null}]}', b'{"loads": [{"dp_rank": "first"}]}'),
        *(b'{"loads": [{"dp_rank": 1e999}]}', b'{"loads": [{"dp_rank": [0]}]}', b'{"loads": [{"queues": 5}]}'),
        *(b'{"loads": [{"disaggregation": "decode"}]}', b'{"loads": [{"disaggregation": {"mode": ["decode"]}}]}'),
        *(b"[" * 200_000, b'{"loads": ' * 100_000, b'{"loads": [{"a": ' + b"9" * 5_000 + b"}]}"),
    ],
    ids=lambda body: repr(body[:40]),
)
def test_no_answer_of_loads(body: bytes) -> None:
    """Whatever else comes is refused with a reason, which is a value."""
    with pytest.raises(PageError, match="/v1/loads"):
        flatten_loads(body)
    scrape = read_loads(body).scrape
    assert scrape.reason is FailureReason.NOT_EXPOSITION
    assert "/v1/loads" in scrape.detail
    assert not scrape.ok


def test_an_answer_without_ranks() -> None:
    """It is one, and holds no number."""
    reading = read_loads(b'{"version": "0.5.23", "loads": []}')
    assert reading.scrape.ok
    assert reading.known() == set()
    assert reading.scrape.facts == {Fact.ENGINE_VERSION: "0.5.23"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=8,
)
GROUP = st.dictionaries(st.sampled_from(["mode", "waiting", "kv_cache_gb", 'a"} 1\n', "é"]), JSON)
LOAD = st.fixed_dictionaries(
    {},
    optional={
        "dp_rank": JSON,
        "num_running_reqs": JSON,
        "decode_moments": JSON,
        "disaggregation": GROUP,
        "queues": GROUP,
        "memory": GROUP,
    },
)
ANSWER = st.fixed_dictionaries({"loads": st.lists(LOAD | JSON, max_size=3)}, optional={"version": JSON})


@given(document=ANSWER | JSON)
def test_any_json_is_refused_or_a_clean_page(document: object) -> None:
    """No text of the answer can become a sample, a label or a bad line."""
    try:
        flat = flatten_loads(json.dumps(document).encode())
    except PageError:
        return
    families = list(text_string_to_metric_families(flat.decode()))
    samples = [sample for family in families for sample in family.samples]
    assert {sample.name.partition(":")[0] for sample in samples} == {"sglang_loads"}
    for sample in samples:
        if sample.name == "sglang_loads:info":
            assert sample.labels.keys() == {"version", "mode"}
            assert sample.labels["mode"] in {"", "prefill", "decode", "unified"}
        else:
            assert re.fullmatch("-?[0-9]+", sample.labels["dp_rank"])
    assert PageParser(frozenset()).parse(flat).defects.bad_lines == 0


def test_loads_as_exposition() -> None:
    """`/v1/loads?format=prometheus` is SGLang's page too, with few of its series and no role."""
    reading: Reading = read_engine(page("sglang-0.5.23-v1_loads-decode.prom"))
    assert reading.scrape.source == "sglang"
    assert reading.scalars() == {
        Metric.RUNNING: 8,
        Metric.KV_USAGE: 0.0321,
        Metric.KV_POOL_TOKENS: 1048576,
        Metric.KV_POOL_TOKENS_PER_RANK: 1048576,
    }
    assert reading.scrape.facts == {}


def test_gauges_of_the_last_transfer_are_not_read() -> None:
    """Up to 0.5.9 `kv_transfer_*` held the last transfer: no rate and no mean can be had from it."""
    body = re.sub(rb"(?m)^.*sglang:kv_transfer_.*\n", b"", page("sglang-0.5.23-prefill.prom"))
    labels = b'{engine_type="prefill",model_name="m",pp_rank="0",tp_rank="0"}'
    for name, value in ((b"latency_ms", b"81.5"), (b"total_mb", b"640.0"), (b"alloc_ms", b"1.5")):
        series = b"sglang:kv_transfer_" + name
        body += b"# TYPE " + series + b" gauge\n" + series + labels + b" " + value + b"\n"
    reading = read_engine(body)
    gone = {Metric.KV_TRANSFER_TIME, Metric.KV_TRANSFER_BYTES, Metric.ALLOCATION_TIME, Metric.HANDSHAKE_TIME}
    assert reading.known() == read_engine(page("sglang-0.5.23-prefill.prom")).known() - gone


def test_the_page_of_another_node() -> None:
    """It has ranks 4 to 7 and no requests: the smallest rank counts, and bytes are those of its own ranks."""
    name = "sglang-0.5.23-prefill.prom"
    kept = [line for line in page(name).splitlines(keepends=True) if line.startswith(b"#") or b"tp_rank=" in line]
    first = b"".join(kept)
    other = re.sub(rb'tp_rank="([0-3])"', lambda found: b'tp_rank="%d"' % (int(found[1]) + 4), first)
    assert other != first
    here, there = read_engine(first), read_engine(other)
    assert there.scrape.facts == here.scrape.facts
    assert there.scalars() == here.scalars()
    assert there.histograms() == here.histograms()
    assert Metric.REQUESTS_FINISHED not in there.known()


@pytest.mark.parametrize(
    ("new", "old", "metric"),
    [
        ("num_prefill_bootstrap_queue_reqs", "num_prefill_prealloc_queue_reqs", Metric.PREFILL_BOOTSTRAP_QUEUE),
        ("num_prefill_inflight_queue_reqs", "num_prefill_infight_queue_reqs", Metric.PREFILL_TRANSFER_QUEUE),
        ("forward_execution_seconds_total", "gpu_execution_seconds_total", Metric.PREFILL_BUSY),
        ("queue_time_seconds", "queue_time_s", Metric.QUEUE_TIME),
        ("full_token_usage", "no_token_usage", Metric.KV_USAGE),
    ],
)
def test_a_page_of_0_5_2_and_its_neighbours(new: str, old: str, metric: Metric) -> None:
    """A series under its former name, or without its successor, still gives its metric, and only that one."""
    original = page("sglang-0.5.23-prefill.prom")
    body = original.replace(f"sglang:{new}".encode(), f"sglang:{old}".encode())
    assert body != original
    reading, expected = read_engine(body), read_engine(original)
    assert metric in reading.known()
    assert reading.known() == expected.known()
