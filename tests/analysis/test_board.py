"""What gets among the signals, and what does not."""

from __future__ import annotations

import pytest

from pdscope.analysis.board import Board
from pdscope.analysis.histograms import Quantile
from pdscope.model.signal import Quality, SignalId, instance_scope
from support.windows import INF, NAN


@pytest.mark.parametrize("value", [None, NAN, INF, -INF])
def test_what_is_unknown_is_absent(value: float | None) -> None:
    """Never zero, never NaN."""
    board = Board("pd")
    board.put(SignalId.QUEUED, value, Quality.MEASURED, "test")
    assert board.value(SignalId.QUEUED) is None
    assert len(board.finish()) == 0


def test_a_figure_keeps_its_origin() -> None:
    """Source, quality, age and the number of observations."""
    board = Board("pd")
    board.put(SignalId.QUEUED, 0, Quality.DERIVED, "somewhere", age_seconds=4.0, samples=7)
    found = board.finish().get(SignalId.QUEUED)
    assert found is not None
    assert (found.value, found.quality, found.source) == (0.0, Quality.DERIVED, "somewhere")
    assert (found.age_seconds, found.samples, found.bounds) == (4.0, 7, None)


def test_data_from_the_future_are_not_of_negative_age() -> None:
    """A page's own clock may be ahead."""
    board = Board("pd")
    board.put(SignalId.QUEUED, 1, Quality.MEASURED, "test", age_seconds=-3.0)
    found = board.finish().get(SignalId.QUEUED)
    assert found is not None
    assert found.age_seconds == 0.0


def test_a_quantile_brings_its_bucket() -> None:
    """The interval in which the truth lies."""
    board = Board("pd")
    board.put_quantile(SignalId.ITL_P50, Quantile(0.05, 0.04, 0.06), Quality.MEASURED, "h", samples=9, age_seconds=1.0)
    found = board.finish().get(SignalId.ITL_P50)
    assert found is not None
    assert (found.value, found.bounds, found.quality) == (0.05, (0.04, 0.06), Quality.MEASURED)


def test_a_quantile_beyond_the_last_bucket_is_a_lower_bound() -> None:
    """It says so, is an estimate, and has no bounds, since one of them is infinite."""
    board = Board("pd")
    board.put_quantile(SignalId.TTFT_P99, Quantile(30.0, 30.0, INF), Quality.MEASURED, "h", samples=9, age_seconds=0.0)
    found = board.finish().get(SignalId.TTFT_P99)
    assert found is not None
    assert (found.value, found.bounds, found.quality) == (30.0, None, Quality.ESTIMATED)
    assert "at least" in found.source


def test_no_quantile_no_signal() -> None:
    """A histogram without observations has none."""
    board = Board("pd")
    board.put_quantile(SignalId.TTFT_P99, None, Quality.MEASURED, "h", samples=0, age_seconds=0.0)
    assert len(board.finish()) == 0


def test_scopes_are_kept_apart() -> None:
    """An instance's figure is not the deployment's."""
    board = Board("pd")
    board.put(SignalId.RUNNING, 3, Quality.MEASURED, "d0", scope=instance_scope("d0"))
    assert board.value(SignalId.RUNNING) is None
    found = board.finish().get(SignalId.RUNNING, instance_scope("d0"))
    assert found is not None
    assert (found.value, found.age_seconds, found.samples) == (3.0, 0.0, 0)
    assert board.value(SignalId.RUNNING, instance_scope("d0")) == 3


def test_what_is_unknown_is_worth_least() -> None:
    """So that nothing made of it looks better than it is."""
    board = Board("pd")
    assert board.quality(SignalId.TTFT_MEAN) is Quality.ASSUMED
    assert board.source(SignalId.TTFT_MEAN) == "unknown"
    board.put(SignalId.TTFT_MEAN, 1.0, Quality.MEASURED, "h")
    assert board.quality(SignalId.TTFT_MEAN) is Quality.MEASURED
    assert board.source(SignalId.TTFT_MEAN) == "h"


def test_a_figure_that_does_not_say_its_age_is_as_old_as_the_data_behind_it() -> None:
    board = Board("pd", {"p0": 1.0, "d0": 7.0})
    board.put(SignalId.RUNNING, 1.0, Quality.MEASURED, "", scope=instance_scope("p0"))
    board.put(SignalId.RUNNING, 1.0, Quality.MEASURED, "", scope=instance_scope("d0"), age_seconds=2.0)
    board.put(SignalId.KV_DEMAND, 1.0, Quality.DERIVED, "")
    board.put(SignalId.LINK_CAPACITY, 1.0, Quality.ASSUMED, "configuration")
    found = board.finish()
    asked = [
        found.get(SignalId.RUNNING, instance_scope("p0")),
        found.get(SignalId.RUNNING, instance_scope("d0")),
        found.get(SignalId.KV_DEMAND),
        found.get(SignalId.LINK_CAPACITY),
    ]
    assert [one.age_seconds for one in asked if one is not None] == [1.0, 2.0, 7.0, 0.0]


def test_a_figure_that_is_taken_back_is_unknown() -> None:
    """It comes back as it was; what was never there is not missed."""
    board = Board("pd")
    board.put(SignalId.HBM_UTILIZATION, 0.5, Quality.MEASURED, "sensor", scope=instance_scope("d0"))
    board.put(SignalId.HBM_UTILIZATION, 0.6, Quality.MEASURED, "sensor", scope=instance_scope("d1"))
    taken = board.withdraw(SignalId.HBM_UTILIZATION, instance_scope("d0"))
    assert taken is not None
    assert (taken.value, taken.scope) == (0.5, instance_scope("d0"))
    assert board.signal(SignalId.HBM_UTILIZATION, instance_scope("d0")) is None
    assert board.withdraw(SignalId.HBM_UTILIZATION, instance_scope("d0")) is None
    assert [one.value for one in board.finish()] == [0.6]
    board.add(taken)
    assert board.value(SignalId.HBM_UTILIZATION, instance_scope("d0")) == 0.5
