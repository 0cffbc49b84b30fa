"""KV demand against what the link can carry: as configured, as its ports are rated, less what others put on it."""

from __future__ import annotations

from typing import NamedTuple

from pdscope.analysis import link
from pdscope.analysis.board import Board
from pdscope.analysis.ports import Ports
from pdscope.model.signal import Quality, SignalId, worst
from pdscope.model.topology import Deployment, Role

_EFFICIENCY = 0.8
"""Share of a port's line rate that transfers reach: 0.80 to 0.88 measured (ml-engineering, network)."""
_FOREIGN_SHARE = 0.02
"""Of the line rate: less is the noise of two counters that are not read at the same moment."""


class _Limit(NamedTuple):
    bytes_per_second: float
    quality: Quality
    source: str


def put_capacity(board: Board, deployment: Deployment, ports: Ports) -> None:
    """Demand, usable capacity and their quotient; needs arrivals, bytes of a request and the achieved rate."""
    demand = _put_demand(board)
    limits = [limit for limit in (_configured(deployment), _rated(deployment, ports)) if limit is not None]
    if not limits:
        return
    usable = min(limits, key=lambda limit: limit.bytes_per_second)
    capacity, source = usable.bytes_per_second, usable.source
    foreign = board.value(SignalId.LINK_FOREIGN)
    if foreign is not None and ports.line and foreign >= _FOREIGN_SHARE * ports.line:
        # where others fill the link by themselves, what KV gets beside them is all that it can have
        left = max(capacity - foreign, board.value(SignalId.KV_ACHIEVED) or 0.0)
        source += f", less {foreign / 1e9:.3g} GB/s that KV does not explain"
        source += "" if left == capacity - foreign else ": only what KV gets through beside it"
        capacity = left
    if capacity <= 0:
        return
    board.put(SignalId.LINK_CAPACITY, capacity, usable.quality, source)
    if demand is not None:
        value, quality = demand
        board.put(SignalId.LINK_UTILIZATION, value / capacity, worst(quality, Quality.DERIVED), "demand by capacity")


def _put_demand(board: Board) -> tuple[float, Quality] | None:
    arrivals = board.value(SignalId.ARRIVALS_PER_SECOND)
    size = board.value(SignalId.KV_BYTES_PER_REQUEST)
    if arrivals is None or size is None:
        return None
    quality = worst(board.quality(SignalId.ARRIVALS_PER_SECOND), board.quality(SignalId.KV_BYTES_PER_REQUEST))
    source = (
        f"{arrivals:.3g} arrivals/s ({board.source(SignalId.ARRIVALS_PER_SECOND)}) x "
        f"{size:,.0f} B ({board.source(SignalId.KV_BYTES_PER_REQUEST)})"
    )
    board.put(SignalId.KV_DEMAND, arrivals * size, worst(quality, Quality.DERIVED), source)
    return arrivals * size, quality


def _configured(deployment: Deployment) -> _Limit | None:
    """The configured link, made usable."""
    interconnect = deployment.interconnect
    if interconnect is None:
        return None
    usable = link.capacity(interconnect, deployment.of_role(Role.PREFILL), deployment.of_role(Role.DECODE))
    if usable is None:
        return None
    kind = "measured" if interconnect.measured else "configured"
    return _Limit(
        usable.bytes_per_second,
        Quality.MEASURED if interconnect.measured else Quality.ASSUMED,
        f"{kind} interconnect, one way, limited by {usable.limited_by}, efficiency {interconnect.efficiency:g}",
    )


def _rated(deployment: Deployment, ports: Ports) -> _Limit | None:
    """What the ports that KV goes through are rated for; nothing where it takes another way or that is not known."""
    if not ports.carry_kv or ports.line is None:
        return None
    efficiency = deployment.interconnect.efficiency if deployment.interconnect is not None else _EFFICIENCY
    source = f"line rate of the active ports that KV goes through, the lesser side, efficiency {efficiency:g}"
    return _Limit(ports.line * efficiency, Quality.DERIVED, source)
