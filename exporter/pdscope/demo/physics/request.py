"""One request and its way through the deployment; the stamps from which every engine's latencies can be derived."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import nan


class End(StrEnum):
    """How a request ended."""

    FINISHED = "finished"
    TRANSFER_FAILED = "transfer_failed"
    BOOTSTRAP_TIMEOUT = "bootstrap_timeout"
    WAITING_TIMEOUT = "waiting_timeout"
    LEASE_EXPIRED = "lease_expired"
    TOO_LONG = "too_long"
    ORPHANED = "orphaned"


@dataclass(frozen=True, slots=True)
class Chunk:
    """The part of a prompt that one prefill pass computed."""

    started_at: float
    ended_at: float
    tokens: int


@dataclass(slots=True, eq=False)
class Request:
    """Times in simulated seconds, NaN until they have come. In the order in which SGLang reaches them.

    vLLM computes first and only then meets decode: there `prefill_*` come before `decode_arrived_at`.

    Attributes:
        number: by arrival.
        prompt_tokens: length of the prompt; `output_tokens` that of the answer.
        group: whose head of `shared_tokens` tokens it has.
        is_orphan: nobody will fetch it from prefill.
        prefill: number of its prefill instance, -1 for none; likewise `decode` (or unified).
        arrived_at: at the router.
        routed_at: the router has chosen and passed it on.
        prefill_arrived_at: tokenised, in the prefill scheduler.
        decode_arrived_at: tokenised, in the decode (or unified) scheduler.
        handshaken_at: both sides are connected and have exchanged this request's control messages.
        allocated_at: decode has memory for it.
        prefill_queued_at: it may be computed (SGLang: decode has allocated).
        prefill_started_at: start of its first pass; `prefill_ended_at` end of its last one.
        cached_tokens: head of the prompt that prefill found in its cache.
        chunks: the passes.
        transfer_posted_at: its (last) transfer was handed to a transfer queue.
        transfer_started_at: its first bytes moved: a thread had posted the first descriptors.
        post_seconds: spent posting its descriptors, over all its transfers.
        transferred_at: its last byte has arrived and is confirmed.
        transfer_seen_at: decode has noticed, at the end of a step.
        prefill_released_at: prefill has noticed and freed its KV.
        transfer_bytes: moved so far, all ranks; `descriptors` likewise.
        joined_at: in decode's batch, for the first time.
        first_computed_at: a step has given its first token; the detokenizer has not.
        first_token_at: at the user, likewise `finished_at` for the last one.
        generated_tokens: known at a preemption and at the end.
        preemptions: how often decode took its memory back.
        end: how it ended, None while it lives.
        ended_at: when.
    """

    number: int
    prompt_tokens: int
    output_tokens: int
    group: int
    shared_tokens: int
    is_orphan: bool
    arrived_at: float
    prefill: int = -1
    decode: int = -1
    routed_at: float = nan
    prefill_arrived_at: float = nan
    decode_arrived_at: float = nan
    handshaken_at: float = nan
    allocated_at: float = nan
    prefill_queued_at: float = nan
    prefill_started_at: float = nan
    prefill_ended_at: float = nan
    cached_tokens: int = 0
    computed_tokens: int = 0
    chunks: list[Chunk] = field(default_factory=list)
    transfer_posted_at: float = nan
    transfer_started_at: float = nan
    post_seconds: float = 0.0
    transferred_at: float = nan
    transfer_seen_at: float = nan
    prefill_released_at: float = nan
    transfer_bytes: int = 0
    descriptors: int = 0
    joined_at: float = nan
    first_computed_at: float = nan
    first_token_at: float = nan
    finished_at: float = nan
    generated_tokens: int = 0
    preemptions: int = 0
    end: End | None = None
    ended_at: float = nan

    @property
    def is_over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.end is not None

    @property
    def ttft_seconds(self) -> float:
        """From the router to the user's first token; NaN without one."""
        return self.first_token_at - self.arrived_at

    @property
    def tpot_seconds(self) -> float:
        """Mean time between its tokens; NaN before the end or with one token."""
        return (self.finished_at - self.first_token_at) / (self.output_tokens - 1) if self.output_tokens > 1 else nan
