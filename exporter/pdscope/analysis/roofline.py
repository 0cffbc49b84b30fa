"""What a step must cost: bytes that decode has to read, FLOP that prefill has to compute. Arithmetic, no cluster.

A decode step reads every weight that its batch touches once and the cache of every request in it; at the bandwidth that
memory reaches, that takes a time below which no step can be (roofline: Williams et al., CACM 2009; for decode: Pope et
al., MLSys 2023, section 3). Measured by others: Llama-3.1-8B in bf16 on one H100 under vLLM steps in 6.44 ms plus
4.37e-5 ms for each token of context, which is 131,072 B at 3.0 TB/s. docs/roofline.md compares.
"""

from __future__ import annotations

from dataclasses import dataclass

from pdscope.analysis import kv
from pdscope.model.hardware import Hardware
from pdscope.model.topology import ComputeShape, Instance, KvShape, ModelFacts

ACHIEVABLE_HBM = 0.8
"""Share of the theoretical bandwidth that can be had where the table has no figure (DCGM documentation)."""
ACHIEVABLE_BF16 = 0.7
"""Share of the dense peak that matrix multiplications reach where the table has no figure: 0.51 to 0.87 in it."""

_WIDEST = 4.2
"""Bytes that a parameter takes at most: fp32, and a little for what is no weight."""


@dataclass(frozen=True, slots=True)
class StepBytes:
    """Bytes that one device reads in one decode step."""

    weights: float
    cache: float

    @property
    def total(self) -> float:
        """Both."""
        return self.weights + self.cache


def touched_share(compute: ComputeShape, batch: float) -> float:
    """Share of the routed experts that a batch touches: 1 - (1 - k/E)^batch with routing that is uniform and random.

    Real routing is skewed, so fewer experts are touched; the estimate is an upper bound that large batches reach.
    """
    if compute.experts <= 0:
        return 1.0
    missed: float = (1.0 - min(1.0, compute.experts_per_token / compute.experts)) ** max(0.0, batch)
    return 1.0 - missed


def weight_bytes(model: ModelFacts, batch: float, rank_bytes: float | None, devices: int) -> tuple[float, str] | None:
    """Bytes of weights that one device reads in one step, and where they come from.

    Args:
        model: of the deployment.
        batch: requests in the step.
        rank_bytes: what the engine says that the weights of one rank take; wins over the rest.
        devices: over which the weights are spread.

    Returns:
        None where the size of the weights is not known, or where the model is a mixture of experts whose experts are
        not: a step of it reads some of them.
    """
    compute = model.compute
    if compute is None and _sparse(model):
        return None
    read = 1.0
    if compute is not None and compute.parameters > 0:
        routed = compute.routed_parameters / compute.parameters
        read = 1.0 - routed * (1.0 - touched_share(compute, batch))
    if rank_bytes:
        return rank_bytes * read, "weights of a rank as the engine states them"
    if model.weight_bytes is not None:
        return model.weight_bytes / devices * read, "model.weight_bytes"
    if compute is not None:
        return compute.parameters * compute.bytes_per_parameter / devices * read, "the model's config.json"
    return None


def _sparse(model: ModelFacts) -> bool:
    """Whether the configuration speaks of a mixture of experts: more bytes than its active parameters can take."""
    active, stored = model.active_parameters, model.weight_bytes
    return active is not None and stored is not None and stored > _WIDEST * active


def cache_bytes(shape: KvShape, batch: float, context_tokens: float, instance: Instance) -> float:
    """Bytes of the cache that one device reads in one step.

    Args:
        shape: of the cache.
        batch: requests in the step, of all data-parallel ranks.
        context_tokens: their contexts added up.
        instance: its parallelism: heads are spread over attention ranks, layers over pipeline stages, requests over
            data-parallel ranks.
    """
    if batch <= 0:
        return 0.0
    logical = batch * kv.cache_bytes(shape, context_tokens / batch)
    growing = kv.bytes_per_token(shape)
    share = kv.rank_bytes_per_token(shape, instance.attention_ranks) / growing if growing > 0 else 1.0
    return logical * share / instance.pp / instance.dp


def step_seconds(read: StepBytes, hardware: Hardware) -> float | None:
    """The least time of a step at the bandwidth that memory reaches; None without the bandwidth."""
    peak = hardware.hbm_bandwidth_bytes_per_second
    return read.total / (peak * achievable_hbm(hardware)) if peak else None


def achievable_hbm(hardware: Hardware | None) -> float:
    """Share of the theoretical bandwidth that can be had."""
    known = hardware.achievable_hbm_fraction if hardware is not None else None
    return known if known is not None else ACHIEVABLE_HBM


def prefill_flop(model: ModelFacts, tokens: float, prompt_tokens: float, cached_tokens: float = 0.0) -> float | None:
    """FLOP of `tokens` prompt tokens, computed in prompts of `prompt_tokens` behind `cached_tokens` that are not.

    Two for each active parameter and token (a multiplication and an addition), and the attention of each token to what
    stands before it: on average half of its own prompt, and all that is cached.

    Returns:
        None where the active parameters are not known. Without the model's config.json attention is left out: 5 to 30 %
        at usual lengths, so the figure is then a lower bound.
    """
    compute = model.compute
    active = model.active_parameters or (compute.active_parameters if compute is not None else None)
    if active is None:
        return None
    seen = prompt_tokens / 2 + cached_tokens
    attention = 0.0
    if compute is not None:
        attention = compute.attention_flop * seen
        attention += compute.window_attention_flop * min(seen, float(compute.window_tokens))
    return tokens * (2.0 * active + attention)


def flop_peak(model: ModelFacts, hardware: Hardware) -> float | None:
    """FLOP a second that matrix multiplications reach on one device in the type of the weights; None if unknown.

    fp8 weights multiply in fp8 where the device can; formats with fewer bits are unpacked to bf16 or use units whose
    peak the table does not have.
    """
    compute = model.compute
    narrow = compute is not None and 0.9 <= compute.bytes_per_parameter <= 1.3
    peak = hardware.fp8_flop_per_second if narrow else None
    peak = peak or hardware.bf16_flop_per_second
    return peak * achievable_bf16(hardware) if peak else None


def achievable_bf16(hardware: Hardware) -> float:
    """Share of the dense peak that matrix multiplications reach."""
    share = hardware.achievable_bf16_fraction
    return share if share is not None else ACHIEVABLE_BF16
