"""Network ports: what really crosses them, against what the engines count as KV.

An exporter of ports covers a host, so the ports of a role are those of its instances' pages, each counted once. Whether
KV takes these ports at all is read from the bytes: ports that carry less than half of it are not its way (it goes over
NVLink, or over another network), and then their rates and limits say nothing about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pdscope.analysis.board import Board
from pdscope.analysis.device_view import DeviceView, Part
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Deployment, Role

_ON_THE_WAY = 0.5
"""Share of the KV bytes from which ports count as their way."""
_OVERHEAD = 1.05
"""Bytes on the wire for a byte of payload: headers of packets of 4 KiB take 1.5 to 3 %."""


@dataclass(frozen=True, slots=True)
class Side:
    """The active ports of one role, in the direction that KV takes.

    Attributes:
        per_port: bytes a second by port.
        line: what they carry together in that direction, bytes a second; None where a port does not say.
        congestion: notices of congestion a second; None where no port counts them.
        at: unix seconds of the oldest figure.
    """

    per_port: Mapping[str, float]
    line: float | None
    congestion: float | None
    at: float

    @property
    def bytes_per_second(self) -> float:
        """Of all ports together."""
        return sum(self.per_port.values())


@dataclass(frozen=True, slots=True)
class Ports:
    """What the ports say of the way from prefill to decode.

    Attributes:
        sending, receiving: the ports of either role; None where none is seen.
        carry_kv: whether the KV that the engines count goes through them; None where that cannot be told.
    """

    sending: Side | None
    receiving: Side | None
    carry_kv: bool | None

    @property
    def sides(self) -> tuple[Side, ...]:
        """Those that are seen."""
        return tuple(side for side in (self.sending, self.receiving) if side is not None)

    @property
    def line(self) -> float | None:
        """The least that either side carries, bytes a second one way."""
        lines = [side.line for side in self.sides if side.line is not None]
        return min(lines) if lines else None

    def foreign(self, kv_bytes_per_second: float) -> float | None:
        """Bytes a second on the busier side that KV does not explain; None where KV takes another way."""
        if not self.carry_kv:
            return None
        most = max(side.bytes_per_second for side in self.sides)
        return max(0.0, most - kv_bytes_per_second * _OVERHEAD)


def read_ports(deployment: Deployment, devices: Mapping[str, DeviceView], kv_bytes_per_second: float | None) -> Ports:
    """The ports of both roles.

    Args:
        deployment: `interconnect.ib_device` names the ports that count; without it all active ones do.
        devices: views by instance name.
        kv_bytes_per_second: what the engines count; None: not known.
    """
    named = deployment.interconnect.ib_device if deployment.interconnect is not None else None
    chosen = tuple(name.strip() for name in named.split(",")) if named else ()
    sending = _side(deployment, devices, Role.PREFILL, chosen)
    receiving = _side(deployment, devices, Role.DECODE, chosen)
    seen = [side.bytes_per_second for side in (sending, receiving) if side is not None]
    carry = None
    if seen and kv_bytes_per_second:
        carry = min(seen) >= _ON_THE_WAY * kv_bytes_per_second
    return Ports(sending, receiving, carry)


def put_ports(board: Board, ports: Ports, now: float) -> None:
    """Rates, balance and congestion of the ports, and what others put on them."""
    for signal, side, what in (
        (SignalId.NIC_TRANSMIT, ports.sending, "ports of prefill, transmitted"),
        (SignalId.NIC_RECEIVE, ports.receiving, "ports of decode, received"),
    ):
        if side is not None:
            board.put(
                signal,
                side.bytes_per_second,
                Quality.MEASURED,
                f"{len(side.per_port)} {what}",
                age_seconds=now - side.at,
            )
    age = max((now - side.at for side in ports.sides), default=0.0)
    board.put(SignalId.NIC_CAPACITY, ports.line, Quality.MEASURED, "line rate of the active ports", age_seconds=age)
    loads = [side.bytes_per_second / side.line for side in ports.sides if side.line]
    if loads:
        board.put(
            SignalId.NIC_UTILIZATION,
            max(loads),
            Quality.MEASURED,
            "rate of the busier side by its line rate",
            age_seconds=age,
        )
    balance = [b for side in ports.sides if (b := _imbalance(side)) is not None]
    if balance:
        board.put(
            SignalId.NIC_IMBALANCE,
            max(balance),
            Quality.MEASURED,
            "busiest port by the mean of the active ports of its side",
            age_seconds=age,
        )
    notices = [side.congestion for side in ports.sides if side.congestion is not None]
    if notices:
        board.put(
            SignalId.NIC_CONGESTION, sum(notices), Quality.MEASURED, "congestion notices of the ports", age_seconds=age
        )
    achieved = board.value(SignalId.KV_ACHIEVED)
    if achieved is not None:
        board.put(
            SignalId.LINK_FOREIGN,
            ports.foreign(achieved),
            Quality.DERIVED,
            "bytes of the busier side less the KV that the engines count and 5 % of headers",
            age_seconds=age,
        )


def _side(deployment: Deployment, devices: Mapping[str, DeviceView], role: Role, chosen: Sequence[str]) -> Side | None:
    gauge, counter = (
        (Metric.NIC_TX_RATE, Metric.NIC_TX_BYTES) if role is Role.PREFILL else (Metric.NIC_RX_RATE, Metric.NIC_RX_BYTES)
    )
    notices = Metric.NIC_CONGESTION_TOLD if role is Role.PREFILL else Metric.NIC_CONGESTION_SEEN
    rates: dict[str, Part] = {}
    lines: dict[str, float] = {}
    congestion: dict[str, float] = {}
    for instance in deployment.of_role(role):
        view = devices.get(instance.name)
        if view is None:
            continue
        down = _down(view)
        rates |= {
            port: part
            for port, part in view.rates(gauge, counter).items()
            if port not in down and (not chosen or part.name.split("/")[0] in chosen)
        }
        lines |= {port: part.value for port, part in view.lasts(Metric.NIC_LINE_RATE).items()}
        congestion |= {port: part.value for port, part in view.per_second(notices).items()}
    if not rates:
        return None
    known = [lines[port] for port in rates if port in lines]
    told = [congestion[port] for port in rates if port in congestion]
    return Side(
        per_port={port: part.value for port, part in rates.items()},
        line=sum(known) if len(known) == len(rates) else None,
        congestion=sum(told) if told else None,
        at=min(part.at for part in rates.values()),
    )


def _down(view: DeviceView) -> frozenset[str]:
    """Ports whose page tells the state of ports, and not that this one is active."""
    active = view.lasts(Metric.NIC_ACTIVE)
    if not active:
        return frozenset()
    return frozenset(view.lasts(Metric.NIC_LINE_RATE)) - frozenset(active)


def _imbalance(side: Side) -> float | None:
    mean = side.bytes_per_second / len(side.per_port)
    return max(side.per_port.values()) / mean if len(side.per_port) > 1 and mean > 0 else None
