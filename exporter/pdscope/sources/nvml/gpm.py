"""GPU Performance Monitoring (Hopper and newer): utilisation as the difference of two samples of the driver's counters.

All metrics come from the same two samples. Each has a return code of its own, and a value that may be NaN although the
code is 0 (two samples of the same moment).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pynvml

from pdscope.sources.nvml.library import RefusedError, ask, failure, release
from pdscope.sources.nvml.snapshot import Readings, Reason, Signal
from pdscope.sources.nvml.validity import measured

MIN_SPACING_SECONDS: Final = 0.1
"""Samples closer than this are not defined; until then the old baseline and what was read with it stay."""
_MIB: Final = 1024.0 * 1024.0
_METRICS: Final = (
    (Signal.SM_ACTIVE, pynvml.NVML_GPM_METRIC_SM_UTIL, 0.01),
    (Signal.TENSOR_ACTIVE, pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL, 0.01),
    (Signal.HBM_BANDWIDTH, pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL, 0.01),
    (Signal.PCIE_TX_RATE, pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC, _MIB),
    (Signal.PCIE_RX_RATE, pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC, _MIB),
    (Signal.NVLINK_TX_RATE, pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, _MIB),
    (Signal.NVLINK_RX_RATE, pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, _MIB),
)
_OF_A_SLICE: Final = frozenset((Signal.SM_ACTIVE, Signal.TENSOR_ACTIVE, Signal.HBM_BANDWIDTH))
"""Links belong to the board: told of each of its instances, they would count as often."""


def _all_missing(reason: Reason) -> Readings:
    return Readings(missing=dict.fromkeys((signal for signal, _, _ in _METRICS), reason))


class Gpm:
    """The counters of one device, or of one GPU instance of it.

    Two buffers of the driver alternate as baseline and new sample; they live until `close`.
    """

    __slots__ = (
        *("_baseline_at", "_buffers", "_clock", "_gpu_instance", "_handle", "_invalid", "_max_age_seconds"),
        *("_readings", "_request", "_supported", "_unsupported", "_wanted"),
    )

    def __init__(
        self,
        handle: Any,
        gpu_instance: int | None,
        *,
        clock: Callable[[], float],
        max_age_seconds: float,
        invalid: Counter[str],
    ) -> None:
        """`handle` is the board's; `clock` is monotonic; an older baseline than `max_age_seconds` is not used."""
        self._handle = handle
        self._gpu_instance = gpu_instance
        self._clock = clock
        self._max_age_seconds = max_age_seconds
        self._invalid = invalid
        self._buffers: list[Any] = []
        self._baseline_at: float | None = None
        self._supported: bool | None = None
        wanted = tuple(metric for metric in _METRICS if gpu_instance is None or metric[0] in _OF_A_SLICE)
        self._unsupported = {signal for signal, _, _ in _METRICS} - {signal for signal, _, _ in wanted}
        self._readings = self._not_ready()
        self._ask_for(wanted)

    def read(self) -> Readings:
        """Utilisation and rates since the poll before.

        Raises:
            DeviceLostError, SourceLostError: as `ask`; the caller closes.
        """
        try:
            self._readings = self._sample()
        except RefusedError as error:
            self._baseline_at = None
            self._readings = _all_missing(error.reason)
            if error.reason is Reason.UNSUPPORTED:
                self._supported = False
                self.close()
        return self._readings

    def close(self) -> None:
        """Free the samples; reading may go on and starts anew."""
        while self._buffers:
            release(pynvml.nvmlGpmSampleFree, self._buffers.pop())
        self._baseline_at = None

    def _sample(self) -> Readings:
        if self._supported is None:
            self._supported = bool(ask(pynvml.nvmlGpmQueryDeviceSupport, self._handle).isSupportedDevice)
        if not self._supported:
            return _all_missing(Reason.UNSUPPORTED)
        now = self._clock()
        if self._baseline_at is not None and now - self._baseline_at < MIN_SPACING_SECONDS:
            return self._readings
        while len(self._buffers) < 2:
            self._buffers.append(ask(pynvml.nvmlGpmSampleAlloc))
        baseline, newest = self._buffers
        if self._gpu_instance is None:
            ask(pynvml.nvmlGpmSampleGet, self._handle, newest)
        else:
            ask(pynvml.nvmlGpmMigSampleGet, self._handle, self._gpu_instance, newest)
        usable = self._baseline_at is not None and now - self._baseline_at <= self._max_age_seconds
        readings = self._difference(baseline, newest) if usable else self._not_ready()
        self._buffers.reverse()
        self._baseline_at = now
        return readings

    def _not_ready(self) -> Readings:
        missing = {
            signal: Reason.UNSUPPORTED if signal in self._unsupported else Reason.NOT_READY for signal, _, _ in _METRICS
        }
        return Readings(missing=missing)

    def _difference(self, baseline: Any, newest: Any) -> Readings:
        request = self._request
        request.sample1, request.sample2 = baseline, newest
        ask(pynvml.nvmlGpmMetricsGet, request)
        values: dict[Signal, float] = {}
        missing = dict.fromkeys(self._unsupported, Reason.UNSUPPORTED)
        for answer, (signal, _, scale) in zip(request.metrics, self._wanted, strict=False):
            reason = self._refusal(answer.nvmlReturn)
            value = measured(signal, answer.value * scale, self._invalid) if reason is None else None
            if value is None:
                missing[signal] = reason or Reason.INVALID
            else:
                values[signal] = value
        self._remember_unsupported(missing)
        return Readings(values, missing)

    @staticmethod
    def _refusal(code: int) -> Reason | None:
        """Why a metric has no value; None where it has one. A lost device is an error here too."""
        if code == pynvml.NVML_SUCCESS:
            return None
        error = failure(code)
        if isinstance(error, RefusedError):
            return error.reason
        raise error

    def _remember_unsupported(self, missing: dict[Signal, Reason]) -> None:
        unsupported = {signal for signal, reason in missing.items() if reason is Reason.UNSUPPORTED}
        if unsupported != self._unsupported:
            self._unsupported = unsupported
            self._ask_for(tuple(metric for metric in _METRICS if metric[0] not in unsupported))

    def _ask_for(self, wanted: tuple[tuple[Signal, int, float], ...]) -> None:
        """One structure for all polls: it has room for every metric there is, which are 19 KB."""
        self._wanted = wanted
        self._request = pynvml.c_nvmlGpmMetricsGet_t()
        self._request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        self._request.numMetrics = len(wanted)
        for slot, (_, metric_id, _) in zip(self._request.metrics, wanted, strict=False):
            slot.metricId = metric_id
