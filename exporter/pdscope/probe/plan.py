"""What to pull: how large, how scattered and how often, so that the bytes stay within a budget. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pdscope.analysis.kv import growing_layers, layer_bytes_per_token
from pdscope.errors import UsageError
from pdscope.model.topology import Attention, KvShape

DEFAULT_MAX_BYTES = 4 * 2**30
MAX_BYTES = 2**40
MAX_BLOCK_BYTES = 2**30
MAX_STREAMS = 64
MAX_REGION_BYTES = 256 * 2**20
"""Memory of one end. Larger than the caches of a host, small enough to pin anywhere."""
MIN_ROUNDS = 5
MAX_ROUNDS = 200
WARM_UP_ROUNDS = 1
"""The first round opens connections and wakes the link up; it is pulled and not counted."""
COARSER = 8
"""Factor to the second block size, from which the cost of one descriptor follows."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of one request: each is one descriptor of the transfer.

    Attributes:
        block_bytes: of one block.
        per_request: blocks of one request.
    """

    block_bytes: int
    per_request: int


@dataclass(frozen=True, slots=True)
class Step:
    """One kind of round: `in_flight` requests of `blocks` blocks each, pulled at once, at most `rounds` times.

    Attributes:
        name: `single`, `aggregate` or `coarse`.
        block_bytes: of one block.
        blocks: of one request.
        in_flight: requests at once.
        rounds: counted ones, besides the warm-up.
        seconds: after which no further round begins, as long as one has been counted.
    """

    name: str
    block_bytes: int
    blocks: int
    in_flight: int
    rounds: int
    seconds: float

    @property
    def request_bytes(self) -> int:
        """Bytes of one request."""
        return self.block_bytes * self.blocks

    @property
    def round_bytes(self) -> int:
        """Bytes of one round."""
        return self.request_bytes * self.in_flight


@dataclass(frozen=True, slots=True)
class Plan:
    """All steps of a probe.

    Attributes:
        steps: in the order in which they run.
        region_bytes: memory that each end provides; blocks lie scattered in it, and again from its start when a request
            is larger.
        wanted_blocks: blocks of a whole request, more than a step's when the budget cut it short.
    """

    steps: tuple[Step, ...]
    region_bytes: int
    wanted_blocks: int

    @property
    def total_bytes(self) -> int:
        """Bytes that cross the link at most, warm-up included."""
        return sum(step.round_bytes * (step.rounds + WARM_UP_ROUNDS) for step in self.steps)


def blocks_of(shape: KvShape, *, tokens: int, page_tokens: int, ranks: int = 1) -> Blocks:
    """What one decode rank pulls for one prompt: one block for each page and layer, keys and values together.

    Args:
        shape: of the KV cache; only layers that keep the whole prompt count.
        tokens: of the prompt, rounded up to whole pages.
        page_tokens: tokens of a KV page.
        ranks: tensor-parallel ranks that share the heads; heads are never split, and MLA is never shared.

    Raises:
        UsageError: no layer keeps the whole prompt, so there is no such block.
    """
    layers = growing_layers(shape)
    if not layers:
        raise UsageError("no layer of this model keeps the whole prompt; give the size of its blocks: --block-bytes")
    shares = 1.0 if shape.attention is Attention.MLA else min(float(ranks), float(shape.kv_heads or 1))
    block_bytes = max(1, round(page_tokens * layer_bytes_per_token(shape) / shares))
    return Blocks(block_bytes, math.ceil(tokens / page_tokens) * layers)


def make_plan(blocks: Blocks, *, max_bytes: int, seconds: float, streams: int) -> Plan:
    """One request at a time, `streams` at a time, and one at a time in coarser blocks where they fit.

    A request that is too large for `MIN_ROUNDS` rounds of every step is cut short: its bandwidth stays the same.

    Args:
        blocks: of one request.
        max_bytes: that may cross the link, all steps and warm-ups together.
        seconds: that all steps together may take, shared equally.
        streams: requests in flight at once in the second step; 1 leaves it out.

    Raises:
        UsageError: a figure is out of its bounds, or the budget does not hold even one block a request.
    """
    _check(blocks, max_bytes=max_bytes, seconds=seconds, streams=streams)
    requests_a_round = 2 + (streams if streams > 1 else 0)
    affordable = max_bytes // ((MIN_ROUNDS + WARM_UP_ROUNDS) * requests_a_round)
    count = min(blocks.per_request, affordable // blocks.block_bytes)
    if count < 1:
        least = blocks.block_bytes * (MIN_ROUNDS + WARM_UP_ROUNDS) * requests_a_round
        raise UsageError(f"--max-bytes of {max_bytes} is too little: blocks of {blocks.block_bytes} B need {least} B")
    coarse_bytes = blocks.block_bytes * COARSER
    coarse_count = count // COARSER if coarse_bytes <= MAX_REGION_BYTES else 0
    kinds = [("single", blocks.block_bytes, count, 1)]
    kinds += [("aggregate", blocks.block_bytes, count, streams)] if streams > 1 else []
    kinds += [("coarse", coarse_bytes, coarse_count, 1)] if coarse_count else []
    rounds_bytes = sum(size * number * in_flight for _, size, number, in_flight in kinds)
    rounds = min(MAX_ROUNDS, max_bytes // rounds_bytes - WARM_UP_ROUNDS)
    steps = tuple(
        Step(name, size, number, in_flight, rounds, seconds / len(kinds)) for name, size, number, in_flight in kinds
    )
    region = min(max(blocks.block_bytes, MAX_REGION_BYTES), blocks.block_bytes * count)
    return Plan(steps, region, blocks.per_request)


def scattered(step: Step, region_bytes: int) -> Iterator[int]:
    """Offsets of a request's blocks in the region: never two neighbours in turn where it holds more than two.

    Pages of a KV cache lie scattered, and neighbours would be merged into fewer, larger transfers.
    """
    slots = region_bytes // step.block_bytes
    stride = _coprime(slots)
    return ((number * stride) % slots * step.block_bytes for number in range(step.blocks))


def _coprime(slots: int) -> int:
    """About 0.38 of `slots` (the golden ratio spreads best), without a common factor: every slot has its turn."""
    if slots < 5:
        return 1
    stride = max(2, round(slots * 0.381966))
    while math.gcd(stride, slots) != 1:
        stride += 1
    return stride


def _check(blocks: Blocks, *, max_bytes: int, seconds: float, streams: int) -> None:
    if not 1 <= blocks.block_bytes <= MAX_BLOCK_BYTES:
        raise UsageError(f"a block of {blocks.block_bytes} B is not between 1 B and 1 GiB")
    if blocks.per_request < 1:
        raise UsageError("a request has at least one block")
    if not 1 <= max_bytes <= MAX_BYTES:
        raise UsageError("--max-bytes must be between 1 B and 1 TiB")
    if not 0 < seconds <= 600:
        raise UsageError("--seconds must be over 0 and at most 600")
    if not 1 <= streams <= MAX_STREAMS:
        raise UsageError(f"--streams must be between 1 and {MAX_STREAMS}")
