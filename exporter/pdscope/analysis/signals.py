"""Windows and a deployment in, signals out: the only public entry of analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pdscope.analysis.admission import put_decode
from pdscope.analysis.board import Board
from pdscope.analysis.devices import put_devices
from pdscope.analysis.latency import put_latency
from pdscope.analysis.observed import Observed
from pdscope.analysis.prefill import put_prefill
from pdscope.analysis.traffic import put_traffic
from pdscope.analysis.transfer import put_agents, put_transfer
from pdscope.analysis.work import put_failures, put_work
from pdscope.model.signal import SignalSet
from pdscope.model.topology import Deployment
from pdscope.model.window import Window


def compute_signals(
    deployment: Deployment,
    windows: Mapping[str, Sequence[Window]],
    devices: Mapping[str, Sequence[Window]],
    now: float,
    max_age_seconds: float,
) -> SignalSet:
    """All signals of a deployment.

    Args:
        deployment: with its instances, their roles resolved.
        windows: by instance name, the source that stays fresh in a stall first.
        devices: windows of device sources by the instance that they serve.
        now: unix seconds; the time of the diagnosis.
        max_age_seconds: a window whose newest datum is older counts as absent: old data are no data. That of a device
            exporter that refreshes rarely carries its own time stamps.

    Returns:
        The known signals; unknown ones are absent.
    """
    board = Board(deployment.name)
    observed = [
        Observed(i, [w for w in windows.get(i.name, ()) if now - w.times[-1] <= max_age_seconds], now)
        for i in deployment.instances
    ]
    put_latency(board, deployment, observed)
    put_traffic(board, deployment, observed)
    put_transfer(board, deployment, observed)
    put_prefill(board, observed)
    put_decode(board, observed)
    put_work(board, deployment, observed)
    put_failures(board, observed)
    fresh = {name: [w for w in found if now - w.times[-1] <= max_age_seconds] for name, found in devices.items()}
    put_agents(board, deployment, fresh, now)
    put_devices(board, deployment, {name: found for name, found in fresh.items() if found}, now)
    return board.finish()
