"""What can be done at prefill: its capacity, its batches, its cache, its finished prompts."""

from __future__ import annotations

from collections.abc import Mapping

from pdscope.diagnosis.catalogue.entry import BOTH, LEASE_IS_NOT_SHORT, LINK_FULL, PREFILL, ROUTER, Entry

ENTRIES: Mapping[str, Entry] = {
    "add_prefill": Entry(
        "Add prefill instances, or turn a decode instance into a prefill instance",
        "Devices: those of another instance, or decode capacity",
        "Prefill is the limit and the KV link has room: more prefill sends more KV",
        at=PREFILL,
        adds_instances=True,
        futile_while=LINK_FULL,
        undoes=frozenset({"add_decode"}),
    ),
    "more_tensor_parallel": Entry(
        "Raise the tensor parallelism of prefill",
        "Devices and all-reduce traffic; with other parallelism than decode a GQA transfer breaks into small slices",
        "Single prompts are slow, not only many of them",
        at=PREFILL,
        undoes=frozenset({"equal_parallelism"}),
    ),
    "raise_token_budget": Entry(
        "Let a prefill batch take more tokens",
        "Activation memory on prefill, and a longer wait for the prompts behind a large batch",
        "The devices of prefill compute below their limit while prompts wait",
        at=PREFILL,
    ),
    "keep_prefix_cache": Entry(
        "Route requests with a common prefix to the same prefill instance",
        "Balance: strong affinity overloads one instance",
        "Prompts share prefixes, and the hit rate fell before the queue rose",
        at=ROUTER,
    ),
    "separate_long_prompts": Entry(
        "Serve long prompts on instances of their own, or chunk them smaller",
        "Devices, or throughput of the long prompts",
        "Short prompts wait behind long ones",
        at=PREFILL,
    ),
    "shorter_lease": Entry(
        "Shorten the lease on finished prompts",
        "A decode that is slower than the lease reads blocks that are gone: requests fail, or answer wrongly",
        "Clients give up before decode fetches, and decode itself is quick",
        at=PREFILL,
        undoes=frozenset({"longer_lease"}),
    ),
    "longer_lease": Entry(
        "Lengthen the lease on finished prompts",
        "Prompts that nobody fetches pin prefill's memory for longer; it hides a decode that is too slow, and cures "
        "none",
        "Decode fetches late because of bursts, and is not at its limit all the time",
        at=PREFILL,
        futile_while=LEASE_IS_NOT_SHORT,
    ),
    "fail_on_expiry": Entry(
        "Let requests whose KV is gone fail or be computed again, never read late",
        "Errors, or prompts computed on decode",
        "The engine has the policy, and an error is better than a wrong answer",
        at=BOTH,
    ),
    "abort_prefill": Entry(
        "Let the router cancel the prefill leg of a request whose client has gone",
        "None for users; the router has to support it",
        "Aborted requests leave finished prompts behind",
    ),
    "free_prefill_memory": Entry(
        "Give the KV pool of prefill more memory",
        "Less head-room against out-of-memory; it fills as well, only later",
        "Finished prompts wait for short times, and many at once",
        at=PREFILL,
    ),
}
