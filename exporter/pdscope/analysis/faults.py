"""Faults that a driver tells of its devices: which of them are the device's, and since when."""

from __future__ import annotations

from collections.abc import Mapping

from pdscope.analysis.board import Board
from pdscope.analysis.device_view import DeviceView, Part, oldest
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, Scope, SignalId

HARDWARE_XIDS: Mapping[int, str] = {
    48: "an ECC error of two bits",
    62: "its microcontroller halted",
    63: "a memory row was marked for remapping",
    64: "a memory row could not be remapped",
    74: "an error on NVLink",
    79: "the device fell off the bus",
    92: "many ECC errors of one bit",
    94: "an ECC error that was contained",
    95: "an ECC error that was not contained",
    119: "its GSP did not answer",
    120: "an error of its GSP",
    121: "an error on the link to the CPU",
    140: "an ECC error without recovery",
}
"""NVIDIA's codes (Xid) that blame the device, in words. Others, such as 13, 31, 43 and 45, blame what runs on it."""
_NAMED = 4
"""Devices that are named."""


def put_faults(board: Board, view: DeviceView, scope: Scope, now: float, *, own: bool) -> None:
    """How many devices last told of a fault of their own; nothing where it may be a device that is not the instance's.

    The code stays until another one comes, or until the driver is loaded anew: one that was there when the window began
    may be weeks old and mended, so it is `derived`; one that came within the window is `measured`.
    """
    told = view.lasts(Metric.DEVICE_FAULT)
    if not told:
        return
    fresh = _of_hardware(view.new(Metric.DEVICE_FAULT))
    faults = fresh or _of_hardware(told)
    if faults and not own:
        return
    first = next(iter((faults or told).values()))
    source = f"{first.source} device_fault of {first.target}"
    board.put(
        SignalId.HARDWARE_FAULTS,
        float(len(faults)),
        Quality.DERIVED if faults and not fresh else Quality.MEASURED,
        f"{_words(faults)}, {'within' if fresh else 'before'} the window ({source})" if faults else source,
        scope=scope,
        age_seconds=now - oldest(told),
    )


def _of_hardware(parts: Mapping[str, Part]) -> dict[str, Part]:
    return {name: part for name, part in parts.items() if int(part.value) in HARDWARE_XIDS}


def _words(faults: Mapping[str, Part]) -> str:
    """`Xid 79 (the device fell off the bus) of GPU-a, GPU-b`, the codes in order."""
    by_code: dict[int, list[str]] = {}
    for name, part in sorted(faults.items()):
        by_code.setdefault(int(part.value), []).append(name)
    return " and ".join(
        f"Xid {code} ({HARDWARE_XIDS[code]}) of {', '.join(names[:_NAMED])}{' ...' if len(names) > _NAMED else ''}"
        for code, names in sorted(by_code.items())
    )
