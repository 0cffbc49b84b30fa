"""What a token costs, from a config.json: the published totals of many models, and None rather than a guess."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pdscope.model.topology import ComputeShape
from pdscope.sources._hf_stored import Groups, bytes_per_parameter
from pdscope.sources._hf_weights import ARCHITECTURES as COUNTED
from pdscope.sources.hf_config import ARCHITECTURES, HfModel, read_hf_config

FIXTURES = Path(__file__).parents[1] / "fixtures"
MODELS: dict[str, Any] = yaml.safe_load((FIXTURES / "hf_compute.yml").read_text(encoding="utf-8"))
Document = dict[str, Any]


def document(name: str, **changes: Any) -> Document:
    """A published config.json with the keys that fix its weights; `...` takes one out."""
    whole: Document = json.loads((FIXTURES / "hf_configs" / f"{name}.json").read_text(encoding="utf-8"))
    text = whole.get("text_config", whole)
    text.update(MODELS.get(name, {}).get("keys", {}))
    text.update(changes)
    for key in [key for key, value in text.items() if value is ...]:
        del text[key]
    return whole


def read(content: Document, folder: Path) -> HfModel:
    """What is read of it, as a file."""
    path = folder / "config.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return read_hf_config(path, kv_dtype="bfloat16")


def compute(content: Document, folder: Path) -> ComputeShape:
    """The arithmetic that must be there."""
    found = read(content, folder).compute
    assert found is not None
    return found


def embedding(content: Document) -> int:
    """Parameters of the input embedding, which a shape leaves out and most publishers count."""
    text = content.get("text_config", content)
    return int(text.get("vocab_size", 262_208) * text["hidden_size"])


@pytest.mark.parametrize("name", MODELS)
def test_published_totals(name: str, tmp_path: Path) -> None:
    """Within 1 % and the precision of the print; exactly where the weights were counted."""
    content, published = document(name), MODELS[name]["published"]
    shape = compute(content, tmp_path)
    total = shape.parameters + (0 if published.get("tied") else embedding(content))
    precision = MODELS[name].get("total_precision", published["precision"])
    assert total / 1e9 == pytest.approx(published["total"], abs=precision / 2 + published["total"] / 100)
    if "exact" in MODELS[name]:
        assert total == MODELS[name]["exact"]
    if "active" in published:
        active = (shape.active_parameters + published["embeddings"] * embedding(content)) / 1e9
        assert active == pytest.approx(published["active"], abs=published["precision"] / 2 + published["active"] / 100)


@pytest.mark.parametrize("name", MODELS)
def test_active_parameters_are_those_of_the_chosen_experts(name: str, tmp_path: Path) -> None:
    shape = compute(document(name), tmp_path)
    if not shape.experts:
        assert (shape.active_parameters, shape.routed_parameters) == (shape.parameters, 0)
        return
    idle = shape.routed_parameters * (1 - shape.experts_per_token / shape.experts)
    assert shape.active_parameters == pytest.approx(shape.parameters - idle)
    assert 0 < shape.experts_per_token < shape.experts
    assert shape.routed_parameters < shape.parameters


@pytest.mark.parametrize(
    ("name", "full", "windowed", "window"),
    [
        # layers x 2 x heads x (dimension of a key + of a value)
        ("llama-3.1-8b", 32 * 2 * 32 * 256, 0, 0),
        ("mistral-7b-v0.1", 0, 32 * 2 * 32 * 256, 4096),
        ("gemma-2-9b-it", 21 * 2 * 16 * 512, 21 * 2 * 16 * 512, 4096),
        ("gemma-3-4b-it", 5 * 2 * 8 * 512, 29 * 2 * 8 * 512, 1024),
        ("gpt-oss-120b", 18 * 2 * 64 * 128, 18 * 2 * 64 * 128, 128),
        ("deepseek-v3", 61 * 2 * 128 * (192 + 128), 0, 0),
        ("qwen3-next-80b", 12 * 2 * 16 * 512, 0, 0),
        ("qwen3.5-27b", 16 * 2 * 24 * 512, 0, 0),
    ],
)
def test_flop_of_the_attention(name: str, full: int, windowed: int, window: int, tmp_path: Path) -> None:
    shape = compute(document(name), tmp_path)
    assert (shape.attention_flop, shape.window_attention_flop, shape.window_tokens) == (full, windowed, window)


def test_sparse_attention_looks_at_every_index_and_attends_to_a_window(tmp_path: Path) -> None:
    """DeepSeek-V3.2 is V3 with an index in each layer."""
    shape = compute(document("deepseek-v3.2", **MODELS["deepseek-v3"]["keys"]), tmp_path)
    before = compute(document("deepseek-v3"), tmp_path)
    assert shape.attention_flop == 61 * 2 * 64 * 128
    assert (shape.window_attention_flop, shape.window_tokens) == (before.attention_flop, 2048)
    index = 1536 * 64 * 128 + 7168 * 128 + 7168 * 64 + 2 * 128
    assert shape.parameters - before.parameters == 61 * index


def test_shape_of_experts(tmp_path: Path) -> None:
    """Of DeepSeek-V3: 58 layers with 256 experts of three matrices, and one that every token passes through."""
    shape = compute(document("deepseek-v3"), tmp_path)
    expert = 3 * 7168 * 2048
    assert (shape.experts, shape.experts_per_token, shape.routed_parameters) == (256, 8, 58 * 256 * expert)
    alone = compute(document("deepseek-v3", n_shared_experts=0), tmp_path)
    assert shape.parameters - alone.parameters == 58 * expert


@pytest.mark.parametrize(
    ("name", "changes", "sparse"),
    [
        ("qwen3-30b-a3b", {"decoder_sparse_step": 2}, 24),
        ("qwen3-30b-a3b", {"mlp_only_layers": [0, 5]}, 46),
        ("deepseek-v3", {"moe_layer_freq": 2}, 29),
        ("glm-4.7-flash", {"mlp_layer_types": ["dense"] * 7 + ["sparse"] * 40}, 40),
    ],
)
def test_experts_in_some_layers_only(name: str, changes: Document, sparse: int, tmp_path: Path) -> None:
    content = document(name, **changes)
    expert = 3 * content["hidden_size"] * content["moe_intermediate_size"]
    shape = compute(content, tmp_path)
    assert shape.routed_parameters == sparse * shape.experts * expert


def test_the_head_is_read_whether_or_not_it_is_tied(tmp_path: Path) -> None:
    tied, untied = (compute(document("llama-3.1-8b", tie_word_embeddings=tied), tmp_path) for tied in (True, False))
    assert tied == untied


def test_biases_of_the_attention(tmp_path: Path) -> None:
    """A Llama with them has one for each row of four matrices; Qwen2 always has those of three."""
    plain, biased = (compute(document("llama-3.1-8b", attention_bias=b), tmp_path) for b in (False, True))
    assert biased.parameters - plain.parameters == 32 * (4096 + 2 * 1024 + 4096)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("llama-3.1-8b", {"vocab_size": ...}),
        ("llama-3.1-8b", {"intermediate_size": ...}),
        ("llama-3.1-8b", {"intermediate_size": [1, 2]}),
        ("llama-3.1-8b", {"intermediate_size": -1}),
        ("llama-3.1-8b", {"mlp_bias": True}),
        ("llama-3.1-8b", {"use_qk_norm": True}),
        ("mixtral-8x7b", {"num_experts_per_tok": ...}),
        ("mixtral-8x7b", {"num_experts_per_tok": 9}),
        ("mixtral-8x7b", {"attention_bias": True}),
        ("deepseek-v3", {"first_k_dense_replace": ...}),
        ("deepseek-v3", {"attention_bias": True}),
        ("deepseek-v3", {"moe_layer_freq": 0}),
        ("deepseek-v3", {"mlp_layer_types": ["dense"]}),
        ("deepseek-v3", {"mlp_layer_types": [["dense"]] * 61}),
        ("qwen3.5-27b", {"attn_output_gate": False}),
        ("qwen3.5-27b", {"linear_num_value_heads": ...}),
        ("qwen3-30b-a3b", {"mlp_only_layers": 3}),
        ("llama-3.1-8b", {"quantization_config": "fp8"}),
        ("llama-3.1-8b", {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}),
        ("llama-3.1-8b", {"quantization_config": {"quant_algo": "MIXED_PRECISION"}}),
        ("nemotron-3-nano", {}),
        ("kimi-linear-48b", {}),
    ],
)
def test_what_is_not_known_is_none_and_refuses_no_file(name: str, changes: Document, tmp_path: Path) -> None:
    """The shape of the cache is there all the same."""
    model = read(document(name, **changes), tmp_path)
    assert model.compute is None
    assert model.kv.layers


def quantised(name: str, folder: Path, **quantisation: Any) -> float:
    """Bytes of a parameter."""
    return compute(document(name, quantization_config=quantisation), folder).bytes_per_parameter


def group(**weights: Any) -> Document:
    """Of compressed-tensors."""
    return {"config_groups": {"group_0": {"weights": weights}}, "quant_method": "compressed-tensors"}


@pytest.mark.parametrize(
    ("quantisation", "packed"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 1 + 4 / 16384),
        ({"quant_method": "fp8"}, 1),
        ({"quant_method": "fbgemm_fp8"}, 1),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 0.5 + 2.5 / 128),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, 0.5 + 2.5 / 64),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 1),
        (group(num_bits=4, group_size=128, type="int", symmetric=True), 0.5 + 2 / 128),
        (group(num_bits=4, group_size=32, type="int", symmetric=False), 0.5 + 2.5 / 32),
        (group(num_bits=8, group_size=None, type="float"), 1),
        (group(num_bits=4, group_size=16, type="float"), 0.5625),
        (group(num_bits=4, group_size=32, type="float"), 0.53125),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 0.5625),
        ({"quant_algo": "FP8", "producer": {"name": "modelopt"}}, 1),
    ],
)
def test_kinds_of_quantisation(quantisation: Document, packed: float, tmp_path: Path) -> None:
    """All matrices but the output head; norms stay as they are."""
    shape = compute(document("llama-3.1-8b"), tmp_path)
    left = 4096 * 128256 + (2 * 32 + 1) * 4096
    expected = (packed * (shape.parameters - left) + 2 * left) / shape.parameters
    assert quantised("llama-3.1-8b", tmp_path, **quantisation) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_without_quantisation_the_type_decides(dtype: str, tmp_path: Path) -> None:
    stored = compute(document("llama-3.1-8b", torch_dtype=dtype), tmp_path).bytes_per_parameter
    assert stored == {"float32": 4, "bfloat16": 2, "float16": 2}[dtype]


@pytest.mark.parametrize(
    ("name", "gigabytes", "tolerance"),
    [
        ("gpt-oss-120b", 65.3, 0.01),  # 60.8 GiB by the gpt-oss model card; from memory
        ("kimi-k2.5", 595, 0.01),  # of the published checkpoint; from memory
        ("llama-3.1-8b", 16.06, 0.001),
    ],
)
def test_sizes_of_checkpoints(name: str, gigabytes: float, tolerance: float, tmp_path: Path) -> None:
    """Experts in 4 bits or none, the rest in bf16, the input embedding too."""
    content = document(name)
    shape = compute(content, tmp_path)
    size = shape.parameters * shape.bytes_per_parameter + 2 * embedding(content)
    assert size / 1e9 == pytest.approx(gigabytes, rel=tolerance)


GROUPS = Groups(attention=10.0, dense=20.0, shared=30.0, routed=100.0, head=5.0, other=1.0)


@pytest.mark.parametrize(
    ("ignored", "left"),
    [
        ([], 0),
        (["lm_head", "model.layers.0.mlp.gate", "model.layers.1.self_attn.indexer.k_norm"], 0),
        (["re:.*self_attn.*"], 10),
        (["model.layers.*.self_attn"], 10),
        (["model.layers.0.self_attn*", "language_model.model.layers.3.self_attn*", "model.layers.9.self_attn*"], 5),
        (["re:.*shared_experts.*"], 30),
        ([r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"], 20),
        ([1, None], 0),
    ],
)
@pytest.mark.parametrize("key", ["ignore", "modules_to_not_convert", "exclude_modules"])
def test_modules_that_a_quantisation_leaves_alone(key: str, ignored: list[Any], left: float) -> None:
    """Of four layers: by a pattern for all, or layer by layer."""
    stored = bytes_per_parameter(GROUPS, "bfloat16", {"quant_method": "fp8", key: ignored}, 4)
    assert stored == pytest.approx((160 - left + 2 * (6 + left)) / 166)


@given(
    st.dictionaries(
        st.sampled_from(
            ["quant_method", "quant_algo", "bits", "group_size", "weight_block_size", "config_groups", "ignore"]
        ),
        st.none()
        | st.integers(-2, 9)
        | st.sampled_from(["fp8", "awq", "mxfp4", "compressed-tensors", "NVFP4", "x"])
        | st.lists(st.integers(-1, 2), max_size=3)
        | st.fixed_dictionaries(
            {"g": st.none() | st.fixed_dictionaries({"weights": st.none() | st.just({"num_bits": 4})})}
        ),
    )
)
def test_any_quantisation_is_a_size_or_unknown(quantisation: Document) -> None:
    stored = bytes_per_parameter(GROUPS, "bfloat16", quantisation, 4)
    assert stored is None or 0.1 < stored <= 6


def test_counted_architectures_are_known_ones_and_documented() -> None:
    """The table of docs/compute-shape.md is complete."""
    assert COUNTED.keys() <= ARCHITECTURES.keys()
    page = (FIXTURES.parents[1] / "docs" / "compute-shape.md").read_text(encoding="utf-8")
    wrappers = {name for name, architecture in ARCHITECTURES.items() if architecture.attention is None}
    for name in COUNTED:
        assert f"`{name}`" in page
    for name in ARCHITECTURES.keys() - COUNTED.keys() - wrappers:
        assert f"`{name}`" in page.partition("Not counted")[2]
