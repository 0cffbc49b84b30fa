"""Whether devices that are read for an instance can be its own."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from pdscope.model.metric import Metric
from pdscope.model.scrape import Schema, Scrape, SeriesKey
from pdscope.model.topology import Role
from pdscope.runtime.doctor_devices import too_many
from support.windows import NAN, NOW, VLLM, failure, instance


def page(names: Iterable[str], metric: Metric = Metric.DRAM_ACTIVE, value: float = 0.5) -> Scrape:
    keys = tuple(SeriesKey(metric, name) for name in names)
    return Scrape("g", "dcgm", NOW, Schema(keys, {}, frozenset()), np.full(len(keys), value))


def cards(count: int, first: int = 0) -> list[str]:
    return [f"GPU-{n}" for n in range(first, first + count)]


@pytest.mark.parametrize(
    ("pages", "told"),
    [
        ([page(cards(8))], False),
        ([page(cards(9))], True),
        ([page(cards(8)), page(cards(8))], False),
        ([page(cards(8)), page(cards(4, first=8))], True),
        ([page(cards(8)), page(["mlx5_0/1"], Metric.NIC_TX_RATE), failure(NOW)], False),
        ([page(cards(16), value=NAN)], False),
        ([page([""], Metric.DRAM_ACTIVE)], False),
        ([], False),
    ],
    ids=["own", "one too many", "on two pages", "on two hosts", "ports", "no numbers", "one not named", "no page"],
)
def test_more_than_the_instance_has(pages: list[Scrape], told: bool) -> None:
    """Each card counts once, whichever page names it; ports are no cards."""
    one = instance("d0", Role.DECODE, VLLM, tp=2, pp=2, dp=2)
    remarks = too_many([one, instance("d1", Role.DECODE)], {"d0": pages})
    assert set(remarks) == ({"d0"} if told else set())
    assert all("d0, an instance of 8 (tp x pp x dp): some are not its own" in text for text in remarks.values())
