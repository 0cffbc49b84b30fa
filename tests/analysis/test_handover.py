"""The hand-over: one transfer against its pair, the trend of the rate, pieces, posting, what moves, excess, gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from pdscope.analysis.handover import pair_capacity
from pdscope.analysis.signals import compute_signals
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, Signal, SignalId, SignalSet
from pdscope.model.topology import Deployment, Interconnect, LinkScope, Role
from pdscope.model.window import HistogramWindow, Window
from support.windows import (
    DEEPSEEK_V3,
    INF,
    NAN,
    NOW,
    SCRAPES,
    VLLM,
    Column,
    deployment,
    histogram,
    instance,
    rising,
    window,
)

SECONDS = (0.01, 0.1, 1.0, 10.0, INF)
BYTES = (1e6, 1e8, 1e10, INF)
COUNTS = (10.0, 1000.0, 100_000.0, INF)
LINK = Interconnect(10e9, efficiency=0.8)
SGLANG = deployment(interconnect=LINK)
VLLM_PAIR = deployment(instance("p0", Role.PREFILL, VLLM), instance("d0", Role.DECODE, VLLM), interconnect=LINK)
ITL = {Metric.ITL: histogram((0.02, 0.04, INF), [0.03] * 1000)}
SCALES = {Metric.KV_TRANSFER_BYTES: BYTES, Metric.KV_DESCRIPTORS: COUNTS}


def signals(of: Deployment, windows: Mapping[str, Window]) -> SignalSet:
    return compute_signals(of, {name: [one] for name, one in windows.items()}, {}, NOW, 60.0)


def known(found: SignalSet, signal: SignalId) -> Signal:
    one = found.get(signal)
    assert one is not None, signal
    return one


def side(
    means: Mapping[Metric, float],
    scalars: Mapping[Metric, Column] | None = None,
    *,
    requests: int = 60,
    itl: bool = False,
) -> Window:
    """A page with so many observations of each histogram, all alike."""
    filled = {m: histogram(SCALES.get(m, SECONDS), [mean] * requests) for m, mean in means.items()}
    return window(scalars, {**filled, **(ITL if itl else {})})


# one pair


def test_what_one_pair_has() -> None:
    """The least of all pairs after efficiency; a total is shared by nobody while one transfer is alone."""
    assert pair_capacity(deployment()) is None
    assert pair_capacity(deployment(instance("p0", Role.PREFILL), interconnect=LINK)) is None
    assert pair_capacity(SGLANG) == pytest.approx(8e9)
    members = (
        instance("p0", Role.PREFILL, tp=8),
        instance("d0", Role.DECODE, tp=8),
        instance("d1", Role.DECODE, tp=2),
    )
    assert pair_capacity(deployment(*members, interconnect=LINK)) == pytest.approx(2 * 8e9)
    total = Interconnect(10e9, efficiency=0.8, scope=LinkScope.TOTAL)
    assert pair_capacity(deployment(*members, interconnect=total)) == pytest.approx(8e9)


def test_whether_a_link_was_measured_is_kept() -> None:
    """A figure of a data sheet is assumed."""
    assert known(signals(SGLANG, {}), SignalId.PAIR_CAPACITY).quality is Quality.ASSUMED
    of = deployment(interconnect=Interconnect(10e9, measured=True))
    assert known(signals(of, {}), SignalId.PAIR_CAPACITY).quality is Quality.MEASURED


def test_share_of_the_pair_by_decodes_time() -> None:
    """vLLM: 800 MB in 0.13 s, of which a step of 30 ms is how long the end may go unseen."""
    page = side(
        {Metric.KV_TRANSFER_TIME: 0.13, Metric.KV_TRANSFER_BYTES: 8e7, Metric.KV_DESCRIPTORS: 100.0},
        {Metric.REQUESTS_FINISHED: rising(1.0)},
        itl=True,
    )
    share = known(signals(VLLM_PAIR, {"d0": page}), SignalId.TRANSFER_LINK_SHARE)
    assert share.value == pytest.approx(8e7 / 0.1 / 8e9)
    assert share.quality is Quality.DERIVED
    floor = known(signals(VLLM_PAIR, {"d0": page}), SignalId.TRANSFER_FLOOR_STEPS)
    assert floor.value == pytest.approx(8e7 / (0.05 * 8e9) / 0.03)


@pytest.mark.parametrize(
    ("computed", "share"),
    [(None, 0.02), (0.4, 0.1), (0.5, 1.0), (2.0, 1.0)],
    ids=["not told", "most of it", "all of it", "more"],
)
def test_share_of_the_pair_by_prefills_time(computed: float | None, share: float) -> None:
    """SGLang looks between batches: what is left of 0.5 s may be next to nothing, and then any speed is possible."""
    means = {Metric.EXPOSED_TRANSFER_TIME: 0.5, Metric.KV_TRANSFER_TIME: 0.4, Metric.KV_TRANSFER_BYTES: 8e7}
    if computed is not None:
        means[Metric.PREFILL_TIME] = computed
    found = signals(SGLANG, {"p0": side(means), "d0": window({}, ITL)})
    assert found.value(SignalId.TRANSFER_LINK_SHARE) == pytest.approx(share)


def test_nothing_of_a_pair_without_its_inputs() -> None:
    """No capacity, no bytes, no time, no step."""
    means = {Metric.KV_TRANSFER_TIME: 0.4, Metric.KV_TRANSFER_BYTES: 8e7}
    bare = signals(deployment(kv=None), {"p0": side(means)})
    for signal in (SignalId.PAIR_CAPACITY, SignalId.ACHIEVED_SHARE, SignalId.TRANSFER_LINK_SHARE):
        assert bare.get(signal) is None
    untold = signals(SGLANG, {"p0": side({Metric.KV_TRANSFER_TIME: 0.4})})
    assert untold.get(SignalId.TRANSFER_LINK_SHARE) is untold.get(SignalId.TRANSFER_FLOOR_STEPS) is None
    stepless = signals(SGLANG, {"p0": side(means)})
    assert stepless.get(SignalId.TRANSFER_LINK_SHARE) is not None
    assert stepless.get(SignalId.TRANSFER_FLOOR_STEPS) is None


def test_achieved_rate_by_capacity() -> None:
    """60 transfers of 80 MB in a minute, of 8 GB/s."""
    share = known(signals(SGLANG, {"p0": side({Metric.KV_TRANSFER_BYTES: 8e7})}), SignalId.ACHIEVED_SHARE)
    assert share.value == pytest.approx(0.01)
    assert share.quality is Quality.DERIVED


# trend


def moved(sums: Sequence[float], transfers: float = 20.0) -> Window:
    """Bytes by scrape, so many transfers from one to the next."""
    cumulative = np.repeat(transfers * np.arange(len(sums), dtype=np.float64)[:, None], len(BYTES), axis=1)
    page = HistogramWindow(BYTES, cumulative, np.array(sums))
    return window({}, {Metric.KV_TRANSFER_BYTES: page}, scrapes=len(sums))


@pytest.mark.parametrize(
    ("gains", "trend"),
    [
        ([1.0] * 12, 1.0),
        ([2.0] * 6 + [1.0] * 6, 0.5),
        ([1.0] * 6 + [3.0] * 6, 3.0),
        ([2.0] * 6 + [0.0] * 6, 0.0),
        ([2.0, 1.0], 0.5),
        ([2.0, 2.0, 1.0], 0.5),
    ],
    ids=["flat", "falls", "rises", "stops", "three scrapes", "four scrapes"],
)
def test_trend(gains: list[float], trend: float) -> None:
    """The newer half of the window by the older one."""
    found = signals(SGLANG, {"p0": moved([0.0, *(1e8 * np.cumsum(gains))])})
    assert found.value(SignalId.ACHIEVED_TREND) == pytest.approx(trend)


def test_trend_of_several() -> None:
    """Rates are added: one sender that falls silent beside one that speeds up is no trend."""
    of = deployment(instance("p0", Role.PREFILL), instance("p1", Role.PREFILL), instance("d0", Role.DECODE))
    falls = moved([0.0, *(1e8 * np.cumsum([2.0] * 6 + [1.0] * 6))])
    rises = moved([0.0, *(1e8 * np.cumsum([1.0] * 6 + [2.0] * 6))])
    assert signals(of, {"p0": falls, "p1": rises}).value(SignalId.ACHIEVED_TREND) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "sums",
    [[0.0, 1e8], [5.0] * SCRAPES, [NAN] * 7 + [1e8 * n for n in range(6)]],
    ids=["two scrapes", "nothing moved", "half a window"],
)
def test_no_trend(sums: list[float]) -> None:
    """Too short, nothing to compare with, or counted in the newer half only."""
    assert signals(SGLANG, {"p0": moved(sums)}).get(SignalId.ACHIEVED_TREND) is None


@pytest.mark.parametrize(("transfers", "trend"), [(1.6, None), (1.7, 0.5)])
def test_a_trend_of_a_few_transfers_is_chance(transfers: float, trend: float | None) -> None:
    """Ten in the older half."""
    page = moved([0.0, *(1e8 * np.cumsum([2.0] * 6 + [1.0] * 6))], transfers)
    assert signals(SGLANG, {"p0": page}).value(SignalId.ACHIEVED_TREND) == trend


# pieces


def test_pieces_that_are_counted() -> None:
    """Bytes by descriptors, and the share of posting."""
    page = side(
        {
            Metric.KV_TRANSFER_BYTES: 8e7,
            Metric.KV_DESCRIPTORS: 2000.0,
            Metric.KV_TRANSFER_TIME: 0.5,
            Metric.KV_POST_TIME: 0.2,
        }
    )
    found = signals(VLLM_PAIR, {"d0": page})
    size, share = known(found, SignalId.DESCRIPTOR_BYTES), known(found, SignalId.POST_SHARE)
    assert size.value == pytest.approx(40_000)
    assert size.quality is Quality.MEASURED
    assert share.value == pytest.approx(0.4)
    assert share.quality is Quality.MEASURED


@pytest.mark.parametrize(
    ("of", "size"),
    [
        (SGLANG, 64 * 4096),
        (deployment(instance("p0", Role.PREFILL, tp=4), instance("d0", Role.DECODE, tp=8)), 64 * 512),
        (deployment(instance("p0", Role.PREFILL, tp=8), instance("d0", Role.DECODE), kv=DEEPSEEK_V3), 64 * 1152),
    ],
    ids=["whole heads", "the smaller share", "a latent is not shared"],
)
def test_pieces_that_are_not_counted(of: Deployment, size: float) -> None:
    """A page of one layer on one rank, the least of both sides."""
    pages = {name: window({Metric.PAGE_TOKENS: 64.0}) for name in ("p0", "d0")}
    found = known(signals(of, pages), SignalId.DESCRIPTOR_BYTES)
    assert (found.value, found.quality) == (size, Quality.ESTIMATED)


def test_pieces_of_an_unknown_page() -> None:
    """A configured page counts where none is told; without one, or without a shape, nothing is known."""
    configured = deployment(instance("p0", Role.PREFILL, page_tokens=16), instance("d0", Role.DECODE))
    assert signals(configured, {}).value(SignalId.DESCRIPTOR_BYTES) == 16 * 4096
    assert signals(configured, {"p0": window({Metric.PAGE_TOKENS: 0.0})}).value(SignalId.DESCRIPTOR_BYTES) == 16 * 4096
    assert signals(SGLANG, {}).get(SignalId.DESCRIPTOR_BYTES) is None
    shapeless = deployment(*configured.instances, kv=None)
    assert signals(shapeless, {}).get(SignalId.DESCRIPTOR_BYTES) is None
    assert signals(configured, {}).get(SignalId.POST_SHARE) is None


def test_how_busy_the_ranks_are_with_posting() -> None:
    """Sixty times 0.4 s in a minute are 0.4 of one rank's time, and of two ranks that each observe their own 0.2."""
    posting = side({Metric.KV_POST_TIME: 0.4})
    busy = known(signals(VLLM_PAIR, {"d0": posting}), SignalId.POST_BUSY)
    assert busy.value == pytest.approx(0.4)
    assert busy.quality is Quality.DERIVED
    decoders = [instance(f"d{n}", Role.DECODE, VLLM, tp=2) for n in range(2)]
    of = deployment(instance("p0", Role.PREFILL, VLLM, tp=8), *decoders)
    assert signals(of, {"d0": posting}).value(SignalId.POST_BUSY) == pytest.approx(0.2)
    assert signals(of, {"d0": posting, "d1": posting}).value(SignalId.POST_BUSY) == pytest.approx(0.2)
    quiet = side({Metric.KV_POST_TIME: 0.4}, requests=0)
    assert signals(of, {"d0": posting, "d1": quiet}).value(SignalId.POST_BUSY) == pytest.approx(0.2)
    assert signals(of, {"d0": quiet}).get(SignalId.POST_BUSY) is None


# what moves while something is in flight


def test_moving_as_pages_tell_it() -> None:
    """SGLang: 60 transfers of 80 MB in a minute, of which the gauge sees 0.1 and their time says 0.2."""
    means = {Metric.KV_TRANSFER_TIME: 0.2, Metric.KV_TRANSFER_BYTES: 8e7}
    pages = {
        "p0": side(means, {Metric.PREFILL_TRANSFER_QUEUE: 0.1}),
        "d0": side({Metric.TTFT: 0.5}, {Metric.REQUESTS_FINISHED: rising(1.0)}),
    }
    found = signals(SGLANG, pages)
    assert found.value(SignalId.MOVING_SHARE) == pytest.approx(8e7 / 0.2 / 8e9)
    assert found.value(SignalId.LINK_FLOOR_SHARE) == pytest.approx(8e7 / 8e9 / 0.5)


# excess and gain


def test_faster_than_the_line() -> None:
    """800 MB in 40 ms are twice what the line does, before efficiency."""
    means = {Metric.KV_TRANSFER_TIME: 0.04, Metric.KV_TRANSFER_BYTES: 8e8}
    found = known(signals(SGLANG, {"p0": side(means)}), SignalId.SPEED_TO_LINE)
    assert found.value == pytest.approx(2.0)
    assert found.quality is Quality.DERIVED


@pytest.mark.parametrize(
    ("of", "means"),
    [
        (SGLANG, {Metric.KV_TRANSFER_BYTES: 8e8, Metric.KV_TRANSFER_TIME: 0.04, Metric.EXPOSED_TRANSFER_TIME: 0.5}),
        (deployment(), {Metric.KV_TRANSFER_BYTES: 8e8, Metric.KV_TRANSFER_TIME: 0.04}),
        (SGLANG, {Metric.KV_TRANSFER_BYTES: 8e8}),
        (SGLANG, {Metric.KV_TRANSFER_BYTES: 8e8, Metric.KV_TRANSFER_TIME: 0.0}),
        (SGLANG, {Metric.KV_TRANSFER_TIME: 0.00004, Metric.PROMPT_LENGTH: 2000.0}),
    ],
    ids=["timed otherwise", "no line", "no time", "no time at all", "bytes by the shape"],
)
def test_no_speed_to_distrust(of: Deployment, means: Mapping[Metric, float]) -> None:
    """Only a measured time of measured bytes can contradict a line."""
    pages = {"p0": side(means), "d0": side({m: v for m, v in means.items() if m is Metric.PROMPT_LENGTH})}
    assert signals(of, pages).get(SignalId.SPEED_TO_LINE) is None


def test_a_difference_of_means_contradicts_no_line() -> None:
    """Dynamo's hand-over is one mean less another, which may be next to nothing by chance."""
    means = {Metric.KV_TRANSFER_BYTES: 8e8, Metric.HANDOVER_TIME: 0.50001, Metric.PREFILL_STAGE_TIME: 0.5}
    page = side(means, {Metric.REQUESTS_FINISHED: rising(1.0)})
    found = signals(SGLANG, {"p0": page, "d0": page})
    assert found.value(SignalId.TRANSFER_TIME) == pytest.approx(0.00001)
    assert found.get(SignalId.SPEED_TO_LINE) is None


def test_what_the_hand_over_costs_beside_prefill() -> None:
    """Transfer and set-up by prefill's computation; decode's own prefill does not count."""
    pages = {
        "p0": side({Metric.KV_TRANSFER_TIME: 0.2, Metric.PREFILL_TIME: 0.4}),
        "d0": side({Metric.PREFILL_TIME: 9.0}),
    }
    assert signals(SGLANG, pages).value(SignalId.HANDOVER_TO_PREFILL) == pytest.approx(0.5)
    pages["d0"] = side({Metric.HANDSHAKE_TIME: 0.6})
    assert signals(SGLANG, pages).value(SignalId.HANDOVER_TO_PREFILL) == pytest.approx(2.0)
    assert signals(SGLANG, {"d0": pages["d0"]}).get(SignalId.HANDOVER_TO_PREFILL) is None
    idle = {"p0": side({Metric.KV_TRANSFER_TIME: 0.2, Metric.PREFILL_TIME: 0.0})}
    assert signals(SGLANG, idle).get(SignalId.HANDOVER_TO_PREFILL) is None


def test_nothing_is_handed_over_without_roles() -> None:
    """A unified deployment has none of these figures."""
    of = deployment(instance("u0", Role.UNIFIED), interconnect=LINK)
    found = signals(of, {"u0": side({Metric.KV_TRANSFER_BYTES: 8e7, Metric.HANDSHAKE_TIME: 1.0})})
    for signal in (SignalId.PAIR_CAPACITY, SignalId.SETUP_TIME, SignalId.ACHIEVED_TREND, SignalId.DESCRIPTOR_BYTES):
        assert found.get(signal) is None
