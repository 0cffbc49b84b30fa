"""Metrics that a page lacks of what its adapter promises, as the watch reports them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pdscope.config import parse_config
from pdscope.model.scrape import FailureReason
from pdscope.render.metrics import render_metrics
from pdscope.runtime.plugins import load_plugins
from pdscope.runtime.watch import Watch
from pdscope.sources.bundle import PageKind
from support.pages import AT, page

BUSY, FRESH = page("sglang-0.5.23-decode.prom"), page("sglang-0.5.23-decode-fresh.prom")
LOADS = page("sglang-0.5.23-v1_loads-decode.json")
SAMPLE = b'pdscope_source_missing_metrics{deployment="pd",source="sglang",target="d0"}'


def watch(**facts: str) -> Watch:
    """Of one instance, of which the configuration says no more than this."""
    instance = {"name": "d0", "url": "http://d0:30000", **facts}
    text = json.dumps({"deployments": [{"name": "pd", "instances": [instance]}]})
    return Watch(parse_config(text, Path("/"), file="test"), load_plugins())


def without(body: bytes, *families: str) -> bytes:
    """The page without these."""
    for family in families:
        body, gone = re.subn(rf"(?m)^{family}(_bucket|_sum|_count)?\{{.*\n".encode(), b"", body)
        assert gone, family
    return body


def missing(of: Watch, source: str = "sglang") -> int:
    return next(t.missing_metrics for t in of.report(AT).targets if t.source == source)


def test_pages_as_they_should_be() -> None:
    """Just started, under load and restarted: nothing is missing, nor from the JSON page."""
    of = watch()
    of.feed("d0", PageKind.LOADS, LOADS, AT - 30)
    for at, body in ((AT - 20, FRESH), (AT - 10, BUSY), (AT, FRESH)):
        of.feed("d0", PageKind.METRICS, body, at)
        assert missing(of) == 0
    assert missing(of, "loads") == 0


def test_a_series_that_was_renamed() -> None:
    """Those that every version has are missed at once, whatever the version."""
    of = watch()
    of.feed("d0", PageKind.METRICS, without(BUSY, "sglang:num_running_reqs", "sglang:num_requests_total"), AT)
    assert missing(of) == 2
    assert SAMPLE + b" 2.0\n" in render_metrics(of.report(AT), version="0")


def test_what_a_version_promises_is_missed_when_the_version_is_known() -> None:
    """`/v1/loads` states it."""
    of = watch()
    of.feed("d0", PageKind.METRICS, without(BUSY, "sglang:kv_cache_memory_usage_gb"), AT)
    assert missing(of) == 0
    of.feed("d0", PageKind.LOADS, LOADS, AT)
    assert missing(of) == 1


def test_what_comes_with_a_first_event_is_missed_once_it_was_there() -> None:
    """Decode's TTFT: absent at first it is none yet; gone while others stay it was switched off."""
    before, after = watch(), watch()
    gone = without(BUSY, "sglang:time_to_first_token_seconds")
    before.feed("d0", PageKind.METRICS, gone, AT)
    assert missing(before) == 0
    after.feed("d0", PageKind.METRICS, BUSY, AT - 5)
    after.feed("d0", PageKind.METRICS, gone, AT)
    assert missing(after) == 1


def test_a_page_without_a_version() -> None:
    """Without a version on vLLM's page only what all versions and roles promise counts."""
    body = without(page("vllm-0.32.0-nixl-d-light.prom"), "vllm:num_requests_running")
    for facts in ({}, {"role": "decode"}, {"role": "prefill"}):
        of = watch(engine="vllm", **facts)
        of.feed("d0", PageKind.METRICS, body, AT)
        assert missing(of, "vllm") == 1


def test_nothing_is_known_of_a_page_that_did_not_come() -> None:
    """The sample is absent, and comes back with the page."""
    of = watch()
    of.feed("d0", PageKind.METRICS, without(BUSY, "sglang:num_running_reqs"), AT - 10)
    of.fail("d0", PageKind.METRICS, AT - 5, FailureReason.TIMEOUT, "no answer within 4 s")
    assert SAMPLE not in render_metrics(of.report(AT), version="0")
    of.feed("d0", PageKind.METRICS, BUSY, AT)
    assert SAMPLE + b" 0.0\n" in render_metrics(of.report(AT), version="0")
