"""How an architecture writes down what it caches, and the KV shape by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from pdscope.errors import ConfigError
from pdscope.model.topology import Attention, KvShape
from pdscope.sources._hf_dtypes import KvType
from pdscope.sources._hf_fields import REMEDY, Fields
from pdscope.sources._hf_layers import LAYOUT_KEYS, Mix, all_full

DERIVED: Final = 0
"""As many KV heads as query heads; heads of `hidden_size / num_attention_heads`."""

_INDEX_BLOCK = 128
_INDEX_SCALE_BYTES = 4


@dataclass(frozen=True, slots=True)
class Architecture:
    """How an architecture writes down what it caches.

    Attributes:
        classes: what `architectures` may name.
        attention: None: only the wrapper of a language model in `text_config`.
        mix: tells the layers apart.
        kv_heads: what it has when `num_key_value_heads` is left out, or `DERIVED`; None: the key is required.
        head_dim: likewise.
        dtype: of the weights when the file leaves it out; None: it is required.
        wraps: whether the language model may be in `text_config`.
        indexed: sparse attention, which caches an index of each token beside its latent.
    """

    classes: tuple[str, ...]
    attention: Attention | None = Attention.GQA
    mix: Callable[[Fields, int], Mix] = all_full
    kv_heads: int | None = None
    head_dim: int | None = None
    dtype: str | None = None
    wraps: bool = False
    indexed: bool = False

    def shape(self, fields: Fields, kv: KvType) -> KvShape:
        """The KV shape of the language model in `fields`.

        Raises:
            ConfigError: a key is missing, wrong, or changes the cache in a way that is not known of the architecture.
        """
        layers = fields.needed("num_hidden_layers")
        mix = self.mix(fields, layers)
        shape = self._latent(fields, kv, layers) if self.attention is Attention.MLA else self._heads(fields, kv, layers)
        fields.refuse_unread(LAYOUT_KEYS)
        return replace(shape, full_attention_layers=mix.full_layers, sliding_window=mix.window)

    def _latent(self, fields: Fields, kv: KvType, layers: int) -> KvShape:
        fields.get("v_head_dim")  # of the heads that the latent expands to, which are not cached
        latent_dim = fields.needed("kv_lora_rank") + fields.needed("qk_rope_head_dim")
        if kv.name == "mxfp8":
            raise ConfigError("kv_dtype", f"how mxfp8 keeps a latent is not known; {REMEDY}")
        return KvShape(
            attention=Attention.MLA,
            layers=layers,
            bytes_per_element=kv.bytes_per_element,
            latent_dim=latent_dim,
            scale_bytes=_index_bytes(fields, kv) if self.indexed else _scale_bytes(kv, latent_dim),
        )

    def _heads(self, fields: Fields, kv: KvType, layers: int) -> KvShape:
        kv_heads = fields.count("num_key_value_heads") or self.kv_heads
        if kv_heads is None:
            kv_heads = fields.needed("num_key_value_heads")
        elif kv_heads == DERIVED:
            kv_heads = fields.needed("num_attention_heads")
        head_dim = fields.count("head_dim") or self.head_dim
        if head_dim is None:
            head_dim = fields.needed("head_dim")
        elif head_dim == DERIVED:
            hidden_size, heads = fields.needed("hidden_size"), fields.needed("num_attention_heads")
            head_dim, rest = divmod(hidden_size, heads)
            if rest:
                raise fields.refusal("head_dim", f"is required, since {heads} heads do not divide {hidden_size}")
        return KvShape(
            attention=Attention.GQA,
            layers=layers,
            bytes_per_element=kv.bytes_per_element,
            kv_heads=kv_heads,
            head_dim=head_dim,
            scale_bytes=2 * kv_heads * _scale_bytes(kv, head_dim),
        )


def _scale_bytes(kv: KvType, row: int) -> float:
    """Bytes of scales of a row of elements."""
    if kv.scale_block is None:
        return 0.0
    if row % kv.scale_block:
        raise ConfigError("kv_dtype", f"{kv.name} scales {kv.scale_block} elements at once, rows have {row}; {REMEDY}")
    return row / kv.scale_block


def _index_bytes(fields: Fields, kv: KvType) -> float:
    """Bytes of a token's index: 8-bit elements and their scales.

    The latent beside it is known in bf16 alone: which type `auto` is depends on the device, and in fp8 a kernel keeps
    it in one of two layouts.
    """
    if kv.name not in ("bf16", "bfloat16") or not kv.given:
        raise ConfigError(
            "kv_dtype",
            "must be bfloat16, as the engine's setting: sparse attention picks its own type by device, and its fp8 is "
            f"of no one size; {REMEDY}",
        )
    dimension = fields.needed("index_head_dim")
    if dimension % _INDEX_BLOCK:
        raise fields.refusal("index_head_dim", f"must be a multiple of {_INDEX_BLOCK}, not {dimension}")
    return dimension + dimension / _INDEX_BLOCK * _INDEX_SCALE_BYTES
