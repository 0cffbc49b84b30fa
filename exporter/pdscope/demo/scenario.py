"""The scenarios: what is asked of a deployment and what it is built of. Causes only, never a metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pdscope.model.topology import Attention, KvShape

MODEL_NAME = "meta-llama/Llama-3.1-70B-Instruct"
KV = KvShape(attention=Attention.GQA, layers=80, kv_heads=8, head_dim=128, bytes_per_element=2)
KV_BYTES_PER_TOKEN = 2 * 80 * 8 * 128 * 2
"""Key and value, 80 layers, 8 heads of 128 elements, bf16: 327,680 bytes, all ranks together."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The traffic: Poisson arrivals of prompts with a common head, behind a gateway with a concurrency limit.

    Attributes:
        arrivals_per_second: rate at which users ask.
        concurrency_limit: requests that the gateway lets in at once; it answers 429 to the others, so that an
            overload stays a bounded queue.
        shared_prompt_tokens: system prompt at the head of every prompt; a multiple of the page size.
        own_prompt_tokens_mean: mean of the lognormal rest of the prompt.
        own_prompt_sigma: its shape (standard deviation of the logarithm).
        prompt_tokens_limit: longer prompts are cut to this.
        output_tokens_mean: mean of the lognormal answer.
        output_sigma: its shape.
        output_tokens_limit: `max_tokens` of every request.
        streaming_share: share of requests that stream their answer, 0..1.
    """

    arrivals_per_second: float = 3.0
    concurrency_limit: int = 26
    shared_prompt_tokens: int = 2048
    own_prompt_tokens_mean: float = 1952.0
    own_prompt_sigma: float = 0.7
    prompt_tokens_limit: int = 12_000
    output_tokens_mean: float = 180.0
    output_sigma: float = 0.6
    output_tokens_limit: int = 1024
    streaming_share: float = 0.9


@dataclass(frozen=True, slots=True)
class Machines:
    """One prefill and one decode instance of four H100 SXM each, and what their work costs.

    Prefill: 2 x 70.6e9 FLOP a token over four devices of 989 TFLOP/s at half of their peak. Decode: a step reads
    141 GB of weights and the KV of its batch through four memories of 3.35 TB/s at 80 %, and pays for collectives
    and the host.

    Attributes:
        tensor_parallel: devices, and ranks, of each instance.
        page_tokens: KV page size.
        pool_tokens: tokens that the KV pool of each instance holds.
        kv_bytes_per_token: over all ranks of one instance.
        weight_bytes: of the model, over all ranks of one instance.
        prefill_batch_tokens: uncached tokens of one prefill batch; a longer prompt is a batch of its own.
        prefill_batch_seconds: fixed cost of a prefill batch.
        prefill_seconds_per_token: cost of an uncached token.
        decode_slots: requests that decode may hold (allocated or running).
        decode_reserved_tokens: free tokens that decode keeps for each request it holds when it lets in another.
        decode_step_seconds: cost of a decode step whatever its batch: weights, collectives, host.
        decode_seconds_per_context_token: KV read.
        decode_seconds_per_request: sampling and bookkeeping of one request in a step.
        decode_step_jitter: standard deviation of a step's duration, relative.
        tokenize_seconds: from the request's arrival to the scheduler's queue.
        handshake_seconds: bootstrap between the two legs, without the wait for memory.
        first_output_seconds: from admission into the decode batch to the first token's way out.
        link_latency_seconds: from the last byte on the link to the confirmation; occupies nothing.
    """

    tensor_parallel: int = 4
    page_tokens: int = 64
    pool_tokens: int = 432_512
    kv_bytes_per_token: int = KV_BYTES_PER_TOKEN
    weight_bytes: float = 141.2e9
    prefill_batch_tokens: int = 16_384
    prefill_batch_seconds: float = 0.020
    prefill_seconds_per_token: float = 71.4e-6
    decode_slots: int = 256
    decode_reserved_tokens: int = 512
    decode_step_seconds: float = 0.0192
    decode_seconds_per_context_token: float = 30.6e-9
    decode_seconds_per_request: float = 50e-6
    decode_step_jitter: float = 0.04
    tokenize_seconds: float = 0.0005
    handshake_seconds: float = 0.004
    first_output_seconds: float = 0.0004
    link_latency_seconds: float = 0.002

    def pages(self, tokens: int) -> int:
        """KV pages that `tokens` occupy."""
        return -(-tokens // self.page_tokens)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One deployment to simulate. Two scenarios differ in a cause, and in nothing else.

    Attributes:
        name: as on the command line.
        title: a few words for a heading.
        description: one line: what is wrong and what to watch.
        link_bytes_per_second: what the KV link between the instances carries, one way, all devices together.
        workload: what users ask.
        machines: what serves them.
    """

    name: str
    title: str
    description: str
    link_bytes_per_second: float
    workload: Workload = field(default_factory=Workload)
    machines: Machines = field(default_factory=Machines)


SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        scenario.name: scenario
        for scenario in (
            Scenario(
                name="healthy",
                title="Everything has room",
                description=(
                    "Four NICs of 50 GB/s carry 4 GB/s of KV: watch TTFT stay under a second "
                    "and the transfer queue at zero."
                ),
                link_bytes_per_second=200e9,
            ),
            Scenario(
                name="slow-link",
                title="The KV link carries less than is asked of it",
                description=(
                    "Same machines and users, but the link carries 3.2 of the 3.9 GB/s asked: watch computed "
                    "prompts pile up in prefill's inflight queue and TTFT pass 2 s while ITL stays where it was."
                ),
                link_bytes_per_second=3.2e9,
            ),
        )
    }
)
