"""vLLM: what its real pages give, reasons and stages, DP engines, older names, pool facts in labels."""

from __future__ import annotations

import math
import re

import pytest

from pdscope.model.metric import Fact, Metric
from pdscope.model.scrape import FailureReason
from pdscope.model.topology import Role
from pdscope.sources.engines.vllm import ADAPTERS
from pdscope.sources.reader import role_of
from support.pages import page, printed, read_engine

ALONE = "vllm-0.32.0-overload.prom"
DECODE = "vllm-0.32.0-nixl-d-overload.prom"
PREFILL = "vllm-0.32.0-nixl-p-overload.prom"

POOL = {
    Metric.PAGE_TOKENS: 128.0,
    Metric.KV_POOL_PAGES: 8192.0,
    Metric.KV_POOL_TOKENS: 1048576.0,
}
NOT_ESTIMATED = dict.fromkeys(
    (Metric.ESTIMATED_FLOP, Metric.ESTIMATED_HBM_READ, Metric.ESTIMATED_HBM_WRITTEN), math.nan
)
SCALARS = {
    ALONE: POOL
    | NOT_ESTIMATED  # without --enable-mfu-metrics the series stand at 0
    | {
        Metric.RUNNING: 8.0,
        Metric.WAITING: 50.0,
        Metric.WAITING_CAPACITY: 50.0,
        Metric.KV_USAGE: 0.004883408619216212,
        Metric.REQUESTS_FINISHED: 253.0,
        Metric.PROMPT_TOKENS: 88324.0,
        Metric.GENERATED_TOKENS: 11389.0,
        Metric.PREFILL_COMPUTED_TOKENS: 88324.0,
        Metric.PREFILL_CACHED_TOKENS: 0.0,
        Metric.KV_RECEIVED_TOKENS: 0.0,
        Metric.STEPS: 2854.0,
        Metric.PREEMPTIONS: 0.0,
    },
    DECODE: POOL
    | {
        Metric.RUNNING: 0.0,
        Metric.WAITING: 0.0,
        Metric.WAITING_CAPACITY: 0.0,
        Metric.KV_FETCH_WAITING: 0.0,
        Metric.KV_FETCH_ACTIVE: 0.0,
        Metric.KV_FETCH_LANDED: 0.0,
        Metric.KV_USAGE: 0.0,
        Metric.REQUESTS_FINISHED: 208.0,
        Metric.PROMPT_TOKENS: 158507.0,
        Metric.GENERATED_TOKENS: 8024.0,
        Metric.PREFILL_COMPUTED_TOKENS: 0.0,
        Metric.PREFILL_CACHED_TOKENS: 0.0,
        Metric.KV_RECEIVED_TOKENS: 158507.0,
        Metric.STEPS: 2403.0,
        Metric.PREEMPTIONS: 0.0,
        Metric.TRANSFER_FAILURES: 0.0,
        Metric.KV_EXPIRED: 0.0,
        Metric.LATE_KV_READS: 0.0,
        Metric.ESTIMATED_FLOP: 9807671296.0,
        Metric.ESTIMATED_HBM_READ: 9279686656.0,
        Metric.ESTIMATED_HBM_WRITTEN: 73949184.0,
    },
    PREFILL: POOL
    | {
        Metric.RUNNING: 1.0,
        Metric.WAITING: 42.0,
        Metric.WAITING_CAPACITY: 42.0,
        Metric.KV_USAGE: 0.0014650225857648635,
        Metric.REQUESTS_FINISHED: 209.0,
        Metric.PROMPT_TOKENS: 159531.0,
        Metric.GENERATED_TOKENS: 209.0,
        Metric.PREFILL_COMPUTED_TOKENS: 159531.0,
        Metric.PREFILL_CACHED_TOKENS: 0.0,
        Metric.KV_RECEIVED_TOKENS: 0.0,
        Metric.STEPS: 209.0,
        Metric.PREEMPTIONS: 0.0,
        Metric.TRANSFER_FAILURES: 0.0,
        Metric.KV_EXPIRED: 1.0,
        Metric.LATE_KV_READS: 0.0,
        Metric.ESTIMATED_FLOP: 152041153536.0,
        Metric.ESTIMATED_HBM_READ: 14620432896.0,
        Metric.ESTIMATED_HBM_WRITTEN: 1147921408.0,
    },
}
HISTOGRAMS = {
    ALONE: {
        Metric.TTFT: (261.0, 1274.747573852539),
        Metric.ITL: (11128.0, 203.43042343700074),
        Metric.TPOT: (253.0, 4.18548490462225),
        Metric.PROMPT_LENGTH: (253.0, 84228.0),
        Metric.QUEUE_TIME: (253.0, 1185.2509511360001),
        Metric.PREFILL_TIME: (253.0, 16.555861733999905),
    },
    DECODE: {
        Metric.TTFT: (208.0, 1450.9195907115936),
        Metric.ITL: (7816.0, 578.231033735),
        Metric.TPOT: (208.0, 15.630649476955417),
        Metric.PROMPT_LENGTH: (208.0, 158507.0),
        Metric.QUEUE_TIME: (208.0, 1314.0342274369982),
        Metric.PREFILL_TIME: (208.0, 25.169052748998865),
        Metric.KV_TRANSFER_TIME: (208.0, 52.340617999999964),
        Metric.KV_TRANSFER_BYTES: (208.0, 162398208.0),
        Metric.KV_POST_TIME: (208.0, 3.002516000000003),
        Metric.KV_DESCRIPTORS: (208.0, 458.0),
    },
    PREFILL: {
        Metric.TTFT: (209.0, 1863.9960534572601),
        Metric.ITL: (0.0, 0.0),  # never observed on prefill
        Metric.TPOT: (209.0, 0.0),  # and a zero for each request
        Metric.PROMPT_LENGTH: (209.0, 159531.0),
        Metric.QUEUE_TIME: (209.0, 1525.467637420001),
        Metric.PREFILL_TIME: (209.0, 174.723086282002),
        Metric.KV_TRANSFER_TIME: (0.0, 0.0),  # decode pulls, so decode counts
        Metric.KV_TRANSFER_BYTES: (0.0, 0.0),
        Metric.KV_POST_TIME: (0.0, 0.0),
        Metric.KV_DESCRIPTORS: (0.0, 0.0),
    },
}


@pytest.mark.parametrize("name", SCALARS)
def test_gauges_and_counters(name: str) -> None:
    """All of them and no other."""
    reading = read_engine(page(name))
    assert reading.scrape.source == "vllm"
    assert reading.scalars() == pytest.approx(SCALARS[name], rel=0, abs=0, nan_ok=True)


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms(name: str) -> None:
    """All of them and no other."""
    assert read_engine(page(name)).histograms() == HISTOGRAMS[name]


@pytest.mark.parametrize(
    ("metric", "family"),
    [
        (Metric.TTFT, "time_to_first_token_seconds"),
        (Metric.ITL, "inter_token_latency_seconds"),
        (Metric.TPOT, "request_time_per_output_token_seconds"),
        (Metric.PROMPT_LENGTH, "request_prompt_tokens"),
        (Metric.QUEUE_TIME, "request_queue_time_seconds"),
        (Metric.PREFILL_TIME, "request_prefill_time_seconds"),
        (Metric.KV_TRANSFER_TIME, "nixl_xfer_time_seconds"),
        (Metric.KV_TRANSFER_BYTES, "nixl_bytes_transferred"),
        (Metric.KV_POST_TIME, "nixl_post_time_seconds"),
        (Metric.KV_DESCRIPTORS, "nixl_num_descriptors"),
    ],
)
def test_buckets(metric: Metric, family: str) -> None:
    """Bucket by bucket what the official parser finds."""
    expected = printed(DECODE, f"vllm:{family}").buckets(f"vllm:{family}")
    assert read_engine(page(DECODE)).buckets(metric) == expected


def test_just_started() -> None:
    """VLLM prints its series from the start, so all of them are there and zero; none is a guess."""
    reading = read_engine(page("vllm-0.32.0-nixl-d-idle.prom"))
    assert reading.lazy() == set()
    assert reading.known() == read_engine(page(DECODE)).known()
    assert set(reading.histograms().values()) == {(0, 0)}
    assert reading.value(Metric.REQUESTS_FINISHED) == 0
    assert reading.value(Metric.KV_RECEIVED_TOKENS) == 0


def test_a_single_engine_has_no_transfer() -> None:
    """Without a connector its series are absent, not zero."""
    known = read_engine(page("vllm-0.32.0-light.prom")).known()
    assert not known & {Metric.KV_TRANSFER_BYTES, Metric.KV_FETCH_ACTIVE, Metric.TRANSFER_FAILURES, Metric.KV_EXPIRED}


def test_reasons_and_stages() -> None:
    """Each label value is its own metric: what is deferred does not wait for capacity."""
    body = page(DECODE)
    for line, value in (
        ('num_requests_waiting{engine="0",model_name="tiny"}', 12),
        ('num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"}', 3),
        ('num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="deferred"}', 9),
        ('num_requests_kv_fetch_by_stage{engine="0",model_name="tiny",stage="waiting_to_start"}', 2),
        ('num_requests_kv_fetch_by_stage{engine="0",model_name="tiny",stage="in_progress"}', 6),
        ('num_requests_kv_fetch_by_stage{engine="0",model_name="tiny",stage="completed_waiting"}', 1),
    ):
        changed = body.replace(f"vllm:{line} 0.0\n".encode(), f"vllm:{line} {value}\n".encode())
        assert changed != body
        body = changed
    reading = read_engine(body)
    assert reading.value(Metric.WAITING) == 12
    assert reading.value(Metric.WAITING_CAPACITY) == 3
    assert reading.value(Metric.KV_FETCH_WAITING) == 2
    assert reading.value(Metric.KV_FETCH_ACTIVE) == 6
    assert reading.value(Metric.KV_FETCH_LANDED) == 1


def test_finished_for_whatever_reason() -> None:
    """Requests that ended in an error or were aborted have ended too."""
    body = page(DECODE).replace(b'finished_reason="error",model_name="tiny"} 0.0', b'finished_reason="error"} 5.0')
    assert read_engine(body).value(Metric.REQUESTS_FINISHED) == 213


def test_before_reasons_and_stages() -> None:
    """Before 0.22 there is one number for all that wait, and nobody may call it capacity."""
    body = re.sub(rb"(?m)^.*num_requests_(waiting_by_reason|kv_fetch_by_stage).*\n", b"", page(ALONE))
    reading = read_engine(body)
    assert reading.value(Metric.WAITING) == 50
    assert Metric.WAITING_CAPACITY not in reading.known()


@pytest.mark.parametrize(
    ("new", "old", "metric"),
    [
        ("inter_token_latency_seconds", "time_per_output_token_seconds", Metric.ITL),
        ("nixl_bytes_transferred", "mooncake_bytes_transferred", Metric.KV_TRANSFER_BYTES),
        ("nixl_xfer_time_seconds", "mooncake_xfer_time_seconds", Metric.KV_TRANSFER_TIME),
        ("nixl_num_descriptors", "mooncake_num_descriptors", Metric.KV_DESCRIPTORS),
    ],
)
def test_other_names_of_histograms(new: str, old: str, metric: Metric) -> None:
    """The name of ITL up to 0.11; Mooncake's histograms from 0.33 on."""
    body = re.sub(rb"(?m)^vllm:time_per_output_token.*\n", b"", page(DECODE)).replace(new.encode(), old.encode())
    assert read_engine(body).buckets(metric) == read_engine(page(DECODE)).buckets(metric)


@pytest.mark.parametrize(
    ("name", "new", "old", "metric"),
    [
        (ALONE, "kv_cache_usage_perc", "gpu_cache_usage_perc", Metric.KV_USAGE),
        (PREFILL, "nixl_num_kv_expired_reqs_total", "mooncake_num_kv_expired_reqs_total", Metric.KV_EXPIRED),
        (PREFILL, "nixl_num_kv_expired_reqs_total", "mooncake_num_failed_transfers_total", Metric.TRANSFER_FAILURES),
    ],
)
def test_other_names_of_numbers(name: str, new: str, old: str, metric: Metric) -> None:
    """The name of usage up to 0.11; Mooncake's failures and expiries from 0.33 on."""
    original = read_engine(page(name))
    expected = original.value(Metric.KV_EXPIRED if metric is Metric.TRANSFER_FAILURES else metric)
    body = re.sub(rb"(?m)^vllm:nixl_num_failed_transfers.*\n", b"", page(name)).replace(new.encode(), old.encode())
    assert expected
    assert read_engine(body).value(metric) == expected


def test_before_tokens_by_source() -> None:
    """Before 0.16 the connector's hits are the tokens that came from elsewhere; local hits come from the own cache."""
    body = re.sub(rb"(?m)^vllm:prompt_tokens_by_source.*\n", b"", page(DECODE))
    body = body.replace(
        b'vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 0.0', b"vllm:prefix_cache_hits_total 7"
    )
    reading = read_engine(body)
    assert reading.value(Metric.KV_RECEIVED_TOKENS) == 158507
    assert reading.value(Metric.PREFILL_CACHED_TOKENS) == 7
    assert Metric.PREFILL_COMPUTED_TOKENS not in reading.known()


def test_dp_engines() -> None:
    """Each engine is a rank: requests and steps are theirs, usage is the fullest's, the pools add up."""
    second = b"\n".join(
        line for line in page(ALONE).replace(b'engine="0"', b'engine="1"').split(b"\n") if b'engine="1"' in line
    )
    body = page(ALONE) + second.replace(b"} 0.004883408619216212", b"} 0.5") + b"\n"
    reading = read_engine(body)
    for metric, joined in (
        (Metric.RUNNING, 16),
        (Metric.WAITING, 100),
        (Metric.KV_USAGE, 0.5),
        (Metric.REQUESTS_FINISHED, 506),
        (Metric.STEPS, 2854),
        (Metric.KV_POOL_TOKENS, 2 * 1048576),
        (Metric.PAGE_TOKENS, 128),
    ):
        assert reading.ranks(metric) == {"0", "1"}, metric
        assert reading.value(metric) == joined, metric
    assert reading.value(Metric.KV_USAGE, "0") == 0.004883408619216212
    assert reading.histograms()[Metric.TTFT] == (2 * 261, 2 * 1274.747573852539)


@pytest.mark.parametrize(
    ("label", "metrics"),
    [
        ("kv_cache_size_tokens", {Metric.KV_POOL_TOKENS}),
        ("num_gpu_blocks", {Metric.KV_POOL_PAGES}),
        ("block_size", {Metric.PAGE_TOKENS}),
    ],
)
@pytest.mark.parametrize("text", ["None", "", "auto", "-1", "0", "nan", "inf"])
def test_pool_facts_that_are_none(label: str, metrics: set[Metric], text: str) -> None:
    """On GPUs some facts are the text None; what is no positive number is unknown, the others stay."""
    body, changed = re.subn(rf'([{{,]){label}="[0-9]+"'.encode(), rf'\1{label}="{text}"'.encode(), page(ALONE))
    assert changed == 1
    reading = read_engine(body)
    assert POOL.keys() - reading.known() == metrics
    assert reading.value(Metric.RUNNING) == 8


def test_no_pool_facts() -> None:
    """An engine without the series says nothing of its pool."""
    body = re.sub(rb"(?m)^vllm:cache_config_info.*\n", b"", page(ALONE))
    assert not read_engine(body).known() & POOL.keys()


@pytest.mark.parametrize("name", [ALONE, DECODE, PREFILL])
def test_both_spellings(name: str) -> None:
    """With underscores a page gives the same, and under both names nothing twice (field lesson E16)."""
    original = read_engine(page(name))
    escaped = page(name).replace(b"vllm:", b"vllm_")
    for body in (escaped, page(name) + escaped):
        assert read_engine(body).scalars() == pytest.approx(original.scalars(), rel=0, abs=0, nan_ok=True)
        assert read_engine(body).histograms() == original.histograms()


def test_lora_requests_are_no_measurement() -> None:
    """Field lesson E10: a gauge whose value is a time and whose labels change; old label sets stay."""
    body = page(ALONE)
    lora = (
        b'vllm:lora_requests_info{max_lora="4",running_lora_adapters="a",waiting_lora_adapters=""} 1.73e+09\n'
        b'vllm:lora_requests_info{max_lora="4",running_lora_adapters="b",waiting_lora_adapters="a"} 1.74e+09\n'
    )
    reading = read_engine(body + lora)
    assert reading.scalars() == pytest.approx(SCALARS[ALONE], rel=0, abs=0, nan_ok=True)
    assert reading.histograms() == HISTOGRAMS[ALONE]
    assert reading.scrape.facts == read_engine(body).scrape.facts


def test_times_of_creation_are_no_measurement() -> None:
    """`_created` series hold unix times beside every counter and histogram."""
    body = page(ALONE)
    assert b"vllm:request_success_created" in body
    without = re.sub(rb"(?m)^\S+_created\{.*\n", b"", body)
    assert read_engine(without).scalars() == pytest.approx(read_engine(body).scalars(), rel=0, abs=0, nan_ok=True)


@pytest.mark.parametrize("name", [ALONE, DECODE, PREFILL])
def test_facts(name: str) -> None:
    """The model is stated; the role is a property of each request, so no page states it."""
    facts = read_engine(page(name)).scrape.facts
    assert facts == {Fact.MODEL: "tiny"}
    assert role_of(facts, ADAPTERS) is None


def test_two_models_are_no_fact() -> None:
    """A page with two served names does not say which one the deployment is."""
    body = page(ALONE) + b'vllm:num_requests_running{engine="0",model_name="other"} 1\n'
    assert read_engine(body).scrape.facts == {}


@pytest.mark.parametrize("role", [None, Role.PREFILL, Role.DECODE, Role.UNIFIED])
def test_statistics_switched_off(role: Role | None) -> None:
    """With --disable-log-stats only the process's and the server's own series are left."""
    body = b"".join(line + b"\n" for line in page(ALONE).split(b"\n") if b"vllm:" not in line)
    assert b"python_info" in body
    scrape = read_engine(body, engine="vllm", role=role).scrape
    assert scrape.reason is FailureReason.METRICS_OFF
    assert "switched on" in scrape.detail


def test_cache_hits_up_to_0_11() -> None:
    """They were named after the device."""
    body = re.sub(rb"(?m)^vllm:prompt_tokens_by_source.*\n", b"", page(DECODE))
    body = re.sub(rb"(?m)^vllm:prefix_cache_hits_total.*$", b"vllm:gpu_prefix_cache_hits_total 9", body)
    assert read_engine(body).value(Metric.PREFILL_CACHED_TOKENS) == 9


def test_tokens_computed_again_are_not_read() -> None:
    """`prompt_tokens_recomputed` came with 0.16 and went before 0.22: nothing may rest on it."""
    body = page(DECODE) + b'vllm:prompt_tokens_recomputed_total{engine="0",model_name="tiny"} 54.0\n'
    assert read_engine(body).scalars() == read_engine(page(DECODE)).scalars()
