"""No remedy is offered whose precondition is known to be false, and none is withheld for what is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdscope.diagnosis.fitting import fitting
from pdscope.diagnosis.preconditions import PRECONDITIONS
from pdscope.diagnosis.remedies import CATALOGUE
from pdscope.model.signal import SignalId
from pdscope.model.topology import (
    Attention,
    Deployment,
    EngineProfile,
    Interconnect,
    KvShape,
    ModelFacts,
    Role,
)
from support.signals import Figures, deployment, instance, on, signal_set

UNEQUAL = deployment(instance("p0", Role.PREFILL, tp=4), instance("d0", Role.DECODE, tp=8))
EQUAL = deployment()
RANKED = deployment(instance("p0", Role.PREFILL), instance("d0", Role.DECODE, dp=8))
PEERS = deployment(*(instance(f"{role[0]}{n}", role) for role in (Role.PREFILL, Role.DECODE) for n in (0, 1)))
ALONE = deployment(instance("u0", Role.UNIFIED), instance("u1", Role.UNIFIED))
GQA = KvShape(Attention.GQA, layers=80, bytes_per_element=2, kv_heads=8, head_dim=128)
MLA = KvShape(Attention.MLA, layers=61, bytes_per_element=2, latent_dim=576)
LINK = Interconnect(50e9)


def served(of: Deployment, kv: KvShape) -> Deployment:
    return replace(of, model=ModelFacts("m", kv=kv, weight_bytes=140e9))


def spread(role: str, busiest: float, idlest: float) -> Figures:
    return {
        (f"{role}0", SignalId.WORK_LEAST): busiest,
        (f"{role}0", SignalId.WORK_MOST): busiest + 1,
        (f"{role}1", SignalId.WORK_LEAST): 0.0,
        (f"{role}1", SignalId.WORK_MOST): idlest,
    }


@pytest.mark.parametrize(
    ("remedy", "of", "figures", "offered"),
    [
        ("equal_parallelism", EQUAL, {}, False),
        ("equal_parallelism", UNEQUAL, {}, True),
        ("equal_parallelism", served(UNEQUAL, GQA), {}, True),
        ("equal_parallelism", served(UNEQUAL, MLA), {}, False),
        ("staging_buffer", EQUAL, {}, False),
        ("staging_buffer", UNEQUAL, {}, True),
        ("staging_buffer", served(UNEQUAL, MLA), {}, False),
        ("larger_pages", EQUAL, on("d0", {SignalId.PAGE_TOKENS: 64.0}), True),
        ("larger_pages", EQUAL, on("d0", {SignalId.PAGE_TOKENS: 128.0}), False),
        ("restart_decode", EQUAL, on("d0", {SignalId.PAGE_TOKENS: 1.0}), True),
        ("restart_decode", EQUAL, on("d0", {SignalId.PAGE_TOKENS: 16.0}), False),
        ("more_transfer_queues", EQUAL, {}, False),
        ("more_transfer_queues", PEERS, {}, True),
        ("more_transfer_threads", EQUAL, on("p0", {SignalId.FRONTEND_CPU: 0.95}), False),
        (
            "more_transfer_threads",
            replace(EQUAL, interconnect=replace(LINK, transfer_engine="NIXL")),
            {},
            False,
        ),
        ("more_transfer_threads", replace(EQUAL, interconnect=replace(LINK, transfer_engine="mooncake")), {}, True),
        ("router_policy", EQUAL, {}, False),
        ("router_policy", PEERS, {}, True),
        ("less_affinity", ALONE, {}, True),
        ("reset_router_state", EQUAL, {}, False),
        ("keep_prefix_cache", deployment(*EQUAL.instances, instance("d1", Role.DECODE)), {}, False),
        ("keep_prefix_cache", PEERS, {}, True),
        ("balance_ranks", PEERS, {}, False),
        ("balance_ranks", RANKED, {}, True),
        ("balance_ranks", RANKED, on("d0", {SignalId.RANK_IMBALANCE: 2.9}), False),
        ("balance_ranks", EQUAL, on("d0", {SignalId.RANK_IMBALANCE: 3.0}), True),
        ("add_decode", RANKED, on("d0", {SignalId.RANK_IMBALANCE: 3.0}), False),
        ("add_prefill", RANKED, on("d0", {SignalId.RANK_IMBALANCE: 3.0}), True),
        ("use_more_nics", EQUAL, {SignalId.NIC_IMBALANCE: 1.0}, False),
        ("use_more_nics", EQUAL, {SignalId.NIC_IMBALANCE: 2.0}, True),
        (
            "use_more_nics",
            replace(EQUAL, interconnect=replace(LINK, ib_device="a")),
            {SignalId.NIC_IMBALANCE: 1.0},
            True,
        ),
        ("larger_batch", EQUAL, {}, False),
        ("larger_batch", PEERS, {}, True),
        ("capture_graphs", EQUAL, on("d0", {SignalId.GRAPH_MISS: 0.5}), False),
        ("capture_graphs", EQUAL, on("d0", {SignalId.GRAPH_MISS: 1.0}), True),
        ("limit_running", EQUAL, on("d0", {SignalId.RUNNING: 1.0}), False),
        ("limit_running", EQUAL, on("d0", {SignalId.RUNNING: 2.0}), True),
        ("speculative_decoding", EQUAL, on("d0", {SignalId.RUNNING: 33.0}), False),
        ("speculative_decoding", EQUAL, on("d0", {SignalId.RUNNING: 32.0}), True),
        ("quantise_weights", served(EQUAL, GQA), on("d0", {SignalId.STEP_BYTES: 281e9}), False),
        ("quantise_weights", served(EQUAL, GQA), on("d0", {SignalId.STEP_BYTES: 279e9}), True),
        ("quantise_weights", EQUAL, on("d0", {SignalId.STEP_BYTES: 281e9}), True),
        ("quantise_kv", served(EQUAL, replace(GQA, bytes_per_element=1)), {}, False),
        ("quantise_kv", deployment(instance("d0", Role.DECODE, kv_dtype="fp8_e4m3")), {}, False),
        ("quantise_kv", deployment(instance("d0", Role.DECODE, kv_dtype="bfloat16")), {}, True),
        ("quantise_kv", EQUAL, {SignalId.KV_BYTES_PER_TOKEN: 100.0, SignalId.KV_BYTES_PER_TOKEN_ENGINE: 53.0}, False),
        ("quantise_kv", EQUAL, {SignalId.KV_BYTES_PER_TOKEN: 100.0, SignalId.KV_BYTES_PER_TOKEN_ENGINE: 99.0}, True),
        ("add_prefill", PEERS, spread("p", 4.0, 0.0), False),
        ("add_prefill", PEERS, spread("p", 3.0, 0.0), True),
        ("add_prefill", PEERS, spread("p", 30.0, 10.0), False),
        ("add_prefill", PEERS, spread("p", 29.0, 10.0), True),
        ("add_prefill", PEERS, spread("d", 30.0, 0.0), True),
        ("add_decode", PEERS, spread("d", 30.0, 0.0), False),
        ("add_decode", PEERS, spread("p", 30.0, 0.0), True),
        ("add_decode", EQUAL, {SignalId.DECODE_LOAD: 0.3, ("d0", SignalId.ADMISSION_QUEUE): 0.0}, False),
        ("add_decode", EQUAL, {SignalId.DECODE_LOAD: 0.3, ("d0", SignalId.ADMISSION_QUEUE): 9.0}, True),
        ("add_decode", EQUAL, {SignalId.DECODE_LOAD: 0.4, ("d0", SignalId.ADMISSION_QUEUE): 0.0}, True),
        ("add_decode", EQUAL, {SignalId.DECODE_LOAD: 0.3}, True),
        ("add_instances", ALONE, spread("u", 30.0, 0.0), False),
        ("add_instances", ALONE, spread("u", 30.0, 20.0), True),
    ],
)
def test_what_is_known_to_be_false_is_not_offered(remedy: str, of: Deployment, figures: Figures, offered: bool) -> None:
    """By the deployment, or by its signals."""
    assert (fitting([remedy], of, signal_set(figures)) == (remedy,)) is offered


def test_each_precondition_belongs_to_a_remedy() -> None:
    """One under a misspelt id would never be asked."""
    assert PRECONDITIONS.keys() <= CATALOGUE.keys()


def test_what_is_not_known_withholds_nothing() -> None:
    """Two instances of each role, unequal parallelism, ranks, and not one signal."""
    of = deployment(*(replace(i, tp=2, dp=2) if i.role is Role.DECODE else i for i in PEERS.instances))
    everything = [name for name in CATALOGUE if name != "add_instances"]
    assert fitting(everything, of, signal_set({})) == tuple(everything)


def test_what_no_engine_of_the_role_has_is_not_offered() -> None:
    """One engine of the role that has it is enough; the other role's does not count."""
    lacking = EngineProfile("lacking", lacks=frozenset({"reserve_fewer_tokens"}))
    p0, d0, d1 = instance("p0", Role.PREFILL), instance("d0", Role.DECODE, profile=lacking), instance("d1", Role.DECODE)
    none = signal_set({})
    assert fitting(["reserve_fewer_tokens"], deployment(p0, d0), none) == ()
    assert fitting(["reserve_fewer_tokens"], deployment(p0, d0, d1), none) == ("reserve_fewer_tokens",)
    assert fitting(["reserve_fewer_tokens"], deployment(p0, d0, d1), none, ("d0",)) == ()
    assert fitting(["reserve_fewer_tokens"], deployment(replace(p0, profile=lacking), d1), none) != ()
