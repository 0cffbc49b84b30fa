"""NIXL's own exporter (experimental, in the ordinary wheel): bytes that an agent moved, whatever engine it serves.

Observed on NIXL 1.5.1. What matters here:

* Only the side that starts a transfer counts it: decode receives with pull (vLLM), prefill sends with push (SGLang).
  Received and sent bytes of all agents together are the traffic, each byte once.
* `agent_xfer_time_total` is in microseconds, though its name has no unit. Times of overlapping transfers add up.
* With several ranks one process wins the port, unless the exporter is `prometheus_mp`; then they differ in labels.
* A rank that was restarted leaves the series of its old process on the page of `prometheus_mp`: they are parts of it.
"""

from __future__ import annotations

from pdscope.model.metric import Metric
from pdscope.sources.adapter import Adapter, Series
from pdscope.sources.promises import promise

ADAPTERS = (
    Adapter(
        name="nixl",
        probe=("agent_rx_", "agent_tx_", "agent_xfer_", "agent_errors_"),
        rank_labels=("agent_name", "agent_instance", "local_rank"),
        devices=True,
        promised=(promise(Metric.KV_AGENT_RX_BYTES, Metric.KV_AGENT_TX_BYTES, Metric.KV_AGENT_TIME),),
        series={
            Metric.KV_AGENT_RX_BYTES: (Series("agent_rx_bytes_total"),),
            Metric.KV_AGENT_TX_BYTES: (Series("agent_tx_bytes_total"),),
            Metric.KV_AGENT_TIME: (Series("agent_xfer_time_total", scale=1e-6),),
            Metric.KV_AGENT_ERRORS: (Series("agent_errors_total"),),
        },
    ),
)
