"""Targets: who reads a page, what a page that cannot be read is worth, and what is remembered between two of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pdscope.model.metric import Fact, Metric
from pdscope.model.scrape import FailureReason, PageQuality, Scrape
from pdscope.model.topology import Role
from pdscope.sources import exposition, reader
from pdscope.sources.reader import PageReader, TargetReader, role_of
from pdscope.sources.selection import Selection
from support.pages import AT, DEVICES, ENGINES, page, read_devices, read_engine

DECODE = "sglang-0.5.23-decode.prom"
PROCESS_ONLY = b"""\
# HELP python_info Python platform information
# TYPE python_info gauge
python_info{implementation="CPython",major="3",minor="12",patchlevel="3",version="3.12.3"} 1.0
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 151.2
"""


def engine_target(*, engine: str | None = None, role: Role | None = None) -> TargetReader:
    pages = PageReader(ENGINES)
    return TargetReader("d0", pages, pages.candidates(engine=engine, role=role))


def value(scrape: Scrape, metric: Metric) -> float:
    assert scrape.schema is not None
    assert scrape.row is not None
    return float(scrape.row[next(i for key, i in scrape.schema.scalars.items() if key == (metric, ""))])


# ----------------------------------------------------------------------------------------- who reads it


@pytest.mark.parametrize("engine", ["sglang", "vllm", "dynamo"])
@pytest.mark.parametrize("role", [Role.PREFILL, Role.DECODE, Role.UNIFIED])
def test_the_engine_of_the_configuration_comes_first(engine: str, role: Role) -> None:
    """The others follow, since a page may hold the series of two; routers do not."""
    candidates = PageReader(ENGINES).candidates(engine=engine, role=role)
    assert candidates[0].profile is not None
    assert candidates[0].profile.name == engine
    assert {a.name for a in candidates} == {a.name for a in ENGINES if not a.router and a.flatten is None}


@pytest.mark.parametrize("engine", [None, "smg", "dynamo", "vllm_router", "sglang", "unheard of"])
def test_a_router_is_read_by_routers(engine: str | None) -> None:
    """Whatever engine the configuration names."""
    candidates = PageReader(ENGINES).candidates(engine=engine, role=Role.ROUTER)
    assert {a.name for a in candidates} == {a.name for a in ENGINES if a.router}
    if engine in {"smg", "dynamo", "vllm_router"}:
        assert candidates[0].name == engine


@pytest.mark.parametrize("engine", [None, "sglang", "unheard of"])
def test_without_a_role_anyone_may_read_it(engine: str | None) -> None:
    """The page tells what its program is."""
    candidates = PageReader(ENGINES).candidates(engine=engine, role=None)
    assert {a.name for a in candidates} == {a.name for a in ENGINES if a.flatten is None}
    assert len(candidates) == len({a.name for a in candidates})


def test_adapters_of_json_pages() -> None:
    """They are asked for by name."""
    pages = PageReader(ENGINES)
    loads = pages.json_adapter("sglang_loads")
    assert loads is not None
    assert loads.flatten is not None
    assert pages.json_adapter("sglang") is None
    assert pages.json_adapter("unheard of") is None


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("sglang-0.5.23-prefill.prom", "sglang"),
        ("vllm-0.32.0-light.prom", "vllm"),
        ("dynamo-1.6.1-frontend-idle.prom", "dynamo"),
        ("dynamo-1.6.1-prefill1-idle.prom", "dynamo_worker"),
        ("smg-1.13.0-sglang-idle.prom", "smg"),
        ("sglang_router-0.3.2-idle.prom", "smg"),
        ("vllm_router-0.1.17-idle.prom", "vllm_router"),
    ],
)
def test_pages_are_recognised(name: str, source: str) -> None:
    """With nothing configured but the url."""
    scrape = read_engine(page(name)).scrape
    assert scrape.ok
    assert scrape.source == source


@pytest.mark.parametrize("name", ["nixl-1.5.1-telemetry-vllm-d.prom", "node_exporter_infiniband_e2e.txt"])
def test_pages_of_no_engine(name: str) -> None:
    """They are well-formed, and no instance's."""
    scrape = read_engine(page(name)).scrape
    assert scrape.reason is FailureReason.METRICS_OFF
    assert "no series of a known program" in scrape.detail


@pytest.mark.parametrize(
    ("said", "role"),
    [("prefill", Role.PREFILL), ("decode", Role.DECODE), ("backend", Role.DECODE), ("unified", Role.UNIFIED)],
)
def test_role_that_a_page_states(said: str, role: Role) -> None:
    """In the words of its program."""
    assert role_of({Fact.ROLE: said}, ENGINES) is role


@pytest.mark.parametrize("facts", [{}, {Fact.ROLE: ""}, {Fact.ROLE: "dynamic"}, {Fact.ROLE: "router"}])
def test_no_role_that_a_page_states(facts: dict[Fact, str]) -> None:
    """Nothing, or nothing that is known."""
    assert role_of(facts, ENGINES) is None


# ------------------------------------------------------------------------------------ what it is worth


def test_what_a_scrape_carries_along() -> None:
    """Target, time and duration are those of the request; there is no reason."""
    scrape = engine_target(engine="sglang", role=Role.DECODE).read(page(DECODE), AT, duration_seconds=0.25)
    assert (scrape.target, scrape.source, scrape.at, scrape.duration_seconds) == ("d0", "sglang", AT, 0.25)
    assert scrape.ok
    assert (scrape.reason, scrape.detail) == (None, "")
    assert scrape.quality == PageQuality()


@pytest.mark.parametrize("body", [b"", b"\n", b"\n\n  \n", PROCESS_ONLY], ids=["empty", "newline", "blank", "process"])
@pytest.mark.parametrize("role", [None, Role.PREFILL, Role.ROUTER])
def test_metrics_are_off(body: bytes, role: Role | None) -> None:
    """Field lesson E19: a healthy endpoint without a series of its program; that is a reason, and no row of zeros."""
    scrape = engine_target(engine="sglang", role=role).read(body, AT, duration_seconds=0.5)
    assert not scrape.ok
    assert scrape.reason is FailureReason.METRICS_OFF
    assert scrape.detail == "the page holds no series of a known program: are its metrics switched on?"
    assert (scrape.target, scrape.at, scrape.duration_seconds) == ("d0", AT, 0.5)
    assert scrape.schema is None
    assert scrape.row is None


@pytest.mark.parametrize(
    "body",
    [
        b"<html><head><title>502 Bad Gateway</title></head></html>",
        b"[]",
        b'{"detail": "Not Found"}',
        b"collected metric x label:<name:gpu value:0> was collected before with the same name and label values",
        b"\x00\x01\x02",
        b"x" * 100_000,
    ],
    ids=lambda body: repr(body[:20]),
)
def test_no_exposition(body: bytes) -> None:
    """Field lessons E13 and E18: error texts and JSON are refused, with a short reason."""
    target = engine_target(engine="vllm", role=Role.DECODE)
    scrape = target.read(body, AT)
    assert scrape.reason is FailureReason.NOT_EXPOSITION
    assert scrape.source == "vllm"
    assert 0 < len(scrape.detail) <= 200
    assert not scrape.ok
    assert target.read(page("vllm-0.32.0-light.prom"), AT + 5).ok


def test_a_target_that_nobody_can_read() -> None:
    """A source without an adapter in this version has no data and a reason."""
    scrape = TargetReader("n0", PageReader(DEVICES), ()).read(page("node_exporter_infiniband_e2e.txt"), AT)
    assert scrape.source == "none"
    assert scrape.reason is FailureReason.METRICS_OFF


def test_what_was_wrong_with_a_page() -> None:
    """It is counted, and the rest is read: a cut last line, a NaN, a sample printed twice."""
    body = page(DECODE)
    body = body.replace(b"sglang:full_token_usage{", b"sglang:full_token_usage{x=", 1)
    sample = b'sglang:num_running_reqs{engine_type="decode",model_name="meta-llama/Llama-3.1-70B-Instruct",'
    body += sample + b'moe_ep_rank="0",pp_rank="0",tp_rank="0"} 9\n' + sample + b'tp_rank="9"} NaN\n'
    scrape = read_engine(body).scrape
    assert scrape.quality == PageQuality(bad_lines=1, nan_samples=1, duplicate_samples=1)
    assert value(scrape, Metric.RUNNING) == 9
    assert value(scrape, Metric.KV_USAGE) == 0.03


@pytest.mark.parametrize(
    ("stamps", "at"),
    [
        (("", ""), AT),
        ((" 1799999940000", " 1799999940000"), AT - 60),
        ((" 1799999940000", " 1799999990000"), AT - 10),
        ((" 1799999940000", ""), AT - 60),
        ((" 1800000900000", " 1799999940000"), AT),
        ((" -1", " 0"), 0.0),
    ],
)
def test_the_time_of_a_page(stamps: tuple[str, str], at: float) -> None:
    """That of its youngest sample that has one, never later than the answer."""
    lines = (f'DCGM_FI_PROF_SM_ACTIVE{{UUID="{gpu}"}} 0.5{stamp}\n' for gpu, stamp in enumerate(stamps))
    assert read_devices("".join(lines).encode()).scrape.at == at


def test_times_of_other_samples_do_not_matter() -> None:
    """Only what is read is as old as it says."""
    body = b"DCGM_FI_DEV_GPU_TEMP 1 1799999940000\nDCGM_FI_PROF_SM_ACTIVE 0.5\n"
    assert read_devices(body).scrape.at == AT


def test_labels_of_strangers_do_no_harm() -> None:
    """Field lesson E23: whatever a scanner has sent stands in labels, and stays there."""
    hostile = ("/../../etc/passwd", "${jndi:ldap://localhost", 'a\\"} 1\\nsglang:num_running_reqs{x=\\"', "é\u2028")
    lines = "".join(f'sglang:http_requests_active{{endpoint="{text}",method="POST"}} 1.0\n' for text in hostile)
    scrape = read_engine(page(DECODE) + lines.encode()).scrape
    assert scrape.quality == PageQuality()
    assert value(scrape, Metric.HTTP_ACTIVE) == len(hostile)
    assert value(scrape, Metric.RUNNING) == 8
    assert scrape.facts == read_engine(page(DECODE)).scrape.facts


# ---------------------------------------------------------------------------------- what is remembered


def test_the_second_page_is_read_by_what_the_first_taught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is the page read in full again, nor the plan made again."""
    target = engine_target(engine="dynamo", role=Role.ROUTER)
    first = target.read(page("dynamo-1.6.1-frontend-longhigh-bw450-t0.prom"), AT)
    monkeypatch.delattr(exposition, "read_in_full")
    monkeypatch.delattr(reader, "compile_plan")
    second = target.read(page("dynamo-1.6.1-frontend-longhigh-bw450-t1.prom"), AT + 10)
    assert second.schema is first.schema
    assert value(first, Metric.REQUESTS_FINISHED) == 478
    assert value(second, Metric.REQUESTS_FINISHED) == 653


def test_targets_share_what_they_have_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal pages of a fleet have one schema, so their windows need no alignment."""
    pages = PageReader(ENGINES)
    adapters = pages.candidates(engine="sglang", role=Role.DECODE)
    first = TargetReader("d0", pages, adapters).read(page(DECODE), AT)
    monkeypatch.delattr(exposition, "read_in_full")
    monkeypatch.delattr(reader, "compile_plan")
    second = TargetReader("d1", pages, adapters).read(page(DECODE), AT)
    assert second.schema is first.schema
    assert first.row is not None
    assert second.row is not None
    np.testing.assert_array_equal(first.row, second.row)


def test_one_page_for_several_instances() -> None:
    """Each reads its own devices of one layout."""
    pages = PageReader(DEVICES)
    body = b'DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="a"} 0.1\nDCGM_FI_PROF_SM_ACTIVE{gpu="1",UUID="b"} 0.9\n'
    selections = [Selection.of({"gpu": gpu}) for gpu in ("0", "1", "0-1")]
    scrapes = [TargetReader("g", pages, DEVICES, selection).read(body, AT) for selection in selections]
    assert [value(scrape, Metric.SM_ACTIVE) for scrape in scrapes] == [0.1, 0.9, pytest.approx(0.5)]


def test_series_that_come_and_go() -> None:
    """A page with other series has another schema; the old one is known again when they are gone."""
    target = engine_target(engine="sglang", role=Role.DECODE)
    before, after = page("sglang-0.5.23-decode-fresh.prom"), page(DECODE)
    scrapes = [target.read(body, AT + i) for i, body in enumerate((before, after, before, after))]
    assert all(scrape.ok for scrape in scrapes)
    assert scrapes[0].schema is scrapes[2].schema
    assert scrapes[1].schema is scrapes[3].schema
    assert scrapes[0].schema is not scrapes[1].schema


def test_a_restart_with_the_metrics_off_and_back() -> None:
    """The reason goes when the series are back."""
    target = engine_target(engine="sglang", role=Role.DECODE)
    reasons = [target.read(body, AT + i).reason for i, body in enumerate((page(DECODE), PROCESS_ONLY, page(DECODE)))]
    assert reasons == [None, FailureReason.METRICS_OFF, None]


def test_another_program_at_the_same_address() -> None:
    """What answers is read as what it is."""
    target = engine_target()
    sources = [target.read(page(name), AT).source for name in (DECODE, "vllm-0.32.0-light.prom", DECODE)]
    assert sources == ["sglang", "vllm", "sglang"]


def test_a_router_without_its_adapter_is_no_engine() -> None:
    """The rule holds for any router's adapter, not for names that are known today."""
    mesh = dataclasses.replace(next(a for a in ENGINES if a.name == "smg"), name="mesh", probe=("mesh_",))
    pages = PageReader((*ENGINES, mesh))
    target = TargetReader("i", pages, pages.candidates(engine=None, role=Role.DECODE))
    scrape = target.read(page(DECODE) + b"# TYPE mesh_requests counter\n", AT)
    assert scrape.reason is FailureReason.METRICS_OFF
    assert "the page is of mesh," in scrape.detail
