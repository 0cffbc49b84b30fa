"""What a token costs to compute, from a `config.json`: for architectures whose weights are known, matrix by matrix.

A wrong count would make a wrong verdict, so anything that is missing, or not as the architecture is known to have it,
gives no shape at all. The published totals of many models check the counts (tests/sources/test_hf_compute.py).
docs/compute-shape.md says it for users.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pdscope.model.topology import ComputeShape, KvShape
from pdscope.sources import _hf_attention as attention
from pdscope.sources._hf_dtypes import QUANTISATION_KEYS
from pdscope.sources._hf_fields import Fields
from pdscope.sources._hf_stored import Groups, bytes_per_parameter
from pdscope.sources._hf_weights import ARCHITECTURES, STRANGE_KEYS, Experts, Keys, UnknownWeightsError, Weights


def compute_shape(
    model_type: str, fields: Fields, places: tuple[Fields, ...], kv: KvShape, dtype: str | None
) -> ComputeShape | None:
    """The arithmetic of the language model.

    Args:
        model_type: of the language model.
        fields: of it.
        places: objects where a quantisation may stand, the inner one first.
        kv: shape of its KV cache, which tells the kinds of layers apart.
        dtype: of the weights.

    Returns:
        None when the architecture is not among `ARCHITECTURES`, or the file lacks a key or has one that is not known.
    """
    weights = ARCHITECTURES.get(model_type)
    if weights is None:
        return None
    try:
        return _shape(Keys(fields, weights.defaults), weights, kv, dtype, _quantisation(places))
    except UnknownWeightsError:
        return None


class _Mlp(NamedTuple):
    """Parameters of all layers' MLPs, and the experts of a layer."""

    dense: int
    shared: int = 0
    routed: int = 0
    routers: int = 0
    experts: int = 0
    chosen: int = 0


def _shape(
    keys: Keys, weights: Weights, kv: KvShape, dtype: str | None, quantisation: Mapping[str, Any] | None
) -> ComputeShape:
    for key in STRANGE_KEYS:
        if keys.get(key):
            raise UnknownWeightsError(key)
    hidden = keys.count("hidden_size")
    attending, mlp = attention.parameters(keys, weights, kv), _mlp(keys, weights.experts, kv.layers)
    groups = Groups(
        attention=attending.matrices,
        dense=mlp.dense,
        shared=mlp.shared,
        routed=mlp.routed,
        head=hidden * keys.count("vocab_size"),
        other=attending.other + mlp.routers + hidden * (weights.norms * kv.layers + 1),
    )
    stored = bytes_per_parameter(groups, dtype, quantisation, kv.layers)
    if stored is None:
        raise UnknownWeightsError("quantization_config")
    flop = attention.flop(keys, weights, kv)
    idle_experts = 1 - mlp.chosen / mlp.experts if mlp.experts else 0
    return ComputeShape(
        parameters=sum(groups),
        active_parameters=sum(groups) - mlp.routed * idle_experts,
        routed_parameters=mlp.routed,
        experts=mlp.experts,
        experts_per_token=mlp.chosen,
        attention_flop=flop.full,
        window_attention_flop=flop.windowed,
        window_tokens=flop.window_tokens,
        bytes_per_parameter=stored,
    )


def _mlp(keys: Keys, experts: Experts | None, layers: int) -> _Mlp:
    matrices = 3 * keys.count("hidden_size")  # gate, up and down, for each inner dimension
    if experts is None:
        return _Mlp(layers * matrices * keys.count("intermediate_size"))
    sparse = _sparse_layers(keys, experts, layers)
    count, chosen, size = keys.count(experts.count), keys.count("num_experts_per_tok"), keys.count(experts.size)
    if chosen > count:
        raise UnknownWeightsError("num_experts_per_tok")
    shared = matrices * keys.number(experts.shared, 0) * size if experts.shared else 0
    if experts.shared_size:
        shared = matrices * keys.count(experts.shared_size) + keys.count("hidden_size")
    biases = 2 * size + keys.count("hidden_size") if experts.biased else 0
    return _Mlp(
        dense=(layers - sparse) * matrices * keys.count("intermediate_size") if sparse < layers else 0,
        shared=sparse * shared,
        routed=sparse * count * (matrices * size + biases),
        routers=sparse * count * (keys.count("hidden_size") + (experts.biased or experts.corrected)),
        experts=count,
        chosen=chosen,
    )


def _sparse_layers(keys: Keys, experts: Experts, layers: int) -> int:
    """Layers with experts, by whichever keys for it the file has."""
    kinds = keys.get("mlp_layer_types")
    if kinds is not None:
        if (
            not isinstance(kinds, list)
            or len(kinds) != layers
            or any(kind not in ("dense", "sparse") for kind in kinds)
        ):
            raise UnknownWeightsError("mlp_layer_types")
        return kinds.count("sparse")
    first = keys.number("first_k_dense_replace", None if experts.dense_first else 0)
    every, step = keys.number("moe_layer_freq", 1), keys.number("decoder_sparse_step", 1)
    dense = keys.get("mlp_only_layers") or []
    if not isinstance(dense, list) or not every or not step:
        raise UnknownWeightsError("mlp_only_layers")
    return sum(i >= first and i % every == 0 and (i + 1) % step == 0 and i not in dense for i in range(layers))


def _quantisation(places: tuple[Fields, ...]) -> Mapping[str, Any] | None:
    """The first that is written; of an unknown kind it leaves the bytes unknown."""
    for place in places:
        for key in QUANTISATION_KEYS:
            part = place.get(key)
            if isinstance(part, Mapping):
                return part
            if part is not None:
                raise UnknownWeightsError(key)
    return None
