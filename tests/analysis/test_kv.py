"""KV-cache arithmetic against published figures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.analysis import kv
from pdscope.model.topology import Attention, KvShape
from support.windows import DEEPSEEK_V3, LLAMA_8B

LLAMA_70B = KvShape(Attention.GQA, layers=80, bytes_per_element=2, kv_heads=8, head_dim=128)
QWEN_32B = KvShape(Attention.GQA, layers=64, bytes_per_element=2, kv_heads=8, head_dim=128)
MIB = 2**20


@pytest.mark.parametrize(
    ("shape", "size"),
    [(LLAMA_8B, 131_072), (LLAMA_70B, 327_680), (QWEN_32B, 262_144), (DEEPSEEK_V3, 70_272)],
    ids=["Llama-3.1-8B", "Llama-3.1-70B", "Qwen2.5-32B", "DeepSeek-V3"],
)
def test_published_bytes_per_token(shape: KvShape, size: int) -> None:
    """In bf16."""
    assert kv.bytes_per_token(shape) == size


def test_published_sizes_of_a_prompt() -> None:
    """DeepSeek-V3: 4,096 tokens are 274.5 MiB, 131,072 are 8.58 GiB."""
    assert kv.cache_bytes(DEEPSEEK_V3, 4096) == 274.5 * MIB
    assert kv.cache_bytes(DEEPSEEK_V3, 131_072) / 2**30 == pytest.approx(8.58, abs=0.005)


@pytest.mark.parametrize("shape", [LLAMA_70B, DEEPSEEK_V3])
def test_eight_bits_halve_it(shape: KvShape) -> None:
    """And four bits quarter it."""
    assert kv.bytes_per_token(replace(shape, bytes_per_element=1)) == kv.bytes_per_token(shape) / 2
    assert kv.bytes_per_token(replace(shape, bytes_per_element=0.5)) == kv.bytes_per_token(shape) / 4


def test_scales_of_a_quantised_cache_count() -> None:
    """The fp8 layout of sparse MLA: 512 latent bytes, four scales of 4, and 64 rotary elements of 2 are 656."""
    shape = replace(DEEPSEEK_V3, latent_dim=512, bytes_per_element=1, scale_bytes=4 * 4 + 64 * 2)
    assert kv.layer_bytes_per_token(shape) == 656
    assert kv.bytes_per_token(shape) == 61 * 656


HYBRID = KvShape(
    Attention.GQA,
    layers=40,
    bytes_per_element=2,
    kv_heads=8,
    head_dim=128,
    full_attention_layers=10,
    sliding_window=4096,
)
LAYER = 2 * 8 * 128 * 2


def test_only_layers_that_keep_the_prompt_grow() -> None:
    """Windowed layers grow up to their window, then no more."""
    assert kv.growing_layers(HYBRID) == 10
    assert kv.bytes_per_token(HYBRID) == 10 * LAYER
    assert kv.cache_bytes(HYBRID, 1000) == 40 * 1000 * LAYER
    assert kv.cache_bytes(HYBRID, 4096) == 40 * 4096 * LAYER
    assert kv.cache_bytes(HYBRID, 100_000) == (10 * 100_000 + 30 * 4096) * LAYER


def test_layers_with_a_constant_state_keep_no_tokens() -> None:
    """Linear attention: no window, no growth."""
    assert kv.cache_bytes(replace(HYBRID, sliding_window=None), 100_000) == 10 * 100_000 * LAYER


@pytest.mark.parametrize(("ranks", "copies"), [(1, 1), (4, 1), (8, 1), (16, 2), (32, 4)])
def test_more_ranks_than_heads_copy_heads(ranks: int, copies: float) -> None:
    """Heads are split over ranks as far as they go."""
    assert kv.wire_copies(LLAMA_70B, ranks) == copies


def test_every_rank_receives_the_whole_latent() -> None:
    """There is nothing to split in MLA."""
    assert kv.wire_copies(DEEPSEEK_V3, 8) == 8
    assert kv.wire_bytes(DEEPSEEK_V3, 4096, 1, 8) == 8 * 274.5 * MIB


@pytest.mark.parametrize(("ranks", "size"), [(1, 327_680), (4, 81_920), (8, 40_960), (16, 40_960)])
def test_what_a_rank_holds(ranks: int, size: int) -> None:
    """Llama-3.1-70B: 81,920 bytes a token at TP 4; at TP 16 as much as at TP 8."""
    assert kv.rank_bytes_per_token(LLAMA_70B, ranks) == size


def test_a_rank_of_mla_holds_everything() -> None:
    """70,272 bytes a token on each."""
    assert kv.rank_bytes_per_token(DEEPSEEK_V3, 8) == 70_272


TINY = KvShape(Attention.GQA, layers=2, bytes_per_element=4, kv_heads=2, head_dim=32)


def test_transfers_are_whole_pages() -> None:
    """As measured: 299 tokens of 1 KiB in blocks of 128 are 393,216 bytes, 28 % more than the tokens."""
    assert kv.bytes_per_token(TINY) == 1024
    assert kv.wire_bytes(TINY, 299, 1, 1) == 306_176
    assert kv.wire_bytes(TINY, 299, 128, 1) == 393_216
    assert kv.wire_bytes(TINY, 299, 128, 1) / kv.wire_bytes(TINY, 299, 1, 1) == pytest.approx(1.28, abs=0.005)
    assert kv.wire_bytes(TINY, 256, 128, 1) == 256 * 1024


def test_measured_bytes_of_forty_requests() -> None:
    """40 requests of 512 tokens of 8 KiB: 167,772,160 bytes on the wire."""
    shape = KvShape(Attention.GQA, layers=4, bytes_per_element=4, kv_heads=4, head_dim=64)
    assert 40 * kv.wire_bytes(shape, 512, 128, 1) == 167_772_160


@pytest.mark.parametrize("broken", [replace(LLAMA_8B, kv_heads=None), replace(DEEPSEEK_V3, latent_dim=None)])
def test_a_shape_without_a_dimension_is_refused(broken: KvShape) -> None:
    """The configuration never lets one through."""
    with pytest.raises(ValueError, match="lacks a dimension"):
        kv.bytes_per_token(broken)


shapes = st.builds(
    KvShape,
    attention=st.just(Attention.GQA),
    layers=st.integers(10, 100),
    bytes_per_element=st.sampled_from([0.5, 1, 2, 4]),
    kv_heads=st.integers(1, 64),
    head_dim=st.sampled_from([64, 128, 256]),
    full_attention_layers=st.none() | st.integers(1, 10),
    sliding_window=st.none() | st.integers(1, 8192),
    scale_bytes=st.sampled_from([0.0, 16.0]),
) | st.builds(
    KvShape,
    attention=st.just(Attention.MLA),
    layers=st.integers(10, 100),
    bytes_per_element=st.sampled_from([1, 2]),
    latent_dim=st.just(576),
)


@given(shapes, st.integers(0, 100_000), st.integers(1, 256), st.integers(1, 64))
def test_the_wire_carries_at_least_the_cache(shape: KvShape, tokens: int, page: int, ranks: int) -> None:
    """And at most one page more, times the copies."""
    wire = kv.wire_bytes(shape, tokens, page, ranks)
    copies = kv.wire_copies(shape, ranks)
    assert copies >= 1
    assert kv.cache_bytes(shape, tokens) * copies <= wire
    assert wire <= kv.cache_bytes(shape, tokens + page - 1) * copies


@given(shapes, st.integers(1, 64))
def test_all_ranks_together_hold_what_they_receive(shape: KvShape, ranks: int) -> None:
    """Shares of the ranks add up to the copies on the wire, for tokens of layers that grow."""
    held = ranks * kv.rank_bytes_per_token(shape, ranks)
    assert held == pytest.approx(kv.bytes_per_token(shape) * kv.wire_copies(shape, ranks))


@given(shapes, st.integers(0, 100_000), st.integers(0, 100_000))
def test_longer_prompts_need_more(shape: KvShape, tokens: int, more: int) -> None:
    """The cache grows by at least the layers that keep everything, and by at most all layers."""
    growth = kv.cache_bytes(shape, tokens + more) - kv.cache_bytes(shape, tokens)
    assert kv.bytes_per_token(shape) * more <= growth
    assert growth <= kv.layer_bytes_per_token(shape) * shape.layers * more
