"""One open device, or one MIG instance of it: everything that is asked of it in a poll, and what it has refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pynvml

from pdscope.sources.nvml.gpm import Gpm
from pdscope.sources.nvml.library import RefusedError, ask, ask_newer, failure
from pdscope.sources.nvml.snapshot import Identity, Readings, Reason, Signal
from pdscope.sources.nvml.validity import measured

# SwPowerCap is not among them: usual in heavy prefill, and a signal of its own.
_SLOWDOWN: Final = (
    pynvml.nvmlClocksEventReasonHwSlowdown
    | pynvml.nvmlClocksEventReasonSwThermalSlowdown
    | pynvml.nvmlClocksEventReasonHwThermalSlowdown
    | pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown
)
_ALL_LINKS: Final = 0xFFFFFFFF
_NVLINK_FIELDS: Final = (
    (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, _ALL_LINKS),
    (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, _ALL_LINKS),
)
_MEMBERS: Final = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
}


class Handles(NamedTuple):
    """How NVML names a device: `own` is a MIG instance's where `gpu_instance` is set; `board` is the whole device's."""

    own: Any
    board: Any
    gpu_instance: int | None
    mig_enabled: bool


def _busy(handle: Any) -> Sequence[float]:
    # `.memory` beside it is the share of time in which memory was touched at all: no bandwidth, so it is not read.
    return (ask(pynvml.nvmlDeviceGetUtilizationRates, handle).gpu / 100.0,)


def _memory(handle: Any) -> Sequence[float]:
    # Version 2 keeps what the driver has reserved apart from `used`.
    memory = ask_newer(
        lambda: pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2),
        lambda: pynvml.nvmlDeviceGetMemoryInfo(handle),
    )
    return (memory.used, memory.total)


def _hbm_peak(handle: Any) -> Sequence[float]:
    clock_mhz = ask(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_MEM)
    bus_bits = ask(pynvml.nvmlDeviceGetMemoryBusWidth, handle)
    return (2.0 * clock_mhz * 1e6 * bus_bits / 8.0,)  # two transfers a cycle


def _clock(handle: Any) -> Sequence[float]:
    return (ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM) * 1e6,)


def _clock_max(handle: Any) -> Sequence[float]:
    return (ask(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM) * 1e6,)


def _power(handle: Any) -> Sequence[float]:
    return (ask(pynvml.nvmlDeviceGetPowerUsage, handle) / 1000.0,)


def _power_limit(handle: Any) -> Sequence[float]:
    return (ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle) / 1000.0,)


def _slowdown(handle: Any) -> Sequence[float]:
    reasons = ask_newer(
        lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
        lambda: pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
    )
    return (float(bool(reasons & _SLOWDOWN)), float(bool(reasons & pynvml.nvmlClocksEventReasonSwPowerCap)))


def _nvlink(handle: Any) -> Sequence[float]:
    answers = ask(pynvml.nvmlDeviceGetFieldValues, handle, _NVLINK_FIELDS)
    for answer in answers:
        if answer.nvmlReturn != pynvml.NVML_SUCCESS:
            raise failure(answer.nvmlReturn)
    return [float(getattr(answer.value, _MEMBERS.get(answer.valueType, "ullVal"))) * 1024.0 for answer in answers]


@dataclass(frozen=True, slots=True)
class _Question:
    """One call, and which signals its answer is.

    `whole`: it is about the board and would mislead as a figure of a slice. `board`: it is about the board and holds
    for its slices too, which share its clocks. `once`: the answer does not change.
    """

    signals: tuple[Signal, ...]
    read: Callable[[Any], Sequence[float]]
    whole: bool = False
    board: bool = False
    once: bool = False


_QUESTIONS: Final = (
    _Question((Signal.BUSY,), _busy, whole=True),
    _Question((Signal.MEMORY_USED, Signal.MEMORY_TOTAL), _memory),
    _Question((Signal.HBM_PEAK,), _hbm_peak, whole=True, once=True),
    _Question((Signal.CLOCK,), _clock, board=True),
    _Question((Signal.CLOCK_MAX,), _clock_max, board=True, once=True),
    _Question((Signal.POWER,), _power, whole=True),
    _Question((Signal.POWER_LIMIT,), _power_limit, whole=True),
    _Question((Signal.SLOWDOWN, Signal.POWER_CAPPED), _slowdown, board=True),
    _Question((Signal.NVLINK_TX_BYTES, Signal.NVLINK_RX_BYTES), _nvlink, whole=True),
)


class Device:
    """One device that answers. `close` frees what the driver holds for it."""

    __slots__ = ("_answered", "_gpm", "_invalid", "_refused", "handles", "identity")

    def __init__(
        self,
        identity: Identity,
        handles: Handles,
        *,
        clock: Callable[[], float],
        max_age_seconds: float,
        invalid: Counter[str],
    ) -> None:
        """`clock`, `max_age_seconds` and `invalid`: see `Gpm`."""
        self.identity = identity
        self.handles = handles
        self._invalid = invalid
        self._gpm = Gpm(
            handles.board, handles.gpu_instance, clock=clock, max_age_seconds=max_age_seconds, invalid=invalid
        )
        self._answered: dict[Signal, float] = {}
        self._refused: set[Signal] = set()

    def read(self) -> Readings:
        """Everything that the device says now.

        Raises:
            DeviceLostError, SourceLostError: the device, or NVML as a whole, is gone.
        """
        gpm = self._gpm.read()
        values, missing = dict(gpm.values), dict(gpm.missing)
        for question in _QUESTIONS:
            self._put(question, values, missing)
        if self.handles.mig_enabled:
            sliced = {signal: Reason.MIG for signal, reason in missing.items() if reason is Reason.UNSUPPORTED}
            missing |= sliced
        return Readings(values, missing)

    def close(self) -> None:
        """Free the samples."""
        self._gpm.close()

    def _put(self, question: _Question, values: dict[Signal, float], missing: dict[Signal, Reason]) -> None:
        """Ask, unless the answer is known or has been refused for good."""
        signals = question.signals
        if question.whole and self.handles.gpu_instance is not None:
            missing.update(dict.fromkeys(signals, Reason.MIG))
            return
        if signals[0] in self._refused:
            missing.update(dict.fromkeys(signals, Reason.UNSUPPORTED))
            return
        if signals[0] in self._answered:
            values.update((signal, self._answered[signal]) for signal in signals)
            return
        try:
            answers = question.read(self.handles.board if question.board else self.handles.own)
        except RefusedError as error:
            missing.update(dict.fromkeys(signals, error.reason))
            if error.reason is Reason.UNSUPPORTED:
                self._refused.add(signals[0])
            return
        for signal, answer in zip(signals, answers, strict=True):
            value = measured(signal, answer, self._invalid)
            if value is None:
                missing[signal] = Reason.INVALID
            else:
                values[signal] = value
                if question.once:
                    self._answered[signal] = value
