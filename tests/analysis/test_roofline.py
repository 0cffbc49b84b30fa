"""The arithmetic of a step, against published measurements."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.analysis import roofline
from pdscope.hardware import find_hardware
from pdscope.model.hardware import Hardware
from pdscope.model.topology import ComputeShape, Instance, KvShape, ModelFacts, Role
from support.windows import DEEPSEEK_V3, LLAMA_8B, VLLM, instance

LLAMA = ModelFacts("llama-3.1-8b", kv=LLAMA_8B, weight_bytes=16.06e9)
# 128 routed experts of which 8 are used: Qwen3-30B-A3B
MOE = ComputeShape(
    parameters=30.2e9, active_parameters=3.0e9, routed_parameters=29.0e9, experts=128, experts_per_token=8
)


def card(name: str) -> Hardware:
    found = find_hardware(name)
    assert found is not None
    return found


def step_seconds(model: ModelFacts, hardware: Hardware, of: Instance, batch: float, context_tokens: float) -> float:
    weights = roofline.weight_bytes(model, batch, None, of.tp * of.pp)
    assert weights is not None
    assert model.kv is not None
    cache = roofline.cache_bytes(model.kv, batch, context_tokens, of)
    seconds = roofline.step_seconds(roofline.StepBytes(weights[0], cache), hardware)
    assert seconds is not None
    return seconds


@pytest.mark.parametrize("context_tokens", [8 * 1_000, 8 * 4_000, 8 * 8_000, 8 * 16_000, 8 * 21_000])
def test_published_line(context_tokens: int) -> None:
    """Llama-3.1-8B on one H100 under vLLM: 6.44 ms + 4.37e-5 ms a token of context (vLLM blog on FP8 KV, 2026-04)."""
    published = 6.44e-3 + 4.37e-8 * context_tokens
    one = instance("e0", Role.UNIFIED, VLLM)
    assert step_seconds(LLAMA, card("H100 SXM"), one, 8, context_tokens) == pytest.approx(published, rel=0.2)


def test_published_point() -> None:
    """15.2 ms measured at concurrency 8 with 21k tokens each (same source)."""
    one = instance("e0", Role.UNIFIED, VLLM)
    assert step_seconds(LLAMA, card("H100 SXM"), one, 8, 8 * 21_000) == pytest.approx(15.2e-3, rel=0.2)


def test_parallelism_spreads_weights_and_heads() -> None:
    """Half the weights and half the heads on each of two ranks; pipeline stages likewise; DP ranks share requests."""
    one, two, stages = (instance("d0", Role.DECODE, VLLM, tp=tp, pp=pp) for tp, pp in ((1, 1), (2, 1), (1, 2)))
    seconds = [step_seconds(LLAMA, card("H100 SXM"), of, 8, 80_000) for of in (one, two, stages)]
    assert seconds[1] == seconds[2] == pytest.approx(seconds[0] / 2)
    ranks = [instance("d0", Role.DECODE, VLLM, dp=dp) for dp in (1, 4)]
    whole, shared = (roofline.cache_bytes(LLAMA_8B, 8, 80_000, of) for of in ranks)
    assert shared == pytest.approx(whole / 4)


def test_more_ranks_than_heads_and_a_latent() -> None:
    """A head is never split, and each rank of an MLA model keeps the whole latent; DP attention splits requests."""
    assert roofline.cache_bytes(LLAMA_8B, 1, 1000, instance("d", Role.DECODE, tp=16)) == pytest.approx(131_072_000 / 8)
    latent = 61 * 576 * 2 * 1000
    assert roofline.cache_bytes(DEEPSEEK_V3, 1, 1000, instance("d", Role.DECODE, tp=8)) == pytest.approx(latent)
    assert roofline.cache_bytes(DEEPSEEK_V3, 8, 8000, instance("d", Role.DECODE, tp=8, dp=8)) == pytest.approx(latent)


def test_windows_are_read_by_window() -> None:
    """A layer with a sliding window reads no more than that of each request."""
    hybrid = KvShape(LLAMA_8B.attention, 32, 2, kv_heads=8, head_dim=128, full_attention_layers=16, sliding_window=1024)
    layer = 2 * 8 * 128 * 2
    of = instance("d0", Role.DECODE, VLLM)
    assert roofline.cache_bytes(hybrid, 4, 4 * 10_000, of) == pytest.approx(4 * layer * (16 * 10_000 + 16 * 1024))


def test_experts_that_a_batch_touches() -> None:
    """One token reads its 8 of 128; 64 tokens nearly all (1 - (1 - 1/16)^64 = 98.4 %); a dense model always all."""
    assert roofline.touched_share(MOE, 1) == pytest.approx(1 / 16)
    assert roofline.touched_share(MOE, 64) == pytest.approx(0.984, abs=0.001)
    assert roofline.touched_share(ComputeShape(8e9, 8e9), 1) == 1.0
    model = ModelFacts("moe", compute=MOE)
    read = roofline.weight_bytes(model, 1, None, 1)
    assert read is not None
    assert read[0] == pytest.approx(2 * (1.2e9 + 29e9 / 16))


def test_no_weights_no_estimate() -> None:
    """Nor of a mixture whose experts are not known: a step reads some of them."""
    assert roofline.weight_bytes(ModelFacts("m"), 8, None, 1) is None
    assert roofline.weight_bytes(ModelFacts("m", weight_bytes=1e12, active_parameters=37e9), 8, None, 1) is None
    dense = roofline.weight_bytes(ModelFacts("m", weight_bytes=16.06e9, active_parameters=8e9), 8, None, 1)
    assert dense == (16.06e9, "model.weight_bytes")
    assert roofline.step_seconds(roofline.StepBytes(1e9, 1e9), Hardware()) is None


def test_what_the_engine_states_wins() -> None:
    """33.2 GiB a rank as its page has it."""
    read = roofline.weight_bytes(LLAMA, 8, 33.2 * 2**30, 4)
    assert read == (33.2 * 2**30, "weights of a rank as the engine states them")


def test_flop_of_a_prompt() -> None:
    """Two a parameter and token, and half of the prompt to attend to; what is cached is attended to only."""
    compute = ComputeShape(8e9, 8e9, attention_flop=32 * 2 * 32 * 256)
    model = ModelFacts("m", compute=compute)
    assert roofline.prefill_flop(model, 1000, 1000) == pytest.approx(1000 * (16e9 + 32 * 2 * 32 * 256 * 500))
    assert roofline.prefill_flop(model, 1000, 1000, 3000) == pytest.approx(1000 * (16e9 + 32 * 2 * 32 * 256 * 3500))
    assert roofline.prefill_flop(ModelFacts("m", active_parameters=8e9), 1000, 1000) == pytest.approx(16e12)
    assert roofline.prefill_flop(ModelFacts("m"), 1000, 1000) is None
    windowed = replace(compute, attention_flop=0.0, window_attention_flop=100.0, window_tokens=128)
    assert roofline.prefill_flop(ModelFacts("m", compute=windowed), 10, 8000) == pytest.approx(10 * (16e9 + 12_800))


def test_peak_follows_the_weights() -> None:
    """fp8 weights multiply in fp8 where the device can; what can be had of a peak differs by device."""
    bf16, fp8 = (ModelFacts("m", compute=ComputeShape(8e9, 8e9, bytes_per_parameter=size)) for size in (2.0, 1.03))
    h100, a100 = card("H100 SXM"), card("NVIDIA A100-SXM4-80GB")
    assert roofline.flop_peak(bf16, h100) == pytest.approx(989e12 * 0.803)
    assert roofline.flop_peak(fp8, h100) == pytest.approx(1978e12 * 0.803)
    assert roofline.flop_peak(fp8, a100) == pytest.approx(312e12 * 0.869)
    assert roofline.flop_peak(bf16, Hardware(bf16_flop_per_second=1e14)) == pytest.approx(0.7e14)
    assert roofline.flop_peak(bf16, Hardware()) is None


@given(
    st.floats(1, 512),
    st.floats(0, 1e6),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.sampled_from([LLAMA_8B, DEEPSEEK_V3]),
)
def test_more_context_is_more_to_read(batch: float, tokens: float, tp: int, shape: KvShape) -> None:
    """And never less than nothing."""
    of = instance("d0", Role.DECODE, tp=tp)
    few, many = (roofline.cache_bytes(shape, batch, tokens + more, of) for more in (0.0, 1000.0))
    assert 0 <= few < many
