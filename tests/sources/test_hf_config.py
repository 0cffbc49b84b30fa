"""The KV shape from a config.json: published figures, and never a guess."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pdscope.analysis import kv
from pdscope.config.serving import KvConfig
from pdscope.errors import ConfigError
from pdscope.model.topology import Attention, KvShape
from pdscope.sources._hf_fields import MAX_BYTES
from pdscope.sources._hf_layers import LAYOUT_KEYS
from pdscope.sources.hf_config import ARCHITECTURES, HfModel, kv_shape, read_hf_config

CONFIGS = Path(__file__).parents[1] / "fixtures" / "hf_configs"
DOCUMENTATION = Path(__file__).parents[2] / "docs" / "kv-shape.md"
Document = dict[str, Any]


def load(name: str, **changes: Any) -> Document:
    """A fixture, with some keys of the language model changed."""
    document: Document = json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8"))
    text(document).update(changes)
    return document


def text(document: Document) -> Document:
    """The part that describes the language model."""
    part: Document = document.get("text_config", document)
    return part


def refusal(document: Any, kv_dtype: str | None = None) -> str:
    """The text of the error that refuses a document."""
    with pytest.raises(ConfigError) as caught:
        kv_shape(document, kv_dtype=kv_dtype)
    return str(caught.value)


# name: bytes a token of a long prompt, layers that keep it, layers, window
PUBLISHED = {
    "deepseek-v3": (70_272, 61, 61, None),
    "gemma-2-9b-it": (172_032, 21, 42, 4096),
    "gemma-3-27b-it": (81_920, 10, 62, 1024),
    "gemma-3-4b-it": (20_480, 5, 34, 1024),
    "glm-4.7-flash": (54_144, 47, 47, None),
    "gpt-oss-120b": (36_864, 18, 36, 128),
    "kimi-k2.5": (70_272, 61, 61, None),
    "kimi-k3": (27_648, 24, 93, None),
    "kimi-linear-48b": (8_064, 7, 27, None),
    "llama-3.1-70b": (327_680, 80, 80, None),
    "llama-3.1-8b": (131_072, 32, 32, None),
    "minimax-m2.7": (253_952, 62, 62, None),
    "mistral-7b-v0.1": (0, 0, 32, 4096),
    "mistral-7b-v0.3": (131_072, 32, 32, None),
    "mixtral-8x7b": (131_072, 32, 32, None),
    "nemotron-3-nano": (6_144, 6, 52, None),
    "qwen2.5-32b": (262_144, 64, 64, None),
    "qwen2.5-vl-7b": (57_344, 28, 28, None),
    "qwen3-30b-a3b": (98_304, 48, 48, None),
    "qwen3-next-80b": (24_576, 12, 48, None),
    "qwen3-vl-8b": (147_456, 36, 36, None),
    "qwen3.5-27b": (65_536, 16, 64, None),
}
ONLY_WITH_A_KV_TYPE = {"deepseek-v3.2": "bfloat16", "kimi-k2.5-nvfp4": "fp8"}
REFUSED = {"gemma-4-26b", "glm-5.2", "llama-4-scout"}
GOOD = [*((name, None) for name in PUBLISHED), *ONLY_WITH_A_KV_TYPE.items()]


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models(name: str) -> None:
    """In the type of their weights, which is bf16 everywhere."""
    size, growing, layers, window = PUBLISHED[name]
    shape = kv_shape(load(name))
    assert kv.bytes_per_token(shape) == size
    assert (kv.growing_layers(shape), shape.layers, shape.sliding_window) == (growing, layers, window)
    assert (shape.bytes_per_element, shape.scale_bytes) == (2, 0)


def test_every_fixture_is_used_and_its_origin_named() -> None:
    """A file that no test reads, or that nobody knows the origin of, goes."""
    names = {path.stem for path in CONFIGS.glob("*.json")}
    assert names == {*PUBLISHED, *ONLY_WITH_A_KV_TYPE, *REFUSED}
    readme = (CONFIGS / "README.md").read_text(encoding="utf-8")
    assert names == {name.removesuffix(".json") for name in re.findall(r"`([^`]+\.json)`", readme)} - {"config"}


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("llama-3.1-8b", KvShape(Attention.GQA, layers=32, bytes_per_element=2, kv_heads=8, head_dim=128)),
        ("deepseek-v3", KvShape(Attention.MLA, layers=61, bytes_per_element=2, latent_dim=576)),
        (
            "gpt-oss-120b",
            KvShape(
                Attention.GQA,
                layers=36,
                bytes_per_element=2,
                kv_heads=8,
                head_dim=64,
                full_attention_layers=18,
                sliding_window=128,
            ),
        ),
        (
            "qwen3-next-80b",
            KvShape(Attention.GQA, layers=48, bytes_per_element=2, kv_heads=2, head_dim=256, full_attention_layers=12),
        ),
        (
            "kimi-linear-48b",
            KvShape(Attention.MLA, layers=27, bytes_per_element=2, latent_dim=576, full_attention_layers=7),
        ),
    ],
)
def test_whole_shapes(name: str, shape: KvShape) -> None:
    """Nothing else is set."""
    assert kv_shape(load(name)) == shape


@pytest.mark.parametrize(
    ("name", "tokens", "size"),
    [
        ("mistral-7b-v0.1", 1000, 131_072 * 1000),
        ("mistral-7b-v0.1", 100_000, 131_072 * 4096),
        ("gpt-oss-120b", 100_000, 2048 * (18 * 100_000 + 18 * 128)),
        ("gemma-3-27b-it", 100_000, 8192 * (10 * 100_000 + 52 * 1024)),
        ("qwen3-next-80b", 100_000, 2048 * 12 * 100_000),
    ],
)
def test_a_prompt_of_a_hybrid_model(name: str, tokens: int, size: int) -> None:
    """Layers with a window stop at it; a constant state is not counted."""
    assert kv.cache_bytes(kv_shape(load(name)), tokens) == size


# -- never a guess


REQUIRED = {
    "deepseek-v3": "architectures model_type torch_dtype num_hidden_layers kv_lora_rank qk_rope_head_dim",
    "deepseek-v3.2": "num_hidden_layers kv_lora_rank qk_rope_head_dim index_head_dim",
    "gemma-2-9b-it": "torch_dtype num_hidden_layers num_key_value_heads head_dim sliding_window",
    "gemma-3-27b-it": "num_hidden_layers sliding_window model_type",
    "gpt-oss-120b": "num_hidden_layers num_key_value_heads head_dim sliding_window layer_types",
    "kimi-linear-48b": "num_hidden_layers kv_lora_rank qk_rope_head_dim linear_attn_config",
    "llama-3.1-8b": "architectures model_type torch_dtype num_hidden_layers num_attention_heads hidden_size",
    "minimax-m2.7": "num_hidden_layers num_key_value_heads head_dim",
    "mistral-7b-v0.1": "num_hidden_layers num_key_value_heads num_attention_heads hidden_size sliding_window",
    "mistral-7b-v0.3": "sliding_window",
    "nemotron-3-nano": "num_hidden_layers num_key_value_heads head_dim hybrid_override_pattern",
    "qwen2.5-32b": "num_hidden_layers num_key_value_heads num_attention_heads hidden_size",
    "qwen3-30b-a3b": "num_hidden_layers num_key_value_heads head_dim",
    "qwen3-next-80b": "num_hidden_layers num_key_value_heads head_dim full_attention_interval",
}


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, keys in REQUIRED.items() for key in keys.split()])
def test_a_required_key_is_named_when_it_is_missing(name: str, key: str) -> None:
    """And the way out is."""
    document = load(name)
    del text(document)[key]
    error = refusal(document, ONLY_WITH_A_KV_TYPE.get(name))
    assert key in error
    assert "required" in error
    assert "model.kv" in error


@pytest.mark.parametrize(("name", "kv_dtype"), GOOD)
def test_without_any_key_the_shape_is_the_same_or_refused(name: str, kv_dtype: str | None) -> None:
    """Only heads that the architecture itself defines for that case may differ."""
    whole = kv_shape(load(name), kv_dtype=kv_dtype)
    for key in text(load(name)):
        document = load(name)
        architecture = ARCHITECTURES[text(document)["model_type"]]
        defined = {"num_key_value_heads": architecture.kv_heads, "head_dim": architecture.head_dim}
        del text(document)[key]
        try:
            shape = kv_shape(document, kv_dtype=kv_dtype)
        except ConfigError as error:
            assert key in str(error)  # noqa: PT017 - either outcome is fine
        else:
            assert shape == whole or defined.get(key) is not None, key


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("llama-3.1-8b", "num_hidden_layers"),
        ("llama-3.1-8b", "num_key_value_heads"),
        ("llama-3.1-8b", "num_attention_heads"),
        ("llama-3.1-8b", "hidden_size"),
        ("llama-3.1-8b", "head_dim"),
        ("deepseek-v3", "kv_lora_rank"),
        ("deepseek-v3", "qk_rope_head_dim"),
        ("deepseek-v3", "hidden_size"),
        ("gemma-3-27b-it", "sliding_window"),
        ("mistral-7b-v0.1", "sliding_window"),
        ("qwen3-next-80b", "full_attention_interval"),
    ],
)
@pytest.mark.parametrize("value", [True, False, 0, -8, 8.0, "8", [8], {}, 2**31, 10**400])
def test_only_whole_numbers_from_one_count(name: str, key: str, value: object) -> None:
    """A boolean is none, and what no model can have is a mistake."""
    assert key in refusal(load(name, **{key: value}))


@pytest.mark.parametrize("key", sorted(LAYOUT_KEYS))
def test_a_key_that_changes_another_cache_is_refused(key: str) -> None:
    """Whoever writes it into a Llama has another model."""
    assert refusal(load("llama-3.1-8b", **{key: 7})).startswith(f"{key}: is 7, ")
    assert refusal(load("llama-3.1-8b", **{key: ["other"]})).startswith(f"{key}: ")
    for harmless in (None, False, 0, [], *LAYOUT_KEYS[key], [*LAYOUT_KEYS[key]]):
        assert kv_shape(load("llama-3.1-8b", **{key: harmless})) == kv_shape(load("llama-3.1-8b"))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
KEYS = sorted({*LAYOUT_KEYS, *(key for keys in REQUIRED.values() for key in keys.split()), "dtype", "text_config"})


@given(st.sampled_from(GOOD), st.dictionaries(st.sampled_from([*KEYS, "quantization_config"]), json_values, max_size=4))
def test_any_document_is_read_or_refused(good: tuple[str, str | None], changes: Document) -> None:
    """There is no other error, and what is read can be reckoned with."""
    name, kv_dtype = good
    for document in (load(name, **changes), load(name) | changes):
        try:
            shape = kv_shape(document, kv_dtype=kv_dtype)
        except ConfigError as error:
            assert str(error)  # noqa: PT017 - either outcome is fine
        else:
            assert 0 <= kv.growing_layers(shape) <= shape.layers
            assert kv.cache_bytes(shape, 1000) >= kv.bytes_per_token(shape)


@given(json_values)
def test_anything_else_is_refused(document: Any) -> None:
    """Also what is no object."""
    assert refusal(document)


# -- architectures


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (load("llama-3.1-8b", model_type="newest"), ["model_type", "'newest'"]),
        (load("llama-3.1-8b", model_type=7), ["model_type", "text"]),
        (load("llama-3.1-8b", architectures=["LlamaForCausalLM2"]), ["architectures", "'LlamaForCausalLM2'", "llama"]),
        (load("llama-3.1-8b", architectures=["LlamaForCausalLM", "Other"]), ["architectures", "'Other'"]),
        (load("llama-3.1-8b", architectures=[]), ["architectures", "required"]),
        (load("llama-3.1-8b", architectures="LlamaForCausalLM"), ["architectures", "list"]),
        (load("llama-3.1-8b", text_config={}), ["text_config", "llama"]),
        (load("llama-3.1-8b", model_type="gemma3", architectures=["Gemma3ForConditionalGeneration"]), ["text_config"]),
        (load("kimi-k2.5", architectures=["Other"]), ["text_config.architectures", "'Other'"]),
        (load("kimi-k2.5", model_type="kimi_k25", architectures=None), ["text_config"]),
        (load("kimi-k2.5", model_type="newest"), ["text_config.model_type", "'newest'"]),
        (load("llama-4-scout"), ["model_type", "'llama4'", "chunk"]),
        (load("gemma-4-26b"), ["model_type", "'gemma4'", "heads"]),
    ],
)
def test_unknown_architectures_are_refused(document: Document, words: list[str]) -> None:
    """By name, with the way out."""
    error = refusal(document)
    assert [word for word in [*words, "model.kv"] if word not in error] == []


def test_the_documentation_names_every_architecture() -> None:
    """One row is added with each."""
    named = set(re.findall(r"`(\w+)`", DOCUMENTATION.read_text(encoding="utf-8")))
    assert sorted(ARCHITECTURES.keys() - named) == []


def test_the_documentation_says_what_to_write() -> None:
    """DeepSeek-V3.2 as it is read, and in fp8 656 or 576 bytes of latent beside 132 of index."""
    lines = re.findall(r"^kv: ({.*})", DOCUMENTATION.read_text(encoding="utf-8"), flags=re.MULTILINE)
    shapes = [KvConfig.model_validate(yaml.safe_load(line)).to_model() for line in lines]
    assert shapes[0] == kv_shape(load("deepseek-v3.2"), kv_dtype="bf16")
    assert [kv.layer_bytes_per_token(shape) for shape in shapes] == [1152 + 132, 656 + 132, 576 + 132, 4096]


LAYERS = 8
MIXES: list[Document] = [
    {},
    {"sliding_window": None},
    {"sliding_window": 512, "layer_types": ["sliding_attention", "full_attention"] * 4},
    {"layer_types": ["mamba", "attention"] * 4},
    {"full_attention_interval": 4},
    {"hybrid_override_pattern": "M*M*M-E*"},
    {"layers_block_type": ["mamba", "attention", "moe", "mlp"] * 2},
    {"linear_attn_config": {"kda_layers": [1, 2, 3, 5, 6, 7], "full_attn_layers": [8, 4]}},
]


@pytest.mark.parametrize("model_type", sorted(ARCHITECTURES))
def test_every_entry_of_the_table_reads_a_model(model_type: str) -> None:
    """In one of the ways to tell the layers apart."""
    architecture = ARCHITECTURES[model_type]
    if architecture.attention is None:
        wrapper = {"model_type": model_type, "architectures": list(architecture.classes), "dtype": "bfloat16"}
        assert kv_shape(wrapper | {"text_config": load("llama-3.1-8b")}) == kv_shape(load("llama-3.1-8b"))
        return
    document = {
        "model_type": model_type,
        "dtype": "float16",
        "hidden_size": 256,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "kv_lora_rank": 96 if architecture.attention is Attention.MLA else None,
        "qk_rope_head_dim": 32,
        "v_head_dim": 64 if architecture.attention is Attention.MLA else None,
        "index_head_dim": 128,
    }
    if architecture.classes:
        document["architectures"] = list(architecture.classes)
    else:
        document = {
            "model_type": model_type.removesuffix("_text"),
            "architectures": list(ARCHITECTURES[model_type.removesuffix("_text")].classes),
            "text_config": document,
        }
    shapes = []
    for mix in MIXES:
        candidate = json.loads(json.dumps(document))
        text(candidate).update(mix)
        try:
            shapes.append(kv_shape(candidate, kv_dtype="bf16"))
        except ConfigError:
            continue
    assert shapes
    layer_bytes = 128 * 2 + (132 if architecture.indexed else 0) if architecture.attention is Attention.MLA else 512
    assert {(shape.layers, kv.layer_bytes_per_token(shape)) for shape in shapes} == {(LAYERS, layer_bytes)}


def test_a_language_model_beside_or_inside_the_rest() -> None:
    """Qwen2.5-VL was published with its dimensions at the top, and is saved with a text_config now."""
    flat = load("qwen2.5-vl-7b")
    nested = {key: flat.pop(key) for key in ("architectures", "model_type", "torch_dtype")}
    nested["text_config"] = flat | {"model_type": "qwen2_5_vl_text"}
    assert kv_shape(nested) == kv_shape(load("qwen2.5-vl-7b"))


# -- heads


def test_heads_that_are_left_out() -> None:
    """Llama has as many KV heads as query heads; of Gemma 3 the class says it, whatever would follow from its size."""
    llama = load("llama-3.1-8b", num_key_value_heads=None)
    assert kv_shape(llama).kv_heads == 32
    gemma = kv_shape(load("gemma-3-4b-it"))
    assert (gemma.kv_heads, gemma.head_dim) == (4, 256)


def test_a_written_head_dim_wins() -> None:
    """Mistral Nemo has 32 heads of 128 in 5,120."""
    nemo = load("mistral-7b-v0.3", hidden_size=5120, num_hidden_layers=40, head_dim=128)
    assert kv_shape(nemo).head_dim == 128
    assert kv_shape(load("mistral-7b-v0.3", hidden_size=5120, head_dim=None)).head_dim == 160


def test_heads_that_do_not_divide_the_size() -> None:
    """The quotient would be no dimension."""
    error = refusal(load("llama-3.1-8b", hidden_size=4097))
    assert error.startswith("head_dim: is required, since 32 heads do not divide 4097")


# -- layers


@pytest.mark.parametrize(
    ("document", "key"),
    [
        (load("qwen2.5-32b", use_sliding_window=True), "use_sliding_window"),
        (load("gpt-oss-120b", num_hidden_layers=35), "layer_types"),
        (load("gpt-oss-120b", layer_types=["sliding_attention", "new"] * 18), "layer_types"),
        (load("gpt-oss-120b", layer_types=["sliding_attention", 1] * 18), "layer_types"),
        (load("gpt-oss-120b", layer_types=["linear_attention", "full_attention"] * 18), "layer_types"),
        (load("gpt-oss-120b", sliding_window=None), "sliding_window"),
        (load("qwen3.5-27b", full_attention_interval=5), "text_config.full_attention_interval"),
        (load("qwen3-30b-a3b", layer_types=["sliding_attention"] * 48), "layer_types"),
        (load("mistral-7b-v0.1", layer_types=["sliding_attention"] * 32), "layer_types"),
        (load("minimax-m2.7", attn_type_list=[1, 0] * 31), "attn_type_list"),
        (load("gemma-3-27b-it", use_bidirectional_attention=True), "text_config.use_bidirectional_attention"),
        (load("nemotron-3-nano", hybrid_override_pattern="M*" * 25 + "MX"), "hybrid_override_pattern"),
        (load("nemotron-3-nano", hybrid_override_pattern="M*"), "hybrid_override_pattern"),
        (load("kimi-linear-48b", linear_attn_config=[]), "linear_attn_config"),
        (load("kimi-linear-48b", linear_attn_config={"kda_layers": [1]}), "linear_attn_config.full_attn_layers"),
        (load("kimi-linear-48b", linear_attn_config={"full_attn_layers": [1]}), "linear_attn_config.kda_layers"),
        (
            load("kimi-linear-48b", linear_attn_config={"full_attn_layers": [1], "kda_layers": list(range(27))}),
            "linear_attn_config.full_attn_layers",
        ),
        (load("deepseek-v3", index_topk=2048), "index_topk"),
    ],
)
def test_layers_of_an_uncertain_kind_are_refused(document: Document, key: str) -> None:
    """Where programs that read the file would differ, or it contradicts itself."""
    assert refusal(document).startswith(f"{key}: ")


def test_layers_listed_or_counted() -> None:
    """Every sixth of Gemma 3, as its files may say in three ways; every fourth of Qwen3-Next in two."""
    gemma = kv_shape(load("gemma-3-27b-it"))
    kinds = ["sliding_attention" if (layer + 1) % 6 else "full_attention" for layer in range(62)]
    assert kv_shape(load("gemma-3-27b-it", sliding_window_pattern=6)) == gemma
    assert kv_shape(load("gemma-3-27b-it", layer_types=kinds)) == gemma
    assert kv_shape(load("gemma-3-27b-it", sliding_window_pattern=31)).full_attention_layers == 2
    kinds = ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 12
    listed = load("qwen3-next-80b", layer_types=kinds, full_attention_interval=None)
    assert kv_shape(listed) == kv_shape(load("qwen3-next-80b"))


def test_all_layers_full_after_all() -> None:
    """Then there is no window either."""
    shape = kv_shape(load("gpt-oss-120b", layer_types=["full_attention"] * 36))
    assert (shape.full_attention_layers, shape.sliding_window) == (None, None)


# -- types


@pytest.mark.parametrize(
    ("name", "kv_dtype", "size"),
    [
        ("llama-3.1-8b", None, 131_072),
        ("llama-3.1-8b", "auto", 131_072),
        ("llama-3.1-8b", "bf16", 131_072),
        ("llama-3.1-8b", "torch.float16", 131_072),
        ("llama-3.1-8b", "float32", 262_144),
        ("llama-3.1-8b", "FP8", 65_536),
        ("llama-3.1-8b", "fp8_e4m3", 65_536),
        ("llama-3.1-8b", "fp8_e5m2", 65_536),
        ("llama-3.1-8b", "torch.float8_e4m3fn", 65_536),
        ("llama-3.1-8b", "mxfp8", 65_536 + 2048),
        ("llama-3.1-8b", "nvfp4", 32_768 + 4096),
        ("llama-3.1-8b", "fp4_mx_block16", 32_768 + 4096),
        ("deepseek-v3", "fp8_e4m3", 35_136),
        ("deepseek-v3", "nvfp4", 61 * (288 + 36)),
        ("kimi-k2.5-nvfp4", "fp8", 35_136),
        ("kimi-k2.5-nvfp4", "bfloat16", 70_272),
        ("gpt-oss-120b", "fp8", 18_432),
    ],
)
def test_kv_types_of_engines(name: str, kv_dtype: str | None, size: float) -> None:
    """With their scales."""
    assert kv.bytes_per_token(kv_shape(load(name), kv_dtype=kv_dtype)) == size


@pytest.mark.parametrize("kv_dtype", ["", "int8", "fp8_per_token_head", "turboquant_3bit_nc", "fp8_ds_mla", "float64"])
def test_kv_types_of_unknown_size_are_refused(kv_dtype: str) -> None:
    """Their scales lie where only the engine knows."""
    error = refusal(load("llama-3.1-8b"), kv_dtype)
    assert error.startswith("kv_dtype: ")
    assert repr(kv_dtype) in error


@pytest.mark.parametrize(
    ("document", "kv_dtype"),
    [(load("llama-3.1-8b", head_dim=72), "nvfp4"), (load("deepseek-v3"), "mxfp8")],
)
def test_scales_of_odd_rows_are_refused(document: Document, kv_dtype: str) -> None:
    """Nobody wrote down how they are padded."""
    assert refusal(document, kv_dtype).startswith("kv_dtype: ")


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("bfloat16", 2), ("float16", 2), ("torch.bfloat16", 2)])
@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
def test_types_of_weights(key: str, dtype: str, size: int) -> None:
    """Under either name, in the language model or around it."""
    flat = load("llama-3.1-8b", **{"torch_dtype": None, key: dtype})
    assert kv_shape(flat).bytes_per_element == size
    nested = load("qwen3-vl-8b", dtype=None)
    assert "dtype" in refusal(nested)
    assert kv_shape(nested | {key: dtype}).bytes_per_element == size


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (load("llama-3.1-8b", dtype="float16"), ["torch_dtype", "bfloat16", "float16"]),
        (load("qwen3-vl-8b") | {"torch_dtype": "float32"}, ["torch_dtype", "float32", "bfloat16"]),
        (load("llama-3.1-8b", torch_dtype="float8_e4m3fn"), ["dtype", "float8_e4m3fn"]),
        (load("llama-3.1-8b", torch_dtype=2), ["torch_dtype", "text"]),
        (load("kimi-k2.5-nvfp4"), ["quantization_config.kv_cache_scheme"]),
        (load("llama-3.1-8b", compression_config={"kv_cache_scheme": {}, "kv_cache_quant_algo": "FP8"}), ["algo"]),
        (load("llama-3.1-8b", quantization_config="fp8"), ["quantization_config", "object"]),
    ],
)
def test_uncertain_types_are_refused(document: Document, words: list[str]) -> None:
    """Contradicting, of no KV, or quantised if the engine likes."""
    error = refusal(document)
    assert [word for word in [*words, "model.kv"] if word not in error] == []


def test_sparse_attention_caches_an_index() -> None:
    """DeepSeek-V3.2 in bf16: 1,152 bytes of latent and 132 of index a token and layer."""
    shape = kv_shape(load("deepseek-v3.2"), kv_dtype="bf16")
    assert (shape.attention, shape.latent_dim, shape.scale_bytes) == (Attention.MLA, 576, 132)
    assert kv.bytes_per_token(shape) == 61 * (1152 + 132)


@pytest.mark.parametrize("kv_dtype", [None, "auto", "fp8_e4m3", "nvfp4", "float16"])
def test_sparse_attention_in_another_type_is_refused(kv_dtype: str | None) -> None:
    """What auto is depends on the device, and fp8 has two layouts."""
    assert refusal(load("deepseek-v3.2"), kv_dtype).startswith("kv_dtype: must be bfloat16")


@pytest.mark.parametrize(
    ("document", "key"),
    [
        (load("glm-5.2"), "index_topk_freq"),
        (load("glm-5.2", index_topk_freq=None), "indexer_types"),
        (load("deepseek-v3.2", index_head_dim=100), "index_head_dim"),
        (load("deepseek-v3.2", index_kpool=4), "index_kpool"),
        (load("deepseek-v3.2", layer_types=["linear_attention"] * 61), "layer_types"),
    ],
)
def test_indices_of_another_kind_are_refused(document: Document, key: str) -> None:
    """Shared between layers, pooled, or in odd blocks."""
    assert refusal(document, "bfloat16").startswith(f"{key}: ")


# -- files


def test_a_file() -> None:
    """What a model is, beside its shape."""
    assert read_hf_config(CONFIGS / "llama-3.1-8b.json") == HfModel(
        kv=kv_shape(load("llama-3.1-8b")),
        architecture="LlamaForCausalLM",
        model_type="llama",
        layers=32,
        dtype="bfloat16",
        hidden_size=4096,
    )
    kimi = read_hf_config(CONFIGS / "kimi-k2.5-nvfp4.json", kv_dtype="fp8")
    assert (kimi.model_type, kimi.architecture) == ("kimi_k25", "KimiK25ForConditionalGeneration")
    assert (kimi.layers, kimi.dtype, kimi.hidden_size, kimi.kv.bytes_per_element) == (61, "bfloat16", 7168, 1)


def test_what_a_file_need_not_say(tmp_path: Path) -> None:
    """The engine's KV type stands in for that of the weights, and MLA needs no size; gpt-oss is in bf16."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(load("deepseek-v3", torch_dtype=None, hidden_size=None)), encoding="utf-8")
    model = read_hf_config(path, kv_dtype="fp8")
    assert (model.dtype, model.hidden_size) == ("", None)
    assert read_hf_config(CONFIGS / "gpt-oss-120b.json").dtype == "bfloat16"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["not JSON"]),
        (b"{", ["not JSON"]),
        (b'{"a": "\xff"}', ["not JSON"]),
        (b"[" * 100_000, ["not JSON"]),
        (b'{"a": ' + b"9" * 5000 + b"}", ["not JSON"]),
        (b"[]", ["object"]),
        (b"null", ["object"]),
        (b'{"model_type": "newest", "architectures": ["New"]}', ["model_type", "'newest'"]),
        (b" " * (MAX_BYTES + 1), ["4,194,304"]),
    ],
)
def test_bad_files_are_named(tmp_path: Path, content: bytes, words: list[str]) -> None:
    """With what is wrong in them."""
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_hf_config(path)
    assert caught.value.path == str(path)
    assert [word for word in [str(path), *words] if word not in str(caught.value)] == []


@pytest.mark.parametrize("place", [lambda folder: folder, lambda folder: folder / "none.json"])
def test_files_that_cannot_be_read_are_named(tmp_path: Path, place: Callable[[Path], Path]) -> None:
    """A folder, or nothing at all."""
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        read_hf_config(place(tmp_path))
    assert caught.value.path == str(place(tmp_path))


@pytest.mark.parametrize("prefix", [b"", b"\xef\xbb\xbf"])
def test_files_as_programs_write_them(tmp_path: Path, prefix: bytes) -> None:
    """Nemotron has an Infinity, which is no JSON; some editors write a mark of byte order."""
    document = load("nemotron-3-nano", time_step_limit=[0.0, float("inf")])
    path = tmp_path / "config.json"
    path.write_bytes(prefix + json.dumps(document).encode())
    assert b"Infinity" in path.read_bytes()
    assert read_hf_config(path).kv == kv_shape(load("nemotron-3-nano"))
