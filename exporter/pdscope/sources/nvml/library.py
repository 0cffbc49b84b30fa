"""The edge to pynvml: its errors become three, and a library that the driver has outgrown is let go.

`NVMLError` has `__eq__` without `__hash__` and compares badly with anything else, so no error of pynvml leaves this
module; its code decides.
"""

from __future__ import annotations

import _ctypes
import contextlib
import ctypes
from collections.abc import Callable
from typing import Any, Final

import pynvml

from pdscope.errors import PdscopeError
from pdscope.sources.nvml.snapshot import Reason, SourceReason

_DEVICE_LOST: Final = frozenset(
    (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED, pynvml.NVML_ERROR_GPU_NOT_FOUND)
)
_SOURCE_LOST: Final = {
    pynvml.NVML_ERROR_UNINITIALIZED: SourceReason.UNINITIALIZED,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: SourceReason.DRIVER_NOT_LOADED,
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: SourceReason.LIBRARY_NOT_FOUND,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: SourceReason.DRIVER_CHANGED,
}
_AT_INITIALISATION: Final = _SOURCE_LOST | {
    pynvml.NVML_ERROR_NO_PERMISSION: SourceReason.NO_PERMISSION,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: SourceReason.DRIVER_TOO_OLD,
    **dict.fromkeys(_DEVICE_LOST, SourceReason.GPU_LOST),
}
_REASONS: Final = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: Reason.UNSUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: Reason.UNSUPPORTED,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: Reason.UNSUPPORTED,
    pynvml.NVML_ERROR_NO_PERMISSION: Reason.NO_PERMISSION,
    pynvml.NVML_ERROR_NOT_READY: Reason.NOT_READY,
}


class RefusedError(PdscopeError):
    """A call has no answer; the device goes on."""

    def __init__(self, reason: Reason, code: int) -> None:
        super().__init__(f"NVML: {reason} (code {code})")
        self.reason = reason
        self.code = code


class DeviceLostError(PdscopeError):
    """The device has fallen off the bus or wants a reset."""

    def __init__(self, code: int) -> None:
        super().__init__(f"NVML: the device is lost (code {code})")
        self.code = code


class SourceLostError(PdscopeError):
    """NVML as a whole does not answer."""

    def __init__(self, reason: SourceReason, code: int) -> None:
        super().__init__(f"NVML: {reason} (code {code})")
        self.reason = reason


def failure(code: int) -> RefusedError | DeviceLostError | SourceLostError:
    """What a return code other than 0 means."""
    if code in _DEVICE_LOST:
        return DeviceLostError(code)
    if code in _SOURCE_LOST:
        return SourceLostError(_SOURCE_LOST[code], code)
    return RefusedError(_REASONS.get(code, Reason.INVALID), code)


def ask(function: Callable[..., Any], *arguments: object) -> Any:
    """Call pynvml.

    Raises:
        RefusedError: there is no answer, for a reason.
        DeviceLostError: the device is gone.
        SourceLostError: NVML is gone.
    """
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        raise failure(error.value) from None


def ask_newer(newer: Callable[[], Any], older: Callable[[], Any]) -> Any:
    """The newer call, or the older one where the driver knows neither its symbol nor its structure.

    Raises:
        RefusedError, DeviceLostError, SourceLostError: as `ask`.
    """
    try:
        return ask(newer)
    except RefusedError as error:
        if error.code not in {pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH}:
            raise
    return ask(older)


def release(function: Callable[..., Any], *arguments: object) -> None:
    """Call pynvml to give something back. A driver that has gone takes nothing back, and nobody could do more."""
    with contextlib.suppress(RefusedError, DeviceLostError, SourceLostError):
        ask(function, *arguments)


def initialise() -> None:
    """Load and initialise NVML.

    Raises:
        SourceLostError: with the reason; a library older or newer than the driver has been let go, so that the next
            attempt loads the one that lies on the disk by then.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        reason = _AT_INITIALISATION.get(error.value, SourceReason.FAILED)
        if reason is SourceReason.DRIVER_CHANGED:
            unload()
        raise SourceLostError(reason, error.value) from None


def unload() -> None:
    """Let the loaded library go, with every pointer into it that pynvml has kept over its shutdown.

    Without this a driver upgrade needs a restart of the process: the loader knows the old library by its name.
    """
    library = pynvml.nvmlLib
    pynvml.nvmlLib = None
    pynvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001 - pynvml has no public way
    if library is not None:
        _ctypes.dlclose(library._handle)  # noqa: SLF001 - nor has ctypes


def address(handle: Any) -> int:
    """The number behind a handle, by which events name their device."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
