"""What is served and promised: the model, its KV cache, the objectives, the link, the hardware."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import Field

from pdscope.config.base import Model
from pdscope.config.fields import (
    Bytes,
    BytesPerSecond,
    Count,
    CountOrZero,
    FlopPerSecond,
    Number,
    NumberOrZero,
    Seconds,
    Share,
    Switch,
    Text,
    WeightBytes,
    choice,
)
from pdscope.config.places import FilePath
from pdscope.errors import ConfigError
from pdscope.hardware import find_hardware, hardware_defaults
from pdscope.model.hardware import Hardware
from pdscope.model.topology import (
    Attention,
    Interconnect,
    KvShape,
    LinkDirection,
    LinkScope,
    LinkTopology,
    ModelFacts,
    Slo,
)

_KV_KEYS = ((Attention.GQA, "kv_heads"), (Attention.GQA, "head_dim"), (Attention.MLA, "latent_dim"))


class KvConfig(Model):
    """Dimensions of the KV cache. They win over what an engine or a `config.json` says."""

    attention: Annotated[
        Attention,
        choice(
            Attention,
            hints={
                "mha": "mha is gqa with as many kv_heads as query heads",
                "mqa": "mqa is gqa with kv_heads: 1",
            },
        ),
    ] = Field(description="gqa (also MHA and MQA) or mla")
    layers: Count = Field(description="transformer layers, all kinds together")
    bytes_per_element: Number = Field(description="of the KV data type; 0.5 for fp4")
    kv_heads: Count | None = Field(default=None, description="KV heads of the whole model (gqa)")
    head_dim: Count | None = Field(default=None, description="dimension of a KV head (gqa)")
    latent_dim: Count | None = Field(default=None, description="kv_lora_rank + qk_rope_head_dim (mla)")
    full_attention_layers: CountOrZero | None = Field(
        default=None,
        description="layers whose cache grows with the whole prompt (hybrid models); left out: all",
    )
    sliding_window: Count | None = Field(default=None, description="tokens that each of the other layers keeps")
    scale_bytes: NumberOrZero = Field(default=0.0, description="bytes of quantisation scales a token and layer")

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Each kind of attention has its own dimensions; a window needs to know which layers slide."""
        attention = given.get("attention")
        for kind, key in _KV_KEYS:
            if kind == attention and key not in given:
                yield key, f"is required with attention: {attention}"
            elif kind != attention and key in given and attention in [*Attention]:
                yield key, f"belongs to attention: {kind}, not to {attention}"
        full, layers = given.get("full_attention_layers"), given.get("layers")
        if "sliding_window" in given and full is None:
            yield "full_attention_layers", "is required with sliding_window (0 when every layer slides)"
        if isinstance(full, int) and isinstance(layers, int) and full > layers:
            yield "full_attention_layers", "must be at most layers"

    def to_model(self) -> KvShape:
        """The shape as the analysis knows it."""
        return KvShape(**dict(self))


class ModelConfig(Model):
    """The served model. What is left out is read from the engines where they say so."""

    name: Text | None = Field(default=None, description="name of the model; left out: as the engines call it")
    hf_config: FilePath | None = Field(
        default=None, description="the model's config.json, from which the KV shape follows"
    )
    kv: KvConfig | None = Field(default=None, description="the KV shape itself; wins over hf_config")
    weight_bytes: WeightBytes | None = Field(
        default=None, description="bytes of all weights, all ranks of one instance together"
    )
    active_parameters: Number | None = Field(default=None, description="parameters a token passes through (MoE)")

    def to_model(self) -> ModelFacts:
        """What the configuration itself says; an unknown name is empty, as Prometheus has it for labels."""
        return ModelFacts(
            name=self.name or "",
            kv=self.kv.to_model() if self.kv else None,
            weight_bytes=self.weight_bytes,
            active_parameters=self.active_parameters,
        )


class SloConfig(Model):
    """Latency objectives. Any of them may be left out."""

    hints: ClassVar[Mapping[str, str]] = {
        "ttft": "write ttft_p50, ttft_p95 or ttft_p99",
        "itl": "write itl_p50, itl_p95 or itl_p99",
        "tpot": "pdscope judges the inter-token latency: itl_p50, itl_p95 or itl_p99",
    }

    ttft_p50_seconds: Seconds | None = Field(default=None, alias="ttft_p50", description="time to first token, median")
    ttft_p95_seconds: Seconds | None = Field(default=None, alias="ttft_p95", description="time to first token, p95")
    ttft_p99_seconds: Seconds | None = Field(default=None, alias="ttft_p99", description="time to first token, p99")
    itl_p50_seconds: Seconds | None = Field(default=None, alias="itl_p50", description="inter-token latency, median")
    itl_p95_seconds: Seconds | None = Field(default=None, alias="itl_p95", description="inter-token latency, p95")
    itl_p99_seconds: Seconds | None = Field(default=None, alias="itl_p99", description="inter-token latency, p99")

    def to_model(self) -> Slo:
        """The objectives as the analysis knows them."""
        return Slo(**dict(self))


class InterconnectConfig(Model):
    """The link that KV takes from prefill to decode. `bandwidth` is the printed figure; the other keys say of what."""

    bandwidth_bytes_per_second: BytesPerSecond | None = Field(
        default=None,
        alias="bandwidth",
        description="the printed figure; required, here or in defaults.interconnect",
    )
    direction: Annotated[LinkDirection, choice(LinkDirection)] = Field(
        default=LinkDirection.UNIDIRECTIONAL,
        description="is bandwidth one way, or the sum of both (bidirectional)?",
    )
    scope: Annotated[LinkScope, choice(LinkScope)] = Field(
        default=LinkScope.DEVICE, description="what bandwidth belongs to: pair, device, node or total"
    )
    topology: Annotated[LinkTopology, choice(LinkTopology)] = Field(
        default=LinkTopology.SWITCHED,
        description="switched, or mesh: a device's links are split over its peers",
    )
    peers: Count | None = Field(default=None, description="devices that one device of a mesh is linked to")
    efficiency: Share = Field(default=0.8, description="share of the bandwidth that can really be reached")
    measured: Switch = Field(
        default=False, description="bandwidth was measured on this link, as pdscope probe-link does, not printed"
    )
    transfer_engine: Text | None = Field(
        default=None, description="such as mooncake or nixl; for the record of a split"
    )
    ib_device: Text | None = Field(default=None, description="such as mlx5_0; for the record of a split")

    def to_model(self) -> Interconnect:
        """The link as the analysis knows it.

        Raises:
            ConfigError: no bandwidth; only defaults for deployments that name their own may lack it.
        """
        if self.bandwidth_bytes_per_second is None:
            raise ConfigError("interconnect.bandwidth", "is required")
        return Interconnect(**dict(self))


class HardwareConfig(Model):
    """A device: a name of the built-in table, its figures (of one device, dense, one direction), or both."""

    name: Text | None = Field(default=None, description="name or alias of the built-in table; a text alone is this")
    hbm_capacity_bytes: Bytes | None = Field(default=None, alias="hbm_capacity", description="device memory")
    hbm_bandwidth_bytes_per_second: BytesPerSecond | None = Field(
        default=None, alias="hbm_bandwidth", description="peak bandwidth of device memory"
    )
    bf16_flop_per_second: FlopPerSecond | None = Field(
        default=None, alias="bf16", description="peak of dense bf16 compute"
    )
    fp8_flop_per_second: FlopPerSecond | None = Field(
        default=None, alias="fp8", description="peak of dense fp8 compute"
    )
    link_bytes_per_second: BytesPerSecond | None = Field(
        default=None,
        alias="link",
        description="all device-to-device links of one device together, one direction",
    )
    link_pair_bytes_per_second: BytesPerSecond | None = Field(
        default=None, alias="link_pair", description="links between one pair of devices, one direction"
    )
    nic_bytes_per_second: BytesPerSecond | None = Field(
        default=None, alias="nic", description="network port that belongs to one device, one direction"
    )
    achievable_hbm_fraction: Share | None = Field(
        default=None, description="share of hbm_bandwidth that can be reached"
    )
    achievable_bf16_fraction: Share | None = Field(default=None, description="share of bf16 that can be reached")
    achievable_link_fraction: Share | None = Field(default=None, description="share of link that can be reached")

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """An empty mapping says nothing."""
        if not given:
            yield "", "names neither a device nor a figure of one"

    @property
    def figures(self) -> Mapping[str, Any]:
        """What is written beside the name: field of `Hardware` -> figure."""
        return {key: value for key, value in dict(self).items() if value is not None and key != "name"}

    def to_model(self) -> Hardware:
        """The written figures over those that the table has under the name, else over the table's default shares."""
        written = self.figures
        known = (find_hardware(self.name) if self.name else None) or _unknown_hardware(self.name)
        if not written:
            return known
        return replace(
            known,
            source=f"configuration over {known.source}" if known.topology else known.source,
            defaulted=tuple(field for field in known.defaulted if field not in written),
            **written,
        )


def _unknown_hardware(name: str | None) -> Hardware:
    """A device that is not in the table: nothing is known of it but what every device is taken to reach."""
    defaults: Mapping[str, Any] = hardware_defaults()
    return Hardware(name=name or "", defaulted=tuple(defaults), **defaults)
