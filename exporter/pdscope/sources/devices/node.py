"""Prometheus node_exporter, its collector `infiniband`: ports that carry RDMA, InfiniBand and RoCE alike.

Bytes are bytes: the exporter has multiplied the kernel's four-byte words already. `port_transmit_wait_total` has 32
bits and stays at 2^32 - 1 once it is there, so that value is no measurement. Counters of congestion come from the
drivers' `hw_counters` and exist for RoCE ports only.

`node_network_*` is not read: those are the kernel's interfaces, which RDMA passes by. A fallback to TCP shows there
and not here.
"""

from __future__ import annotations

from pdscope.model.metric import Metric
from pdscope.sources.adapter import Adapter, Series
from pdscope.sources.promises import promise

_COUNT = (0.0, 1.8446744073709552e19)
_OUT_OF_SEQUENCE, _SEQUENCE_ERRORS = "out_of_sequence_packets_received_total", "packet_sequence_errors_total"


def _series(*names: str) -> tuple[Series, ...]:
    return tuple(Series(f"node_infiniband_{name}", valid=_COUNT) for name in names)


ADAPTERS = (
    Adapter(
        name="node",
        probe=("node_infiniband_",),
        rank_labels=("device", "port"),
        devices=True,
        promised=(promise(Metric.NIC_LINE_RATE, Metric.NIC_ACTIVE),),
        series={
            Metric.NIC_TX_BYTES: _series("port_data_transmitted_bytes_total", "legacy_data_transmitted_bytes_total"),
            Metric.NIC_RX_BYTES: _series("port_data_received_bytes_total", "legacy_data_received_bytes_total"),
            Metric.NIC_LINE_RATE: _series("rate_bytes_per_second"),
            Metric.NIC_ACTIVE: (Series("node_infiniband_state_id", scale=0.25, valid=(4.0, 4.0)),),
            Metric.NIC_TRANSMIT_WAIT: (Series("node_infiniband_port_transmit_wait_total", valid=(0.0, 2.0**32 - 2)),),
            Metric.NIC_CONGESTION_SEEN: _series("np_cnp_packets_sent_total"),
            Metric.NIC_CONGESTION_TOLD: _series("rp_cnp_packets_handled_total"),
            # What a port received out of order, and what its peers told it to send again.
            Metric.NIC_OUT_OF_SEQUENCE: (
                Series(
                    f"node_infiniband_{_OUT_OF_SEQUENCE}", valid=_COUNT, plus=(f"node_infiniband_{_SEQUENCE_ERRORS}",)
                ),
                *_series(_OUT_OF_SEQUENCE, _SEQUENCE_ERRORS),
            ),
        },
        enable=dict.fromkeys(
            (Metric.NIC_TX_BYTES, Metric.NIC_RX_BYTES, Metric.NIC_LINE_RATE, Metric.NIC_ACTIVE),
            "--collector.infiniband (on by default), with /sys/class/infiniband of the host in sight",
        ),
    ),
)
