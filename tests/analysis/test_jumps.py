"""Counters of several processes behind one address are told, not passed over in silence."""

from __future__ import annotations

import numpy as np
import pytest

from pdscope.analysis.board import Board
from pdscope.analysis.jumps import put_jumps
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, SignalId, SignalSet, instance_scope
from pdscope.model.window import HistogramWindow, Window
from support.windows import INF, NAN, SCRAPES, Column, deployment, histogram, observed, rising, window

D0 = instance_scope("d0")
ONE, OTHER = rising(10.0, 9000.0), rising(3.0, 700.0)
ALTERNATING = np.where(np.arange(SCRAPES) % 2 == 0, ONE, OTHER)
RESTARTED = np.where(np.arange(SCRAPES) < 6, ONE, rising(3.0, 0.0))


def signals(one: Window) -> SignalSet:
    of = deployment()
    board = Board(of.name)
    put_jumps(board, observed(of, {"d0": one}))
    return board.finish()


def test_counters_and_histograms_that_alternate() -> None:
    """Each metric counts once, and the first few are named."""
    both = histogram((1.0, INF), [0.5] * 100)
    swapped = HistogramWindow(both.bounds, np.stack([ALTERNATING, ALTERNATING], axis=1), ALTERNATING)
    columns = {Metric.GENERATED_TOKENS: ALTERNATING, Metric.PROMPT_TOKENS: ALTERNATING, Metric.REQUESTS_FINISHED: ONE}
    found = signals(window(columns, {Metric.ITL: swapped, Metric.TTFT: both})).get(SignalId.COUNTERS_JUMP, D0)
    assert found is not None
    assert (found.value, found.samples, found.quality) == (3.0, 5, Quality.MEASURED)
    assert "generated_tokens, prompt_tokens, itl of d0" in found.source


@pytest.mark.parametrize(
    "column",
    [ONE, RESTARTED, np.full(SCRAPES, 7.0), np.full(SCRAPES, NAN), [NAN, *OTHER[1:]]],
    ids=["grows", "restarted once", "stands", "absent", "late"],
)
def test_one_process(column: Column) -> None:
    """A restart is none, nor a gap."""
    assert len(signals(window({Metric.GENERATED_TOKENS: column}))) == 0


@pytest.mark.parametrize(("jumping", "kept"), [(1, True), (2, False)])
def test_of_a_page_that_several_answer_the_gauges_are_left(jumping: int, kept: bool) -> None:
    """A counter that happens not to jump in this window is of several processes too; a single one that jumps is odd."""
    names = (Metric.GENERATED_TOKENS, Metric.PROMPT_TOKENS)[:jumping]
    columns = dict.fromkeys(names, ALTERNATING) | {Metric.TRANSFER_FAILURES: ONE, Metric.RUNNING: ONE}
    page = window(columns, {Metric.TTFT: histogram((1.0, INF), [0.5] * 100)})
    of = deployment()
    left = next(o for o in put_jumps(Board(of.name), observed(of, {"d0": page})) if o.instance.name == "d0")
    assert left.level(Metric.RUNNING) is not None
    assert (left.rate(Metric.TRANSFER_FAILURES) is not None) is kept
    assert (left.distribution(Metric.TTFT) is not None) is kept


def test_gauges_may_move_as_they_like() -> None:
    """They are no counters."""
    assert len(signals(window({Metric.RUNNING: ALTERNATING}))) == 0
