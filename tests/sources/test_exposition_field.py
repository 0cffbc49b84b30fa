"""Odd pages that users of these engines have met; E01 to E23 number the reports."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from pdscope.errors import PageError
from pdscope.sources.exposition import Page, PageParser, SampleId

RECORDED = Path(__file__).parents[1] / "fixtures" / "expositions"


def parse(body: bytes, *wanted: str) -> Page:
    return PageParser(frozenset(wanted)).parse(body)


def values(page: Page) -> dict[tuple[str, ...], float]:
    """Value by name and label values."""
    keys = [(sample.name, *(value for _, value in sample.labels)) for sample in page.layout.samples]
    return dict(zip(keys, page.values.tolist(), strict=True))


def test_e01_one_nan_gauge_does_not_cost_the_scrape() -> None:
    """An idle SGLang prints NaN for `fwd_occupancy`; all other samples are kept."""
    body = (RECORDED / "sglang-0.5.23-decode-fresh.prom").read_bytes()
    wanted = ("sglang:fwd_occupancy", "sglang:num_running_reqs", "sglang:time_to_first_token_seconds_bucket")
    page = parse(body, *wanted)
    occupancy = [s.name == "sglang:fwd_occupancy" for s in page.layout.samples]
    assert any(occupancy)
    np.testing.assert_array_equal(np.isnan(page.values), occupancy)
    assert {s.name for s in page.layout.samples} == set(wanted)
    assert page.defects.nan_samples == sum(occupancy)
    assert page.defects.bad_lines == 0


def test_e02_nan_with_a_sign_on_a_counter() -> None:
    """C programs print `-nan`; no spelling of NaN or infinity is a bad line."""
    spellings = (b"-nan", b"nan", b"NaN", b"+Inf", b"-Inf", b"Inf")
    page = parse(b"".join(b'a_total{n="%d"} %b\n' % item for item in enumerate(spellings)), "a_total")
    nan, inf = math.nan, math.inf
    np.testing.assert_array_equal(page.values, [nan, nan, nan, inf, -inf, inf])
    assert page.defects.nan_samples == 3
    assert page.defects.bad_lines == 0


def test_e03_sentinels_pass_as_printed() -> None:
    """What DCGM means by a blank is for the adapter to know."""
    page = parse(
        b'DCGM_FI_PROF_DRAM_ACTIVE{gpu="0"} 140737488355328.000000\n'
        b'DCGM_FI_PROF_PCIE_TX_BYTES{gpu="0"} 9223372036854775792\n',
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "DCGM_FI_PROF_PCIE_TX_BYTES",
    )
    assert page.values.tolist() == [140737488355328.0, 9223372036854775792.0]


def test_e07_each_mig_slice_is_a_sample() -> None:
    """Slices of one GPU differ in GPU_I_ID only, and stay apart."""
    body = (RECORDED / "dcgm_a100_mig_fake-gpu-operator.txt").read_bytes()
    page = parse(body, "DCGM_FI_PROF_GR_ENGINE_ACTIVE")
    slices = [(labels["UUID"], labels["GPU_I_ID"]) for s in page.layout.samples if (labels := dict(s.labels))]
    assert len(slices) == len(set(slices)) > 1
    assert len({uuid for uuid, _ in slices}) < len(slices)
    assert page.defects.duplicate_samples == 0


def test_e10_info_in_the_labels_of_a_time() -> None:
    """The gauge `lora_requests_info` of vLLM keeps old label sets; the newest is found by its value."""
    page = parse(
        b'vllm:lora_requests_info{max_lora="4",running_lora_adapters="",waiting_lora_adapters=""} 1.7309e+09\n'
        b'vllm:lora_requests_info{max_lora="4",running_lora_adapters="a,b",waiting_lora_adapters=""} 1.731e+09\n',
        "vllm:lora_requests_info",
    )
    newest = page.layout.samples[int(np.argmax(page.values))]
    assert dict(newest.labels)["running_lora_adapters"] == "a,b"
    assert page.timestamps is None


def test_e11_a_family_in_two_blocks() -> None:
    """Two registries behind one endpoint: HELP and TYPE twice, some samples twice."""
    block = (
        b"# HELP vllm:num_requests_running Number of requests.\n# TYPE vllm:num_requests_running gauge\n"
        b'vllm:num_requests_running{engine="%d"} %d\nvllm:num_requests_running{engine="2"} %d\n'
    )
    page = parse(block % (0, 5, 6) + block % (1, 7, 8), "vllm:num_requests_running")
    name = "vllm:num_requests_running"
    assert values(page) == {(name, "0"): 5, (name, "2"): 8, (name, "1"): 7}
    assert page.layout.types == {name: "gauge"}
    assert page.defects.duplicate_samples == 1
    assert page.defects.bad_lines == 0


def test_e13_the_text_of_an_error_is_no_page() -> None:
    """Go's registry answers with prose when two collectors collide."""
    body = (
        b"An error has occurred while serving metrics:\n\n"
        b'collected metric "mlu_utilization" { label:{name:"mlu" value:"0"} gauge:{value:5} } was collected before '
        b"with the same name and label values\n"
    )
    with pytest.raises(PageError, match="An error has occurred while serving metrics:"):
        parse(body, "mlu_utilization")


def test_e14_total_twice() -> None:
    """`x_total_total` is another sample than `x_total`."""
    body = b"# TYPE x_total_total counter\nx_total_total 5\n"
    assert values(parse(body, "x_total")) == {}
    assert values(parse(body, "x_total_total")) == {("x_total_total",): 5}


def test_e15_times_of_creation_are_not_values() -> None:
    """`_created` series stand beside every counter and histogram of client_python."""
    body = (
        b"# TYPE foo_total counter\nfoo_total 3.0\n# TYPE foo_created gauge\nfoo_created 1.73e+09\n"
        b'# TYPE bar histogram\nbar_bucket{le="+Inf"} 2.0\nbar_count 2.0\nbar_sum 5.0\n'
        b"# TYPE bar_created gauge\nbar_created 1.73e+09\n"
    )
    page = parse(body, "foo", "foo_total", "bar", "bar_bucket", "bar_count", "bar_sum")
    assert page.values.tolist() == [3, 2, 2, 5]


def test_e16_the_same_page_under_two_spellings() -> None:
    """A gateway prints `sglang_` for `sglang:` and adds its own label; integers lose their `.0`."""
    engine = b'sglang:num_running_reqs{engine_type="decode"} 7.0\n'
    gateway = b'sglang_num_running_reqs{engine_type="decode",worker_addr="grpc://127.0.0.1:8001"} 7\n'
    wanted = ("sglang:num_running_reqs", "sglang_num_running_reqs")
    assert values(parse(engine, *wanted)) == {("sglang:num_running_reqs", "decode"): 7}
    assert values(parse(gateway, *wanted)) == {("sglang_num_running_reqs", "decode", "grpc://127.0.0.1:8001"): 7}


def test_e16_names_by_openmetrics_escaping() -> None:
    """client_python escapes samples but not the families it declares."""
    page = parse(
        b"# HELP sglang:num_running_reqs x\n# TYPE sglang:num_running_reqs gauge\nsglang_num_running_reqs 7.0\n# EOF\n",
        "sglang:num_running_reqs",
        "sglang_num_running_reqs",
    )
    assert values(page) == {("sglang_num_running_reqs",): 7}
    assert page.layout.types == {"sglang:num_running_reqs": "gauge"}
    assert page.defects.bad_lines == 0


def test_e17_labels_renamed_by_prometheus() -> None:
    """Through Prometheus, Dynamo's `endpoint` arrives as `exported_endpoint`, both with a time."""
    page = parse(
        b'dynamo_component_requests_total{dynamo_component="backend",exported_endpoint="generate",'
        b'endpoint="metrics",exported_namespace="dynamo",namespace="llm"} 12 1730000000123\n',
        "dynamo_component_requests_total",
    )
    (sample,) = page.layout.samples
    labels = dict(sample.labels)
    assert (labels["endpoint"], labels["exported_endpoint"]) == ("metrics", "generate")
    assert page.timestamps is not None
    assert page.timestamps.tolist() == [1730000000.123]


@pytest.mark.parametrize("body", [b"[]", b"[]\n", b'[{"iter": 1, "gpuMemUsage": 5}]', b'{"kvCacheStats": {}}'])
def test_e18_json_is_no_page(body: bytes) -> None:
    """TensorRT-LLM answers `/metrics` with JSON; the page is elsewhere."""
    with pytest.raises(PageError, match="JSON"):
        parse(body, "e2e_request_latency_seconds")


@pytest.mark.parametrize(
    "body",
    [
        b'# TYPE python_info gauge\npython_info{version="3.12.3"} 1.0\nprocess_cpu_seconds_total 3.5\n',
        b"# HELP trtllm_requests_total Requests.\n# TYPE trtllm_requests_total counter\n",
        b"",
    ],
)
def test_e19_metrics_that_are_off(body: bytes) -> None:
    """A page of the process only, of declarations only, or of nothing has no sample, and is no error."""
    page = parse(body, "trtllm_requests_total")
    assert page.layout.samples == ()
    assert page.values.shape == (0,)
    assert page.defects.bad_lines == 0


def test_e20_a_node_without_engine_families() -> None:
    """The second node of an engine shows itself by what it declares, not by what it lacks."""
    page = parse(b"# TYPE python_gc_objects_collected_total counter\npython_gc_objects_collected_total 5\n", "vllm:x")
    assert page.layout.samples == ()
    assert not any(family.startswith("vllm:") for family in page.layout.types)


def test_e21_the_empty_page_of_a_redirect() -> None:
    """A body of zero bytes is empty also where the last page was not."""
    parser = PageParser(frozenset({"a"}))
    page = parser.parse(b"", parser.parse(b"a 1\n").layout)
    assert page.layout.samples == ()
    assert page.values.shape == (0,)


def test_e23_label_values_of_a_vulnerability_scan() -> None:
    """Paths that somebody tried became labels; they are read as they are."""
    page = parse(
        b'http_requests_total{path="/../../etc/passwd"} 1\n'
        b'http_requests_total{path="/${jndi:ldap://localhost}"} 2\n'
        b'http_requests_total{path="/\\"><script>alert(1)</script>\\n{},#"} 3\n',
        "http_requests_total",
    )
    assert [dict(s.labels)["path"] for s in page.layout.samples] == [
        "/../../etc/passwd",
        "/${jndi:ldap://localhost}",
        '/"><script>alert(1)</script>\n{},#',
    ]
    assert page.layout.samples[0] == SampleId("http_requests_total", (("path", "/../../etc/passwd"),))
    assert page.values.tolist() == [1, 2, 3]
