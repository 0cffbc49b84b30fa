"""The parameters of one simulated deployment: causes only, never a metric. A fault is one of them off its default."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Engine = Literal["sglang", "vllm"]
LossPolicy = Literal["fail", "recompute", "late_read"]


@dataclass(frozen=True, slots=True)
class Deployment:
    """How many instances, and how many devices each. Unified instances serve alone: then the other counts are 0.

    Attributes:
        dead_prefills: numbers of prefill instances that are dead: what is sent there fails soon, and computes nothing.
    """

    prefill_instances: int = 1
    decode_instances: int = 1
    unified_instances: int = 0
    prefill_devices: int = 4
    decode_devices: int = 4
    dead_prefills: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """The way of the KV cache. A transfer is bounded by the NICs of both instances, the path and the shared fabric.

    Attributes:
        nic_bytes_per_second: of one device, one way; None takes the table's figure, at its achievable share.
        path_bytes_per_second: what the software path carries from or to one instance, whatever the NIC could do
            (TCP fallback: 0.3e9 to 0.5e9); None when it is no limit.
        shared_bytes_per_second: a fabric that all transfers share; None when it is no limit.
        descriptor_seconds: CPU cost of posting one descriptor.
        page_tokens: KV page; a descriptor is one page of one tensor of one layer.
        contiguous_pages: mean length of runs of pages that are neighbours on both sides and go as one descriptor.
        handshake_seconds: connection set-up of a pair of instances, once.
        bootstrap_seconds: control messages of each request, before anything can be allocated or pulled.
        latency_seconds: from the last byte to the confirmation; occupies nothing.
        threads: SGLang: transfer threads of a prefill instance, over all queues.
        queues: SGLang: transfer queues; a decode instance always maps to one of them.
        failing_pairs: (prefill, decode) numbers between which every transfer fails.
        failure_seconds: until such a failure is noticed.
        bootstrap_timeout_seconds: SGLang: prefill gives up waiting for decode's indices.
        waiting_timeout_seconds: SGLang: decode gives up waiting for the KV it has allocated for.
        lease_seconds: vLLM: how long prefill keeps a computed prompt that nobody has read.
        lease_renewed: vLLM: decode's heartbeats keep the lease of requests that queue there.
        loss_policy: vLLM: what decode does with a request whose lease had expired.
    """

    nic_bytes_per_second: float | None = None
    path_bytes_per_second: float | None = None
    shared_bytes_per_second: float | None = None
    descriptor_seconds: float = 2.5e-6
    page_tokens: int = 64
    contiguous_pages: float = 1.0
    handshake_seconds: float = 0.5
    bootstrap_seconds: float = 0.004
    latency_seconds: float = 0.001
    threads: int = 8
    queues: int = 4
    failing_pairs: tuple[tuple[int, int], ...] = ()
    failure_seconds: float = 0.5
    bootstrap_timeout_seconds: float = 300.0
    waiting_timeout_seconds: float = 300.0
    lease_seconds: float = 30.0
    lease_renewed: bool = True
    loss_policy: LossPolicy = "fail"


@dataclass(frozen=True, slots=True)
class Prefill:
    """One prefill instance (all are alike, save the first, which `slow_rank` may hit).

    Attributes:
        batch_tokens: token budget of a pass; a longer prompt is computed in chunks.
        pass_seconds: host work of a pass, with the devices idle.
        compute_factor: clock of every device against its peak, e.g. 0.4 when throttled.
        slow_rank: clock of the slowest rank of instance 0; the other ranks wait for it.
        prefix_cache: whether the shared head of a prompt is found again.
        pool_tokens: KV pool; None is what the devices' memory leaves.
    """

    batch_tokens: int = 8192
    pass_seconds: float = 0.006
    compute_factor: float = 1.0
    slow_rank: float = 1.0
    prefix_cache: bool = True
    pool_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Decode:
    """One decode instance (all are alike, save the first, which `slow_rank` may hit).

    Attributes:
        slots: requests in the batch at most (SGLang: those with memory count too).
        reserved_tokens: SGLang: free tokens kept for each request it holds when it lets in another.
        pool_tokens: KV pool; None is what the devices' memory leaves.
        graph_ceiling: largest batch with a captured CUDA graph.
        launch_seconds_per_layer: host work of launching one layer's kernels without a graph.
        host_seconds: host work of every step that the devices wait for.
        host_seconds_per_request: the part of it that grows with the batch.
        hbm_factor: memory bandwidth against its peak.
        slow_rank: clock of the slowest rank of instance 0, memory and compute.
        jitter: standard deviation of a step's duration, relative.
    """

    slots: int = 256
    reserved_tokens: int = 512
    pool_tokens: int | None = None
    graph_ceiling: int = 256
    launch_seconds_per_layer: float = 250e-6
    host_seconds: float = 0.0006
    host_seconds_per_request: float = 8e-6
    hbm_factor: float = 1.0
    slow_rank: float = 1.0
    jitter: float = 0.03


@dataclass(frozen=True, slots=True)
class Frontend:
    """Router, tokenizer and detokenizer: processes on the host, each a single server.

    Attributes:
        router_seconds: the router's work for a request, one at a time for the whole deployment.
        tokenize_seconds_per_token: of the instance that takes the user's request.
        detokenize_seconds_per_token: of the instance that answers.
        affinity: share of requests that go where their prefix hashes to, whatever the load there.
    """

    router_seconds: float = 0.0005
    tokenize_seconds_per_token: float = 1e-6
    detokenize_seconds_per_token: float = 10e-6
    affinity: float = 0.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """What users ask: open arrivals with bursts, or a closed loop of `concurrency` users.

    Attributes:
        requests_per_second: mean rate of the open arrivals.
        burst_factor: rate within a burst against the mean; 1 is plain Poisson.
        burst_share: share of the time that is burst; at most 1 / burst_factor.
        burst_seconds: mean length of a burst.
        concurrency: closed loop: each user asks again when answered, and the rate is not used.
        prompt_tokens: mean of the lognormal prompt length, `prompt_sigma` its shape, the limit cuts it.
        output_tokens: the same for the answer.
        shared_tokens: head of a prompt that other prompts of its group share.
        groups: how many such heads there are; their popularity falls as one over the rank.
        orphan_share: requests that nobody fetches from prefill once it has computed them: the client has gone.
    """

    requests_per_second: float = 2.5
    burst_factor: float = 1.0
    burst_share: float = 0.2
    burst_seconds: float = 3.0
    concurrency: int | None = None
    prompt_tokens: float = 3000.0
    prompt_sigma: float = 0.6
    prompt_limit: int = 32_000
    output_tokens: float = 200.0
    output_sigma: float = 0.6
    output_limit: int = 2048
    shared_tokens: int = 0
    groups: int = 16
    orphan_share: float = 0.0


@dataclass(frozen=True, slots=True)
class Slo:
    """Limits in seconds; None is no limit."""

    ttft_p50_seconds: float | None = 1.0
    ttft_p95_seconds: float | None = 3.0
    itl_p50_seconds: float | None = 0.05
    itl_p95_seconds: float | None = None
    failed_share: float = 0.01


@dataclass(frozen=True, slots=True)
class Exposure:
    """What can be seen of a deployment. It changes nothing for its users.

    Attributes:
        decode_metrics: whether decode instances were started with their metrics on.
        decode_address_shared: whether one address, as of a Kubernetes service, stands before all decode instances, so
            that each answer is that of one of them, by lot.
    """

    decode_metrics: bool = True
    decode_address_shared: bool = False


@dataclass(frozen=True, slots=True)
class Draw:
    """One deployment under one traffic. Two draws differ in their causes and in nothing else.

    Attributes:
        engine: whose rules allocate, queue and give up.
        hardware: a name of the hardware table.
        model: a name of `MODELS`.
        seed: of arrivals, lengths, routes and jitter.
        warm_up_seconds: simulated before anything is judged.
    """

    engine: Engine = "sglang"
    hardware: str = "H100 SXM"
    model: str = "meta-llama/Llama-3.1-70B-Instruct"
    deployment: Deployment = field(default_factory=Deployment)
    link: Link = field(default_factory=Link)
    prefill: Prefill = field(default_factory=Prefill)
    decode: Decode = field(default_factory=Decode)
    frontend: Frontend = field(default_factory=Frontend)
    traffic: Traffic = field(default_factory=Traffic)
    slo: Slo = field(default_factory=Slo)
    exposure: Exposure = field(default_factory=Exposure)
    seed: int = 0
    warm_up_seconds: float = 15.0
