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
    "drain_device": _Entry(
        "Take the slow device out: move the instance to other devices, then test and replace it",
        "An instance less until it is moved",
        "One device lags behind its peers at the same work, or its driver reports faults",
    ),
    "cool_device": _Entry(
        "Look at cooling, the power supply and power limits of the host",
        "None for the service; a visit to the rack",
        "The device is slowed down for heat or power",
    ),
    "separate_traffic": _Entry(
        "Give KV ports of its own, or a traffic class with a guaranteed share",
        "Ports, or switch configuration",
        "Something else (storage, checkpoints, another deployment) uses the ports that KV goes through",
    ),
    "measure_handover": _Entry(
        "Read the hand-over elsewhere: the per-stage latency of prefill, decode's queues, the port counters",
        "None",
        "The engine's own transfer time is that of a part of the bytes (SGLang with chunked prompts)",
    ),
    "free_profiler": _Entry(
        "End the profiler session that holds the counters, or resume them (`dcgmi profile --resume`)",
        "The session's results",
        "Profiling fields stand at zero on a busy device",
    ),
    "check_transport": _Entry(
        "Find out which transport the transfer engine has chosen (its start-up log), and force RDMA or NVLink",
        "A restart of one role",
        "The host has a faster path than the one in use: port counters stay flat while KV moves",
    ),
    "check_topology": _Entry(
        "Pair each device with its nearest NIC, and prefill with decode inside one rail or rack",
        "Re-deployment",
        "Transfers of some pairs are slow and of others not",
    ),
    "larger_pages": _Entry(
        "Use larger KV pages or blocks: fewer descriptors for the same bytes",
        "A coarser prefix cache, and memory lost in the last page of each request",
        "Pages are small (1 to 16 tokens), and both roles take the same size",
    ),
    "equal_parallelism": _Entry(
        "Give prefill and decode the same tensor parallelism",
        "Devices, or latency of one role",
        "The cache has heads (GQA) and the two differ, so each head is sent in slices",
    ),
    "staging_buffer": _Entry(
        "Gather the pieces in a staging buffer on both sides and send that",
        "Device memory for the buffer, and a copy",
        "Parallelism or layout differ between the roles and cannot be made equal",
    ),
    "restart_decode": _Entry(
        "Restart decode instances one after the other: the pool is contiguous again",
        "Requests in flight; the pool scatters again with time",
        "Speed falls with uptime at a page size of one token",
    ),
    "warm_up_connections": _Entry(
        "Connect all pairs before traffic comes, and keep the connections",
        "A slower start",
        "Set-up is slow for the first requests of each pair only",
    ),
    "faster_bootstrap": _Entry(
        "Look at the bootstrap server and the control path: its CPU, its network, name resolution",
        "None",
        "Handshakes are slow for every request while bytes move fast",
    ),
    "more_transfer_threads": _Entry(
        "Give the transfer engine more threads or queues, one for each decode peer",
        "CPU on prefill, which starves where it is bound by its CPU; with a single decode peer more queues leave each "
        "fewer threads",
        "Prefill serves several decode peers, and its CPU has time",
    ),
    "shorter_lease": _Entry(
        "Shorten the lease on finished prompts",
        "A decode that is slower than the lease reads blocks that are gone: requests fail, or answer wrongly",
        "Clients give up before decode fetches, and decode itself is quick",
    ),
    "abort_prefill": _Entry(
        "Let the router cancel the prefill leg of a request whose client has gone",
        "None",
        "Aborted requests leave finished prompts behind",
    ),
    "free_prefill_memory": _Entry(
        "Give the KV pool of prefill more memory",
        "Less head-room against out-of-memory; it fills as well, only later",
        "Finished prompts wait for short times, and many at once",
    ),
    "router_policy": _Entry(
        "Route by work in flight (least loaded, power of two) instead of round robin or cache affinity alone",
        "Fewer prefix hits",
        "The instances of the role are alike",
    ),
    "less_affinity": _Entry(
        "Weigh prefix affinity less, or bound the load up to which it counts",
        "Prefix hits: prompts that come back are computed again",
        "The hot instances hold popular prefixes",
    ),
    "reset_router_state": _Entry(
        "Check the router's view of the idle instances (health, circuit breaker, scores), and register them again",
        "None",
        "Idle instances get nothing at all",
    ),
    "look_at_router": _Entry(
        "Profile the router or proxy: its CPU, its connections, whether it waits for both legs before it streams",
        "None",
        "The engines' own TTFT is well within the objective",
    ),
    "scale_frontend": _Entry(
        "Run more frontend processes (API servers, tokenizer and detokenizer workers)",
        "CPU cores and memory",
        "A process in front of the engine uses a whole core",
    ),
    "fewer_stream_events": _Entry(
        "Send several tokens in one stream event",
        "Text comes in larger pieces",
        "The detokenizer or the HTTP layer is at its limit, and users do not read single tokens",
    ),
    "capture_larger_graphs": _Entry(
        "Capture CUDA graphs up to the batch that runs",
        "Device memory and start-up time for each captured size",
        "The running batch is larger than the largest captured one",
    ),
    "limit_running_to_graphs": _Entry(
        "Lower the running-request limit of decode to the largest captured batch",
        "Requests wait before admission instead: TTFT",
        "Memory for larger graphs is not there",
    ),
    "overlap_scheduler": _Entry(
        "Turn the overlap scheduler on: the CPU prepares a step while the devices run the one before",
        "Some features exclude it",
        "It is off, and the devices idle between steps",
    ),
    "free_cpu": _Entry(
        "Give the engine cores of its own: pin it, move other work away, raise the CPU limit of its container",
        "CPU cores",
        "The scheduler's process uses a whole core, or is throttled",
    ),
    "capture_graphs": _Entry(
        "Run decode in CUDA graphs",
        "Device memory and start-up time",
        "They are off, so that each kernel is launched by the CPU",
    ),
    "larger_batch": _Entry(
        "Serve more requests on fewer decode instances: the host's part of a step is shared by all of them",
        "Head-room for bursts",
        "Few requests run on each instance",
    ),
    "unify": _Entry(
        "Serve this traffic from unified engines, and keep the split for long prompts",
        "Prefill and decode disturb each other again: ITL jitter under load",
        "Prompts are short or requests are few",
    ),
    "check_roles": _Entry(
        "Check that the router sends both legs and that the engines' connectors are configured",
        "None",
        "Prefill serves nothing while decode computes prompts itself",
    ),
    "longer_lease": _Entry(
        "Lengthen the lease on finished prompts",
        "Prompts that nobody fetches pin prefill's memory for longer; it hides a decode that is too slow, and cures "
        "none",
        "Decode fetches late because of bursts, and is not at its limit all the time",
    ),
    "fail_on_expiry": _Entry(
        "Let requests whose KV is gone fail or be computed again, never read late",
        "Errors, or prompts computed on decode",
        "The engine has the policy, and an error is better than a wrong answer",
    ),
    "restart_instance": _Entry(
        "Look at its log and its devices, and restart it; take it out of the router meanwhile",
        "Requests in flight on it",
        "Nothing answers at its address",
    ),
    "restore_metrics": _Entry(
        "Open its /metrics and its log: a handler that fails, a full multiprocess folder, metrics switched off",
        "A restart, where the metrics are broken until then",
        "It answers under /health",
    ),
    "fewer_series": _Entry(
        "Let the engine print fewer series: metrics of one rank, fewer buckets, no per-request labels",
        "Detail",
        "Its page is large (hundreds of KB)",
    ),
    "longer_interval": _Entry(
        "Scrape it less often, pdscope and everybody else",
        "Slower detection",
        "Several programs scrape it every few seconds",
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
