"""The canonical vocabulary."""

from __future__ import annotations

import copy
import pickle

from pdscope.model.metric import Kind, Metric
from pdscope.model.units import Unit


def test_no_two_metrics_are_one() -> None:
    """An enumeration makes members with equal values aliases, which would mix two quantities up."""
    assert len(Metric) == len(Metric.__members__)


def test_identity_survives_copies() -> None:
    """Series are looked up by identity, so a copy has to be the member itself."""
    for metric in Metric:
        assert copy.deepcopy(metric) is metric
        assert pickle.loads(pickle.dumps(metric)) is metric
        assert {metric: 1}[Metric[metric.name]] == 1


def test_a_metric_is_equal_to_itself_only() -> None:
    """Not to its specification either."""
    assert Metric.TTFT == Metric.TTFT
    assert Metric.TTFT != Metric.ITL
    assert Metric.TTFT.spec != Metric.TTFT


def test_kinds_have_units_that_suit_them() -> None:
    """A histogram of ratios or a counter of a state would be a mistake in the table."""
    for metric in Metric:
        spec = metric.spec
        assert spec.help
        if spec.kind is not Kind.GAUGE:
            assert spec.unit is not Unit.RATIO, metric
