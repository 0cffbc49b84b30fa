"""Plans: which samples make which number, and what a page may lack, repeat or distort."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.model.metric import Fact, Metric
from pdscope.model.scrape import SeriesKey
from pdscope.sources.adapter import Adapter, InfoLabel, Series
from pdscope.sources.exposition import PageParser
from pdscope.sources.plan import compile_plan, recognises
from pdscope.sources.reader import PageReader, TargetReader
from support.pages import AT, Reading, read_engine, read_with

# One metric of each kind, and one gauge of each way in which ranks combine.
SUM, MAX, MEAN = Metric.RUNNING, Metric.PAGE_TOKENS, Metric.KV_POOL_BYTES
COUNTER, HISTOGRAM = Metric.REQUESTS_FINISHED, Metric.TTFT


def adapter(series: Mapping[Metric, tuple[Series, ...]], **options: Any) -> Adapter:
    return Adapter(**{"name": "x", "probe": ("x_",), "series": series} | options)


def read(body: str, series: Mapping[Metric, tuple[Series, ...]], **options: Any) -> Reading:
    """A page, read with one adapter."""
    return read_with((adapter(series, **options),), body.encode())


def is_missing(value: float | None) -> bool:
    """The page has the metric and no number for it."""
    return value is not None and math.isnan(value)


# --------------------------------------------------------------------------------- gauges and counters


def test_labels_that_nobody_asked_for_add_up() -> None:
    """Parts of a number are added, in base units."""
    reading = read('x_a{route="/a"} 3\nx_a{route="/b"} 4\n', {COUNTER: (Series("x_a", scale=1e-3),)})
    assert reading.value(COUNTER) == pytest.approx(0.007)


def test_parts_add_up_whatever_joins_ranks() -> None:
    """The two parts of a rank are added; the mean is over ranks."""
    body = 'x_a{r="0",part="p"} 1\nx_a{r="0",part="q"} 2\nx_a{r="1",part="p"} 10\nx_a{r="1",part="q"} 20\n'
    reading = read(body, {Metric.IDLE: (Series("x_a"),)}, rank_labels=("r",))
    assert reading.value(Metric.IDLE, "0") == 3
    assert reading.value(Metric.IDLE, "1") == 30
    assert reading.value(Metric.IDLE) == pytest.approx(33 / 2)


def test_where() -> None:
    """A label has to be absent or equal: it came with a later version."""
    series = {COUNTER: (Series("x_a", {"mode": "decode", "kind": "real"}),)}
    assert read('x_a{mode="decode"} 1\nx_a{mode="prefill"} 2\n', series).value(COUNTER) == 1
    assert read("x_a 5\n", series).value(COUNTER) == 5
    assert read('x_a{mode="decode",kind="fake"} 1\n', series).value(COUNTER) is None
    assert read('x_a{mode=""} 1\n', series).value(COUNTER) is None


def test_drop() -> None:
    """Samples with such a value are not meant."""
    series = {COUNTER: (Series("x_a"),)}
    reading = read('x_a{warm="yes"} 1\nx_a{warm="no"} 2\nx_a 4\n', series, drop={"warm": "yes"})
    assert reading.value(COUNTER) == 6


def test_the_first_spelling_on_the_page_is_taken() -> None:
    """Alternatives stand in for each other and never add up."""
    series = {SUM: (Series("x_new"), Series("x_old", scale=10))}
    assert read("x_new 3\nx_old 4\n", series).value(SUM) == 3
    assert read("x_old 4\n", series).value(SUM) == 40
    assert read("# TYPE x_other gauge\n", series).value(SUM) is None


def test_an_alternative_needs_a_sample_that_is_meant() -> None:
    """A name whose samples are all of another kind does not stand in the way."""
    series = {SUM: (Series("x_new", {"mode": "decode"}), Series("x_old"))}
    assert read('x_new{mode="prefill"} 3\nx_old 4\n', series).value(SUM) == 4


def test_the_first_adapter_knows_better() -> None:
    """Two adapters that both recognise the page do not mix their figures of one metric."""
    first = adapter({SUM: (Series("x_a"),), MAX: (Series("x_u"),)}, name="first")
    second = adapter({SUM: (Series("x_b"),), COUNTER: (Series("x_c"),)}, name="second")
    body = b"x_a 1\nx_b 2\nx_c 3\n"
    assert read_with((first, second), body).scalars() == {SUM: 1, COUNTER: 3}
    assert read_with((second, first), body).scalars() == {SUM: 2, COUNTER: 3}
    assert read_with((first, second), body).scrape.source == "first"


@pytest.mark.parametrize("metric", [SUM, MAX, MEAN])
@pytest.mark.parametrize("text", ["NaN", "Nan", "-nan", "+Inf", "-Inf", "1e999"])
def test_a_member_without_a_number(metric: Metric, text: str) -> None:
    """Its rank and the whole are missing, not smaller; the other rank stays."""
    body = f'x_a{{r="0"}} {text}\nx_a{{r="1"}} 0.5\n'
    reading = read(body, {metric: (Series("x_a"),)}, rank_labels=("r",))
    assert is_missing(reading.value(metric))
    assert is_missing(reading.value(metric, "0"))
    assert reading.value(metric, "1") == 0.5


def test_other_samples_of_a_page_with_nan_are_kept() -> None:
    """Field lesson E01: one NaN costs its own figure, and is counted."""
    reading = read("x_a NaN\nx_b 2\n", {SUM: (Series("x_a"),), MAX: (Series("x_b"),)})
    assert is_missing(reading.value(SUM))
    assert reading.value(MAX) == 2
    assert reading.scrape.quality.nan_samples == 1


@pytest.mark.parametrize(("value", "kept"), [(0, False), (1, True), (100, True), (101, False), (-1, False)])
def test_valid(value: int, kept: bool) -> None:
    """Bounds are of the printed number, not of the scaled one, and belong to the range."""
    number = read(f"x_a {value}\n", {SUM: (Series("x_a", scale=1e-3, valid=(1, 100)),)}).value(SUM)
    assert number == pytest.approx(value / 1000) if kept else is_missing(number)


# ------------------------------------------------------------------------------------------------ ranks


@pytest.mark.parametrize(("metric", "joined"), [(SUM, 6.0), (MAX, 3.0), (MEAN, 2.0), (COUNTER, 6.0)])
def test_ranks_join_by_the_rule_of_the_metric(metric: Metric, joined: float) -> None:
    """Each rank keeps its own number beside the joined one."""
    body = 'x_a{r="0"} 1\nx_a{r="1"} 2\nx_a{r="2"} 3\n'
    reading = read(body, {metric: (Series("x_a"),)}, rank_labels=("r",))
    assert reading.value(metric) == joined
    assert [reading.value(metric, rank) for rank in "012"] == [1, 2, 3]


def test_a_single_rank_is_the_whole() -> None:
    """One rank needs no figure of its own."""
    reading = read('x_a{r="7"} 5\n', {MEAN: (Series("x_a"),)}, rank_labels=("r",))
    assert reading.value(MEAN) == 5
    assert reading.ranks(MEAN) == set()


def test_several_labels_make_a_rank() -> None:
    """What lacks a label differs from what has it."""
    body = 'x_a{u="A"} 1\nx_a{u="B",i="1"} 2\nx_a{u="B",i="2"} 6\n'
    reading = read(body, {MEAN: (Series("x_a"),)}, rank_labels=("u", "i"))
    assert reading.ranks(MEAN) == {"A", "B/1", "B/2"}
    assert reading.value(MEAN) == 3


def test_the_smallest_repetition_counts() -> None:
    """Numerically, within each rank: rank 1 begins at tp_rank 8, and 9 comes before 10."""
    body = "".join(
        f'x_a{{r="{rank}",tp="{tp}"}} {value}\n'
        for rank, tp, value in ((0, 1, 5), (0, 0, 4), (1, 10, 30), (1, 9, 20), (1, 8, 10))
    )
    reading = read(body, {SUM: (Series("x_a"),)}, rank_labels=("r",), repeated=("tp",))
    assert reading.value(SUM, "0") == 4
    assert reading.value(SUM, "1") == 10
    assert reading.value(SUM) == 14


@pytest.mark.parametrize("tp", ["", "None", "-1", "½", "٣", "9" * 5000])
def test_a_repetition_that_is_no_number(tp: str) -> None:
    """It counts as the first; a label of thousands of digits does no harm."""
    reading = read(f'x_a{{tp="{tp}"}} 1\nx_a{{tp="1"}} 2\n', {SUM: (Series("x_a"),)}, repeated=("tp",))
    assert reading.value(SUM) == 1


def test_summed_metrics_take_every_repetition() -> None:
    """Each rank reports its own part."""
    body = 'x_a{tp="0"} 1\nx_a{tp="1"} 2\nx_b{tp="0"} 1\nx_b{tp="1"} 2\n'
    series = {SUM: (Series("x_a"),), COUNTER: (Series("x_b"),)}
    reading = read(body, series, repeated=("tp",), summed=frozenset({COUNTER}))
    assert reading.value(SUM) == 1
    assert reading.value(COUNTER) == 3


def test_totals() -> None:
    """Of a gauge the empty value is the total; a counter counts each event under one value."""
    lines = "".join(f'x_{n}{{p="{p}"}} {v}\n' for n in "gc" for p, v in (("", 5), ("1", 2), ("None", 3)))
    reading = read(lines, {SUM: (Series("x_g"),), COUNTER: (Series("x_c"),)}, totals=("p",))
    assert reading.value(SUM) == 5
    assert reading.value(COUNTER) == 10


@given(
    values=st.dictionaries(
        st.tuples(st.integers(0, 3), st.integers(0, 12)), st.floats(0, 1e6) | st.just(math.nan), min_size=1
    )
)
def test_against_arithmetic(values: Mapping[tuple[int, int], float]) -> None:
    """Any ranks with any repetitions: the smallest repetition of each rank, joined by the rule of each metric."""
    lines = "".join(f'x_a{{r="{rank}",tp="{tp}"}} {value!r}\n' for (rank, tp), value in values.items())
    series = {metric: (Series("x_a", scale=2.0),) for metric in (SUM, MAX, MEAN)}
    reading = read(lines, series, rank_labels=("r",), repeated=("tp",))
    ranks = sorted({rank for rank, _ in values})
    own = [2.0 * values[rank, min(tp for r, tp in values if r == rank)] for rank in ranks]
    expected = {SUM: np.sum(own), MAX: np.max(own), MEAN: np.mean(own)}
    assert reading.scalars() == pytest.approx(expected, nan_ok=True)
    if len(ranks) > 1:
        found = [reading.value(MAX, str(rank)) for rank in ranks]
        np.testing.assert_array_equal(np.array(found, dtype=np.float64), own)


# ------------------------------------------------------------------------------------------- histograms

SERIES = {HISTOGRAM: (Series("x_h"),)}


def test_unsorted_buckets() -> None:
    """Bounds are put in order, counts with them."""
    body = 'x_h_bucket{le="10"} 8\nx_h_bucket{le="+Inf"} 9\nx_h_bucket{le="0.5"} 2\nx_h_sum 30\nx_h_count 9\n'
    found = read(body, SERIES).buckets(HISTOGRAM)
    assert found is not None
    assert list(found.cumulative.items()) == [(0.5, 2), (10, 8), (math.inf, 9)]
    assert found.total == 30


def test_scaled_histogram() -> None:
    """Bounds and sum are scaled, counts are not."""
    body = 'x_h_bucket{le="250"} 2\nx_h_bucket{le="+Inf"} 3\nx_h_sum 900\n'
    found = read(body, {HISTOGRAM: (Series("x_h", scale=1e-3),)}).buckets(HISTOGRAM)
    assert found is not None
    assert found.cumulative == {0.25: 2, math.inf: 3}
    assert found.total == pytest.approx(0.9)


def test_without_the_last_bucket() -> None:
    """The count is what it would hold."""
    found = read('x_h_bucket{le="1"} 2\nx_h_sum 9\nx_h_count 5\n', SERIES).buckets(HISTOGRAM)
    assert found is not None
    assert found.cumulative == {1: 2, math.inf: 5}


def test_without_the_last_bucket_and_the_count() -> None:
    """Nobody knows how many there were: no histogram."""
    assert read('x_h_bucket{le="1"} 2\nx_h_sum 9\n', SERIES).buckets(HISTOGRAM) is None


def test_without_buckets() -> None:
    """Sum and count alone, as of a summary, are no histogram; the next spelling may be one."""
    assert read("x_h_sum 9\nx_h_count 5\n", SERIES).buckets(HISTOGRAM) is None
    body = 'x_h_sum 9\nx_h_count 5\nx_i_bucket{le="+Inf"} 4\nx_i_sum 1\n'
    found = read(body, {HISTOGRAM: (Series("x_h"), Series("x_i"))}).buckets(HISTOGRAM)
    assert found is not None
    assert (found.count, found.total) == (4, 1)


def test_without_the_sum() -> None:
    """Counts are known, the mean is not."""
    found = read('x_h_bucket{le="1"} 2\nx_h_bucket{le="+Inf"} 5\n', SERIES).buckets(HISTOGRAM)
    assert found is not None
    assert found.cumulative == {1: 2, math.inf: 5}
    assert is_missing(found.total)


@pytest.mark.parametrize("le", ["NaN", "one", "", "1;2"])
def test_a_bound_that_is_no_number(le: str) -> None:
    """Its bucket is left out."""
    body = f'x_h_bucket{{le="{le}"}} 1\nx_h_bucket{{le="2"}} 2\nx_h_bucket{{le="+Inf"}} 5\nx_h_bucket 7\nx_h_sum 1\n'
    found = read(body, SERIES).buckets(HISTOGRAM)
    assert found is not None
    assert found.cumulative == {2: 2, math.inf: 5}


def test_histograms_of_ranks_are_one_population() -> None:
    """Counts and sums are added, and each rank keeps its own."""
    body = "".join(
        f'x_h_bucket{{r="{r}",le="1"}} {r + 1}\nx_h_bucket{{r="{r}",le="+Inf"}} {r + 3}\nx_h_sum{{r="{r}"}} {r + 5}\n'
        for r in (0, 1)
    )
    reading = read(body, SERIES, rank_labels=("r",))
    whole, first = reading.buckets(HISTOGRAM), reading.buckets(HISTOGRAM, "0")
    assert whole is not None
    assert (whole.cumulative, whole.total) == ({1: 3, math.inf: 7}, 11)
    assert first is not None
    assert (first.cumulative, first.total) == ({1: 1, math.inf: 3}, 5)


def test_ranks_with_different_buckets() -> None:
    """They cannot be added; each rank keeps its own."""
    body = (
        'x_h_bucket{r="0",le="1"} 2\nx_h_bucket{r="0",le="+Inf"} 3\nx_h_sum{r="0"} 4\n'
        'x_h_bucket{r="1",le="2"} 5\nx_h_bucket{r="1",le="+Inf"} 6\nx_h_sum{r="1"} 7\n'
    )
    reading = read(body, SERIES, rank_labels=("r",))
    assert reading.buckets(HISTOGRAM) is None
    assert reading.ranks(HISTOGRAM) == {"0", "1"}
    second = reading.buckets(HISTOGRAM, "1")
    assert second is not None
    assert (second.cumulative, second.total) == ({2: 5, math.inf: 6}, 7)


def test_a_rank_without_a_sum() -> None:
    """The sum of the whole is unknown too."""
    body = 'x_h_bucket{r="0",le="+Inf"} 3\nx_h_sum{r="0"} 4\nx_h_bucket{r="1",le="+Inf"} 6\n'
    found = read(body, SERIES, rank_labels=("r",)).buckets(HISTOGRAM)
    assert found is not None
    assert found.count == 9
    assert is_missing(found.total)


def test_a_bucket_without_a_number() -> None:
    """It is missing; its neighbours stay."""
    found = read('x_h_bucket{le="1"} NaN\nx_h_bucket{le="+Inf"} 5\nx_h_sum 1\n', SERIES).buckets(HISTOGRAM)
    assert found is not None
    assert is_missing(found.cumulative[1])
    assert found.count == 5


def test_a_gauge_with_bounds_is_no_histogram() -> None:
    """SGLang's routing_key_running_req_count has labels `gt` and `le`, and counts nothing that grows."""
    body = """\
# TYPE x_h gauge
x_h{gt="0",le="1"} 4
x_h{gt="1",le="+Inf"} 2
"""
    assert read(body, SERIES).known() == set()
    body = body.replace("x_h", "sglang:routing_key_running_req_count")
    assert read_engine(body.encode()).known() == set()


# ------------------------------------------------------------------------------------- infos and facts


def test_numbers_in_labels() -> None:
    """The first info that holds a positive number; the value of the series does not matter."""
    infos = {Metric.PAGE_TOKENS: (InfoLabel("x_new", "page"), InfoLabel("x_old", "block", scale=2))}
    assert read('x_new{page="64"} 0\nx_old{block="16"} 1\n', {}, infos=infos).value(Metric.PAGE_TOKENS) == 64
    assert read('x_new{page="None"} 1\nx_old{block="16"} 1\n', {}, infos=infos).value(Metric.PAGE_TOKENS) == 32
    assert read('x_new{other="64"} NaN\n', {}, infos=infos).value(Metric.PAGE_TOKENS) is None


def test_numbers_in_labels_of_ranks() -> None:
    """They join as samples do."""
    infos = {metric: (InfoLabel("x_i", "n"),) for metric in (Metric.KV_POOL_PAGES, Metric.PAGE_TOKENS)}
    reading = read('x_i{r="0",n="10"} 1\nx_i{r="1",n="30"} 1\n', {}, infos=infos, rank_labels=("r",))
    assert reading.value(Metric.KV_POOL_PAGES) == 40
    assert reading.value(Metric.PAGE_TOKENS) == 30
    assert reading.value(Metric.KV_POOL_PAGES, "1") == 30


def test_a_sample_is_better_than_a_label() -> None:
    """Infos stand in for a metric that has no sample."""
    infos = {Metric.PAGE_TOKENS: (InfoLabel("x_i", "page"),)}
    reading = read('x_p 16\nx_i{page="64"} 1\n', {Metric.PAGE_TOKENS: (Series("x_p"),)}, infos=infos)
    assert reading.value(Metric.PAGE_TOKENS) == 16


@pytest.mark.parametrize(
    ("labels", "facts"),
    [
        (('m="a"', 'm="a"'), {Fact.MODEL: "a"}),
        (('m="a"', 'm=""'), {Fact.MODEL: "a"}),
        (('m="a"', 'n="a"'), {Fact.MODEL: "a"}),
        (('m="a"', 'm="b"'), {}),
        (('m=""', 'n="a"'), {}),
    ],
)
def test_a_fact_is_what_all_samples_say(labels: tuple[str, str], facts: dict[Fact, str]) -> None:
    """Two answers are none."""
    body = f"x_a{{{labels[0]}}} 1\nx_b{{{labels[1]}}} 1\n"
    series = {SUM: (Series("x_a"),), MAX: (Series("x_b"),)}
    assert read(body, series, facts={Fact.MODEL: "m"}).scrape.facts == facts


def test_facts_are_of_the_own_samples() -> None:
    """Another program on the same page has labels of its own."""
    own = adapter({SUM: (Series("x_a"),)}, facts={Fact.MODEL: "m"})
    other = adapter({MAX: (Series("y_a"),)}, name="y", probe=("y_",), facts={Fact.ROLE: "m"})
    reading = read_with((own, other), b'x_a{m="a"} 1\ny_a{m="b"} 1\n')
    assert reading.scrape.facts == {Fact.MODEL: "a", Fact.ROLE: "b"}


def test_a_fact_may_have_several_labels() -> None:
    """The first spelling that says anything counts, also where it says two things."""
    series, options = {SUM: (Series("x_a"),)}, {"facts": {Fact.MODEL: "m"}, "aliases": {"m": ("n", "o")}}
    assert read('x_a{n="b",o="c"} 1\n', series, **options).scrape.facts == {Fact.MODEL: "b"}
    assert read('x_a{m="a",n="b"} 1\n', series, **options).scrape.facts == {Fact.MODEL: "a"}
    assert read('x_a{m="",o="c"} 1\n', series, **options).scrape.facts == {Fact.MODEL: "c"}
    assert read('x_a{m="a",n="c"} 1\nx_a{m="b",n="c"} 2\n', series, **options).scrape.facts == {}


# --------------------------------------------------------------------------------------- masks and sums


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("0", 0),
        ("8", 1),
        ("12", 1),
        ("3", 0),
        ("8.000000", 1),
        ("2.0", 0),
        (str(2**40 + 4), 1),
        (str(2**40), 0),
    ],
)
def test_bits(printed: str, value: float) -> None:
    """1 where any of the bits is set."""
    series = {Metric.DEVICE_SLOWDOWN: (Series("x_a", bits=0b1100),), SUM: (Series("x_b", scale=10),)}
    reading = read(f"x_b 12\nx_a {printed}\n", series)
    assert reading.value(Metric.DEVICE_SLOWDOWN) == value
    assert reading.value(SUM) == 120


@pytest.mark.parametrize("printed", ["-8", "NaN", "+Inf", "9223372036854775794", "1e300"])
def test_bits_of_no_mask(printed: str) -> None:
    """A sentinel has bits, and they mean nothing."""
    series = {Metric.DEVICE_SLOWDOWN: (Series("x_a", bits=~0),)}
    assert is_missing(read(f"x_a {printed}\n", series).value(Metric.DEVICE_SLOWDOWN))


@given(st.lists(st.integers(0, 2**53), min_size=1, max_size=8), st.integers(1, 2**53))
def test_bits_of_many_devices(masks: list[int], bits: int) -> None:
    """Each device for itself, as plain arithmetic has it, and the worst for all."""
    body = "".join(f'x_a{{r="{rank}"}} {mask}\n' for rank, mask in enumerate(masks))
    series = {Metric.DEVICE_SLOWDOWN: (Series("x_a", bits=bits),)}
    reading = read(body, series, rank_labels=("r",), devices=True)
    for rank, mask in enumerate(masks):
        assert reading.value(Metric.DEVICE_SLOWDOWN, str(rank)) == bool(mask & bits)
    assert reading.value(Metric.DEVICE_SLOWDOWN) == any(mask & bits for mask in masks)


def test_plus() -> None:
    """A sum over several names, of those devices that have all of them, and with one scale."""
    series = {SUM: (Series("x_a", scale=2, plus=("x_b", "x_c")), Series("x_a", plus=("x_b",)))}
    parts = 'x_a{r="0"} 1\nx_a{r="1"} 2\nx_b{r="0"} 10\nx_b{r="1"} 20\n'
    every = parts + 'x_c{r="0"} 100\nx_c{r="1"} 200\nx_c{r="2"} 7\n'
    reading = read(every, series, rank_labels=("r",))
    assert reading.value(SUM, "0") == 222
    assert reading.value(SUM, "1") == 444
    assert reading.ranks(SUM) == {"0", "1"}
    assert read(parts + 'x_c{r="0"} 100\n', series, rank_labels=("r",)).value(SUM) == 33
    assert read("x_b 1\nx_c 1\n", series).value(SUM) is None
    assert is_missing(read("x_a NaN\nx_b 1\n", series).value(SUM))


# ----------------------------------------------------------------------------------------- recognition

COLON = adapter({SUM: (Series("x:a"),)}, probe=("x:",))


@pytest.mark.parametrize(
    ("body", "known"),
    [
        ("x:a 1\n", True),
        ("x_a 1\n", True),
        ("# TYPE x:other gauge\n", True),
        ("# HELP x:a Text.\n# TYPE x:a gauge\n", True),
        ("# TYPE x_other gauge\nx_other 1\n", True),
        ("# HELP x:a Text.\n", False),
        ("xx:a 1\n", False),
        ("y_x:a 1\n", False),
        ("# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 1\n", False),
        ("", False),
    ],
)
def test_recognition(body: str, known: bool) -> None:
    """By the beginning of a name, in either spelling, of a sample or of a family that is only declared."""
    layout = PageParser(COLON.sample_names()).parse(body.encode()).layout
    assert recognises(COLON, layout) is known
    assert compile_plan(layout, (COLON,)).adapters == (("x",) if known else ())


def test_declared_without_samples() -> None:
    """Field lesson E19: HELP and TYPE alone are a page of the program, which has nothing to say yet."""
    reading = read(
        "# HELP x_a Text.\n# TYPE x_a gauge\n", {SUM: (Series("x_a"),), COUNTER: (Series("x_c", lazy=True),)}
    )
    assert reading.scrape.ok
    assert reading.scalars() == {}
    assert reading.lazy() == {COUNTER}


def test_no_adapter_recognises_the_page() -> None:
    """The plan is empty, and so is its row."""
    layout = PageParser(frozenset({"z"})).parse(b"z 1\n").layout
    plan = compile_plan(layout, (COLON,))
    assert plan.adapters == ()
    assert plan.row(np.array([1.0])).shape == (0,)
    assert plan.schema.width == 0


def test_lazy_metrics_are_told_apart() -> None:
    """Absence means zero only where the engine prints nothing before the first event; any spelling may say so."""
    series = {
        SUM: (Series("x_a"),),
        COUNTER: (Series("x_c", lazy=True), Series("x_d")),
        Metric.PROMPT_TOKENS: (Series("x_e"),),
    }
    reading = read("x_a 1\n", series)
    assert reading.lazy() == {COUNTER}
    assert read("x_a 1\nx_d 2\n", series).value(COUNTER) == 2


def test_select_keeps_others_out_of_every_number() -> None:
    """Samples of other devices count neither as ranks nor in infos."""
    body = b'x_a{u="A",gpu="0"} 1\nx_a{u="B",gpu="1"} 2\nx_i{gpu="0",n="8"} 1\nx_i{gpu="1",n="9"} 1\n'
    one = adapter({SUM: (Series("x_a"),)}, rank_labels=("u",), infos={Metric.PAGE_TOKENS: (InfoLabel("x_i", "n"),)})
    reading = read_with((one,), body, select={"gpu": "1"})
    assert reading.scalars() == {SUM: 2, Metric.PAGE_TOKENS: 9}


def test_a_later_page_of_the_layout() -> None:
    """The plan is made once; other numbers give another row under the same schema."""
    adapters = (adapter({SUM: (Series("x_a"),), HISTOGRAM: (Series("x_h"),)}),)
    target = TargetReader("t", PageReader(adapters), adapters)
    page = 'x_a %d\nx_h_bucket{le="+Inf"} %d\nx_h_sum %d\n'
    first, second = (target.read((page % numbers).encode(), AT) for numbers in ((1, 2, 3), (4, 5, 6)))
    assert first.schema is second.schema
    assert second.schema is not None
    assert second.row is not None
    assert second.row[second.schema.scalars[SeriesKey(SUM)]] == 4
    assert second.row.tolist() == [4, 5, 6]
    assert first.row is not None
    assert first.row.tolist() == [1, 2, 3]
