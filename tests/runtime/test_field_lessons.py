"""Odd device pages and our own page, as they were met in the field: none of them makes a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pdscope.config import parse_config
from pdscope.model.finding import Verdict
from pdscope.model.report import Report
from pdscope.model.signal import SignalId, instance_scope
from pdscope.render.metrics import render_metrics
from pdscope.runtime.plugins import load_plugins
from pdscope.runtime.watch import Watch
from pdscope.sources.bundle import PageKind
from support.pages import page

PLUGINS = load_plugins()
CONFIG = parse_config(
    """
window: 15s
deployments:
- name: a
  slo: {ttft_p50: 2s, itl_p50: 1ms}
  instances:
  - {name: p, role: prefill, engine: sglang, url: "http://h:1", tp: 4}
  - {name: d, role: decode, engine: sglang, url: "http://h:2", tp: 4}
  devices: [{name: g, source: dcgm, url: "http://h:9400/metrics", instance: d}]
""",
    Path(),
)


def report(fields: Mapping[str, float]) -> Report:
    """A busy pair, ITL far over its objective, and a device page with these fields."""
    watch = Watch(CONFIG, PLUGINS)
    for name, role in (("p", "prefill"), ("d", "decode")):
        watch.feed(name, PageKind.METRICS, page(f"sglang-0.5.23-{role}-t0.prom"), 1000.0)
        watch.feed(name, PageKind.METRICS, page(f"sglang-0.5.23-{role}.prom"), 1015.0)
    body = "".join(f'{field}{{gpu="0",UUID="GPU-0"}} {value}\n' for field, value in fields.items())
    watch.feed("g", PageKind.METRICS, body.encode(), 1015.0)
    return watch.report(1015.0)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(
            {
                "DCGM_FI_DEV_GPU_UTIL": 100,
                "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0,
                "DCGM_FI_PROF_DRAM_ACTIVE": 0,
                "DCGM_FI_DEV_POWER_USAGE": 690,
            },
            id="E04 profiling zeros on a busy GPU",
        ),
        pytest.param({"DCGM_FI_PROF_DRAM_ACTIVE": 0.02}, id="E06 DRAM activity of DCGM 3.1.3"),
        pytest.param(
            {"DCGM_FI_DEV_SM_CLOCK": 0, "DCGM_FI_DEV_POWER_USAGE": 0, "DCGM_FI_PROF_SM_ACTIVE": 0},
            id="E08 an exporter without access",
        ),
        pytest.param({"DCGM_FI_DEV_GPU_UTIL": 99, "DCGM_FI_DEV_MEM_COPY_UTIL": 100}, id="E05 no profiling fields"),
    ],
)
def test_a_device_page_of_zeros_makes_no_service_idle(fields: Mapping[str, float]) -> None:
    """Traffic decides what is idle; a silent device is no evidence for it, and none for a full memory bus."""
    diagnosis = report(fields).deployments[0].diagnosis
    assert diagnosis.verdict not in (Verdict.IDLE, Verdict.HEALTHY, Verdict.DECODE_HBM_BANDWIDTH)


@pytest.mark.parametrize("text", ["-", "3419 / 65536", ""])
def test_e09_a_dash_for_a_number_is_missing(text: str) -> None:
    """Tables of npu-smi have them; on a page the line is bad, and the value unknown and not zero."""
    watch = Watch(CONFIG, PLUGINS)
    body = f'DCGM_FI_PROF_DRAM_ACTIVE{{UUID="GPU-0"}} 0.5\nDCGM_FI_PROF_SM_ACTIVE{{UUID="GPU-0"}} {text}\n'
    (scrape,) = watch.feed("g", PageKind.METRICS, body.encode(), 1000.0)
    assert scrape.quality.bad_lines == 1
    signals = watch.report(1000.0).deployments[0].signals
    assert signals.value(SignalId.HBM_UTILIZATION, instance_scope("d")) == 0.5
    assert signals.value(SignalId.COMPUTE_UTILIZATION, instance_scope("d")) is None


def test_e12_our_page_can_be_made_any_number_of_times() -> None:
    """No collector is registered twice, and nothing is left over from the page before."""
    made = report({"DCGM_FI_PROF_DRAM_ACTIVE": 0.5})
    assert render_metrics(made, version="0") == render_metrics(made, version="0")
