"""Shapes of the models that can be simulated, and what one token of them costs in operations and bytes.

Written down here from the models' published configurations, apart from the tables that the diagnosis uses: the
simulator must not agree with the rules because they read the same line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What a pass over some tokens has to compute and to read.

    Attributes:
        name: as a server would print it.
        layers: transformer layers.
        parameters: all of them; `active_parameters` are those that one token passes through.
        weight_element_bytes: 2 for bf16, 1 for fp8; it also says which peak of the device counts.
        kv_bytes_per_token: of all layers, all ranks together, in bf16.
        kv_tensors: buffers a layer (key and value apart: 2; one latent: 1). A page of each is one descriptor.
        prefill_flop_per_pair: attention, for one query token and one token of its context, all layers.
        decode_flop_per_pair: the same in a decode step; larger with MLA, whose absorbed form works on the latent.
        experts: routed experts a layer, 0 for a dense model.
        experts_per_token: of them, those that a token visits.
        expert_share: share of the parameters that sits in routed experts.
        hidden: size of a token's activation, elements.
        kernel_efficiency: share of the achievable rate of one large matrix product that a whole prefill pass keeps.
        layer_floor_seconds: a decode layer takes no less, however little it reads: its kernels start one by one.
        expert_parallel: attention is data-parallel and tokens travel to their experts, instead of all-reduces.
    """

    name: str
    layers: int
    parameters: float
    active_parameters: float
    weight_element_bytes: int
    kv_bytes_per_token: int
    kv_tensors: int
    prefill_flop_per_pair: float
    decode_flop_per_pair: float
    hidden: int
    experts: int = 0
    experts_per_token: int = 0
    expert_share: float = 0.0
    kernel_efficiency: float = 0.75
    layer_floor_seconds: float = 40e-6
    expert_parallel: bool = False

    @property
    def weight_bytes(self) -> float:
        """Of all parameters."""
        return self.parameters * self.weight_element_bytes

    def read_weight_bytes(self, tokens: float) -> float:
        """Weights that a pass over `tokens` tokens reads: of the experts, those that at least one token visits."""
        if not self.experts:
            return self.weight_bytes
        missed: float = (1.0 - self.experts_per_token / self.experts) ** tokens
        return self.weight_bytes * (1.0 - self.expert_share * missed)


def _grouped(name: str, layers: int, parameters: float, heads: int, kv_heads: int, head: int = 128) -> ModelShape:
    pair = 4.0 * layers * heads * head
    return ModelShape(
        name=name,
        layers=layers,
        parameters=parameters,
        active_parameters=parameters,
        weight_element_bytes=2,
        kv_bytes_per_token=2 * layers * kv_heads * head * 2,
        kv_tensors=2,
        prefill_flop_per_pair=pair,
        decode_flop_per_pair=pair,
        hidden=heads * head,
    )


_MODELS = (
    _grouped("meta-llama/Llama-3.1-8B-Instruct", layers=32, parameters=8.03e9, heads=32, kv_heads=8),
    _grouped("meta-llama/Llama-3.1-70B-Instruct", layers=80, parameters=70.6e9, heads=64, kv_heads=8),
    ModelShape(
        name="Qwen/Qwen3-30B-A3B",
        layers=48,
        parameters=30.5e9,
        active_parameters=3.3e9,
        weight_element_bytes=2,
        kv_bytes_per_token=2 * 48 * 4 * 128 * 2,
        kv_tensors=2,
        prefill_flop_per_pair=4.0 * 48 * 32 * 128,
        decode_flop_per_pair=4.0 * 48 * 32 * 128,
        hidden=2048,
        experts=128,
        experts_per_token=8,
        expert_share=0.95,
        kernel_efficiency=0.4,
        layer_floor_seconds=100e-6,
    ),
    ModelShape(
        name="deepseek-ai/DeepSeek-V3",
        layers=61,
        parameters=671e9,
        active_parameters=37e9,
        weight_element_bytes=1,
        kv_bytes_per_token=61 * (512 + 64) * 2,
        kv_tensors=1,
        prefill_flop_per_pair=2.0 * 61 * 128 * (192 + 128),
        decode_flop_per_pair=2.0 * 61 * 128 * (576 + 512),
        hidden=7168,
        experts=256,
        experts_per_token=8,
        expert_share=0.97,
        kernel_efficiency=0.35,
        layer_floor_seconds=120e-6,
        expert_parallel=True,
    ),
)
MODELS: Mapping[str, ModelShape] = MappingProxyType({model.name: model for model in _MODELS})
"""By name."""
