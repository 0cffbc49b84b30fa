"""Instances beside those of their role: clocks, power, and the time that a token takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pdscope.analysis.board import Board
from pdscope.analysis.device_view import fresh
from pdscope.analysis.peers import put_peers
from pdscope.model.hardware import Hardware
from pdscope.model.metric import Fact, Metric
from pdscope.model.scrape import SeriesKey
from pdscope.model.signal import Signal, SignalId, SignalSet, instance_scope
from pdscope.model.topology import Deployment, Role
from pdscope.model.window import Window
from support.windows import INF, NOW, SCRAPES, deployment, histogram, instance, observed, rising, window

SIGNALS = (SignalId.CLOCK_TO_PEERS, SignalId.POWER_TO_PEERS, SignalId.TOKEN_TIME_TO_PEERS, SignalId.OUTPUT_TO_PEERS)


def decoding(running: float, tokens_per_second: float) -> Window:
    return window({Metric.RUNNING: running, Metric.GENERATED_TOKENS: rising(tokens_per_second)})


def devices(
    clock_mhz: float, power_watts: float, *, busy: float = 1.0, count: int = 4, model: str = "", name: str = "g"
) -> Window:
    """A page of so many devices, all alike."""
    columns = {
        Metric.DEVICE_BUSY: busy,
        Metric.DEVICE_CLOCK: clock_mhz * 1e6,
        Metric.DEVICE_POWER: power_watts,
    }
    scalars = {
        SeriesKey(metric, f"{name}-{n}"): np.full(SCRAPES, value)
        for metric, value in columns.items()
        for n in range(count)
    }
    facts = {Fact.DEVICE_MODEL: model} if model else {}
    return replace(window({}, target=name, source="dcgm"), scalars=scalars, facts=facts)


def decoders(count: int = 2, **facts: Any) -> Deployment:
    return deployment(
        instance("p0", Role.PREFILL), *(instance(f"d{n}", Role.DECODE, tp=4, **facts) for n in range(count))
    )


def compared(of: Deployment, engines: Mapping[str, Window], cards: Mapping[str, Window]) -> SignalSet:
    board = Board(of.name)
    put_peers(board, observed(of, engines), fresh({name: [page] for name, page in cards.items()}, NOW, 60.0))
    return board.finish()


def of(found: SignalSet, name: str) -> dict[SignalId, Signal]:
    return {signal.id: signal for signal in found.of(instance_scope(name))}


SLOW = {"d0": decoding(6, 400.0), "d1": decoding(42, 440.0)}
COLD = {"d0": devices(1980, 450), "d1": devices(345, 200)}


def test_a_slow_instance() -> None:
    """Each figure by that of its peer, with both in words."""
    found = of(compared(decoders(), SLOW, COLD), "d1")
    assert {signal: one.value for signal, one in found.items()} == {
        SignalId.CLOCK_TO_PEERS: pytest.approx(345 / 1980),
        SignalId.POWER_TO_PEERS: pytest.approx(200 / 450),
        SignalId.TOKEN_TIME_TO_PEERS: pytest.approx((42 / 440) / (6 / 400)),
        SignalId.OUTPUT_TO_PEERS: pytest.approx(1.1),
    }
    assert [found[signal].source for signal in SIGNALS] == [
        "clock of 345 MHz on d1, 1.98 GHz on d0",
        "power of 200 W on d1, 450 W on d0",
        "a token takes 95.5 ms on d1, 15 ms on d0",
        "output of 440 tokens/s on d1, 400 tokens/s on d0",
    ]


def test_the_median_of_several() -> None:
    """One slow peer more does not hide a slow instance."""
    engines = {f"d{n}": decoding(6, 400.0) for n in range(6)}
    cards = {f"d{n}": devices(345 if n < 2 else 1980, 450) for n in range(6)}
    clock = of(compared(decoders(6), engines, cards), "d0")[SignalId.CLOCK_TO_PEERS]
    assert clock.value == pytest.approx(345 / 1980)
    assert clock.source == "clock of 345 MHz on d0, 1.98 GHz on d1, d2, d3, d4 ..."


def test_devices_that_idle_have_low_clocks() -> None:
    """They are compared with nobody, and nobody with them."""
    found = compared(decoders(), SLOW, {"d0": devices(1980, 450), "d1": devices(345, 75, busy=0.4)})
    for name in ("d0", "d1"):
        assert set(of(found, name)) == {SignalId.TOKEN_TIME_TO_PEERS, SignalId.OUTPUT_TO_PEERS}


def test_less_power_for_want_of_work() -> None:
    """Devices that wait for their host a tenth of the time more than those of the peers are no slow devices for it."""
    waiting = compared(decoders(), SLOW, {"d0": devices(1980, 450), "d1": devices(1980, 200, busy=0.89)})
    assert SignalId.POWER_TO_PEERS not in of(waiting, "d1")
    assert SignalId.CLOCK_TO_PEERS in of(waiting, "d1")
    busy = compared(decoders(), SLOW, {"d0": devices(1980, 450), "d1": devices(1980, 200, busy=0.9)})
    assert of(busy, "d1")[SignalId.POWER_TO_PEERS].value == pytest.approx(200 / 450)


def test_devices_of_others_are_no_devices_of_the_instance() -> None:
    """Whose clocks they are nobody knows."""
    found = compared(decoders(), SLOW, {"d0": devices(1980, 450), "d1": devices(345, 200, count=8)})
    assert SignalId.CLOCK_TO_PEERS not in of(found, "d1")
    assert SignalId.CLOCK_TO_PEERS not in of(found, "d0")


@pytest.mark.parametrize(
    ("of_d1", "model"),
    [
        ({"tp": 8}, ""),
        ({"role": Role.UNIFIED}, ""),
        ({"hardware": Hardware("L4")}, ""),
        ({}, "another card"),
    ],
    ids=["larger", "another role", "other hardware", "other devices"],
)
def test_only_what_is_alike_is_compared(of_d1: dict[str, Any], model: str) -> None:
    """An L4 is no slow H200."""
    unlike = {"name": "d1", "role": Role.DECODE, "tp": 4} | of_d1
    pair = deployment(instance("d0", Role.DECODE, tp=4), instance(**unlike))
    cards = {"d0": devices(1980, 450, model="a card"), "d1": devices(345, 200, model=model or "a card")}
    assert len(compared(pair, SLOW, cards)) == 0


def test_configured_hardware_is_believed() -> None:
    """Whatever the pages call it."""
    cards = {"d0": devices(1980, 450, model="NVIDIA H200"), "d1": devices(345, 200, model="H200 SXM")}
    assert len(compared(decoders(hardware=Hardware("H200 SXM")), SLOW, cards)) == 2 * len(SIGNALS)


@pytest.mark.parametrize(
    ("one", "known"),
    [
        (decoding(0.5, 400.0), {SignalId.OUTPUT_TO_PEERS}),
        (window({Metric.GENERATED_TOKENS: rising(400.0)}), {SignalId.OUTPUT_TO_PEERS}),
        (window({Metric.RUNNING: 6.0}), set()),
        (decoding(6, 0.0), set()),
    ],
    ids=["mostly empty", "batch unknown", "output unknown", "stands still"],
)
def test_what_gives_no_time_for_a_token(one: Window, known: set[SignalId]) -> None:
    """Nothing is made up."""
    found = compared(decoders(), {"d0": one, "d1": decoding(42, 440.0)}, {})
    assert set(of(found, "d0")) == set(of(found, "d1")) == known


def test_prefill_by_its_time_of_computation() -> None:
    """For each token of a prompt: 20 prompts of 0.5 s and 2.0 s each over equal tokens."""
    bounds = (0.1, 1.0, 10.0, INF)
    pages = {
        name: window({Metric.PROMPT_TOKENS: rising(1000.0)}, {Metric.PREFILL_TIME: histogram(bounds, [seconds] * 20)})
        for name, seconds in (("p0", 0.5), ("p1", 2.0))
    }
    pair = deployment(instance("p0", Role.PREFILL), instance("p1", Role.PREFILL))
    found = of(compared(pair, pages, {}), "p1")
    assert found[SignalId.TOKEN_TIME_TO_PEERS].value == pytest.approx(4.0)
    assert found[SignalId.OUTPUT_TO_PEERS].value == pytest.approx(1.0)
    untimed = {name: window({Metric.PROMPT_TOKENS: rising(1000.0)}) for name in pages}
    assert set(of(compared(pair, untimed, {}), "p1")) == {SignalId.OUTPUT_TO_PEERS}


def test_one_alone_has_no_peers() -> None:
    """And routers have no devices."""
    alone = deployment(instance("d0", Role.DECODE, tp=4), *(instance(f"r{n}", Role.ROUTER) for n in range(2)))
    pages = {**SLOW, "r0": decoding(6, 400.0), "r1": decoding(6, 400.0)}
    assert len(compared(alone, pages, COLD)) == 0
