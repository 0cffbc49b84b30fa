"""What a deployment is: instances with roles, the model they serve, the link between them, the promises to users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pdscope.model.hardware import Hardware


class Role(StrEnum):
    """What an instance does. `UNIFIED` runs prefill and decode in one engine; `ROUTER` serves no tokens of its own."""

    PREFILL = "prefill"
    DECODE = "decode"
    UNIFIED = "unified"
    ROUTER = "router"


class Routing(StrEnum):
    """How a router drives the two legs: it decides whether their TTFTs add up."""

    SEQUENTIAL = "sequential"
    """Prefill answers before decode is asked: the user waits for both."""
    CONCURRENT = "concurrent"
    """Both legs are asked at once: decode's TTFT already contains prefill."""


class Attention(StrEnum):
    """How the KV cache is shaped. MQA is GQA with one head; MHA is GQA with as many heads as queries."""

    GQA = "gqa"
    MLA = "mla"


@dataclass(frozen=True, slots=True)
class KvShape:
    """Dimensions that fix the size of the KV cache.

    Attributes:
        attention: `GQA` (also MHA and MQA) or `MLA`.
        layers: transformer layers, all kinds together.
        bytes_per_element: of the KV dtype; may be fractional (fp4 = 0.5).
        kv_heads: KV heads (GQA).
        head_dim: dimension of a KV head (GQA).
        latent_dim: `kv_lora_rank + qk_rope_head_dim` (MLA).
        full_attention_layers: layers whose cache grows with the whole prompt (hybrid models); None: all.
        sliding_window: tokens that each other layer keeps; None: those layers keep a constant state.
        scale_bytes: bytes of quantisation scales a token and layer.
    """

    attention: Attention
    layers: int
    bytes_per_element: float
    kv_heads: int | None = None
    head_dim: int | None = None
    latent_dim: int | None = None
    full_attention_layers: int | None = None
    sliding_window: int | None = None
    scale_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class ComputeShape:
    """What one token costs to compute, and what one step has to read of the weights.

    Attributes:
        parameters: of the model, without the input embedding (a step reads one row of it) and with the output head.
        active_parameters: that one token passes through: all of a dense model; of an MoE model the shared ones and
            those of its `experts_per_token` experts.
        routed_parameters: in routed experts, all of them together; 0 for a dense model.
        experts: routed experts of a layer; 0 for a dense model.
        experts_per_token: of them, that one token passes through.
        attention_flop: FLOP for each pair of a computed token and a token that it attends to, all layers that see the
            whole context together: 2 x heads x (dimension of a key + dimension of a value) a layer.
        window_attention_flop: the same of the layers that see a sliding window only.
        window_tokens: tokens in that window.
        bytes_per_parameter: of the weights as stored, scales included: 2 for bf16, about 1 for fp8, 0.56 for nvfp4.
    """

    parameters: float
    active_parameters: float
    routed_parameters: float = 0.0
    experts: int = 0
    experts_per_token: int = 0
    attention_flop: float = 0.0
    window_attention_flop: float = 0.0
    window_tokens: int = 0
    bytes_per_parameter: float = 2.0


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The served model, as far as the configuration and the files it names say.

    Attributes:
        kv: the shape written in the configuration; it wins over everything.
        file_kv: the shape from the model's `config.json`, which does not know a quantised KV type; what the engine says
            wins over it.
        weight_bytes: of all weights, as configured.
        active_parameters: that one token passes through, as configured.
        compute: the rest of the arithmetic, from the model's `config.json`.
    """

    name: str
    kv: KvShape | None = None
    file_kv: KvShape | None = None
    weight_bytes: float | None = None
    active_parameters: float | None = None
    compute: ComputeShape | None = None


class LinkDirection(StrEnum):
    """Whether a printed bandwidth is one way or the sum of both."""

    UNIDIRECTIONAL = "unidirectional"
    BIDIRECTIONAL = "bidirectional"


class LinkScope(StrEnum):
    """What a printed bandwidth belongs to."""

    PAIR = "pair"
    DEVICE = "device"
    NODE = "node"
    TOTAL = "total"


class LinkTopology(StrEnum):
    """`SWITCHED`: a pair can have the whole of a device's link. `MESH`: the link is split over the peers."""

    SWITCHED = "switched"
    MESH = "mesh"


@dataclass(frozen=True, slots=True)
class Interconnect:
    """The KV link as configured: `bandwidth_bytes_per_second` is the printed figure; analysis makes it usable.

    `measured`: the figure was measured on this very link instead.
    """

    bandwidth_bytes_per_second: float
    direction: LinkDirection = LinkDirection.UNIDIRECTIONAL
    scope: LinkScope = LinkScope.DEVICE
    topology: LinkTopology = LinkTopology.SWITCHED
    peers: int | None = None
    efficiency: float = 0.8
    transfer_engine: str | None = None
    ib_device: str | None = None
    measured: bool = False


@dataclass(frozen=True, slots=True)
class Slo:
    """Latency objectives in seconds; None where nothing was promised."""

    ttft_p50_seconds: float | None = None
    ttft_p95_seconds: float | None = None
    ttft_p99_seconds: float | None = None
    itl_p50_seconds: float | None = None
    itl_p95_seconds: float | None = None
    itl_p99_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """What diagnosis must know of an engine; data in the engine's own adapter file.

    Attributes:
        name: as in the configuration (`sglang`, `vllm`, `dynamo` ...).
        routing: how its usual routers drive the two legs; None for a program that serves no tokens.
        prefill_finish_includes_transfer: a request counts as finished on prefill only when its KV has left (SGLang), so
            arrivals are finishes plus the growth of the transfer queue.
        replicates_mla: each decode attention rank receives the whole MLA latent.
        dp_splits_tp: data-parallel ranks share the devices of tensor parallelism (SGLang's DP attention); otherwise
            each has devices of its own.
        default_page_tokens: KV block size when the engine does not say.
        settings: remedy id -> how this engine spells the setting.
        lacks: remedies that it has no such thing for: they are not offered for it.
        queries: signal name -> PromQL of its own series behind the signal; `$at` stands for a selector of instances
            (`{instance="..."}`), `$in` for the inside of one.
        enable: signal name -> the switch that makes the engine export it.
        profiling: role -> how to profile an instance of it alone; `{url}` stands for its address.
        workers: of a router, how to list the instances that it sees; `{url}` stands for its address.
    """

    name: str
    routing: Routing | None = None
    prefill_finish_includes_transfer: bool = False
    replicates_mla: bool = True
    dp_splits_tp: bool = False
    default_page_tokens: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    lacks: frozenset[str] = frozenset()
    queries: Mapping[str, str] = field(default_factory=dict)
    enable: Mapping[str, str] = field(default_factory=dict)
    profiling: Mapping[Role, str] = field(default_factory=dict)
    workers: str | None = None


@dataclass(frozen=True, slots=True)
class Instance:
    """One serving program. `name` is unique in the configuration and becomes the label `worker`."""

    name: str
    role: Role
    engine: str
    url: str
    profile: EngineProfile
    tp: int = 1
    pp: int = 1
    dp: int = 1
    max_running: int | None = None
    page_tokens: int | None = None
    max_batched_tokens: int | None = None
    hardware: Hardware | None = None
    kv_dtype: str | None = None

    @property
    def devices(self) -> int:
        """Devices of the instance."""
        return self.tp * self.pp * (1 if self.profile.dp_splits_tp else self.dp)

    @property
    def attention_ranks(self) -> int:
        """Tensor-parallel ranks among which the attention, and so the KV cache, of one request is split."""
        return max(1, self.tp // self.dp) if self.profile.dp_splits_tp else self.tp

    @property
    def decodes(self) -> bool:
        """Whether users get tokens from it."""
        return self.role in (Role.DECODE, Role.UNIFIED)

    @property
    def prefills(self) -> bool:
        """Whether it computes prompts by role."""
        return self.role in (Role.PREFILL, Role.UNIFIED)


@dataclass(frozen=True, slots=True)
class Deployment:
    """One model served by instances of one or two roles. `routing` None: by engine and router."""

    name: str
    model: ModelFacts
    instances: tuple[Instance, ...]
    slo: Slo = Slo()
    interconnect: Interconnect | None = None
    routing: Routing | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    thresholds: Mapping[str, float] = field(default_factory=dict)

    def of_role(self, *roles: Role) -> tuple[Instance, ...]:
        """Instances of the given roles, in configured order."""
        return tuple(i for i in self.instances if i.role in roles)

    @property
    def disaggregated(self) -> bool:
        """Whether prefill and decode run apart."""
        return bool(self.of_role(Role.PREFILL)) and bool(self.of_role(Role.DECODE))
