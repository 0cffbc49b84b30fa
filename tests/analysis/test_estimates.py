"""Estimates from what engines report: with all inputs or not at all, never in the place of a measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pdscope.analysis.signals import compute_signals
from pdscope.hardware import find_hardware
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, SignalId, SignalSet, instance_scope
from pdscope.model.topology import Deployment, Role
from pdscope.model.window import Window
from support.windows import INF, NOW, SGLANG, VLLM, Column, deployment, histogram, instance, rising, window

H100 = find_hardware("H100 SXM")
ITL = (0.005, 0.01, 0.0155, 0.02, 0.05, INF)
D0 = instance_scope("d0")
# what one H100 does with eight requests of 20,000 tokens: 65 steps a second of 15.4 ms
STEPS, CONTEXT = 65.0, 8 * 20_000.0
VLLM_DECODE: Mapping[Metric, Column] = {
    Metric.RUNNING: 8.0,
    Metric.STEPS: rising(STEPS),
    Metric.KV_USAGE: 0.4,
    Metric.KV_POOL_TOKENS: CONTEXT / 0.4,
    Metric.GENERATED_TOKENS: rising(8 * STEPS),
}


def single(role: Role = Role.UNIFIED, **changes: Any) -> Deployment:
    fields = {"hardware": H100, **changes}
    of = deployment(instance("d0", role, fields.pop("profile", VLLM), **fields))
    return replace(of, model=replace(of.model, weight_bytes=16.06e9))


def signals(columns: Mapping[Metric, Column], of: Deployment | None = None, **devices: list[Window]) -> SignalSet:
    pages = {"d0": [window(columns, {Metric.ITL: histogram(ITL, [0.0152] * 1000)}, target="d0")]}
    return compute_signals(of or single(), pages, devices, NOW, 60.0)


def expected_bytes(context: float = CONTEXT) -> float:
    return 16.06e9 + 131_072 * context


@pytest.mark.parametrize(
    "columns",
    [
        VLLM_DECODE,
        {**VLLM_DECODE, Metric.STEPS: [], Metric.RUNNING: 8.0},
        {Metric.RUNNING: 8.0, Metric.CONTEXT_TOKENS: CONTEXT, Metric.GENERATED_TOKENS: rising(8 * STEPS)},
        {
            Metric.CONTEXT_TOKENS: CONTEXT,
            Metric.DECODE_STEPS: rising(STEPS),
            Metric.DECODE_STEP_REQUESTS: rising(8 * STEPS),
            Metric.DECODE_STEP_TIME: rising(0.99),
        },
    ],
    ids=["vllm", "vllm without steps", "running and tokens", "sglang moments"],
)
def test_a_step_from_whatever_is_counted(columns: Mapping[Metric, Column]) -> None:
    """Weights once and the contexts, 65 times a second, by 3.35 TB/s; and the least time by the median gap."""
    found = signals({metric: column for metric, column in columns.items() if not isinstance(column, list)})
    assert found.value(SignalId.STEP_BYTES, D0) == pytest.approx(expected_bytes())
    use = found.get(SignalId.HBM_UTILIZATION, D0)
    assert use is not None
    assert use.value == pytest.approx(expected_bytes() * STEPS / 3.35e12)
    assert use.quality is Quality.ESTIMATED
    for words in ("roofline", "16.1 GB of weights", "65 steps/s", "H100 SXM"):
        assert words in use.source
    itl = found.value(SignalId.ITL_P50)
    assert itl is not None
    assert found.value(SignalId.STEP_EXPLAINED, D0) == pytest.approx(expected_bytes() / (0.8 * 3.35e12) / itl)


def test_measured_use_is_not_replaced() -> None:
    """The step is estimated beside it."""
    card = window({Metric.DRAM_ACTIVE: 0.7}, target="gpu", source="dcgm")
    found = signals(VLLM_DECODE, d0=[card])
    use = found.get(SignalId.HBM_UTILIZATION, D0)
    assert use is not None
    assert (use.value, use.quality) == (0.7, Quality.MEASURED)
    assert found.value(SignalId.STEP_PREDICTED, D0) is not None


def test_busy_memory_is_no_bandwidth() -> None:
    """NVML's busy fractions at 100 % leave the bandwidth unknown, and the estimate has its own inputs."""
    card = window({Metric.DEVICE_BUSY: 1.0}, target="gpu", source="nvml")
    found = signals(VLLM_DECODE, single(hardware=None), d0=[card])
    assert found.value(SignalId.DEVICE_BUSY, D0) == 1.0
    assert found.get(SignalId.HBM_UTILIZATION, D0) is None
    assert found.get(SignalId.DECODE_HBM_UTILIZATION) is None


@pytest.mark.parametrize(
    ("of", "gone"),
    [
        (single(hardware=None), ()),
        (deployment(instance("d0", Role.UNIFIED, VLLM, hardware=H100)), ()),
        (replace(single(), model=replace(single().model, kv=None)), ()),
        (single(), (Metric.KV_USAGE,)),
        (single(), (Metric.RUNNING,)),
        (single(), (Metric.STEPS, Metric.GENERATED_TOKENS)),
    ],
    ids=["hardware", "weights", "KV shape", "contexts", "batch", "rate"],
)
def test_no_estimate_without_its_inputs(of: Deployment, gone: tuple[Metric, ...]) -> None:
    """Each of them is missed."""
    found = signals({m: c for m, c in VLLM_DECODE.items() if m not in gone}, of)
    assert found.get(SignalId.HBM_UTILIZATION, D0) is found.get(SignalId.STEP_EXPLAINED, D0) is None


def test_an_estimate_that_refutes_itself_is_left_out() -> None:
    """More than the memory can move: some input is wrong."""
    found = signals({**VLLM_DECODE, Metric.STEPS: rising(3 * STEPS)})
    assert found.get(SignalId.HBM_UTILIZATION, D0) is found.get(SignalId.STEP_EXPLAINED, D0) is None


def test_kv_that_is_on_its_way_is_not_read() -> None:
    """As a share of the pool, or as prompts that arrive."""
    of = single(Role.DECODE, profile=SGLANG)
    moving = {**VLLM_DECODE, Metric.KV_USAGE: 0.5, Metric.KV_USAGE_IN_TRANSFER: 0.1}
    assert signals(moving, of).value(SignalId.CONTEXT_TOKENS, D0) == pytest.approx(CONTEXT)
    prompts = {Metric.PROMPT_TOKENS: rising(20_000.0), Metric.REQUESTS_FINISHED: rising(1.0)}
    arriving = {**VLLM_DECODE, **prompts, Metric.KV_USAGE: 0.5, Metric.KV_FETCH_ACTIVE: 2.0}
    found = signals(arriving, single(Role.DECODE))
    assert found.value(SignalId.CONTEXT_TOKENS, D0) == pytest.approx(0.5 * CONTEXT / 0.4 - 40_000)


def test_an_engine_that_fell_asleep_has_no_batch() -> None:
    """Its gauges are frozen."""
    asleep = {**VLLM_DECODE, Metric.IDLE: rising(1.0), Metric.HTTP_ACTIVE: 0.0}
    assert signals(asleep).get(SignalId.CONTEXT_TOKENS, D0) is None


def test_what_vllm_works_out_itself() -> None:
    """Bytes read and written, where nothing better is known."""
    own = {Metric.ESTIMATED_HBM_READ: rising(1.5e12), Metric.ESTIMATED_HBM_WRITTEN: rising(0.1e12)}
    use = signals(own).get(SignalId.HBM_UTILIZATION, D0)
    assert use is not None
    assert use.value == pytest.approx(1.6 / 3.35)
    assert use.quality is Quality.ESTIMATED


def test_compute_of_prefill() -> None:
    """Computed tokens by what matrix multiplications reach; cached ones are not computed."""
    of = single()
    of = replace(of, model=replace(of.model, active_parameters=8e9))
    prompts = {
        Metric.PREFILL_COMPUTED_TOKENS: rising(20_000.0),
        Metric.PROMPT_TOKENS: rising(20_000.0),
        Metric.REQUESTS_FINISHED: rising(10.0),
    }
    found = signals(prompts, of)
    share = found.get(SignalId.PREFILL_FLOP_UTILIZATION, D0)
    assert share is not None
    assert share.value == pytest.approx(20_000 * 16e9 / (989e12 * 0.803))
    assert found.value(SignalId.COMPUTE_UTILIZATION, D0) == share.value
    card = window({Metric.SM_ACTIVE: 0.9}, target="gpu", source="dcgm")
    measured = signals(prompts, of, d0=[card]).get(SignalId.COMPUTE_UTILIZATION, D0)
    assert measured is not None
    assert (measured.value, measured.quality) == (pytest.approx(0.9), Quality.MEASURED)
