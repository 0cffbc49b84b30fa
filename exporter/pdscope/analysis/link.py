"""What the KV link can really carry, from the figure on its data sheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from pdscope.model.topology import Instance, Interconnect, LinkDirection, LinkScope, LinkTopology


@dataclass(frozen=True, slots=True)
class Capacity:
    """Usable bytes per second from prefill to decode; limited by `senders`, `receivers`, `pairs` or `total`."""

    bytes_per_second: float
    limited_by: str


def one_way(link: Interconnect) -> float:
    """Bytes per second in one direction, before efficiency and topology."""
    halves = 2.0 if link.direction is LinkDirection.BIDIRECTIONAL else 1.0
    return link.bandwidth_bytes_per_second / halves


def pair_bytes_per_second(link: Interconnect) -> float:
    """Bytes per second one way between one pair of end points, before efficiency.

    A mesh splits a device's links over its peers: 392 GB/s both ways over 7 peers is 28 GB/s one way for a pair.
    """
    if link.topology is LinkTopology.MESH and link.scope is not LinkScope.PAIR:
        return one_way(link) / (link.peers or 1)
    return one_way(link)


def capacity(link: Interconnect, senders: Sequence[Instance], receivers: Sequence[Instance]) -> Capacity | None:
    """The least of what all senders, all receivers and all pairs in use can carry, one way, after efficiency.

    Pairs in use: every prefill instance sends to every decode instance, and inside such a pair device i talks to device
    i (with unequal parallelism each device of the larger side has one partner). Nodes are told apart by the host of the
    URL.

    Args:
        link: as configured.
        senders: prefill instances.
        receivers: decode instances.

    Returns:
        None when there is nobody to send or to receive.
    """
    if not senders or not receivers:
        return None
    limits = _limits(link, senders, receivers)
    name = min(limits, key=lambda key: limits[key])
    return Capacity(limits[name] * link.efficiency, name)


def _limits(link: Interconnect, senders: Sequence[Instance], receivers: Sequence[Instance]) -> dict[str, float]:
    """Bytes per second one way that each part of the path can carry, before efficiency."""
    single, pair = one_way(link), pair_bytes_per_second(link)
    if link.scope is LinkScope.TOTAL:
        return {"total": single}
    if link.scope is LinkScope.PAIR:
        return {"pairs": single * len(senders) * len(receivers)}
    if link.scope is LinkScope.NODE:
        sending, receiving = _nodes(senders), _nodes(receivers)
        pairs = sending * receiving
    else:
        sending, receiving = sum(s.devices for s in senders), sum(r.devices for r in receivers)
        pairs = sum(max(s.devices, r.devices) for s in senders for r in receivers)
    return {"senders": single * sending, "receivers": single * receiving, "pairs": pair * pairs}


def _nodes(instances: Sequence[Instance]) -> int:
    return len({urlsplit(i.url).hostname or i.name for i in instances})
