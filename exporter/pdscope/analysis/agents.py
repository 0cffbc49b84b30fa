"""Transfer agents (NIXL's exporter): bytes that cross the link, where no engine counts them itself."""

from __future__ import annotations

from collections.abc import Mapping

from pdscope.analysis.board import Board
from pdscope.analysis.counters import increase
from pdscope.analysis.device_view import DeviceView
from pdscope.model.metric import Metric
from pdscope.model.scrape import SeriesKey
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Deployment, Role
from pdscope.model.window import Window

_ALL = (Role.PREFILL, Role.DECODE, Role.UNIFIED)


def put_agents(board: Board, deployment: Deployment, devices: Mapping[str, DeviceView], now: float) -> None:
    """The achieved rate by the counters of transfer agents, where no engine counts bytes itself.

    An agent counts what it starts, so the sum over all of them has each byte once; one that never counted anything
    leaves the counting to its peer, and alone says nothing.

    Args:
        board: with the figures of the engines.
        deployment: whose instances the agents serve.
        devices: views by instance name.
        now: unix seconds.
    """
    if not deployment.disaggregated:
        return
    _put_speed(board, devices, now)
    if board.value(SignalId.KV_ACHIEVED) is not None:
        return
    rates: list[float] = []
    names: list[str] = []
    ages: list[float] = []
    quality = Quality.MEASURED
    for instance in deployment.of_role(*_ALL):
        view = devices.get(instance.name)
        for window in view.windows if view is not None else ():
            moved = _agent_rate(window)
            if moved is not None:
                rates.append(moved[0])
                names.append(window.target)
                ages.append(now - float(window.times[-1]))
                if moved[1] < instance.devices:  # one process has won the port, the others are not counted
                    quality = Quality.ESTIMATED
    if rates:
        source = f"bytes that the transfer agents of {', '.join(names[:4])} counted"
        if quality is Quality.ESTIMATED:
            source += ", at least: not all ranks are on the page"
        board.put(SignalId.KV_ACHIEVED, sum(rates), quality, source, age_seconds=max(ages))


def _put_speed(board: Board, devices: Mapping[str, DeviceView], now: float) -> None:
    """Bytes by the time of the transfers that moved them.

    The times of overlapping transfers add up, so this is the speed of one of them and not of the link.
    """
    if board.value(SignalId.TRANSFER_SPEED) is not None:
        return
    moved = seconds = 0.0
    ages = []
    for view in devices.values():
        spent = view.per_second(Metric.KV_AGENT_TIME)
        for metric in (Metric.KV_AGENT_RX_BYTES, Metric.KV_AGENT_TX_BYTES):
            # an agent has a time for what it starts, and starts in one direction
            moved += sum(part.value for agent, part in view.per_second(metric).items() if agent in spent)
        seconds += sum(part.value for part in spent.values())
        ages += [now - part.at for part in spent.values()]
    if seconds > 0 and moved > 0:
        board.put(
            SignalId.TRANSFER_SPEED,
            moved / seconds,
            Quality.MEASURED,
            "bytes of the transfer agents by the time of the transfers that moved them",
            age_seconds=max(ages),
        )


def _agent_rate(window: Window) -> tuple[float, int] | None:
    """Bytes a second of the agents on one page, and how many they are; None where none of them starts transfers."""
    total, agents, starts = 0.0, 0, False
    for metric in (Metric.KV_AGENT_RX_BYTES, Metric.KV_AGENT_TX_BYTES):
        ranks = window.ranks(metric) or ("",)
        agents = max(agents, len(ranks))
        for rank in ranks:
            values = window.scalars.get(SeriesKey(metric, rank))
            gained = increase(window.times, values, lazy=False) if values is not None else None
            if values is not None and gained is not None:
                starts = starts or bool((values > 0).any())
                total += gained.per_second
    return (total, agents) if starts else None
