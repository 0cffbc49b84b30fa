"""Promises of adapters: kept by every recorded page, by version and role."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.model.metric import Metric
from pdscope.model.topology import Role
from pdscope.sources.adapter import Adapter
from pdscope.sources.promises import Promise, promise, promised_metrics, release_of
from pdscope.sources.reader import role_of
from support.pages import DEVICES, ENGINES, EXPOSITIONS, Reading, page, read_devices, read_engine, read_loads

BY_NAME = {adapter.name: adapter for adapter in (*ENGINES, *DEVICES)}
# SGLang's `/v1/loads?format=prometheus` is another page under the prefix of `/metrics`; pdscope asks for JSON.
PAGES = sorted(path.name for path in EXPOSITIONS.glob("[dnsv]*.prom") if "v1_loads" not in path.name)


def reading_of(name: str) -> Reading:
    if name.startswith("nixl-"):
        return read_devices(page(name), source="nixl")
    return read_engine(page(name))


def missing(reading: Reading, version: str | None, role: Role | None) -> set[Metric]:
    promises = BY_NAME[reading.scrape.source].promised
    return set(promised_metrics(promises, version, role)) - reading.known()


@pytest.mark.parametrize("name", PAGES)
def test_recorded_pages_keep_what_is_promised(name: str) -> None:
    """Of each program, in its version and role; what comes with a first event may be lacking."""
    reading = reading_of(name)
    role = Role.DECODE if "-nixl-d-" in name else role_of(reading.scrape.facts, ENGINES)
    assert missing(reading, name.split("-")[1], role) <= reading.lazy()


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_loads_keep_what_is_promised(role: str) -> None:
    """Also the JSON page."""
    assert missing(read_loads(page(f"sglang-0.5.23-v1_loads-{role}.json")), "0.5.23", Role(role)) == set()


@pytest.mark.parametrize(
    "name", ["sglang-0.5.23-prefill.prom", "sglang-0.5.23-decode.prom", "vllm-0.32.0-nixl-d-overload.prom"]
)
def test_a_busy_page_lacks_nothing_at_all(name: str) -> None:
    """Not even what comes with a first event."""
    reading = reading_of(name)
    role = Role.DECODE if "-d-" in name else role_of(reading.scrape.facts, ENGINES)
    assert promised_metrics(BY_NAME[reading.scrape.source].promised, name.split("-")[1], role)
    assert missing(reading, name.split("-")[1], role) == set()


@pytest.mark.parametrize("adapter", BY_NAME.values(), ids=lambda adapter: adapter.name)
def test_an_adapter_promises_what_it_reads(adapter: Adapter) -> None:
    """And no version that is none."""
    for made in adapter.promised:
        assert made.metrics <= adapter.series.keys() | adapter.infos.keys()
        assert made.since is None or release_of(made.since)
        assert made.until is None or release_of(made.until)


def test_every_engine_and_router_promises_something() -> None:
    """Otherwise a renamed series would go unseen. The fields of these are all chosen by the user."""
    chosen = {"dcgm", "amd", "intel", "pdscope", "nvml"}
    assert {name for name, adapter in BY_NAME.items() if not adapter.promised} == chosen


@pytest.mark.parametrize(
    ("made", "version", "role", "holds"),
    [
        (promise(Metric.TTFT), None, None, True),
        (promise(Metric.TTFT, since="0.16"), None, None, False),
        (promise(Metric.TTFT, since="0.16"), "main", None, False),
        (promise(Metric.TTFT, since="0.16"), "0.16.0", None, True),
        (promise(Metric.TTFT, since="0.16"), "0.9.2", None, False),
        (promise(Metric.TTFT, since="0.16"), "v0.16.0rc1+cu128", None, True),
        (promise(Metric.TTFT, until="0.5.2"), "0.5.1.post3", None, True),
        (promise(Metric.TTFT, until="0.5.2"), "0.5.2", None, False),
        (promise(Metric.TTFT, roles={Role.DECODE}), None, Role.DECODE, True),
        (promise(Metric.TTFT, roles={Role.DECODE}), None, Role.PREFILL, False),
        (promise(Metric.TTFT, roles={Role.DECODE}), None, None, False),
    ],
)
def test_when_a_promise_holds(made: Promise, version: str | None, role: Role | None, holds: bool) -> None:
    """What is not known of a program promises nothing; the last version is outside."""
    assert made.holds(version, role) is holds
    assert promised_metrics([made], version, role) == ({Metric.TTFT} if holds else set())


def test_a_version_that_is_none() -> None:
    """Is a mistake of the adapter."""
    with pytest.raises(ValueError, match="no version: 'new'"):
        promise(Metric.TTFT, since="new").holds("1", None)


@given(st.text())
def test_any_text_may_stand_for_a_version(text: str) -> None:
    """Pages are foreign."""
    release = release_of(text)
    assert release is None or all(number >= 0 for number in release)
