"""All signals of a deployment: what may come out of any windows at all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pdscope.analysis.beside import Reach
from pdscope.analysis.signals import compute_signals
from pdscope.model.hardware import Hardware
from pdscope.model.metric import Kind, Metric
from pdscope.model.scrape import SeriesKey
from pdscope.model.signal import Quality, Scope, ScopeKind, Signal, SignalId, SignalSet
from pdscope.model.topology import ComputeShape, Deployment, Interconnect, KvShape, Role, Routing, Slo
from pdscope.model.units import Unit
from pdscope.model.window import HistogramWindow, Window
from support.windows import (
    DEEPSEEK_V3,
    INF,
    LLAMA_8B,
    NAN,
    NOW,
    STEP_SECONDS,
    deployment,
    instance,
    rising,
    window,
)

MAX_AGE_SECONDS = 60.0
SLO = Slo(ttft_p50_seconds=2.0, itl_p50_seconds=0.05)
LINK = Interconnect(25e9)
NAMES = {"p0": Role.PREFILL, "d0": Role.DECODE, "d1": Role.DECODE, "u0": Role.UNIFIED, "r0": Role.ROUTER}
SERVING = sum(role in (Role.DECODE, Role.UNIFIED) for role in NAMES.values())
SCRAPES = 6
BOUNDS = {Unit.SECONDS: (0.01, 0.1, 1.0, 10.0, INF), Unit.TOKENS: (100.0, 1000.0, 1e4, INF)}
GAUGES = [m for m in Metric if m.spec.kind is Kind.GAUGE]
COUNTERS = [m for m in Metric if m.spec.kind is Kind.COUNTER]
HISTOGRAMS = [m for m in Metric if m.spec.kind is Kind.HISTOGRAM]

# so fast that no estimate refutes itself
HARDWARE = Hardware(name="card", hbm_bandwidth_bytes_per_second=1e15, bf16_flop_per_second=1e18)
COMPUTE = ComputeShape(parameters=8e9, active_parameters=8e9)

# how scrapes went no page tells
OF_REACH = frozenset((SignalId.SILENT_SCRAPES, SignalId.ANSWERS, SignalId.SCRAPE_COST, SignalId.ROLES_ANSWERING))
# where something is used up already, no rate is foretold at which that will be
OF_ROOM = frozenset((SignalId.SATURATION_RATE,))
# what is configured analysis does not know
OF_RUNTIME = frozenset((SignalId.CONTRADICTIONS,))
# how long things have been as they are takes a memory, which analysis has not, and only a page that contradicts itself
# is distrusted
OF_DOUBT = frozenset(
    (
        *(signal for signal in SignalId if signal.name.startswith("DISTRUSTED_")),
        SignalId.HBM_FLOOR,
        SignalId.COMPUTE_FLOOR,
        SignalId.TTFT_OUTSIDE,
        SignalId.ITL_OUTSIDE,
        SignalId.COUNTERS_JUMP,
        SignalId.FOREIGN_DEVICES,
        SignalId.UNTIMED,
    )
)
OF_ONE_WINDOW = frozenset(SignalId) - {SignalId.STABILITY_WINDOW} - OF_DOUBT - OF_REACH - OF_RUNTIME - OF_ROOM
# said only where the engine measures nothing better
STANDS_IN = {SignalId.SPEED_TO_LINE}

Windows = dict[str, list[Window]]
Column = NDArray[np.float64]


def bounds_of(metric: Metric) -> tuple[float, ...]:
    return BOUNDS.get(metric.spec.unit, (1.0, 1e3, 1e6, 1e9, INF))


@cache
def usual(name: str, seed: int = 1) -> Window:
    """A window in which every metric is there and plausible."""
    source = np.random.default_rng([seed, *name.encode()])
    scalars: dict[Metric, Column] = {}
    for metric in GAUGES:
        scale = 1.0 if metric.spec.unit is Unit.RATIO else 40.0
        scalars[metric] = scale * source.uniform(0.1, 0.9, SCRAPES)
    for metric in COUNTERS:
        # seconds of a second; else events
        scalars[metric] = rising(
            source.uniform(0.1, 0.9 if metric.spec.unit is Unit.SECONDS else 50.0), scrapes=SCRAPES
        )
    histograms = {}
    for metric in HISTOGRAMS:
        bounds = bounds_of(metric)
        middle = np.array([bound / 2 for bound in bounds[:-1]] + [2 * bounds[-2]])
        held = source.integers(1, 9, (SCRAPES, len(bounds))).cumsum(axis=0).astype(np.float64)
        if name == "r0":
            held *= SERVING  # each of their requests came through the router
        histograms[metric] = HistogramWindow(bounds, held.cumsum(axis=1), held @ middle)
    one = window(scalars, histograms, target=name, scrapes=SCRAPES)
    halves = {SeriesKey(Metric.RUNNING, rank): scalars[Metric.RUNNING] / 2 for rank in ("0", "1")}
    return replace(one, scalars={**one.scalars, **halves})


def all_usual(seed: int = 1) -> Windows:
    return {name: [usual(name, seed)] for name in NAMES}


def scene(
    *, routing: Routing | None = None, kv: KvShape | None = LLAMA_8B, link: Interconnect | None = LINK
) -> Deployment:
    """One instance of every role."""
    members = (instance(name, role, tp=2, hardware=HARDWARE) for name, role in NAMES.items())
    of = deployment(*members, kv=kv, slo=SLO, interconnect=link, routing=routing)
    return replace(of, model=replace(of.model, weight_bytes=1e9, active_parameters=None, compute=COMPUTE))


def cards(name: str) -> Window:
    """Two devices at work, one of them slower, and ports that carry far more than KV."""
    columns = {
        Metric.DEVICE_BUSY: (0.9, 0.9),
        Metric.DEVICE_POWER: (300.0, 500.0),
        Metric.DEVICE_CLOCK: (1.2e9, 1.9e9),
        Metric.NIC_TX_RATE: (1e15, 1e15),
        Metric.NIC_RX_RATE: (1e15, 1e15),
        Metric.NIC_LINE_RATE: (1e18, 1e18),
        Metric.NIC_ACTIVE: (1.0, 1.0),
    }
    scalars = {
        SeriesKey(metric, rank): np.full(SCRAPES, value)
        for metric, values in columns.items()
        for rank, value in zip(("a", "b"), values, strict=True)
    }
    return replace(window({}, target=f"cards-{name}", source="dcgm", scrapes=SCRAPES), scalars=scalars)


def without_cards(one: Window) -> Window:
    """The window as a page of devices, without what the cards say better."""
    told = {Metric.DEVICE_BUSY, Metric.DEVICE_POWER, Metric.DEVICE_CLOCK}
    return replace(one, scalars={key: column for key, column in one.scalars.items() if key.metric not in told})


def signals(
    windows: Mapping[str, list[Window]],
    of: Deployment | None = None,
    now: float = NOW,
    reach: Mapping[str, Reach] | None = None,
) -> SignalSet:
    devices = {name: [cards(name), *map(without_cards, own)] for name, own in windows.items() if own}
    return compute_signals(of or scene(), windows, devices, now, MAX_AGE_SECONDS, reach)


def untimed() -> Windows:
    """The usual windows of an engine that does not time how long it waits for a transfer, only the transfer."""
    windows = all_usual()
    for name in NAMES:
        windows = changed(windows, name, {Metric.EXPOSED_TRANSFER_TIME: None})
    return windows


def changed(windows: Windows, name: str, columns: Mapping[Metric, Column | HistogramWindow | None]) -> Windows:
    """The windows with some series of one instance replaced, or taken away (None)."""
    one = windows[name][0]
    scalars, histograms = dict(one.scalars), dict(one.histograms)
    for metric, column in columns.items():
        key = SeriesKey(metric)
        scalars.pop(key, None)
        histograms.pop(key, None)
        if isinstance(column, HistogramWindow):
            histograms[key] = column
        elif column is not None:
            scalars[key] = column
    return windows | {name: [replace(one, scalars=scalars, histograms=histograms)]}


# any numbers

numbers = st.one_of(
    st.sampled_from([NAN, INF, -INF, 0.0, -0.0, -1.0, 1.0, 1e-9, 1e18]),
    st.integers(0, 2**60).map(float),
    st.floats(0.0, 1e18),
)
columns = st.lists(numbers, min_size=SCRAPES, max_size=SCRAPES).map(np.array)
gaps = st.sampled_from(
    [[NAN] * SCRAPES, [0.0] * SCRAPES, [900.0, 910.0, 3.0, 9.0, 20.0, 25.0], [NAN, NAN, NAN, NAN, 1.0, 2.0]]
)


@st.composite
def strange_histograms(draw: st.DrawFn, metric: Metric) -> HistogramWindow:
    bounds = draw(st.sampled_from([bounds_of(metric), (0.5, INF), (INF,)]))
    rows = draw(
        st.lists(st.lists(numbers, min_size=len(bounds), max_size=len(bounds)), min_size=SCRAPES, max_size=SCRAPES)
    )
    return HistogramWindow(bounds, np.array(rows), draw(columns))


@st.composite
def strange_series(draw: st.DrawFn) -> tuple[str, Metric, Column | HistogramWindow | None]:
    name, metric = draw(st.sampled_from(list(NAMES))), draw(st.sampled_from(list(Metric)))
    if draw(st.integers(0, 3)) == 0:
        return name, metric, None
    if metric.spec.kind is Kind.HISTOGRAM:
        return name, metric, draw(strange_histograms(metric))
    return name, metric, draw(columns | gaps.map(np.array))


@st.composite
def strange_windows(draw: st.DrawFn) -> Windows:
    windows = all_usual(draw(st.integers(0, 9)))
    for name, metric, column in draw(st.lists(strange_series(), max_size=15)):
        windows = changed(windows, name, {metric: column})
    for name in draw(st.sets(st.sampled_from(list(NAMES)), max_size=2)):
        windows[name] = draw(
            st.sampled_from([[], [window(target=name, scrapes=SCRAPES)], [*windows[name], usual(name)]])
        )
    lazy = draw(st.frozensets(st.sampled_from(list(Metric)), max_size=20))
    return {name: [replace(one, lazy=lazy) for one in own] for name, own in windows.items()}


deployments = st.builds(
    scene,
    routing=st.none() | st.sampled_from(Routing),
    kv=st.sampled_from([None, LLAMA_8B, DEEPSEEK_V3]),
    link=st.none() | st.just(LINK),
)


def problems(one: Signal) -> list[str]:
    """What is wrong with a signal, whatever it was made of."""
    found = []
    if not math.isfinite(one.value) or not math.isfinite(one.age_seconds) or one.age_seconds < 0:
        found.append("not finite")
    if not one.source.strip() or not isinstance(one.quality, Quality):
        found.append("no origin")
    if one.samples < 0:
        found.append("fewer than no samples")
    if one.bounds is not None and not (math.isfinite(sum(one.bounds)) and one.bounds[0] <= one.bounds[1]):
        found.append("no interval")
    return found


@settings(max_examples=150)
@given(strange_windows(), deployments)
def test_nothing_but_numbers_with_an_origin(windows: Windows, of: Deployment) -> None:
    """Whatever the pages hold: gaps, zeros, infinities, restarts, counters that are none."""
    for one in signals(windows, of):
        assert not problems(one), one


@settings(max_examples=30)
@given(strange_windows(), deployments)
def test_the_same_windows_give_the_same_signals(windows: Windows, of: Deployment) -> None:
    """Analysis keeps nothing and changes nothing that it was given."""
    assert list(signals(windows, of)) == list(signals(windows, of))


def test_a_usual_deployment_knows_everything() -> None:
    """With every metric on every page, every signal is there that one window can give, but for what stands in."""
    assert {one.id for one in signals(all_usual())} == OF_ONE_WINDOW - STANDS_IN
    assert {one.id for one in signals(untimed())} >= STANDS_IN


def test_who_asks_knows_how_it_was_answered() -> None:
    """Of every instance that was tried, beside what its pages say; it changes nothing else."""
    asked = dict.fromkeys(NAMES, Reach(0, answers=True, cost_ratio=0.001))
    live, recorded = signals(all_usual(), reach=asked), signals(all_usual())
    assert {one.id for one in live} == (OF_ONE_WINDOW | OF_REACH) - STANDS_IN
    assert {one.scope.name for one in live if one.id in OF_REACH} == {*NAMES, live.deployment.name}
    assert set(recorded) == {one for one in live if one.id not in OF_REACH}


def test_what_does_not_answer_has_no_other_signal() -> None:
    """Silence is known of an instance without any page."""
    found = signals({}, reach={"d0": Reach(5, answers=False)})
    own = {one.id: one.value for one in found.of(Scope(ScopeKind.INSTANCE, "d0"))}
    assert own == {SignalId.SCRAPES: 0.0, SignalId.SILENT_SCRAPES: 5.0, SignalId.ANSWERS: 0.0}


def test_scopes_are_the_deployment_and_its_instances() -> None:
    """Nothing is said about anybody else."""
    allowed = {Scope(ScopeKind.DEPLOYMENT, "pd"), *(Scope(ScopeKind.INSTANCE, name) for name in NAMES)}
    assert {one.scope for one in signals(all_usual())} == allowed


@pytest.mark.parametrize("windows", [{}, {name: [] for name in NAMES}])
def test_without_windows_nothing_is_measured(windows: Windows) -> None:
    """Only the configuration speaks, and the number of scrapes."""
    found = signals(windows)
    configured = {SignalId.KV_BYTES_PER_TOKEN, SignalId.LINK_CAPACITY, SignalId.PAIR_CAPACITY}
    assert {one.id for one in found} == {SignalId.SCRAPES, *configured}
    assert {one.value for one in found if one.id is SignalId.SCRAPES} == {0.0}


@pytest.mark.parametrize("age", [MAX_AGE_SECONDS + 1, 86_400.0])
def test_old_windows_count_as_absent(age: float) -> None:
    """Old data are no data."""
    old = {name: [replace(own[0], times=own[0].times - age)] for name, own in all_usual().items()}
    engines = compute_signals(scene(), old, {}, NOW, MAX_AGE_SECONDS)
    nothing = compute_signals(scene(), {}, {}, NOW, MAX_AGE_SECONDS)
    assert list(engines) == list(nothing)
    assert list(compute_signals(scene(), {}, old, NOW, MAX_AGE_SECONDS)) == list(nothing)


def test_windows_of_the_allowed_age_count() -> None:
    """And say how old they are."""
    later = signals(all_usual(), now=NOW + MAX_AGE_SECONDS)
    assert {one.id for one in later} == OF_ONE_WINDOW - STANDS_IN
    p50 = later.get(SignalId.ITL_P50)
    assert p50 is not None
    assert p50.age_seconds == MAX_AGE_SECONDS


def test_one_old_instance_does_not_take_the_others_away() -> None:
    """Its own figures are gone, theirs stay."""
    windows = all_usual()
    windows["d0"] = [replace(windows["d0"][0], times=windows["d0"][0].times - 1000)]
    found = compute_signals(scene(), windows, {}, NOW, MAX_AGE_SECONDS)
    assert list(found) == list(compute_signals(scene(), windows | {"d0": []}, {}, NOW, MAX_AGE_SECONDS))
    assert found.value(SignalId.ITL_P50) is not None


def test_a_fresh_source_of_an_instance_counts_beside_an_old_one() -> None:
    """The preferred one may have died alone."""
    windows = all_usual()
    old = replace(windows["d0"][0], times=windows["d0"][0].times - 1000)
    both = compute_signals(scene(), windows | {"d0": [old, *windows["d0"]]}, {}, NOW, MAX_AGE_SECONDS)
    assert list(both) == list(compute_signals(scene(), windows, {}, NOW, MAX_AGE_SECONDS))


# roles

PAIR = deployment(instance("p0", Role.PREFILL), instance("d0", Role.DECODE), slo=SLO, interconnect=LINK)
OF_DECODE = (
    *(SignalId.ITL_P50, SignalId.ITL_P95, SignalId.ITL_P99, SignalId.ITL_MEAN, SignalId.ITL_ATTAINMENT),
    *(SignalId.REQUESTS_PER_SECOND, SignalId.REQUESTS_FINISHED, SignalId.GENERATION_TOKENS_PER_SECOND),
    SignalId.PROMPT_TOKENS_PER_REQUEST,
    *(SignalId.TTFT_P50, SignalId.TTFT_P95, SignalId.TTFT_P99, SignalId.TTFT_MEAN, SignalId.TTFT_ATTAINMENT),
)
TOKENS_AND_LATENCIES = (
    *(Metric.ITL, Metric.TTFT, Metric.PROMPT_LENGTH, Metric.REQUESTS_FINISHED, Metric.REQUESTS_ARRIVED),
    *(Metric.PROMPT_TOKENS, Metric.GENERATED_TOKENS, Metric.PREFILL_COMPUTED_TOKENS, Metric.PREFILL_CACHED_TOKENS),
    *(Metric.QUEUE_TIME, Metric.PREFILL_TIME, Metric.RUNNING, Metric.WAITING, Metric.KV_USAGE),
)


def side(found: SignalSet, name: str, of_deployment: tuple[SignalId, ...]) -> list[Signal | None]:
    """The figures of the deployment that belong to one role, and all of that role's instance."""
    return [found.get(signal) for signal in of_deployment] + list(found.of(Scope(ScopeKind.INSTANCE, name)))


def replacements(name: str, metrics: tuple[Metric, ...]) -> st.SearchStrategy[Windows]:
    """The usual windows with any of these series of one instance replaced or taken away."""
    series: dict[Metric, st.SearchStrategy[Column | HistogramWindow | None]] = {
        metric: st.none() | (strange_histograms(metric) if metric.spec.kind is Kind.HISTOGRAM else columns)
        for metric in metrics
    }
    return st.fixed_dictionaries({}, optional=series).map(lambda some: changed(all_usual(), name, some))


@settings(max_examples=60)
@given(replacements("p0", TOKENS_AND_LATENCIES))
def test_prefills_series_never_reach_decodes_figures(windows: Windows) -> None:
    """ITL, tokens, requests and prompt lengths that prefill prints are another population."""
    of = replace(PAIR, routing=Routing.CONCURRENT)
    before = side(signals(all_usual(), of), "d0", OF_DECODE)
    assert side(signals(windows, of), "d0", OF_DECODE) == before
    assert None not in before


@settings(max_examples=60)
@given(replacements("d0", (Metric.ITL, Metric.GENERATED_TOKENS, Metric.QUEUE_TIME, Metric.WAITING, Metric.RUNNING)))
def test_decodes_series_never_reach_prefills_figures(windows: Windows) -> None:
    """Its queue, its wait and its batch are its own."""
    before = side(signals(all_usual(), PAIR), "p0", (SignalId.PREFILL_COMPUTE_UTILIZATION,))
    assert side(signals(windows, PAIR), "p0", (SignalId.PREFILL_COMPUTE_UTILIZATION,)) == before


def test_prefills_itl_reaches_nobody_even_in_turn() -> None:
    """With sequential routing TTFT has two legs, ITL still has one."""
    of = replace(PAIR, routing=Routing.SEQUENTIAL)
    zeros = HistogramWindow((0.001, INF), np.full((SCRAPES, 2), np.arange(SCRAPES)[:, None] * 1e6), np.zeros(SCRAPES))
    before, after = signals(all_usual(), of), signals(changed(all_usual(), "p0", {Metric.ITL: zeros}), of)
    assert list(before) == list(after)


def test_a_usual_window_spans_what_it_should() -> None:
    """The tests above look at rates over twenty-five seconds."""
    assert usual("d0").span_seconds == (SCRAPES - 1) * STEP_SECONDS
