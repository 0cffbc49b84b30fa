"""Windows and a deployment in, signals out: the only public entry of analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pdscope.analysis.admission import put_decode
from pdscope.analysis.agents import put_agents
from pdscope.analysis.balance import put_balance
from pdscope.analysis.beside import Reach, put_beside
from pdscope.analysis.board import Board
from pdscope.analysis.capacity import put_capacity
from pdscope.analysis.device_view import fresh
from pdscope.analysis.devices import put_devices, put_roles
from pdscope.analysis.estimates import put_estimates
from pdscope.analysis.handover import put_handover
from pdscope.analysis.headroom import put_headroom
from pdscope.analysis.host import put_host
from pdscope.analysis.jumps import put_jumps
from pdscope.analysis.latency import put_latency
from pdscope.analysis.observed import Observed
from pdscope.analysis.peers import put_peers
from pdscope.analysis.ports import put_ports, read_ports
from pdscope.analysis.prefill import put_prefill
from pdscope.analysis.sensors import put_sensors
from pdscope.analysis.traffic import put_traffic
from pdscope.analysis.transfer import put_transfer
from pdscope.analysis.work import put_failed_share, put_failures, put_roles_answering, put_work
from pdscope.model.signal import SignalId, SignalSet
from pdscope.model.topology import Deployment
from pdscope.model.window import Window


def compute_signals(
    deployment: Deployment,
    windows: Mapping[str, Sequence[Window]],
    devices: Mapping[str, Sequence[Window]],
    now: float,
    max_age_seconds: float,
    reach: Mapping[str, Reach] | None = None,
) -> SignalSet:
    """All signals of a deployment.

    Args:
        deployment: with its instances, their roles resolved.
        windows: by instance name, the source that stays fresh in a stall first.
        devices: windows of device sources by the instance that they serve.
        now: unix seconds; the time of the diagnosis.
        max_age_seconds: a window whose newest datum is older counts as absent: old data are no data. A device exporter
            that refreshes rarely may be older by its own rule.
        reach: how the instances answered lately, by name; None: recorded, so not known.

    Returns:
        The known signals; unknown ones are absent.
    """
    observed = [
        Observed(i, [w for w in windows.get(i.name, ()) if now - w.times[-1] <= max_age_seconds], now)
        for i in deployment.instances
    ]
    board = Board(deployment.name, {o.instance.name: o.age_seconds for o in observed if o.age_seconds is not None})
    observed = put_jumps(board, observed)
    put_latency(board, deployment, observed)
    put_traffic(board, deployment, observed)
    put_transfer(board, deployment, observed)
    seen = fresh(devices, now, max_age_seconds)
    put_agents(board, deployment, seen, now)
    if deployment.disaggregated:
        ports = read_ports(deployment, seen, board.value(SignalId.KV_ACHIEVED))
        put_ports(board, ports, now)
        put_capacity(board, deployment, ports)
        put_handover(board, deployment, observed)
    put_prefill(board, observed)
    put_decode(board, observed)
    put_work(board, deployment, observed)
    put_balance(board, observed)
    put_host(board, deployment, observed)
    put_failures(board, observed)
    put_devices(board, deployment, seen, now)
    put_peers(board, observed, seen)
    put_sensors(board, deployment, observed, seen)
    put_estimates(board, deployment, observed)
    put_roles(board, deployment)
    put_beside(board, observed, reach or {})
    put_failed_share(board, deployment)
    put_roles_answering(board, deployment)
    put_headroom(board, deployment)
    return board.finish()
