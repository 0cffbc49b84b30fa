"""Which weights an architecture has, and under which keys a `config.json` gives their sizes.

All of them have gated MLPs: three matrices. docs/compute-shape.md says which of them published totals check.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

from pdscope.sources._hf_fields import Fields

STRANGE_KEYS: Final = (
    "attention_out_bias",
    "enable_moe_block",
    "mlp_bias",
    "shared_intermediate_size",
    "use_bias",
)
"""Keys that add weights which are not counted here."""


@dataclass(frozen=True, slots=True)
class Experts:
    """Keys of the experts of a layer.

    Attributes:
        count: how many there are to choose from.
        size: of their inner dimension.
        shared: how many experts of that size every token passes through.
        shared_size: or the inner dimension of one such expert, which has a gate of its own.
        dense_first: the first layers are dense, and the file must say how many.
        biased: the router and the matrices of the experts have biases.
        corrected: the router has a bias for each expert.
    """

    count: str
    size: str
    shared: str = ""
    shared_size: str = ""
    dense_first: bool = False
    biased: bool = False
    corrected: bool = False


@dataclass(frozen=True, slots=True)
class Weights:
    """What the layers of an architecture have.

    Attributes:
        norms: vectors of `hidden_size` in a layer.
        bias: of the attention: of `qkv`, of `all` four projections, of either when `attention_bias` is set, or none.
        head_norms: none, one vector for all query `heads` alike and one for the KV heads, or one over `all` heads; or
            either when `use_qk_norm` is set.
        experts: None: dense.
        gated: the queries' projection also makes a gate for the output.
        linear: the layers that keep a constant state are gated delta nets.
        sinks: each query head has a logit of its own.
        index: sparse attention picks the tokens by an index.
        defaults: what a file may leave out.
    """

    norms: int = 2
    bias: Literal["", "qkv", "all", "qkv if set", "all if set"] = ""
    head_norms: Literal["", "heads", "all", "heads if set", "all if set"] = ""
    experts: Experts | None = None
    gated: bool = False
    linear: bool = False
    sinks: bool = False
    index: bool = False
    defaults: Mapping[str, int] = field(default_factory=dict)


_llama = partial(Weights, bias="all if set")
_qwen3 = partial(Weights, bias="all if set", head_norms="heads")
_qwen_next = partial(Weights, head_norms="heads", gated=True, linear=True)
_QWEN_EXPERTS = Experts("num_experts", "moe_intermediate_size")
_QWEN_SHARED = Experts("num_experts", "moe_intermediate_size", shared_size="shared_expert_intermediate_size")
_LOCAL_EXPERTS = Experts("num_local_experts", "intermediate_size")
_DEEPSEEK = Experts("n_routed_experts", "moe_intermediate_size", shared="n_shared_experts", dense_first=True)
_DEEPSEEK_CORRECTED = Experts(
    "n_routed_experts", "moe_intermediate_size", shared="n_shared_experts", dense_first=True, corrected=True
)

ARCHITECTURES: Final[Mapping[str, Weights]] = {
    "cohere": _llama(norms=1, head_norms="all if set"),
    "cohere2": _llama(norms=1),
    "deepseek_v2": Weights(experts=_DEEPSEEK),
    "deepseek_v3": Weights(experts=_DEEPSEEK_CORRECTED),
    "deepseek_v32": Weights(experts=_DEEPSEEK_CORRECTED, index=True),
    "gemma": _llama(),
    "gemma2": _llama(norms=4),
    "gemma3_text": Weights(
        norms=4,
        bias="all if set",
        head_norms="heads",
        defaults={"num_attention_heads": 8, "vocab_size": 262_208},
    ),
    "glm4": Weights(norms=4, bias="qkv if set"),
    "glm4_moe": Weights(bias="qkv if set", head_norms="heads if set", experts=_DEEPSEEK_CORRECTED),
    "glm4_moe_lite": Weights(experts=_DEEPSEEK_CORRECTED),
    "glm_moe_dsa": Weights(experts=_DEEPSEEK_CORRECTED, index=True),
    "gpt_oss": Weights(bias="all", sinks=True, experts=Experts("num_local_experts", "intermediate_size", biased=True)),
    "granite": _llama(),
    "granitemoe": _llama(experts=_LOCAL_EXPERTS),
    "kimi_k2": Weights(experts=_DEEPSEEK_CORRECTED),
    "llama": _llama(),
    "minimax_m2": Weights(head_norms="all", experts=Experts("num_local_experts", "intermediate_size", corrected=True)),
    "ministral3": Weights(),
    "mistral": Weights(),
    "mixtral": Weights(experts=_LOCAL_EXPERTS),
    "olmo2": _llama(head_norms="all"),
    "olmo3": _llama(head_norms="all"),
    "phi3": Weights(),
    "qwen2": Weights(bias="qkv"),
    "qwen2_moe": Weights(bias="qkv", experts=_QWEN_SHARED),
    **dict.fromkeys(("qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"), Weights(bias="qkv")),
    "qwen3": _qwen3(),
    "qwen3_moe": _qwen3(experts=_QWEN_EXPERTS),
    "qwen3_vl_text": _qwen3(),
    "qwen3_vl_moe_text": _qwen3(experts=_QWEN_EXPERTS),
    "qwen3_next": _qwen_next(experts=_QWEN_SHARED),
    "qwen3_5_text": _qwen_next(),
    "qwen3_5_moe_text": _qwen_next(experts=_QWEN_SHARED),
    "seed_oss": Weights(bias="qkv if set"),
}
"""By `model_type` of the language model."""


class UnknownWeightsError(Exception):
    """The file does not say, or not in a way that is known. Never leaves `compute_shape`, whose answer is None then."""


class Keys:
    """Sizes in a file; unlike the KV shape, a count that cannot be had refuses no file."""

    def __init__(self, fields: Fields, defaults: Mapping[str, int]) -> None:
        self._fields, self._defaults = fields, defaults

    def get(self, key: str) -> Any:
        """The value as it stands, or None."""
        return self._fields.get(key)

    def number(self, key: str, default: int | None = None) -> int:
        """A whole number from 0.

        Raises:
            UnknownWeightsError: there is none.
        """
        value = self._fields.get(key)
        if value is None:
            value = self._defaults.get(key, default)
        if type(value) is not int or value < 0:
            raise UnknownWeightsError(key)
        return value

    def count(self, key: str) -> int:
        """A whole number from 1.

        Raises:
            UnknownWeightsError: there is none.
        """
        value = self.number(key)
        if value == 0:
            raise UnknownWeightsError(key)
        return value
