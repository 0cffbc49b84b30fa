"""Which processes compute on which device, by pid; looked at rarely, for it reads /proc."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pynvml

from pdscope.sources.nvml.device import Device
from pdscope.sources.nvml.library import DeviceLostError, RefusedError, ask_newer
from pdscope.sources.nvml.processes import ProcessMap, look
from pdscope.sources.nvml.snapshot import Identity, Process, Reason, Signal

_Missing = Mapping[Signal, Reason]


class Owners:
    """The processes of each device as of the last refresh."""

    def __init__(self, proc: Path) -> None:
        """`proc` is where /proc is mounted."""
        self._proc = proc
        self._found: dict[str, tuple[tuple[Process, ...], _Missing]] = {}

    def refresh(self, devices: Iterable[Device]) -> None:
        """Ask anew.

        Raises:
            SourceLostError: NVML is gone.
        """
        pids: dict[str, list[int]] = {}
        refused: dict[str, Reason] = {}
        for device in devices:
            uuid = device.identity.uuid
            try:
                pids[uuid] = _pids(device.handles.own)
            except RefusedError as error:
                refused[uuid] = error.reason
            except DeviceLostError:
                refused[uuid] = Reason.LOST  # reading it finds out the same, and then acts on it
        known = look((pid for found in pids.values() for pid in found), self._proc)
        self._found = {uuid: ((), {Signal.PROCESSES: reason, Signal.PORTS: reason}) for uuid, reason in refused.items()}
        for uuid, found in pids.items():
            self._found[uuid] = (tuple(known.processes[pid] for pid in found), _unknown_ports(known, found))

    def of(self, identity: Identity) -> tuple[tuple[Process, ...], _Missing]:
        """The processes of a device, and what of them is unknown."""
        unknown = {Signal.PROCESSES: Reason.NOT_READY, Signal.PORTS: Reason.NOT_READY}
        return self._found.get(identity.uuid, ((), unknown))


def _pids(handle: Any) -> list[int]:
    # By their versions: without one, the binding raises an error that is no NVMLError where the driver is older.
    running = ask_newer(
        lambda: pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle),
        lambda: pynvml.nvmlDeviceGetComputeRunningProcesses_v2(handle),
    )
    return sorted({int(process.pid) for process in running})


def _unknown_ports(known: ProcessMap, pids: Iterable[int]) -> _Missing:
    """Why ports may be missing; nothing where all sockets were seen."""
    if known.hidden.intersection(pids):
        return {Signal.PORTS: Reason.NO_PERMISSION}
    return {Signal.PORTS: Reason.INVALID} if known.absent.intersection(pids) else {}
