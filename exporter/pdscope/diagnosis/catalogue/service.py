"""What can be done in front of the engines: router, frontend, roles, the number of instances."""

from __future__ import annotations

from collections.abc import Mapping

from pdscope.diagnosis.catalogue.entry import BOTH, DECODE, EVERYWHERE, LINK_FULL, PREFILL, ROUTER, Entry

ENTRIES: Mapping[str, Entry] = {
    "add_instances": Entry(
        "Add instances that do the same",
        "More devices, and fewer prefix hits on each",
        "The traffic is here to stay, and the router spreads it",
        adds_instances=True,
        futile_while=LINK_FULL,
    ),
    "shed_load": Entry(
        "Reject or delay requests at the router before they queue",
        "Users see errors or a declared wait",
        "Demand stays above capacity and nothing can be added now",
        at=(*PREFILL, *ROUTER),
    ),
    "router_policy": Entry(
        "Route by work in flight (least loaded, power of two) instead of round robin or cache affinity alone",
        "Fewer prefix hits",
        "The instances of the role are alike",
        at=ROUTER,
        undoes=frozenset({"keep_prefix_cache"}),
    ),
    "less_affinity": Entry(
        "Weigh prefix affinity less, or bound the load up to which it counts",
        "Prefix hits: prompts that come back are computed again",
        "The hot instances hold popular prefixes",
        at=ROUTER,
        undoes=frozenset({"keep_prefix_cache"}),
    ),
    "balance_ranks": Entry(
        "Let the engine give a request to the data-parallel rank that holds the least",
        "Prefix hits, where requests of a session stayed on one rank",
        "The ranks of one instance hold unequal work",
        at=BOTH,
    ),
    "reset_router_state": Entry(
        "Check the router's view of the idle instances (health, circuit breaker, scores), and register them again",
        "None but the time it takes to look",
        "Idle instances get nothing at all",
    ),
    "look_at_router": Entry(
        "Profile the router or proxy: its CPU, its connections, whether it waits for both legs before it streams",
        "None but the time it takes to look",
        "The engines' own TTFT is well within the objective",
    ),
    "scale_frontend": Entry(
        "Run more frontend processes (API servers, tokenizer and detokenizer workers)",
        "CPU cores and memory",
        "A process in front of the engine uses a whole core",
        at=BOTH,
    ),
    "fewer_stream_events": Entry(
        "Send several tokens in one stream event",
        "Text comes in larger pieces",
        "The detokenizer or the HTTP layer is at its limit, and users do not read single tokens",
        at=DECODE,
    ),
    "unify": Entry(
        "Serve this traffic from unified engines, and keep the split for long prompts",
        "Prefill and decode disturb each other again: ITL jitter under load",
        "Prompts are short or requests are few",
        at=BOTH,
        undoes=frozenset({"add_decode", "add_prefill"}),
    ),
    "correct_configuration": Entry(
        "Correct the configuration of pdscope where it and the program contradict each other, or the address behind it",
        "None but the time it takes to look",
        "The answer counts on what is configured: role, engine, devices",
    ),
    "scrape_each_worker": Entry(
        "Give each process an address of its own in the configuration: no service or load balancer in between",
        "A target for each; none with discovery",
        "Several engines, or several workers of one, answer at the address that is scraped",
    ),
    "read_raw_page": Entry(
        "Compare the raw page of the engine with what arrives: what re-labels, merges or drops buckets on the way",
        "None but the time it takes to look",
        "A proxy, an agent or recording rules stand between, or the engine's client library was patched",
    ),
    "check_roles": Entry(
        "Check that the router sends both legs and that the engines' connectors are configured",
        "None but the time it takes to look",
        "Prefill serves nothing while decode computes prompts itself",
        at=EVERYWHERE,
    ),
}
