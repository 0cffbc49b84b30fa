"""What can be done about the hand-over of KV: bytes, links, descriptors, connections."""

from __future__ import annotations

from collections.abc import Mapping

from pdscope.diagnosis.catalogue.entry import BOTH, DECODE, PREFILL, Entry

ENTRIES: Mapping[str, Entry] = {
    "use_more_nics": Entry(
        "Use all NICs, and the one nearest to each device, for KV",
        "Host set-up; the NICs carry less of anything else",
        "Port counters show NICs that carry no KV",
        at=BOTH,
    ),
    "faster_link": Entry(
        "Place prefill and decode where the link between them is wider (same rack, switched instead of meshed)",
        "Re-deployment; fewer places to schedule",
        "The configured capacity is what the link really carries",
    ),
    "quantise_kv": Entry(
        "Store the KV cache in 8 bits: half the bytes on the wire and in memory",
        "Accuracy, to be checked on your own evaluation; some kernels are slower",
        "The cache is 16 bits wide now and prefill and decode both support the type",
        at=BOTH,
    ),
    "decode_prefix_cache": Entry(
        "Keep prefixes on decode, so that only the rest is transferred (hits on prefill do not lower the bytes)",
        "KV memory on decode",
        "Requests of one session return to the same decode instance",
        at=DECODE,
    ),
    "local_prefill": Entry(
        "Let decode compute short prompts itself instead of fetching their KV",
        "Decode steps stretch while it computes a prompt: ITL jitter",
        "A good part of the prompts is short (below about 1,000 tokens), and the router can decide by length",
    ),
    "fix_transport": Entry(
        "Find the failing pair (counters of both sides by instance) and restart the transfer engine of that pair only",
        "Requests in flight on that instance are lost",
        "Failures concentrate on one pair; the log names the peer",
    ),
    "separate_traffic": Entry(
        "Give KV ports of its own, or a traffic class with a guaranteed share",
        "Ports, or switch configuration",
        "Something else (storage, checkpoints, another deployment) uses the ports that KV goes through",
        at=BOTH,
    ),
    "measure_handover": Entry(
        "Read the hand-over elsewhere: the per-stage latency of prefill, decode's queues, the port counters",
        "None but the time it takes to look",
        "The engine's own transfer time is that of a part of the bytes (SGLang with chunked prompts)",
    ),
    "check_transport": Entry(
        "Find out which transport the transfer engine has chosen (its start-up log), and force RDMA or NVLink",
        "A restart of one role",
        "The host has a faster path than the one in use: port counters stay flat while KV moves",
        at=BOTH,
    ),
    "check_topology": Entry(
        "Pair each device with its nearest NIC, and prefill with decode inside one rail or rack",
        "Re-deployment of one role",
        "Transfers of some pairs are slow and of others not",
        at=BOTH,
    ),
    "larger_pages": Entry(
        "Use larger KV pages or blocks: fewer descriptors for the same bytes",
        "A coarser prefix cache, and memory lost in the last page of each request",
        "Pages are small (below 128 tokens), and both roles take the same size",
        at=BOTH,
    ),
    "equal_parallelism": Entry(
        "Give prefill and decode the same tensor parallelism",
        "Devices, or latency of one role",
        "The cache has heads (GQA) and the two differ, so each head is sent in slices",
        at=BOTH,
    ),
    "staging_buffer": Entry(
        "Gather the pieces in a staging buffer on both sides and send that",
        "Device memory for the buffer, and a copy",
        "Parallelism or layout differ between the roles and cannot be made equal",
        at=BOTH,
    ),
    "restart_decode": Entry(
        "Restart decode instances one after the other: the pool is contiguous again",
        "Requests in flight; the pool scatters again with time",
        "Speed falls with uptime at a page size of one token",
    ),
    "warm_up_connections": Entry(
        "Connect all pairs before traffic comes, and keep the connections",
        "A slower start",
        "Set-up is slow for the first requests of each pair only",
    ),
    "faster_bootstrap": Entry(
        "Look at the bootstrap server and the control path: its CPU, its network, name resolution",
        "None but the time it takes to look",
        "Handshakes are slow for every request while bytes move fast",
    ),
    "more_transfer_threads": Entry(
        "Give the transfer engine of prefill more threads",
        "CPU on prefill, which starves where it is bound by its CPU",
        "Prefill's CPU has time, and the transfer engine takes the number",
        at=PREFILL,
    ),
    "more_transfer_queues": Entry(
        "Give the transfer engine more queues, one for each decode peer, after more threads",
        "Fewer threads for each queue: they share the pool of threads",
        "Prefill serves several decode peers; with one of them a single queue is used, whatever their number",
        at=PREFILL,
    ),
    "check_shapes": Entry(
        "Make both sides agree on parallelism, page size and KV type",
        "A restart of one role",
        "The two sides differ in one of them, or every request between two instances fails",
        at=BOTH,
    ),
}
