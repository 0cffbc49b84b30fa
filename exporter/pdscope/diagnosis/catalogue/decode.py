"""What can be done at decode: its slots, its memory, its steps."""

from __future__ import annotations

from collections.abc import Mapping

from pdscope.diagnosis.catalogue.entry import DECODE, LINK_FULL, Entry

ENTRIES: Mapping[str, Entry] = {
    "raise_running_limit": Entry(
        "Raise the running-request limit of decode",
        "ITL grows with every slot, and beyond the captured batch sizes steps leave the CUDA graphs; KV memory",
        "Decode is at its slot limit, ITL is within its objective and KV memory is free",
        at=DECODE,
        undoes=frozenset({"limit_running", "limit_running_to_graphs"}),
    ),
    "add_decode": Entry(
        "Add decode instances, or turn a prefill instance into a decode instance",
        "Devices: those of another instance, or prefill capacity",
        "Decode is the limit and the KV link has room",
        at=DECODE,
        adds_instances=True,
        futile_while=LINK_FULL,
    ),
    "free_decode_memory": Entry(
        "Give the KV pool of decode more memory",
        "Less head-room against out-of-memory",
        "Memory is left beside weights, graphs and pool",
        at=DECODE,
    ),
    "reserve_fewer_tokens": Entry(
        "Reserve fewer tokens for each admitted request on decode",
        "Retractions when outputs grow longer than reserved",
        "Requests wait for allocation while the pool is not full",
        at=DECODE,
        undoes=frozenset({"limit_running"}),
    ),
    "limit_running": Entry(
        "Lower the running-request limit of decode: shorter steps, and requests wait before admission, not half-way",
        "Queueing moves to admission: TTFT instead of ITL or lost work",
        "Requests are pushed out all the time, or ITL is over with a large batch while TTFT has room",
        at=DECODE,
    ),
    "quantise_weights": Entry(
        "Serve the weights in 8 or 4 bits: they are read in every step",
        "Accuracy, to be checked on your own evaluation",
        "The batch is small, so that weights and not KV make up most of what a step reads",
        at=DECODE,
    ),
    "speculative_decoding": Entry(
        "Decode several tokens a step by speculation",
        "A draft model's memory and KV; with many requests running the extra tokens cost more than they save",
        "Few requests run, and drafts are accepted often",
        at=DECODE,
    ),
    "capture_larger_graphs": Entry(
        "Capture CUDA graphs up to the batch that runs",
        "Device memory and start-up time for each captured size",
        "The running batch is larger than the largest captured one",
        at=DECODE,
    ),
    "limit_running_to_graphs": Entry(
        "Lower the running-request limit of decode to the largest captured batch",
        "Requests wait before admission instead: TTFT",
        "Memory for larger graphs is not there",
        at=DECODE,
    ),
    "capture_graphs": Entry(
        "Run decode in CUDA graphs",
        "Device memory and start-up time",
        "They are off, so that each kernel is launched by the CPU",
        at=DECODE,
    ),
    "larger_batch": Entry(
        "Serve more requests on fewer decode instances: the host's part of a step is shared by all of them",
        "Head-room for bursts",
        "Few requests run on each instance",
        undoes=frozenset({"add_decode", "add_instances", "limit_running"}),
    ),
}
