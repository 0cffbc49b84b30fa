"""The KV shape of a model from its Hugging Face `config.json`: known architectures exactly, all others not at all.

A wrong shape makes every verdict on the link wrong, so nothing is guessed: the architecture must stand in
`ARCHITECTURES`, the keys that it needs must be there, and a key that changes the cache of another architecture refuses
the file. What may be left out is what the architecture itself defines for that case. Not in the shape: the constant
state of linear and Mamba layers, and the layers of a draft model, which are cached under speculation only.

Sources: the configuration classes of transformers 5.24.0; KV types and the cache of sparse attention: SGLang 0.5.23
model_executor/pool_configurator.py. docs/kv-shape.md says it for users.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from pdscope.errors import ConfigError
from pdscope.model.topology import Attention, ComputeShape, KvShape
from pdscope.sources._hf_architecture import DERIVED, Architecture
from pdscope.sources._hf_compute import compute_shape
from pdscope.sources._hf_dtypes import kv_type, weight_dtype
from pdscope.sources._hf_fields import Fields, load_document, parse_document, shown
from pdscope.sources._hf_layers import (
    CONSTANT,
    SLIDING,
    all_indexed,
    all_sliding,
    kimi_linear,
    mixed,
    nemotron_h,
    unused_window,
)

_some_sliding = partial(mixed, others=SLIDING)
_some_linear = partial(mixed, others=CONSTANT)
_derived = partial(Architecture, kv_heads=DERIVED, head_dim=DERIVED)
_head_derived = partial(Architecture, head_dim=DERIVED)
_latent = partial(Architecture, attention=Attention.MLA)
_wrapper = partial(Architecture, attention=None, wraps=True)
_qwen_next = partial(Architecture, mix=partial(_some_linear, step_key="full_attention_interval"))

ARCHITECTURES: Final[Mapping[str, Architecture]] = {
    # By model_type. Every layer keeps the whole prompt:
    "cohere": _derived(("CohereForCausalLM",)),
    "ernie4_5": Architecture(("Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM")),
    "ernie4_5_moe": Architecture(("Ernie4_5_MoeForCausalLM",)),
    "gemma": Architecture(("GemmaForCausalLM",)),
    "glm4": Architecture(("Glm4ForCausalLM",)),
    "glm4_moe": Architecture(("Glm4MoeForCausalLM",)),
    "granite": _derived(("GraniteForCausalLM",)),
    "granitemoe": _derived(("GraniteMoeForCausalLM",)),
    "llama": _derived(("LlamaForCausalLM",)),
    "minimax_m2": Architecture(("MiniMaxM2ForCausalLM",)),
    "olmo2": _derived(("Olmo2ForCausalLM",)),
    "seed_oss": Architecture(("SeedOssForCausalLM",)),
    # ... every layer or none has a window:
    "ministral3": Architecture(("Ministral3ForCausalLM",), mix=all_sliding),
    "mistral": _head_derived(("MistralForCausalLM",), mix=all_sliding),
    "mixtral": _head_derived(("MixtralForCausalLM",), mix=all_sliding),
    "phi3": _derived(("Phi3ForCausalLM",), mix=all_sliding),
    "qwen2": _head_derived(("Qwen2ForCausalLM",), mix=unused_window),
    "qwen2_moe": _head_derived(("Qwen2MoeForCausalLM",), mix=unused_window),
    "qwen2_vl_text": _head_derived((), mix=unused_window),
    "qwen2_5_vl_text": _head_derived((), mix=unused_window),
    "qwen3": Architecture(("Qwen3ForCausalLM",), mix=unused_window),
    "qwen3_moe": Architecture(("Qwen3MoeForCausalLM",), mix=unused_window),
    "qwen3_vl_text": Architecture((), mix=unused_window),
    "qwen3_vl_moe_text": Architecture((), mix=unused_window),
    # ... some layers have a window:
    "cohere2": _derived(("Cohere2ForCausalLM",), mix=partial(_some_sliding, step_key="sliding_window_pattern")),
    "gemma2": Architecture(("Gemma2ForCausalLM",), mix=partial(_some_sliding, step=2)),
    "gemma3_text": Architecture(
        ("Gemma3ForCausalLM",),
        mix=partial(_some_sliding, step_key="sliding_window_pattern", step=6),
        kv_heads=4,
        head_dim=256,
    ),
    "gpt_oss": Architecture(("GptOssForCausalLM",), mix=_some_sliding, dtype="bfloat16"),
    "olmo3": _derived(("Olmo3ForCausalLM",), mix=_some_sliding),
    # ... some layers have a state of constant size, or no cache:
    "granitemoehybrid": _derived(("GraniteMoeHybridForCausalLM",), mix=_some_linear),
    "nemotron_h": Architecture(("NemotronHForCausalLM",), mix=nemotron_h),
    "qwen3_next": _qwen_next(("Qwen3NextForCausalLM",)),
    "qwen3_5_text": _qwen_next(("Qwen3_5ForCausalLM",)),
    "qwen3_5_moe_text": _qwen_next(("Qwen3_5MoeForCausalLM",)),
    # One latent for all heads (MLA):
    "deepseek_v2": _latent(("DeepseekV2ForCausalLM",)),
    "deepseek_v3": _latent(("DeepseekV3ForCausalLM",)),
    "deepseek_v32": _latent(("DeepseekV32ForCausalLM",), mix=all_indexed, indexed=True),
    "glm4_moe_lite": _latent(("Glm4MoeLiteForCausalLM",)),
    "glm_moe_dsa": _latent(("GlmMoeDsaForCausalLM",), mix=all_indexed, indexed=True),
    "kimi_k2": _latent(("DeepseekV3ForCausalLM",)),
    "kimi_linear": _latent(("KimiLinearForCausalLM",), mix=kimi_linear),
    # Multimodal: the language model is in text_config, of Qwen2-VL and Qwen2.5-VL there or beside the rest.
    "gemma3": _wrapper(("Gemma3ForConditionalGeneration",)),
    "kimi_k25": _wrapper(("KimiK25ForConditionalGeneration", "Kimi_K25ForConditionalGeneration")),
    "kimi_k3": _wrapper(("KimiK3ForConditionalGeneration",)),
    "kimi_vl": _wrapper(("KimiVLForConditionalGeneration",)),
    "mistral3": _wrapper(("Mistral3ForConditionalGeneration",)),
    "qwen2_vl": _head_derived(("Qwen2VLForConditionalGeneration",), mix=unused_window, wraps=True),
    "qwen2_5_vl": _head_derived(("Qwen2_5_VLForConditionalGeneration",), mix=unused_window, wraps=True),
    "qwen3_vl": _wrapper(("Qwen3VLForConditionalGeneration",)),
    "qwen3_vl_moe": _wrapper(("Qwen3VLMoeForConditionalGeneration",)),
    "qwen3_5": _wrapper(("Qwen3_5ForConditionalGeneration",)),
    "qwen3_5_moe": _wrapper(("Qwen3_5MoeForConditionalGeneration",)),
}

_UNFIT: Final[Mapping[str, str]] = {
    "deepseek_v4": "its layers compress tokens at different rates",
    "gemma3n": "its last layers share the cache of earlier ones",
    "gemma4": "its windowed layers have other heads than the rest",
    "llama4": "most of its layers keep a chunk that fills and empties, not a window",
    "mimo_v2_flash": "its windowed layers have other heads than the rest",
    "minimax_m3": "its sparse layers cache an index of another kind",
}
"""Architectures whose cache the shape cannot express, with the reason."""


@dataclass(frozen=True, slots=True)
class HfModel:
    """What a `config.json` says of a model.

    Attributes:
        kv: shape of the KV cache.
        architecture: the class that serves it, first of `architectures`.
        model_type: of the whole model; of a multimodal one that is the wrapper.
        layers: of the language model, all kinds together.
        dtype: of the weights, such as `bfloat16`; empty when the file does not say and `kv_dtype` made up for it.
        hidden_size: of the language model; None when the file leaves it out.
        compute: parameters and FLOP; None where the weights of the architecture are not known, or the file lacks a
            key that only they need.
    """

    kv: KvShape
    architecture: str
    model_type: str
    layers: int
    dtype: str
    hidden_size: int | None = None
    compute: ComputeShape | None = None


def kv_shape(document: Mapping[str, Any], *, kv_dtype: str | None = None) -> KvShape:
    """The shape of the KV cache of a model.

    Args:
        document: a decoded `config.json`.
        kv_dtype: KV type as the engine calls it, such as `fp8_e4m3`; None or `auto`: the type of the weights.

    Raises:
        ConfigError: something is missing, wrong or not known; it names the key or the architecture.
    """
    return _read(document, kv_dtype).kv


def read_hf_config(path: Path, *, kv_dtype: str | None = None) -> HfModel:
    """What a `config.json` says.

    Args:
        path: of the file, which has at most 4 MiB.
        kv_dtype: as for `kv_shape`.

    Raises:
        ConfigError: the file cannot be read, or see `kv_shape`; it names the file.
    """
    return _named(load_document(path), str(path), kv_dtype)


def parse_hf_config(content: bytes, name: str) -> HfModel:
    """What a `config.json` says that has been read already.

    Args:
        content: of the file.
        name: to show in errors.

    Raises:
        ConfigError: it cannot be understood, see `kv_shape`; it names `name`.
    """
    return _named(parse_document(content, name), name, None)


def _named(document: Any, name: str, kv_dtype: str | None) -> HfModel:
    try:
        return _read(document, kv_dtype)
    except ConfigError as error:
        raise ConfigError(name, str(error)) from None


def _read(document: Any, kv_dtype: str | None) -> HfModel:
    if not isinstance(document, Mapping):
        raise ConfigError("", f"must be an object, not {shown(document)}")
    whole = Fields(document)
    model_type, architecture = _known(whole)
    classes = whole.words("architectures")
    if not classes:
        raise whole.refusal("architectures", "is required")
    text, text_type = whole.part("text_config"), model_type
    if text is not None:
        if not architecture.wraps:
            raise whole.refusal("text_config", f"is not known of model_type {model_type}")
        text_type, architecture = _known(text)
    if architecture.attention is None:
        raise whole.refusal("text_config", "is required, with the language model in it")
    fields, places = (whole, (whole,)) if text is None else (text, (text, whole))
    dtype = weight_dtype(places) or architecture.dtype
    kv = architecture.shape(fields, kv_type(kv_dtype, dtype, places))
    return HfModel(
        kv=kv,
        architecture=classes[0],
        model_type=model_type,
        layers=kv.layers,
        dtype=dtype or "",
        hidden_size=fields.count("hidden_size"),
        compute=compute_shape(text_type, fields, places, kv, dtype),
    )


def _known(fields: Fields) -> tuple[str, Architecture]:
    model_type = fields.word("model_type")
    if model_type is None:
        raise fields.refusal("model_type", "is required")
    architecture = ARCHITECTURES.get(model_type)
    if architecture is None:
        why = _UNFIT.get(model_type.removesuffix("_text"), "it is not among the architectures whose cache is known")
        raise fields.refusal("model_type", f"{shown(model_type)} is refused: {why}")
    for name in fields.words("architectures") or ():
        if name not in architecture.classes:
            raise fields.refusal("architectures", f"{shown(name)} is not known of model_type {model_type}")
    return model_type, architecture
