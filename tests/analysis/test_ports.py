"""Network ports: whether KV takes them, what they carry, what others put on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from pdscope.analysis.signals import compute_signals
from pdscope.model.metric import Metric
from pdscope.model.scrape import SeriesKey
from pdscope.model.signal import Quality, SignalId, SignalSet
from pdscope.model.topology import Deployment, Interconnect, Role
from pdscope.model.window import Window
from support.windows import INF, NAN, NOW, SCRAPES, Column, deployment, histogram, instance, rising, window

BYTES = (1e6, 1e8, 1e10, INF)
KV_RATE = 8e9
LINE = 25e9
# 60 transfers of 8 GB in the window of 60 s
SENDER = {"p0": [window({}, {Metric.KV_TRANSFER_BYTES: histogram(BYTES, [8e9] * 60)}, target="p0")]}
COUNTERS = {Role.PREFILL: Metric.NIC_TX_BYTES, Role.DECODE: Metric.NIC_RX_BYTES}


def node(role: Role, ports: Mapping[str, float], *, target: str = "", **more: Mapping[str, Column]) -> Window:
    """A page of node_exporter: port -> bytes a second; further metrics by name."""
    columns: dict[SeriesKey, Column] = {}
    for port, rate in ports.items():
        columns[SeriesKey(COUNTERS[role], port)] = rising(rate)
        columns[SeriesKey(Metric.NIC_LINE_RATE, port)] = LINE
        columns[SeriesKey(Metric.NIC_ACTIVE, port)] = 1.0
    for name, values in more.items():
        for port, column in values.items():
            columns[SeriesKey(Metric[name], port)] = column
    scalars = {
        key: np.broadcast_to(np.asarray(column, dtype=np.float64), (SCRAPES,)) for key, column in columns.items()
    }
    return replace(window({}, target=target or f"node-{role}", source="node"), scalars=scalars)


def signals(devices: Mapping[str, list[Window]], of: Deployment | None = None) -> SignalSet:
    return compute_signals(of or deployment(), SENDER, devices, NOW, 60.0)


def test_ports_that_carry_kv_limit_the_link() -> None:
    """Two ports of 25 GB/s carry 40 GB/s, whatever the configuration says; without configuration they are the limit."""
    devices = {
        "p0": [node(Role.PREFILL, {"mlx5_0/1": 4.1e9, "mlx5_1/1": 4.1e9})],
        "d0": [node(Role.DECODE, {"mlx5_0/1": 4.1e9, "mlx5_1/1": 4.1e9})],
    }
    found = signals(devices)
    capacity = found.get(SignalId.LINK_CAPACITY)
    assert capacity is not None
    assert capacity.value == pytest.approx(0.8 * 2 * LINE)
    assert capacity.quality is Quality.DERIVED
    wide = signals(devices, deployment(interconnect=Interconnect(400e9, efficiency=0.5)))
    assert wide.value(SignalId.LINK_CAPACITY) == pytest.approx(0.5 * 2 * LINE)
    narrow = signals(devices, deployment(interconnect=Interconnect(10e9)))
    assert narrow.value(SignalId.LINK_CAPACITY) == pytest.approx(8e9)
    assert found.value(SignalId.NIC_TRANSMIT) == found.value(SignalId.NIC_RECEIVE) == pytest.approx(8.2e9)
    assert found.value(SignalId.NIC_UTILIZATION) == pytest.approx(8.2 / 50)
    assert found.value(SignalId.NIC_CAPACITY) == 2 * LINE


def test_ports_that_do_not_carry_kv_say_nothing_of_it() -> None:
    """KV over NVLink leaves the ports quiet: neither their rate nor their limit is the link's."""
    found = signals({"p0": [node(Role.PREFILL, {"mlx5_0/1": 3.9e9})]}, deployment(interconnect=Interconnect(400e9)))
    assert found.value(SignalId.LINK_CAPACITY) == pytest.approx(320e9)
    assert found.get(SignalId.LINK_FOREIGN) is None
    assert signals({"p0": [node(Role.PREFILL, {"mlx5_0/1": 3.9e9})]}).get(SignalId.LINK_CAPACITY) is None


def test_what_others_put_on_the_link_is_taken_off() -> None:
    """14 GB/s cross the port, 8.4 of them KV with its headers."""
    found = signals({"p0": [node(Role.PREFILL, {"mlx5_0/1": 14e9})]})
    assert found.value(SignalId.LINK_FOREIGN) == pytest.approx(14e9 - 1.05 * KV_RATE)
    assert found.value(SignalId.LINK_CAPACITY) == pytest.approx(0.8 * LINE - (14e9 - 1.05 * KV_RATE))
    quiet = signals({"p0": [node(Role.PREFILL, {"mlx5_0/1": 8.8e9})]})
    assert quiet.value(SignalId.LINK_CAPACITY) == pytest.approx(0.8 * LINE)


def test_others_may_fill_the_link() -> None:
    """Then KV can have what it gets beside them: a capacity is never negative, and never unknown for that."""
    found = signals({"p0": [node(Role.PREFILL, {"mlx5_0/1": 0.95 * LINE})]})
    capacity = found.get(SignalId.LINK_CAPACITY)
    assert capacity is not None
    assert 0.8 * LINE - (0.95 * LINE - 1.05 * KV_RATE) < KV_RATE
    assert capacity.value == pytest.approx(KV_RATE)
    assert capacity.source.endswith("that KV does not explain: only what KV gets through beside it")


def test_a_port_of_a_host_counts_once() -> None:
    """Two prefill instances on one host read one exporter."""
    of = deployment(instance("p0", Role.PREFILL), instance("p1", Role.PREFILL), instance("d0", Role.DECODE))
    page = node(Role.PREFILL, {"mlx5_0/1": 8.2e9}, target="host-1")
    found = signals({"p0": [page], "p1": [page]}, of)
    assert found.value(SignalId.NIC_TRANSMIT) == pytest.approx(8.2e9)
    other = node(Role.PREFILL, {"mlx5_0/1": 8.2e9}, target="host-2")
    assert signals({"p0": [page], "p1": [other]}, of).value(SignalId.NIC_TRANSMIT) == pytest.approx(16.4e9)


def test_ports_that_are_down_or_not_meant() -> None:
    """A port that is not active has no rate and no share of the line; `ib_device` names those that count."""
    ports = {"mlx5_0/1": 8.2e9, "mlx5_1/1": 0.0}
    page = node(Role.PREFILL, ports, NIC_ACTIVE={"mlx5_1/1": NAN})
    found = signals({"p0": [page]})
    assert found.value(SignalId.NIC_CAPACITY) == LINE
    assert found.get(SignalId.NIC_IMBALANCE) is None
    both = node(Role.PREFILL, {"mlx5_0/1": 8.2e9, "mlx5_1/1": 1e9})
    assert signals({"p0": [both]}).value(SignalId.NIC_IMBALANCE) == pytest.approx(8.2 / 4.6)
    of = deployment(interconnect=Interconnect(400e9, ib_device="mlx5_0"))
    assert signals({"p0": [both]}, of).value(SignalId.NIC_TRANSMIT) == pytest.approx(8.2e9)


def test_a_line_that_is_not_stated_is_not_guessed() -> None:
    """Half of the ports stating theirs is no sum."""
    page = node(Role.PREFILL, {"mlx5_0/1": 4e9, "mlx5_1/1": 4.2e9}, NIC_LINE_RATE={"mlx5_1/1": NAN})
    page = replace(page, scalars={k: v for k, v in page.scalars.items() if k.metric is not Metric.NIC_ACTIVE})
    found = signals({"p0": [page]})
    assert found.get(SignalId.NIC_CAPACITY) is found.get(SignalId.NIC_UTILIZATION) is None
    assert found.value(SignalId.NIC_TRANSMIT) == pytest.approx(8.2e9)


def test_congestion_is_told_on_both_sides() -> None:
    """Notices that decode's ports sent and prefill's obeyed, a second."""
    devices = {
        "p0": [node(Role.PREFILL, {"mlx5_0/1": 8e9}, NIC_CONGESTION_TOLD={"mlx5_0/1": rising(300.0)})],
        "d0": [node(Role.DECODE, {"mlx5_0/1": 8e9}, NIC_CONGESTION_SEEN={"mlx5_0/1": rising(700.0)})],
    }
    assert signals(devices).value(SignalId.NIC_CONGESTION) == pytest.approx(1000.0)


def test_ports_of_two_hosts_bear_the_same_name() -> None:
    """An instance over two hosts sends through both, and each host has its `mlx5_0/1`."""
    pages = [node(Role.PREFILL, {"mlx5_0/1": 4.1e9}, target=name) for name in ("host-1", "host-2")]
    found = signals({"p0": pages})
    assert found.value(SignalId.NIC_TRANSMIT) == pytest.approx(8.2e9)
    assert found.value(SignalId.NIC_CAPACITY) == 2 * LINE
