"""Xid errors: NVML tells them as events only. The set is asked without waiting, in the thread that samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import pynvml

from pdscope.sources.nvml.device import Device
from pdscope.sources.nvml.library import DeviceLostError, RefusedError, address, ask, release
from pdscope.sources.nvml.snapshot import Identity, Readings, Reason, Signal

_MOST_A_POLL: Final = 64
"""A device that repeats its error must not hold up the sampling."""
_NO_INSTANCE: Final = 0xFFFFFFFF


class Xid(NamedTuple):
    """An event: the board by its handle's address, and the GPU instance where the driver names one."""

    board: int
    gpu_instance: int | None
    code: int


class XidEvents:
    """The event set of all devices. `missing` says for a board's address why nothing will be heard of it."""

    def __init__(self, devices: Iterable[Device]) -> None:
        """Register the devices.

        Raises:
            SourceLostError: NVML is gone.
        """
        self.missing: dict[int, Reason] = {}
        self._set: Any = None
        boards = {address(device.handles.board): device.handles.board for device in devices}
        try:
            self._set = ask(pynvml.nvmlEventSetCreate)
        except RefusedError as error:
            self.missing = dict.fromkeys(boards, error.reason)
            return
        for board, handle in boards.items():
            try:
                self._register(handle)
            except RefusedError as error:
                self.missing[board] = error.reason
            except DeviceLostError:
                self.missing[board] = Reason.LOST

    def read(self) -> Iterator[Xid]:
        """The errors since the last poll.

        Raises:
            SourceLostError: NVML is gone.
        """
        if self._set is None:
            return
        for _ in range(_MOST_A_POLL):
            try:
                event = ask(pynvml.nvmlEventSetWait_v2, self._set, 0)
            except (RefusedError, DeviceLostError):
                # A timeout: there are none. A lost device ends the waiting too, and its own calls will tell which.
                return
            if event.eventType & pynvml.nvmlEventTypeXidCriticalError:
                instance = None if event.gpuInstanceId == _NO_INSTANCE else int(event.gpuInstanceId)
                yield Xid(address(event.device), instance, int(event.eventData))

    def close(self) -> None:
        """Free the set."""
        if self._set is not None:
            release(pynvml.nvmlEventSetFree, self._set)
            self._set = None

    def _register(self, handle: Any) -> None:
        wanted = pynvml.nvmlEventTypeXidCriticalError
        if not ask(pynvml.nvmlDeviceGetSupportedEventTypes, handle) & wanted:
            raise RefusedError(Reason.UNSUPPORTED, pynvml.NVML_ERROR_NOT_SUPPORTED)
        ask(pynvml.nvmlDeviceRegisterEvents, handle, wanted, self._set)


class XidLog:
    """The last Xid of each device. It outlives a session: an error often is why the next one begins."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def collect(self, events: XidEvents, devices: Iterable[Device]) -> None:
        """Take down the errors since the last poll; one of a whole board is one of each of its instances.

        Raises:
            SourceLostError: NVML is gone.
        """
        for xid in events.read():
            for device in devices:
                handles = device.handles
                concerned = None in {xid.gpu_instance, handles.gpu_instance} or xid.gpu_instance == handles.gpu_instance
                if concerned and address(handles.board) == xid.board:
                    self._last[device.identity.uuid] = xid.code

    def readings(self, events: XidEvents, device: Device) -> Readings:
        """The last code, 0 for none; nothing where the device tells none."""
        missing = events.missing.get(address(device.handles.board))
        if missing is not None:
            return Readings(missing={Signal.XID: missing})
        return Readings({Signal.XID: float(self._last.get(device.identity.uuid, 0))})

    def last(self, identity: Identity) -> int | None:
        """The last code of a device that cannot be asked; None where it told none."""
        return self._last.get(identity.uuid)
