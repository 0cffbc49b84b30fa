"""What a decode instance shows of itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DecodeState:
    """What a decode (or unified) instance holds now; every request of it is in exactly one of the places.

    Attributes:
        handshaking: SGLang: control messages before it may be allocated (part of the prealloc queue as printed).
        queued: wait for memory or a slot (vLLM: `waiting_to_start`).
        transferring: have memory, their KV is not here (SGLang: prefill's work is inside; vLLM: `in_progress`).
        ready: their KV is here, no slot yet (vLLM: `completed_waiting`).
        local: are prefilled here, or wait for it.
        running: in the batch.
        retracted: were in the batch, wait for memory again.
        context_tokens: of the batch.
        held_tokens: pool tokens of all requests with memory; `pending_tokens` of those that do not run yet.
        pool_tokens: all of the pool; `slots` likewise.
    """

    handshaking: int
    queued: int
    transferring: int
    ready: int
    local: int
    running: int
    retracted: int
    context_tokens: int
    held_tokens: int
    pending_tokens: int
    pool_tokens: int
    slots: int
