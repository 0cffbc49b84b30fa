"""One initialisation of NVML: the devices that were open in it, until it is closed and another one begins."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pynvml

from pdscope.sources.nvml.device import Device, Handles
from pdscope.sources.nvml.events import XidEvents
from pdscope.sources.nvml.library import (
    DeviceLostError,
    RefusedError,
    SourceLostError,
    ask,
    initialise,
    release,
    unload,
)
from pdscope.sources.nvml.snapshot import Identity, Reason, SourceReason

_log = logging.getLogger(__name__)


class Session:
    """Open devices and their event set. Everything that the driver holds for them is freed by `close`.

    Attributes:
        devices: those that told who they are.
        boards: how many NVML counts.
        lost_boards: indices of the boards that are lost and did not.
    """

    def __init__(self, *, clock: Callable[[], float], max_age_seconds: float, invalid: Counter[str]) -> None:
        """Initialise NVML and open what answers; `clock`, `max_age_seconds` and `invalid`: see `Gpm`.

        Raises:
            SourceLostError: NVML cannot be used; nothing is left open.
        """
        self.devices: list[Device] = []
        self.boards = 0
        self.lost_boards: list[int] = []
        self._events: XidEvents | None = None
        initialise()
        try:
            for index, found in _boards():
                self.boards += 1
                if found is None:
                    self.lost_boards.append(index)
                    continue
                self.devices += [
                    Device(identity, handles, clock=clock, max_age_seconds=max_age_seconds, invalid=invalid)
                    for identity, handles in found
                ]
            self._events = XidEvents(self.devices)
        except SourceLostError as error:
            self.close(error.reason)
            raise

    @property
    def events(self) -> XidEvents:
        """The Xid errors of the devices.

        Raises:
            SourceLostError: the session has been closed.
        """
        if self._events is None:
            raise SourceLostError(SourceReason.UNINITIALIZED, pynvml.NVML_ERROR_UNINITIALIZED)
        return self._events

    def layout_changed(self) -> bool:
        """Boards or MIG instances have come or gone since it began; asked rarely, for it takes many calls.

        Raises:
            SourceLostError: NVML is gone.
        """
        now = [identity.uuid for _, found in _boards() for identity, _ in found or ()]
        return now != [device.identity.uuid for device in self.devices]

    def close(self, reason: SourceReason | None = None) -> None:
        """Free everything and shut NVML down; `reason` is why, where NVML itself gave one."""
        for device in self.devices:
            device.close()
        self.devices.clear()
        if self._events is not None:
            self._events.close()
            self._events = None
        release(pynvml.nvmlShutdown)
        if reason is SourceReason.DRIVER_CHANGED:
            unload()


_Found = list[tuple[Identity, Handles]]


def _boards() -> Iterator[tuple[int, _Found | None]]:
    """Each board's index with its devices: itself, or its MIG instances; None where the board is lost."""
    for index in range(_count()):
        try:
            yield index, _devices(index)
        except DeviceLostError:
            yield index, None
        except RefusedError as error:
            _log.warning("NVML: device %d cannot be opened: %s", index, error)
            yield index, []


def _count() -> int:
    try:
        return int(ask(pynvml.nvmlDeviceGetCount))
    except RefusedError as error:
        reason = SourceReason.NO_PERMISSION if error.reason is Reason.NO_PERMISSION else SourceReason.FAILED
        raise SourceLostError(reason, error.code) from None
    except DeviceLostError as error:
        raise SourceLostError(SourceReason.GPU_LOST, error.code) from None


def _devices(index: int) -> _Found:
    board = ask(pynvml.nvmlDeviceGetHandleByIndex, index)
    mig_enabled = _mig_enabled(board)
    instances = list(_instances(board)) if mig_enabled else []
    if not instances:
        return [(_identity(board, index), Handles(board, board, None, mig_enabled))]
    return [
        (_identity(own, index, str(instance)), Handles(own, board, instance, mig_enabled))
        for own, instance in instances
    ]


def _identity(handle: Any, index: int, mig: str = "") -> Identity:
    return Identity(ask(pynvml.nvmlDeviceGetUUID, handle), index, ask(pynvml.nvmlDeviceGetName, handle), mig)


def _mig_enabled(board: Any) -> bool:
    try:
        current, _pending = ask(pynvml.nvmlDeviceGetMigMode, board)
    except RefusedError:  # boards and drivers before MIG
        return False
    return bool(current == pynvml.NVML_DEVICE_MIG_ENABLE)


def _instances(board: Any) -> Iterator[tuple[Any, int]]:
    """Handles of the MIG devices with the ids of their GPU instances; unused numbers have none."""
    for number in range(ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, board)):
        try:
            own = ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, board, number)
            yield own, int(ask(pynvml.nvmlDeviceGetGpuInstanceId, own))
        except RefusedError:
            continue
