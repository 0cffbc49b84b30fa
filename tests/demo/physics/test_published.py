"""Absolute numbers: what the model says within a quarter of what was published or measured elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pdscope.demo.physics.draw import Deployment, Draw, Link, Traffic
from pdscope.demo.physics.machine import Machine, machine
from pdscope.demo.physics.models import MODELS
from pdscope.demo.physics.outcome import run

LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"
LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"
DEEPSEEK = "deepseek-ai/DeepSeek-V3"
NEAR = 0.25


def devices(model: str, count: int, hardware: str = "H100 SXM") -> Machine:
    """So many devices as one group."""
    return machine(Draw(model=model, hardware=hardware), count, (1.0,) * count, 1_000_000)


def step_seconds(group: Machine, batch: int, context_tokens: float) -> float:
    """A decode step with a graph, host work included."""
    kernels, _, _ = group.decode(batch, np.array([context_tokens]))
    settings = Draw().decode
    return float(kernels[0]) + settings.host_seconds + batch * settings.host_seconds_per_request


def test_decode_of_llama_8b_on_one_h100_grows_with_context_as_measured() -> None:
    """vLLM, bf16 KV: 6.44 ms and 4.37e-5 ms a context token."""
    group = devices(LLAMA_8B, 1)
    base = step_seconds(group, 1, 0.0)
    slope = (step_seconds(group, 1, 100_000.0) - base) / 100_000.0
    assert base == pytest.approx(6.44e-3, rel=NEAR)
    assert slope == pytest.approx(4.37e-8, rel=NEAR)


def test_decode_of_llama_8b_at_concurrency_8_with_21k_context() -> None:
    """15.2 ms measured."""
    draw = Draw(
        engine="vllm",
        model=LLAMA_8B,
        deployment=Deployment(4, 1, 0, 1, 1),
        link=Link(page_tokens=16),
        traffic=Traffic(
            concurrency=8, prompt_tokens=21_000.0, prompt_sigma=1e-9, output_tokens=800.0, output_sigma=1e-9
        ),
    )
    outcome = run(draw, 30.0)
    assert outcome.itl(0.5) == pytest.approx(15.2e-3, rel=NEAR)


def test_prefill_of_deepseek_v3_on_h100_nodes() -> None:
    """SGLang with large-scale expert parallelism: 52.3k tokens a second a node of 8, prompts of 2,000 tokens."""
    group = devices(DEEPSEEK, 32)
    prompts = 16 * 8
    work = group.prefill(prompts * 2000, prompts * 2000**2 / 2, prompts * 2000)
    seconds = work.seconds + Draw().prefill.pass_seconds
    assert prompts * 2000 / seconds / 4 == pytest.approx(52_300, rel=NEAR)


def fp8(group: Machine) -> Machine:
    """The same devices with fp8 weights and the peak that goes with them."""
    model = replace(MODELS[LLAMA_70B], weight_element_bytes=1)
    return replace(group, model=model, peak_flop_per_second=1.978e15)


def test_llama_70b_in_fp8_on_two_h100() -> None:
    """NIM 1.8: 407 ms to the first token of 5,000, 18.6 ms between tokens, one user."""
    group = fp8(devices(LLAMA_70B, 2))
    first = group.prefill(5000, 5000**2 / 2, 5000).seconds + Draw().prefill.pass_seconds
    assert first == pytest.approx(0.40677, rel=NEAR)
    assert step_seconds(group, 1, 5250.0) == pytest.approx(18.58e-3, rel=NEAR)


def test_prefill_throughput_of_llama_8b() -> None:
    """SGLang, random prompts of 4,065 tokens in the mean, 4 tokens out: 27.7k tokens a second."""
    traffic = Traffic(
        concurrency=200, prompt_tokens=4065.0, prompt_sigma=0.55, prompt_limit=8192, output_tokens=4.0, output_limit=8
    )
    outcome = run(Draw(model=LLAMA_8B, deployment=Deployment(0, 0, 1, 1, 1), traffic=traffic), 20.0)
    assert outcome.input_tokens_per_second == pytest.approx(27_670, rel=NEAR)


def test_decode_of_a_small_mixture_of_experts_for_one_user() -> None:
    """Qwen3.5-35B-A3B on one H100: 5.8 ms; the model's shape is the like Qwen3-30B-A3B."""
    assert step_seconds(devices("Qwen/Qwen3-30B-A3B", 1), 1, 500.0) == pytest.approx(5.8e-3, rel=NEAR)


@pytest.mark.parametrize(
    ("model", "kv_bytes"),
    [(LLAMA_8B, 131_072), (LLAMA_70B, 327_680), (DEEPSEEK, 70_272)],
)
def test_kv_bytes_of_a_token_are_those_of_the_configuration(model: str, kv_bytes: int) -> None:
    assert MODELS[model].kv_bytes_per_token == kv_bytes


def test_a_400g_nic_carries_what_nixl_reports() -> None:
    """341 of 400 Gbit/s."""
    assert devices(LLAMA_8B, 1).nic_bytes_per_second == pytest.approx(341e9 / 8, rel=0.01)


def test_posting_a_descriptor_costs_what_was_seen() -> None:
    """46 ms for 18,880 of them."""
    assert 18_880 * Link().descriptor_seconds == pytest.approx(46e-3, rel=NEAR)
