"""Loads of both roles, what each resource has left, and which is used up first."""

from __future__ import annotations

import pytest

from pdscope.analysis.board import Board
from pdscope.analysis.headroom import put_headroom
from pdscope.model.hardware import Hardware
from pdscope.model.signal import Quality, SignalId, SignalSet, instance_scope
from pdscope.model.topology import Deployment, Role
from support.windows import deployment, instance

HEADROOM = {
    SignalId.HEADROOM_LINK: "link",
    SignalId.HEADROOM_PREFILL: "prefill",
    SignalId.HEADROOM_SLOTS: "decode_slots",
    SignalId.HEADROOM_KV: "decode_kv",
}
Figures = dict[tuple[str, SignalId] | SignalId, float]


def headroom(figures: Figures, of: Deployment | None = None, quality: Quality = Quality.MEASURED) -> SignalSet:
    """What is made of signals that were put before."""
    used = of or deployment()
    board = Board(used.name)
    for place, value in figures.items():
        name, signal = place if isinstance(place, tuple) else (None, place)
        board.put(signal, value, quality, "test", scope=None if name is None else instance_scope(name))
    put_headroom(board, used)
    return board.finish()


def test_nothing_is_known_of_nothing() -> None:
    """Absent, never 0 or 1."""
    assert len(headroom({})) == 0


def test_each_resource_has_its_rest() -> None:
    """One less the share in use."""
    found = headroom(
        {
            SignalId.LINK_UTILIZATION: 0.25,
            ("p0", SignalId.PREFILL_BUSY): 0.5,
            ("d0", SignalId.RUNNING_TO_LIMIT): 0.125,
            ("d0", SignalId.KV_USAGE_NET): 0.75,
        }
    )
    values = {name: found.value(signal) for signal, name in HEADROOM.items()}
    assert values == {"link": 0.75, "prefill": 0.5, "decode_slots": 0.875, "decode_kv": 0.25}
    assert found.value(SignalId.PREFILL_LOAD) == 0.5
    assert found.value(SignalId.DECODE_LOAD) == 0.75
    assert found.get(SignalId.SATURATION_RATE) is None  # how much arrives is not known


@pytest.mark.parametrize(("used", "left"), [(1.0, 0.0), (1.7, 0.0), (0.0, 1.0)])
def test_no_resource_has_less_than_nothing(used: float, left: float) -> None:
    """Demand may exceed the capacity, and slots their limit."""
    found = headroom({SignalId.LINK_UTILIZATION: used, ("d0", SignalId.RUNNING_TO_LIMIT): used})
    assert found.value(SignalId.HEADROOM_LINK) == left
    assert found.value(SignalId.HEADROOM_SLOTS) == left


@pytest.mark.parametrize(
    ("figures", "load", "quality"),
    [
        ({SignalId.PREFILL_QUEUE: 1.0, SignalId.PREFILL_BUSY: 0.2}, 1.0, Quality.MEASURED),
        ({SignalId.PREFILL_QUEUE: 0.9, SignalId.PREFILL_BUSY: 0.2}, 0.2, Quality.MEASURED),
        ({SignalId.PREFILL_BUSY: 0.2, SignalId.COMPUTE_UTILIZATION: 0.6}, 0.2, Quality.MEASURED),
        ({SignalId.COMPUTE_UTILIZATION: 0.6}, 0.6, Quality.ESTIMATED),
        ({SignalId.PREFILL_BUSY: 1.1}, 1.0, Quality.MEASURED),
    ],
    ids=["a queue stands", "nearly none", "busy before compute", "compute alone", "no more than all"],
)
def test_load_of_prefill(figures: dict[SignalId, float], load: float, quality: Quality) -> None:
    """A queue that stands means that it is full; then its busy fraction, then its devices."""
    found = headroom({("p0", signal): value for signal, value in figures.items()}).get(SignalId.PREFILL_LOAD)
    assert found is not None
    assert (found.value, found.quality) == (load, quality)


def test_load_of_decode_is_that_of_its_most_loaded_resource() -> None:
    """Memory bandwidth by what can be had of it, which has no headroom of its own."""
    card = Hardware(name="card", hbm_bandwidth_bytes_per_second=1e12)
    of = deployment(instance("p0", Role.PREFILL), instance("d0", Role.DECODE, hardware=card))
    figures: Figures = {
        ("d0", SignalId.RUNNING_TO_LIMIT): 0.3,
        ("d0", SignalId.KV_USAGE_NET): 0.2,
        ("d0", SignalId.HBM_UTILIZATION): 0.6,
    }
    load = headroom(figures, of).get(SignalId.DECODE_LOAD)
    assert load is not None
    assert load.quality is Quality.DERIVED
    assert 0.6 < load.value < 1.0  # of the achievable, which is less than the theoretical
    assert headroom(figures | {("d0", SignalId.HBM_UTILIZATION): 0.1}, of).value(SignalId.DECODE_LOAD) == 0.3


def test_roles_are_means_over_the_instances_that_are_known() -> None:
    """An instance that says nothing is neither idle nor busy."""
    of = deployment(*(instance(f"p{n}", Role.PREFILL) for n in range(3)), instance("d0", Role.DECODE))
    found = headroom({("p0", SignalId.PREFILL_BUSY): 0.2, ("p1", SignalId.COMPUTE_UTILIZATION): 0.6}, of)
    load = found.get(SignalId.PREFILL_LOAD)
    assert load is not None
    assert load.value == pytest.approx(0.4)
    assert load.quality is Quality.ESTIMATED


def test_a_unified_engine_has_both_loads() -> None:
    """It prefills and decodes."""
    of = deployment(instance("u0", Role.UNIFIED))
    found = headroom({("u0", SignalId.PREFILL_BUSY): 0.3, ("u0", SignalId.RUNNING_TO_LIMIT): 0.7}, of)
    assert found.value(SignalId.PREFILL_LOAD) == 0.3
    assert found.value(SignalId.DECODE_LOAD) == 0.7


@pytest.mark.parametrize(
    ("link", "slots", "resource", "rate"), [(0.5, 0.25, "link", 20.0), (0.1, 0.8, "decode_slots", 12.5)]
)
def test_the_most_loaded_resource_saturates_first(link: float, slots: float, resource: str, rate: float) -> None:
    """At the arrivals by its load: ten requests a second use so much of it now."""
    found = headroom(
        {
            SignalId.ARRIVALS_PER_SECOND: 10.0,
            SignalId.LINK_UTILIZATION: link,
            ("d0", SignalId.RUNNING_TO_LIMIT): slots,
        }
    ).get(SignalId.SATURATION_RATE)
    assert found is not None
    assert found.value == pytest.approx(rate)
    assert found.quality is Quality.ESTIMATED
    assert found.source.startswith(f"{resource} is the first")


@pytest.mark.parametrize("arrivals", [0.0, None])
@pytest.mark.parametrize("load", [0.5, 0.0])
def test_without_arrivals_or_load_nothing_is_foretold(arrivals: float | None, load: float) -> None:
    """Nothing by nothing is no rate."""
    figures: Figures = {SignalId.LINK_UTILIZATION: load}
    if arrivals is not None:
        figures[SignalId.ARRIVALS_PER_SECOND] = arrivals
    assert headroom(figures).get(SignalId.SATURATION_RATE) is None
    idle = headroom({SignalId.LINK_UTILIZATION: 0.0, SignalId.ARRIVALS_PER_SECOND: 5.0})
    assert idle.get(SignalId.SATURATION_RATE) is None


@pytest.mark.parametrize(("given", "made"), [(Quality.MEASURED, Quality.DERIVED), (Quality.ASSUMED, Quality.ASSUMED)])
def test_a_rest_is_no_better_than_what_it_is_made_of(given: Quality, made: Quality) -> None:
    """And at best derived."""
    found = headroom({SignalId.LINK_UTILIZATION: 0.5}, quality=given).get(SignalId.HEADROOM_LINK)
    assert found is not None
    assert found.quality is made
