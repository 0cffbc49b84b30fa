"""Weights of the attention and its FLOP: heads, one latent for all of them, gated delta nets between full layers."""

from __future__ import annotations

from typing import NamedTuple

from pdscope.model.topology import Attention, KvShape
from pdscope.sources._hf_weights import Keys, UnknownWeightsError, Weights


class Parameters(NamedTuple):
    """Of the attention: in matrices, which a quantisation may store in fewer bits, and in norms and biases."""

    matrices: int
    other: int

    def times(self, layers: int) -> Parameters:
        """Of so many layers."""
        return Parameters(layers * self.matrices, layers * self.other)


class Flop(NamedTuple):
    """For each pair of a computed token and one that it attends to, all layers of a kind together."""

    full: int
    windowed: int = 0
    window_tokens: int = 0


def parameters(keys: Keys, weights: Weights, kv: KvShape) -> Parameters:
    """Of all layers together.

    Raises:
        UnknownWeightsError: the file does not say, or not in a way that is known.
    """
    if kv.attention is Attention.MLA:
        return _latent(keys, weights).times(kv.layers)
    heads = _heads(keys, weights, kv)
    if not weights.linear:
        return heads.times(kv.layers)
    full = _full_layers(kv)
    attending, linear = heads.times(full), _delta_net(keys).times(kv.layers - full)
    return Parameters(attending.matrices + linear.matrices, attending.other + linear.other)


def flop(keys: Keys, weights: Weights, kv: KvShape) -> Flop:
    """2 x heads x (dimension of a key + dimension of a value) a layer.

    Sparse attention looks at the index of every token, and attends to as many as the index picks: a window, in effect.
    The state of a delta net is not counted: it costs the same for every token.

    Raises:
        UnknownWeightsError: as for `parameters`.
    """
    heads = keys.count("num_attention_heads")
    if kv.attention is Attention.MLA:
        dimensions = keys.count("qk_nope_head_dim") + keys.count("qk_rope_head_dim") + keys.count("v_head_dim")
        attending = kv.layers * 2 * heads * dimensions
        if not weights.index:
            return Flop(attending)
        indexing = kv.layers * 2 * keys.count("index_n_heads") * keys.count("index_head_dim")
        return Flop(indexing, attending, keys.count("index_topk"))
    each, full = 2 * heads * 2 * _dimension(kv), _full_layers(kv)
    window = kv.sliding_window or 0
    return Flop(full * each, (kv.layers - full) * each if window else 0, window)


def _full_layers(kv: KvShape) -> int:
    return kv.layers if kv.full_attention_layers is None else kv.full_attention_layers


def _dimension(kv: KvShape) -> int:
    if kv.head_dim is None:
        raise UnknownWeightsError("head_dim")
    return kv.head_dim


def _heads(keys: Keys, weights: Weights, kv: KvShape) -> Parameters:
    hidden, dimension = keys.count("hidden_size"), _dimension(kv)
    queries, kept = keys.count("num_attention_heads") * dimension, (kv.kv_heads or 0) * dimension
    if keys.get("attn_output_gate") not in (None, weights.gated):
        raise UnknownWeightsError("attn_output_gate")
    made = queries * (2 if weights.gated else 1) + 2 * kept
    biases = {"": 0, "qkv": made, "all": made + hidden}[_wanted(keys, weights.bias, "attention_bias")]
    norms = {"": 0, "heads": 2 * dimension, "all": queries + kept}[_wanted(keys, weights.head_norms, "use_qk_norm")]
    sinks = keys.count("num_attention_heads") if weights.sinks else 0
    return Parameters(hidden * (made + queries), biases + norms + sinks)


def _wanted(keys: Keys, what: str, key: str) -> str:
    """What the architecture has, by the key where it depends on it; set where it does not, the key is not known."""
    if what.endswith(" if set"):
        return what.removesuffix(" if set") if keys.get(key) else ""
    if not what and keys.get(key):
        raise UnknownWeightsError(key)
    return what


def _latent(keys: Keys, weights: Weights) -> Parameters:
    """Queries by a latent of their own or directly; keys and values by the latent that is cached."""
    if keys.get("attention_bias"):
        raise UnknownWeightsError("attention_bias")
    hidden, heads = keys.count("hidden_size"), keys.count("num_attention_heads")
    unrotated, rotated, value = (keys.count(k) for k in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    latent, query_latent = keys.count("kv_lora_rank"), keys.number("q_lora_rank", 0)
    queries = heads * (unrotated + rotated)
    matrices = query_latent * (hidden + queries) if query_latent else hidden * queries
    matrices += hidden * (latent + rotated) + latent * heads * (unrotated + value) + heads * value * hidden
    if not weights.index:
        return Parameters(matrices, query_latent + latent)
    indexes, dimension = keys.count("index_n_heads"), keys.count("index_head_dim")
    index = query_latent * indexes * dimension + hidden * (dimension + indexes)
    return Parameters(matrices + index, query_latent + latent + 2 * dimension)


def _delta_net(keys: Keys) -> Parameters:
    """A gated delta net: queries, keys, values and a gate; two numbers for each value head; a short convolution."""
    hidden = keys.count("hidden_size")
    value_heads, value_dimension = keys.count("linear_num_value_heads"), keys.count("linear_value_head_dim")
    kept = keys.count("linear_num_key_heads") * keys.count("linear_key_head_dim")
    values = value_heads * value_dimension
    matrices = hidden * (2 * kept + 2 * values + 2 * value_heads) + values * hidden
    convolution = (2 * kept + values) * keys.count("linear_conv_kernel_dim")
    return Parameters(matrices, convolution + 2 * value_heads + value_dimension)
