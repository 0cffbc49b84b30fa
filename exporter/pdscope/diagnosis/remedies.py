"""The catalogue of remedies: what to do, what it costs, when it helps. Settings are spelt by the engine's own file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pdscope.model.finding import Remedy
from pdscope.model.topology import EngineProfile


@dataclass(frozen=True, slots=True)
class _Entry:
    action: str
    cost: str
    precondition: str
    adds_instances: bool = False


CATALOGUE: Mapping[str, _Entry] = {
    "add_prefill": _Entry(
        "Add prefill instances, or turn a decode instance into a prefill instance",
        "Devices: those of another instance, or decode capacity",
        "Prefill is the limit and the KV link has room: more prefill sends more KV",
        adds_instances=True,
    ),
    "more_tensor_parallel": _Entry(
        "Raise the tensor parallelism of prefill",
        "Devices and all-reduce traffic; with other parallelism than decode a GQA transfer breaks into small slices",
        "Single prompts are slow, not only many of them",
    ),
    "raise_token_budget": _Entry(
        "Let a prefill batch take more tokens",
        "Activation memory on prefill, and a longer wait for the prompts behind a large batch",
        "The devices of prefill compute below their limit while prompts wait",
    ),
    "keep_prefix_cache": _Entry(
        "Route requests with a common prefix to the same prefill instance",
        "Balance: strong affinity overloads one instance",
        "Prompts share prefixes, and the hit rate fell before the queue rose",
    ),
    "separate_long_prompts": _Entry(
        "Serve long prompts on instances of their own, or chunk them smaller",
        "Devices, or throughput of the long prompts",
        "Short prompts wait behind long ones",
    ),
    "use_more_nics": _Entry(
        "Use all NICs, and the one nearest to each device, for KV",
        "Host set-up; the NICs carry less of anything else",
        "Port counters show NICs that carry no KV",
    ),
    "faster_link": _Entry(
        "Place prefill and decode where the link between them is wider (same rack, switched instead of meshed)",
        "Re-deployment; fewer places to schedule",
        "The configured capacity is what the link really carries",
    ),
    "quantise_kv": _Entry(
        "Store the KV cache in 8 bits: half the bytes on the wire and in memory",
        "Accuracy, to be checked on your own evaluation; some kernels are slower",
        "The cache is 16 bits wide now and prefill and decode both support the type",
    ),
    "decode_prefix_cache": _Entry(
        "Keep prefixes on decode, so that only the rest is transferred (hits on prefill do not lower the bytes)",
        "KV memory on decode",
        "Requests of one session return to the same decode instance",
    ),
    "local_prefill": _Entry(
        "Let decode compute short prompts itself instead of fetching their KV",
        "Decode steps stretch while it computes a prompt: ITL jitter",
        "A good part of the prompts is short (below about 1,000 tokens), and the router can decide by length",
    ),
    "shed_load": _Entry(
        "Reject or delay requests at the router before they queue",
        "Users see errors or a declared wait",
        "Demand stays above capacity and nothing can be added now",
    ),
    "raise_running_limit": _Entry(
        "Raise the running-request limit of decode",
        "ITL grows with every slot, and beyond the captured batch sizes steps leave the CUDA graphs; KV memory",
        "Decode is at its slot limit, ITL is within its objective and KV memory is free",
    ),
    "add_decode": _Entry(
        "Add decode instances, or turn a prefill instance into a decode instance",
        "Devices: those of another instance, or prefill capacity",
        "Decode is the limit and the KV link has room",
        adds_instances=True,
    ),
    "add_instances": _Entry(
        "Add instances that do the same",
        "More devices, and fewer prefix hits on each",
        "The traffic is here to stay, and the router spreads it",
        adds_instances=True,
    ),
    "free_decode_memory": _Entry(
        "Give the KV pool of decode more memory",
        "Less head-room against out-of-memory",
        "Memory is left beside weights, graphs and pool",
    ),
    "reserve_fewer_tokens": _Entry(
        "Reserve fewer tokens for each admitted request on decode",
        "Retractions when outputs grow longer than reserved",
        "Requests wait for allocation while the pool is not full",
    ),
    "limit_running": _Entry(
        "Lower the running-request limit of decode: shorter steps, and requests wait before admission, not half-way",
        "Queueing moves to admission: TTFT instead of ITL or lost work",
        "Requests are pushed out all the time, or ITL is over with a large batch while TTFT has room",
    ),
    "quantise_weights": _Entry(
        "Serve the weights in 8 or 4 bits: they are read in every step",
        "Accuracy, to be checked on your own evaluation",
        "The batch is small, so that weights and not KV make up most of what a step reads",
    ),
    "speculative_decoding": _Entry(
        "Decode several tokens a step by speculation",
        "A draft model's memory and KV; with many requests running the extra tokens cost more than they save",
        "Few requests run, and drafts are accepted often",
    ),
    "fix_transport": _Entry(
        "Find the failing pair (counters of both sides by instance) and restart the transfer engine of that pair only",
        "Requests in flight on that instance are lost",
        "Failures concentrate on one pair; the log names the peer",
    ),
    "check_shapes": _Entry(
        "Make both sides agree on parallelism, page size and KV type",
        "A restart of one role",
        "Failures began with a deployment, and every request between the two fails",
    ),
}


def remedies_for(ids: Iterable[str], profile: EngineProfile | None) -> tuple[Remedy, ...]:
    """Catalogue entries with the setting as the engine at fault spells it.

    Raises:
        KeyError: an id is not in the catalogue: a mistake of ours, found by the first test that runs.
    """
    settings = profile.settings if profile is not None else {}
    return tuple(
        Remedy(id=i, action=e.action, cost=e.cost, precondition=e.precondition, setting=settings.get(i))
        for i in ids
        for e in (CATALOGUE[i],)
    )


def adds_instances(remedy: Remedy) -> bool:
    """Whether the remedy adds prefill or decode: pointless, or worse, while the link is full."""
    return CATALOGUE[remedy.id].adds_instances
