"""Device figures that physics refutes are shown under another name and used by nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pdscope.analysis.signals import compute_signals
from pdscope.hardware import find_hardware
from pdscope.model.metric import Metric
from pdscope.model.scrape import SeriesKey
from pdscope.model.signal import Quality, SignalId, SignalSet, instance_scope
from pdscope.model.topology import ComputeShape, Deployment, Role
from pdscope.model.window import Window
from support.windows import NOW, SCRAPES, SGLANG, VLLM, Column, deployment, instance, rising, window

H100 = find_hardware("H100 SXM")
D0 = instance_scope("d0")
# eight requests of 20,000 tokens on one H100: 65 steps a second read 0.72 of the bandwidth
DECODE: Mapping[Metric, Column] = {
    Metric.RUNNING: 8.0,
    Metric.STEPS: rising(65.0),
    Metric.KV_USAGE: 0.4,
    Metric.KV_POOL_TOKENS: 400_000.0,
    Metric.GENERATED_TOKENS: rising(8 * 65.0),
}
# 10,000 tokens a second of an 8B model: 0.16 of the dense peak of one H100
PREFILL: Mapping[Metric, Column] = {
    Metric.PREFILL_COMPUTED_TOKENS: rising(10_000.0),
    Metric.PROMPT_TOKENS: rising(10_000.0),
    Metric.REQUESTS_FINISHED: rising(5.0),
}
ALL_STILL = {Metric.SM_ACTIVE: 0.0, Metric.TENSOR_ACTIVE: 0.0, Metric.DRAM_ACTIVE: 0.0, Metric.DEVICE_BUSY: 0.0}
AT_WORK = {Metric.SM_ACTIVE: 0.6, Metric.TENSOR_ACTIVE: 0.2, Metric.DRAM_ACTIVE: 0.7, Metric.DEVICE_BUSY: 1.0}
LIARS = {
    Metric.SM_ACTIVE: SignalId.DISTRUSTED_COMPUTE,
    Metric.TENSOR_ACTIVE: SignalId.DISTRUSTED_TENSOR,
    Metric.DRAM_ACTIVE: SignalId.DISTRUSTED_HBM,
    Metric.DEVICE_BUSY: SignalId.DISTRUSTED_BUSY,
}
BELIEVED = (
    SignalId.COMPUTE_UTILIZATION,
    SignalId.TENSOR_UTILIZATION,
    SignalId.HBM_UTILIZATION,
    SignalId.DEVICE_BUSY,
)


def single(role: Role = Role.DECODE, **changes: Any) -> Deployment:
    """A dense 8B model on one instance."""
    fields = {"hardware": H100, "profile": VLLM, **changes}
    of = deployment(instance("d0", role, fields.pop("profile"), **fields))
    return replace(of, model=replace(of.model, weight_bytes=16.06e9, active_parameters=8.03e9))


def cards(figures: Mapping[Metric, float], count: int = 1, end: float = NOW) -> Window:
    """Devices that all read the same."""
    scalars = {
        SeriesKey(metric, f"GPU-{card}"): np.full(SCRAPES, value)
        for metric, value in figures.items()
        for card in range(count)
    }
    return replace(window({}, target="cards", source="dcgm", end=end), scalars=scalars)


def signals(columns: Mapping[Metric, Column], device: Window, of: Deployment | None = None) -> SignalSet:
    return compute_signals(of or single(), {"d0": [window(columns)]}, {"d0": [device]}, NOW, 60.0)


def distrusted(found: SignalSet) -> set[SignalId]:
    return {one.id for one in found if one.id in LIARS.values()}


def test_all_zeros_on_a_decode_at_work() -> None:
    """Shown under other names; what is used instead is the roofline, and says that it is an estimate."""
    found = signals(DECODE, cards(ALL_STILL))
    assert distrusted(found) == {*LIARS.values()}
    for signal in BELIEVED:
        one = found.get(signal, D0)
        assert one is None or one.quality is Quality.ESTIMATED
    zero = found.get(SignalId.DISTRUSTED_HBM, D0)
    assert zero is not None
    assert (zero.value, zero.quality) == (0.0, Quality.MEASURED)
    assert "cannot be while 8 requests run and 520 tokens/s are generated" in zero.source
    assert found.value(SignalId.HBM_UTILIZATION, D0) == pytest.approx(0.72, abs=0.01)


@pytest.mark.parametrize("metric", [Metric.SM_ACTIVE, Metric.DRAM_ACTIVE, Metric.DEVICE_BUSY])
def test_one_figure_at_zero(metric: Metric) -> None:
    """The others stand."""
    found = signals(DECODE, cards({**AT_WORK, metric: 0.0}))
    assert distrusted(found) == {LIARS[metric]}


def test_the_greatest_of_several_devices_goes_with_their_mean() -> None:
    """It is the same sensor."""
    found = signals(DECODE, cards(ALL_STILL, 2), single(tp=2))
    assert found.value(SignalId.HBM_MOST, D0) is None
    assert found.value(SignalId.COMPUTE_MOST, D0) is None


def test_decode_may_do_without_matrix_engines() -> None:
    """Prefill may not."""
    assert distrusted(signals(DECODE, cards({**AT_WORK, Metric.TENSOR_ACTIVE: 0.0}))) == set()
    prefill = signals(PREFILL, cards({**AT_WORK, Metric.TENSOR_ACTIVE: 0.0}), single(Role.PREFILL))
    assert distrusted(prefill) == {SignalId.DISTRUSTED_TENSOR}


@pytest.mark.parametrize(
    ("columns", "end"),
    [
        ({**DECODE, Metric.RUNNING: [0.0, *[8.0] * (SCRAPES - 1)]}, NOW),
        ({**DECODE, Metric.GENERATED_TOKENS: rising(0.0), Metric.STEPS: rising(0.0)}, NOW),
        (DECODE, NOW - 31.0),
        ({}, NOW),
    ],
    ids=["ran empty", "no token", "of another time", "no engine"],
)
def test_idle_devices_are_believed(columns: Mapping[Metric, Column], end: float) -> None:
    """Where the instance may not have worked while they were read."""
    assert distrusted(signals(columns, cards(ALL_STILL, end=end))) == set()


@pytest.mark.parametrize(("read", "told"), [(0.02, True), (0.23, True), (0.25, False), (0.72, False)])
def test_less_than_a_third_of_what_steps_read(read: float, told: bool) -> None:
    """The floor is 0.72; an error of the inputs is smaller than a factor of three."""
    found = signals(DECODE, cards({**AT_WORK, Metric.DRAM_ACTIVE: read}))
    assert (distrusted(found) == {SignalId.DISTRUSTED_HBM}) is told
    floor = found.value(SignalId.HBM_FLOOR, D0)
    assert floor == (pytest.approx(0.72, abs=0.01) if told else None)


@pytest.mark.parametrize(
    ("of", "columns", "count"),
    [
        (single(hardware=None), DECODE, 1),
        (single(), DECODE, 8),
        (single(tp=8), DECODE, 1),
        (single(), {**DECODE, Metric.RUNNING: [1.0, *[9.0] * (SCRAPES - 1)]}, 1),
        (single(), {**DECODE, Metric.STEPS: rising(1.0)}, 1),
    ],
    ids=["hardware unknown", "all of a host", "one of several", "a batch that comes and goes", "a floor of nothing"],
)
def test_no_floor(of: Deployment, columns: Mapping[Metric, Column], count: int) -> None:
    """Nothing is refuted by a floor of which an input is missing, or of other devices."""
    assert distrusted(signals(columns, cards({**AT_WORK, Metric.DRAM_ACTIVE: 0.015}, count), of)) == set()


@pytest.mark.parametrize(
    ("model", "columns", "floor"),
    [
        # nothing says that it is dense: eight tokens pass 0.155 of the weights of the sparsest mixture
        ({"active_parameters": None}, DECODE, (16.06 * 0.155 + 20.97) * 65 / 3350),
        ({"kv": None}, DECODE, 16.06 * 65 / 3350),
        ({"weight_bytes": None, "active_parameters": None}, DECODE, 20.97 * 65 / 3350),
        ({}, {m: c for m, c in DECODE.items() if m is not Metric.STEPS}, (16.06 + 20.97) * 32.5 / 3350),
        (
            {
                "compute": ComputeShape(
                    parameters=8e9, active_parameters=1e9, routed_parameters=7.2e9, experts=64, experts_per_token=4
                )
            },
            DECODE,
            (16.06 * (1 - 0.9 * (15 / 16) ** 8) + 20.97) * 65 / 3350,
        ),
    ],
    ids=["dense or not", "no cache", "no weights", "steps by tokens", "a mixture"],
)
def test_doubts_lower_the_floor(model: Mapping[str, Any], columns: Mapping[Metric, Column], floor: float) -> None:
    """What is not known is taken as little as it can be."""
    of = single()
    found = signals(columns, cards({Metric.DRAM_ACTIVE: 0.02}), replace(of, model=replace(of.model, **model)))
    assert found.value(SignalId.HBM_FLOOR, D0) == pytest.approx(floor, rel=0.02)


def test_ranks_that_may_share_experts_spread_the_weights() -> None:
    """Two data-parallel ranks of a model that may be a mixture hold half of it each."""
    found = signals(DECODE, cards({Metric.DRAM_ACTIVE: 0.02}, 2), single(dp=2))
    assert found.value(SignalId.HBM_FLOOR, D0) == pytest.approx((16.06 / 2 + 20.97 / 2) * 65 / 3350, rel=0.02)
    split = signals(DECODE, cards({Metric.DRAM_ACTIVE: 0.02}, 2), single(dp=2, tp=2, profile=SGLANG))
    assert split.value(SignalId.HBM_FLOOR, D0) is not None


@pytest.mark.parametrize(("active", "told"), [(0.003, True), (0.05, True), (0.06, False), (0.9, False)])
def test_less_than_a_third_of_what_prompts_compute(active: float, told: bool) -> None:
    """A device of another host that idles; its matrix engines are doubted with it."""
    found = signals(
        PREFILL, cards({**AT_WORK, Metric.SM_ACTIVE: active, Metric.TENSOR_ACTIVE: 0.002}), single(Role.PREFILL)
    )
    expected = {SignalId.DISTRUSTED_COMPUTE, SignalId.DISTRUSTED_TENSOR} if told else set()
    assert distrusted(found) == expected
    if told:
        assert found.value(SignalId.COMPUTE_FLOOR, D0) == pytest.approx(0.163, abs=0.005)
        used = found.get(SignalId.COMPUTE_UTILIZATION, D0)
        assert used is not None
        assert used.quality is Quality.ESTIMATED


def test_zeros_on_a_prefill() -> None:
    """From 500 prompt tokens a second on it computes for a visible part of the time, whatever the model."""
    unknown = replace(single(Role.PREFILL, hardware=None), slo=single().slo)
    for rate, told in ((500.0, True), (400.0, False)):
        found = signals({Metric.PREFILL_COMPUTED_TOKENS: rising(rate)}, cards(ALL_STILL), unknown)
        assert (distrusted(found) == {*LIARS.values()}) is told
