"""node_exporter's InfiniBand ports: its own test data, and a made page of RoCE ports with hardware counters."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from pdscope.model.metric import Metric
from pdscope.model.scrape import FailureReason
from support.pages import Reading, page, printed, read_devices

RECORDED = "node_exporter_infiniband_e2e.txt"
ROCE = (Path(__file__).parents[2] / "fixtures" / "expositions-made" / "node_roce.prom").read_bytes()


def read(body: bytes, **select: str) -> Reading:
    """As the only source there is."""
    return read_devices(body, source="node", select=select)


def missing(reading: Reading, metric: Metric, rank: str) -> bool:
    """The port has the metric and no number for it."""
    value = reading.value(metric, rank)
    return value is not None and math.isnan(value)


def test_bytes_are_multiplied_once() -> None:
    """The exporter prints bytes: four times the words of the kernel, and no more."""
    reading = read(page(RECORDED))
    words = 1.493376e7 / 4
    assert reading.value(Metric.NIC_TX_BYTES, "mlx4_0/1") == words * 4
    assert reading.value(Metric.NIC_RX_BYTES, "mlx4_0/1") == 1.8527668e7
    own = printed(RECORDED, "node_infiniband_port_data_transmitted_bytes_total")
    total = own.value("node_infiniband_port_data_transmitted_bytes_total")
    assert reading.value(Metric.NIC_TX_BYTES) == total


def test_ports() -> None:
    """Each has a rate and a state; one without counters has no bytes."""
    reading = read(page(RECORDED))
    assert reading.ranks(Metric.NIC_LINE_RATE) == {"i40iw0/1", "mlx4_0/1", "mlx4_0/2"}
    assert reading.ranks(Metric.NIC_TX_BYTES) == {"mlx4_0/1", "mlx4_0/2"}
    assert reading.value(Metric.NIC_LINE_RATE, "i40iw0/1") == 1.25e9
    assert reading.value(Metric.NIC_LINE_RATE, "mlx4_0/2") == 5e9
    assert reading.value(Metric.NIC_ACTIVE, "i40iw0/1") == 1


def test_a_saturated_counter_is_no_number() -> None:
    """Field data: 2^32 - 1 is where the counter has stopped; one below it still counts."""
    reading = read(page(RECORDED))
    assert missing(reading, Metric.NIC_TRANSMIT_WAIT, "mlx4_0/1")
    below = page(RECORDED).replace(b"4.294967295e+09", b"4.294967294e+09")
    assert read(below).value(Metric.NIC_TRANSMIT_WAIT, "mlx4_0/1") == 2**32 - 2


def test_the_older_counters() -> None:
    """Ports with extended counters only print them as `legacy`."""
    body = re.sub(rb"(?m)^node_infiniband_port_data_.*\n", b"", page(RECORDED))
    reading = read(body)
    assert reading.value(Metric.NIC_TX_BYTES, "mlx4_0/2") == 1.493376e7
    assert reading.value(Metric.NIC_RX_BYTES) == 2 * 1.8527668e7


def test_roce() -> None:
    """Notices of congestion, and packets that came out of order at either side."""
    reading = read(ROCE)
    rank = "mlx5_0/1"
    assert reading.value(Metric.NIC_TX_BYTES, rank) == 9.1e12
    assert reading.value(Metric.NIC_LINE_RATE, rank) == 5e10
    assert reading.value(Metric.NIC_TRANSMIT_WAIT, rank) == 1234567
    assert reading.value(Metric.NIC_CONGESTION_SEEN, rank) == 12
    assert reading.value(Metric.NIC_CONGESTION_TOLD, rank) == 345
    assert reading.value(Metric.NIC_OUT_OF_SEQUENCE, rank) == 7
    for name, other in (("out_of_sequence_packets_received", 2), ("packet_sequence_errors", 5)):
        body = re.sub(rf"(?m)^node_infiniband_{name}.*\n".encode(), b"", ROCE)
        assert read(body).value(Metric.NIC_OUT_OF_SEQUENCE, rank) == other


def test_a_port_that_is_down() -> None:
    """It is not active, and not 0 either."""
    reading = read(ROCE)
    assert reading.value(Metric.NIC_ACTIVE, "mlx5_0/1") == 1
    assert missing(reading, Metric.NIC_ACTIVE, "mlx5_1/1")


def test_select() -> None:
    """An instance that uses one port is judged by that one."""
    reading = read(ROCE, device="mlx5_0")
    assert reading.ranks(Metric.NIC_TX_BYTES) == {"mlx5_0/1"}
    assert reading.value(Metric.NIC_TX_BYTES) == 9.1e12
    assert reading.value(Metric.NIC_ACTIVE) == 1


@pytest.mark.parametrize("name", ["dcgm_t4_2gpu_fake-gpu-operator.txt", "vllm-0.32.0-idle.prom"])
def test_another_page(name: str) -> None:
    """A page without RDMA ports is refused."""
    assert read(page(name)).scrape.reason is FailureReason.METRICS_OFF


def test_network_interfaces_are_no_ports() -> None:
    """What the kernel's own interfaces carry is not what RDMA carries."""
    body = b'# TYPE node_network_transmit_bytes_total counter\nnode_network_transmit_bytes_total{device="eth0"} 7\n'
    assert read(body).scrape.reason is FailureReason.METRICS_OFF
