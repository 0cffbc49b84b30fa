"""KV-cache arithmetic: bytes a token, bytes a request on the wire. No cluster needed.

Sources: 2 x layers x kv_heads x head_dim x bytes for GQA (Llama-3.1-8B in bf16: 131,072 B/token); MLA keeps one latent
of `kv_lora_rank + qk_rope_head_dim` a layer (DeepSeek-V3 in bf16: 61 x 576 x 2 = 70,272 B/token); what ranks hold and
receive is SGLang 0.5.23 model_executor/pool_configurator.py and disaggregation/common/conn.py.
"""

from __future__ import annotations

import math

from pdscope.model.topology import Attention, KvShape


def layer_bytes_per_token(shape: KvShape) -> float:
    """Bytes that one token adds to one layer that keeps the whole prompt."""
    if shape.attention is Attention.MLA:
        elements = float(_given(shape.latent_dim))
    else:
        elements = 2.0 * _given(shape.kv_heads) * _given(shape.head_dim)
    return elements * shape.bytes_per_element + shape.scale_bytes


def growing_layers(shape: KvShape) -> int:
    """Layers whose cache grows with the whole prompt."""
    return shape.layers if shape.full_attention_layers is None else shape.full_attention_layers


def bytes_per_token(shape: KvShape) -> float:
    """Bytes that one more token of a long prompt adds to the cache: one logical copy, no replication.

    Layers with a sliding window or a constant state do not grow any more, so they do not count here; see
    `cache_bytes` for a whole prompt.
    """
    return layer_bytes_per_token(shape) * growing_layers(shape)


def cache_bytes(shape: KvShape, tokens: float) -> float:
    """Bytes of the cache of a prompt of `tokens`: one logical copy.

    The constant state of linear-attention layers is not in the shape and not counted.
    """
    growing = growing_layers(shape)
    windowed = shape.layers - growing if shape.sliding_window is not None else 0
    inside = min(tokens, float(shape.sliding_window or 0))
    return layer_bytes_per_token(shape) * (growing * tokens + windowed * inside)


def wire_copies(shape: KvShape, receiver_ranks: int) -> float:
    """How many times the logical cache crosses the link.

    GQA heads are split over the receiving ranks, and copied where there are more ranks than heads. Every receiving
    attention rank of an MLA model gets the whole latent.

    Args:
        shape: of the cache.
        receiver_ranks: attention tensor-parallel ranks of one decode replica.
    """
    if shape.attention is Attention.MLA:
        return float(receiver_ranks)
    return max(1.0, receiver_ranks / _given(shape.kv_heads))


def wire_bytes(shape: KvShape, tokens: float, page_tokens: int, receiver_ranks: int) -> float:
    """Physical bytes of the transfer of one prompt: whole pages, all copies.

    Args:
        shape: of the cache.
        tokens: prompt tokens that decode does not hold already.
        page_tokens: tokens of a KV page; transfers are rounded up to whole pages.
        receiver_ranks: attention tensor-parallel ranks of one decode replica.
    """
    pages = math.ceil(tokens / page_tokens) * page_tokens
    return cache_bytes(shape, pages) * wire_copies(shape, receiver_ranks)


def rank_bytes_per_token(shape: KvShape, ranks: int) -> float:
    """Bytes a token that one of `ranks` tensor-parallel ranks holds; heads are never split, MLA is replicated."""
    if shape.attention is Attention.MLA:
        return bytes_per_token(shape)
    return bytes_per_token(shape) / min(float(ranks), float(_given(shape.kv_heads)))


def _given(value: int | None) -> int:
    if value is None:
        message = "the KV shape lacks a dimension of its attention kind; the configuration checks this"
        raise ValueError(message)
    return value
