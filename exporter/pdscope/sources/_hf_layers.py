"""Which layers of a model keep the whole prompt, by the ways in which a `config.json` can say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pdscope.sources._hf_fields import Fields

_FULL = frozenset({"full_attention", "attention", "*"})
SLIDING = frozenset({"sliding_attention"})
CONSTANT = frozenset({"linear_attention", "mamba"})
_NEMOTRON_H = CONSTANT | {"moe", "mlp", "M", "E", "-"}
_INDEXED = frozenset({"indexed_attention", "deepseek_sparse_attention"})

LAYOUT_KEYS: Final[Mapping[str, tuple[object, ...]]] = {
    **dict.fromkeys(
        (
            "attention_chunk_size",
            "attention_k_eq_v",
            "attn_layer_period",
            "block_configs",
            "compress_ratios",
            "cross_attention_layers",
            "full_attention_interval",
            "global_head_dim",
            "hybrid_layer_pattern",
            "hybrid_override_pattern",
            "index_topk",
            "index_topk_pattern",
            "kv_lora_rank",
            "linear_attn_config",
            "num_kv_shared_layers",
            "per_layer_config",
            "sliding_window",
            "sliding_window_pattern",
            "swa_head_dim",
            "swa_num_key_value_heads",
            "use_bidirectional_attention",
            "use_cla",
            "use_sliding_window",
            "v_head_dim",
        ),
        (),
    ),
    **dict.fromkeys(("attn_type_list", "cli_factor", "index_kpool", "index_topk_freq"), (1,)),
    **dict.fromkeys(("layer_types", "layers_block_type"), ("full_attention", "attention")),
    "indexer_types": ("full",),
}
"""Keys that change the cache of some architecture, with the values that do not."""


class Mix(NamedTuple):
    """Layers that keep the whole prompt (None: all), and tokens that the others keep (None: a constant state)."""

    full_layers: int | None = None
    window: int | None = None


def all_full(_fields: Fields, _layers: int) -> Mix:
    """Every layer keeps the whole prompt."""
    return Mix()


def all_sliding(fields: Fields, _layers: int) -> Mix:
    """Every layer has the window; null, which must be written, is none."""
    if not fields.has("sliding_window"):
        raise fields.refusal("sliding_window", "is required (null where there is no window)")
    window = fields.count("sliding_window")
    return Mix() if window is None else Mix(0, window)


def unused_window(fields: Fields, _layers: int) -> Mix:
    """A window that is written down but not used. Where it is, programs differ on which layers have it."""
    if fields.get("use_sliding_window") not in (None, False):
        raise fields.refusal("use_sliding_window", "must be false, since which layers have the window is not certain")
    fields.get("sliding_window")
    return Mix()


def mixed(fields: Fields, layers: int, *, others: frozenset[str], step_key: str = "", step: int | None = None) -> Mix:
    """Each layer by `layer_types`, or every so many-th keeps the whole prompt.

    Args:
        fields: of the language model.
        layers: how many it has.
        others: kinds of the layers that do not keep the whole prompt: `SLIDING` or `CONSTANT`.
        step_key: where the file may say how many-th.
        step: how many-th where it does not; None: it must.
    """
    window = fields.needed("sliding_window") if others is SLIDING else None
    full = _listed(fields, "layer_types", layers, others)
    written = fields.count(step_key) if step_key else None
    step = written or step
    if full is None:
        if step is None:
            raise fields.refusal(step_key or "layer_types", "is required")
        full = layers // step
    elif written is not None and full != layers // written:
        raise fields.refusal(step_key, f"is {written}, but layer_types has {full} full layers of {layers}")
    return Mix() if full == layers else Mix(full, window)


def nemotron_h(fields: Fields, layers: int) -> Mix:
    """A letter or a name for each layer: attention, Mamba or none at all."""
    key = "layers_block_type" if fields.has("layers_block_type") else "hybrid_override_pattern"
    full = _listed(fields, key, layers, _NEMOTRON_H)
    if full is None:
        raise fields.refusal(key, "is required")
    return Mix(full)


def kimi_linear(fields: Fields, layers: int) -> Mix:
    """Two lists of layer numbers, from 1."""
    part = fields.part("linear_attn_config")
    if part is None:
        raise fields.refusal("linear_attn_config", "is required")
    full, linear = part.counts("full_attn_layers"), part.counts("kda_layers")
    if full is None or linear is None:
        raise part.refusal("full_attn_layers" if full is None else "kda_layers", "is required")
    if sorted(full + linear) != list(range(1, layers + 1)):
        raise part.refusal("full_attn_layers", f"and kda_layers do not name each of {layers} layers once")
    return Mix(len(full))


def all_indexed(fields: Fields, layers: int) -> Mix:
    """Sparse attention picks from a cache that keeps the whole prompt."""
    fields.get("index_topk")
    _listed(fields, "layer_types", layers, _INDEXED)
    return Mix()


def _listed(fields: Fields, key: str, layers: int, others: frozenset[str]) -> int | None:
    """How many layers keep the whole prompt, by a list with the kind of each, or a text with a letter for each."""
    written = fields.get(key)
    kinds = list(written) if isinstance(written, str) else fields.words(key)
    if kinds is None:
        return None
    if len(kinds) != layers:
        raise fields.refusal(key, f"names {len(kinds)} layers, but num_hidden_layers is {layers}")
    if strange := set(kinds) - _FULL - others:
        raise fields.refusal(key, f"has layers of the kind {min(strange)!r:.60}, whose cache is not known")
    return sum(kind in _FULL for kind in kinds)
