"""Faults that a driver tells: which are the hardware's, of which devices, and since when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from pdscope.analysis.board import Board
from pdscope.analysis.device_view import DeviceView
from pdscope.analysis.faults import put_faults
from pdscope.model.metric import Metric
from pdscope.model.scrape import SeriesKey
from pdscope.model.signal import Quality, Signal, SignalId, instance_scope
from support.windows import NAN, NOW, SCRAPES, Column, window

CAME = [0.0] * 12


def told(codes: Mapping[str, Column], *, own: bool = True) -> Signal | None:
    """What is said of devices with these codes."""
    scalars = {
        SeriesKey(Metric.DEVICE_FAULT, name): np.broadcast_to(np.asarray(code, dtype=np.float64), (SCRAPES,))
        for name, code in codes.items()
    }
    page = replace(window({}, target="g-d0", source="dcgm"), scalars=scalars)
    board = Board("pd")
    put_faults(board, DeviceView([page]), instance_scope("d0"), NOW, own=own)
    return board.finish().get(SignalId.HARDWARE_FAULTS, instance_scope("d0"))


@pytest.mark.parametrize("code", [48, 63, 64, 74, 79, 94, 95, 119, 120])
def test_codes_of_the_hardware(code: int) -> None:
    """One that was there before the window may be old: derived."""
    one = told({"GPU-a": 0.0, "GPU-b": float(code)})
    assert one is not None
    assert (one.value, one.quality) == (1.0, Quality.DERIVED)
    assert one.source.startswith(f"Xid {code} (")
    assert one.source.endswith(") of GPU-b, before the window (dcgm device_fault of g-d0)")


@pytest.mark.parametrize("code", [0, 8, 13, 31, 43, 45, 109])
def test_codes_of_what_runs_on_it(code: int) -> None:
    """An application that reads where it must not is no fault of the device: none is known of."""
    one = told({"GPU-a": float(code)})
    assert one is not None
    assert (one.value, one.quality, one.source) == (0.0, Quality.MEASURED, "dcgm device_fault of g-d0")


def test_a_fault_that_came_within_the_window() -> None:
    """Is measured, and told instead of older ones; each code names its devices."""
    one = told({"a": [*CAME, 79.0], "b": [*CAME, 79.0], "c": [*CAME, 31.0], "d": 48.0, "e": [*CAME, 119.0]})
    assert one is not None
    assert (one.value, one.quality) == (3.0, Quality.MEASURED)
    assert one.source == (
        "Xid 79 (the device fell off the bus) of a, b and Xid 119 (its GSP did not answer) of e, within the window "
        "(dcgm device_fault of g-d0)"
    )


def test_many_devices_are_not_all_named() -> None:
    """Four are enough to look at."""
    one = told({f"GPU-{n}": 79.0 for n in range(8)})
    assert one is not None
    assert (one.value, "of GPU-0, GPU-1, GPU-2, GPU-3 ...," in one.source) == (8.0, True)


def test_devices_of_others() -> None:
    """A fault may be theirs; that there is none is known."""
    assert told({"GPU-a": 79.0}, own=False) is None
    none = told({"GPU-a": 31.0}, own=False)
    assert none is not None
    assert none.value == 0.0


def test_nothing_told() -> None:
    """Silence is not soundness."""
    assert told({}) is told({"GPU-a": NAN}) is None
