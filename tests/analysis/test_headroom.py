"""Loads of both roles, what each resource has left, and which is used up first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdscope.analysis.board import Board
from pdscope.analysis.headroom import put_headroom
from pdscope.model.hardware import Hardware
from pdscope.model.signal import Quality, SignalId, SignalSet, instance_scope
from pdscope.model.topology import Attention, Deployment, KvShape, ModelFacts, Role, Slo
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
        ({SignalId.PREFILL_QUEUE: 1.0, SignalId.PREFILL_BUSY: 0.5}, 1.0, Quality.MEASURED),
        ({SignalId.PREFILL_QUEUE: 1.0, SignalId.COMPUTE_UTILIZATION: 0.2}, 1.0, Quality.MEASURED),
        ({SignalId.PREFILL_QUEUE: 9.0, SignalId.PREFILL_BUSY: 0.49}, 0.49, Quality.MEASURED),
        ({SignalId.PREFILL_QUEUE: 0.9, SignalId.PREFILL_BUSY: 0.2}, 0.2, Quality.MEASURED),
        ({SignalId.PREFILL_BUSY: 0.2, SignalId.COMPUTE_UTILIZATION: 0.6}, 0.2, Quality.MEASURED),
        ({SignalId.COMPUTE_UTILIZATION: 0.6}, 0.6, Quality.ESTIMATED),
        ({SignalId.PREFILL_BUSY: 1.1}, 1.0, Quality.MEASURED),
    ],
    ids=[
        "a queue stands",
        "how busy it is is not known",
        "met by chance",
        "nearly none",
        "busy before compute",
        "compute alone",
        "no more than all",
    ],
)
def test_load_of_prefill(figures: dict[SignalId, float], load: float, quality: Quality) -> None:
    """A queue that stands means that it is full; then its busy fraction, then its devices."""
    found = headroom({("p0", signal): value for signal, value in figures.items()}).get(SignalId.PREFILL_LOAD)
    assert found is not None
    assert (found.value, found.quality) == (load, quality)


CARD = Hardware(name="card", hbm_bandwidth_bytes_per_second=1e12, achievable_hbm_fraction=0.8)
SHAPE = KvShape(Attention.GQA, layers=80, kv_heads=8, head_dim=128, bytes_per_element=2)
TOKEN_BYTES = 327_680.0


def stepping(cache: float, hbm: float = 0.8, itl: float = 0.02, running: float = 32.0) -> Figures:
    """Decode steps that read so much of their bytes as KV."""
    return {
        SignalId.ITL_P50: itl,
        ("d0", SignalId.RUNNING): running,
        ("d0", SignalId.CONTEXT_TOKENS): cache * 1e10 / TOKEN_BYTES,
        ("d0", SignalId.STEP_BYTES): 1e10,
        ("d0", SignalId.HBM_UTILIZATION): hbm,
    }


NO_SLO = Slo()


def stepper(slo: Slo = NO_SLO, kv: KvShape | None = SHAPE) -> Deployment:
    of = deployment(instance("p0", Role.PREFILL), instance("d0", Role.DECODE, hardware=CARD))
    return replace(of, slo=slo, model=ModelFacts("m", kv=kv))


def test_load_of_decode_is_that_of_its_most_loaded_resource() -> None:
    """Slots, KV memory, or the step; the step has no headroom of its own."""
    shares: Figures = {("d0", SignalId.RUNNING_TO_LIMIT): 0.3, ("d0", SignalId.KV_USAGE_NET): 0.2}
    load = headroom(stepping(0.6) | shares, stepper()).get(SignalId.DECODE_LOAD)
    assert load is not None
    assert load.quality is Quality.ESTIMATED
    assert load.value == pytest.approx(0.6)
    assert headroom(stepping(0.1) | shares, stepper()).value(SignalId.DECODE_LOAD) == 0.3


def test_weights_are_no_load() -> None:
    """Memory is read all the time at any batch; two requests use a fiftieth of what a step can serve."""
    found = headroom(stepping(0.02, hbm=0.8, itl=0.01, running=2.0), stepper(Slo(itl_p50_seconds=0.04)))
    assert found.value(SignalId.DECODE_LOAD) == pytest.approx(0.02 * 0.04 / (0.04 - 0.98 * 0.01))


@pytest.mark.parametrize(
    ("itl", "slo", "load"),
    [
        (0.02, Slo(itl_p50_seconds=0.02), 1.0),
        (0.02, Slo(itl_p50_seconds=0.04), 0.5 * 0.04 / 0.03),
        (0.02, Slo(itl_p50_seconds=1e9), 0.5),
        (0.03, Slo(itl_p50_seconds=0.02), 1.0),
        (0.05, Slo(itl_p50_seconds=0.02), 0.5),
        (0.02, Slo(itl_p95_seconds=0.01), 0.5),
        (0.02, Slo(), 0.5),
    ],
    ids=["at it", "half of it", "far off", "over it", "missed by an empty step", "of a latency not known", "none"],
)
def test_the_objective_on_itl_limits_requests(itl: float, slo: Slo, load: float) -> None:
    """Half of the step grows with them: it is full where ITL reaches its objective."""
    found = headroom(stepping(0.5, itl=itl), stepper(slo))
    assert found.value(SignalId.DECODE_LOAD) == pytest.approx(load)


@pytest.mark.parametrize(
    "signal", [SignalId.RUNNING, SignalId.CONTEXT_TOKENS, SignalId.STEP_BYTES, SignalId.HBM_UTILIZATION]
)
def test_a_step_of_which_not_all_is_known_has_no_load(signal: SignalId) -> None:
    """Nor one of a cache whose shape is not known."""
    figures = {place: value for place, value in stepping(0.5).items() if place != ("d0", signal)}
    assert headroom(figures, stepper()).get(SignalId.DECODE_LOAD) is None
    assert headroom(stepping(0.5), stepper(kv=None)).get(SignalId.DECODE_LOAD) is None


def test_a_pool_without_room_for_a_prompt_is_full() -> None:
    """At whatever usage: large prompts leave much of it free."""
    figures: Figures = {("d0", SignalId.KV_USAGE_NET): 0.83, ("d0", SignalId.KV_FREE_REQUESTS): 0.9}
    assert headroom(figures).value(SignalId.DECODE_LOAD) == 1.0
    assert headroom(figures | {("d0", SignalId.KV_FREE_REQUESTS): 1.0}).value(SignalId.DECODE_LOAD) == 0.83


def test_the_step_may_saturate_first() -> None:
    """Where there is an objective on ITL: its load is then a share of what requests can have."""
    busy = stepping(0.5) | {SignalId.ARRIVALS_PER_SECOND: 2.0}
    found = headroom(busy, stepper(Slo(itl_p50_seconds=0.04))).get(SignalId.SATURATION_RATE)
    assert found is not None
    assert found.value == pytest.approx(3.0)
    assert found.source.startswith("room_under_the_objective_on_ITL is the first")
    assert headroom(busy, stepper()).get(SignalId.SATURATION_RATE) is None


@pytest.mark.parametrize(("load", "served"), [(1.0, 10.0), (1.4, 5.0), (0.96, 10.5)])
def test_no_rate_is_foretold_that_is_passed_already(load: float, served: float) -> None:
    """A resource in full use has no rate at which it will be, and what is served is possible."""
    figures: Figures = {
        SignalId.ARRIVALS_PER_SECOND: 10.0,
        SignalId.REQUESTS_PER_SECOND: served,
        SignalId.LINK_UTILIZATION: load,
    }
    assert headroom(figures).get(SignalId.SATURATION_RATE) is None
    assert headroom(figures | {SignalId.LINK_UTILIZATION: 0.9}).value(SignalId.SATURATION_RATE) == pytest.approx(
        10 / 0.9
    )


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
