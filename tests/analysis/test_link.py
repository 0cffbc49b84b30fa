"""What a link can carry, from the figure on its data sheet."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.analysis.link import Capacity, capacity, one_way, pair_bytes_per_second
from pdscope.model.topology import Instance, Interconnect, LinkDirection, LinkScope, LinkTopology, Role
from support.windows import instance

GB = 1e9
MESH = Interconnect(392 * GB, LinkDirection.BIDIRECTIONAL, LinkScope.DEVICE, LinkTopology.MESH, peers=7, efficiency=1.0)
SWITCHED = Interconnect(50 * GB, efficiency=1.0)


def prefills(*tps: int) -> list[Instance]:
    return [instance(f"p{n}", Role.PREFILL, tp=tp) for n, tp in enumerate(tps)]


def decodes(*tps: int) -> list[Instance]:
    return [instance(f"d{n}", Role.DECODE, tp=tp) for n, tp in enumerate(tps)]


def test_a_pair_in_a_full_mesh() -> None:
    """392 GB/s is seven links and both ways: a pair of cards has 28 GB/s, the card 196 GB/s."""
    assert one_way(MESH) == 196 * GB
    assert pair_bytes_per_second(MESH) == 28 * GB
    assert capacity(MESH, prefills(1), decodes(1)) == Capacity(28 * GB, "pairs")


def test_what_can_be_had_of_it() -> None:
    """80 % by default."""
    assert capacity(replace(MESH, efficiency=0.8), prefills(1), decodes(1)) == Capacity(28 * GB * 0.8, "pairs")
    assert Interconnect(1.0).efficiency == 0.8


def test_a_mesh_fills_up_with_pairs() -> None:
    """One card can send to seven; then its own links are the limit."""
    assert capacity(MESH, prefills(1), decodes(1, 1, 1)) == Capacity(84 * GB, "pairs")
    assert capacity(MESH, prefills(1), decodes(*[1] * 7)) == Capacity(196 * GB, "senders")


@pytest.mark.parametrize(
    ("senders", "receivers", "gigabytes", "by"),
    [
        ((1,), (1,), 50, "senders"),
        ((4,), (4,), 200, "senders"),
        ((8,), (4,), 200, "receivers"),
        ((4,), (8,), 200, "senders"),
        ((1, 1), (1, 1), 100, "senders"),
        ((4, 4), (4,), 200, "receivers"),
        ((1,), (4, 4), 50, "senders"),
    ],
)
def test_a_switched_link_of_each_device(
    senders: tuple[int, ...], receivers: tuple[int, ...], gigabytes: float, by: str
) -> None:
    """The side with fewer devices is the limit, whoever talks to whom."""
    assert capacity(SWITCHED, prefills(*senders), decodes(*receivers)) == Capacity(gigabytes * GB, by)


@pytest.mark.parametrize(("tp_prefill", "tp_decode", "pairs"), [(1, 1, 1), (4, 4, 4), (4, 8, 8), (8, 4, 8), (1, 7, 7)])
def test_unequal_parallelism_in_a_mesh(tp_prefill: int, tp_decode: int, pairs: int) -> None:
    """Each device of the larger side has one partner."""
    found = capacity(MESH, prefills(tp_prefill), decodes(tp_decode))
    assert found is not None
    assert found.bytes_per_second == min(pairs * 28, tp_prefill * 196, tp_decode * 196) * GB


def test_pipeline_stages_send_too() -> None:
    """Devices are all of the instance."""
    sender = [instance("p0", Role.PREFILL, tp=2, pp=2)]
    assert capacity(SWITCHED, sender, decodes(8)) == Capacity(200 * GB, "senders")


def test_a_figure_of_one_pair() -> None:
    """Every prefill instance sends to every decode instance; a mesh does not split it once more."""
    link = replace(SWITCHED, scope=LinkScope.PAIR)
    assert capacity(link, prefills(1), decodes(1)) == Capacity(50 * GB, "pairs")
    assert capacity(link, prefills(1, 1), decodes(1, 1, 1)) == Capacity(300 * GB, "pairs")
    assert pair_bytes_per_second(replace(link, topology=LinkTopology.MESH, peers=7)) == 50 * GB


def test_a_figure_of_a_node() -> None:
    """Instances on one host share its network card."""
    link = replace(SWITCHED, scope=LinkScope.NODE)
    together = [replace(one, url=f"http://node-a:3000{n}") for n, one in enumerate(prefills(4, 4))]
    apart = prefills(4, 4)
    assert capacity(link, together, decodes(4, 4)) == Capacity(50 * GB, "senders")
    assert capacity(link, apart, decodes(4, 4)) == Capacity(100 * GB, "senders")
    assert capacity(link, apart, together) == Capacity(50 * GB, "receivers")


def test_an_instance_without_an_address_is_a_node_of_its_own() -> None:
    """As when figures come from a Prometheus server."""
    link = replace(SWITCHED, scope=LinkScope.NODE)
    nameless = [replace(one, url="") for one in prefills(1, 1)]
    assert capacity(link, nameless, decodes(1, 1)) == Capacity(100 * GB, "senders")


def test_a_figure_of_everything() -> None:
    """However many take part."""
    link = replace(SWITCHED, scope=LinkScope.TOTAL)
    assert capacity(link, prefills(8, 8), decodes(8, 8)) == Capacity(50 * GB, "total")


def test_a_mesh_whose_peers_are_not_given() -> None:
    """One peer: nothing is split that is not known to be split."""
    assert pair_bytes_per_second(replace(MESH, peers=None)) == 196 * GB


def test_nobody_to_send_or_to_receive() -> None:
    """No capacity, rather than zero."""
    assert capacity(SWITCHED, [], decodes(1)) is None
    assert capacity(SWITCHED, prefills(1), []) is None


links = st.builds(
    Interconnect,
    bandwidth_bytes_per_second=st.floats(1e6, 1e13),
    direction=st.sampled_from(LinkDirection),
    scope=st.sampled_from(LinkScope),
    topology=st.sampled_from(LinkTopology),
    peers=st.none() | st.integers(1, 31),
    efficiency=st.floats(0.1, 1.0),
)
sizes = st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=4)


@given(links, sizes, sizes)
def test_both_ways_are_half_one_way(link: Interconnect, senders: list[int], receivers: list[int]) -> None:
    """The same link, described by the sum of both directions, carries the same."""
    doubled = replace(
        link,
        bandwidth_bytes_per_second=2 * link.bandwidth_bytes_per_second,
        direction=LinkDirection.BIDIRECTIONAL,
    )
    single = replace(link, direction=LinkDirection.UNIDIRECTIONAL)
    assert capacity(doubled, prefills(*senders), decodes(*receivers)) == capacity(
        single, prefills(*senders), decodes(*receivers)
    )


@given(links, sizes, sizes, st.sampled_from([1, 2, 4, 8]))
def test_another_instance_never_takes_capacity_away(
    link: Interconnect, senders: list[int], receivers: list[int], tp: int
) -> None:
    """On either side."""
    before = capacity(link, prefills(*senders), decodes(*receivers))
    more = capacity(link, prefills(*senders, tp), decodes(*receivers))
    also = capacity(link, prefills(*senders), decodes(*receivers, tp))
    assert before is not None
    assert more is not None
    assert also is not None
    assert 0 < before.bytes_per_second <= min(more.bytes_per_second, also.bytes_per_second)
